//! The baseline: tasks queue bytes for one thread that only writes and calls fdatasync.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::oneshot;

/// Bytes, and the sender that reports them durable.
type QueuedBytes = (Bytes, oneshot::Sender<()>);

/// The queue of the loop.
#[derive(Debug, Default)]
pub(crate) struct Bare {
    queue: Mutex<(Vec<QueuedBytes>, bool)>,
    filled: Condvar,
}

impl Bare {
    /// Starts the loop on a new file.
    pub(crate) fn start(path: &Path) -> (Arc<Self>, JoinHandle<u64>) {
        let bare = Arc::new(Self::default());
        let file = File::create(path).unwrap();
        let own = Arc::clone(&bare);
        (bare, std::thread::spawn(move || own.run(file)))
    }

    /// Returns when the bytes are on the disk.
    pub(crate) async fn append(&self, bytes: Bytes) {
        let (done, told) = oneshot::channel();
        self.queue.lock().unwrap().0.push((bytes, done));
        self.filled.notify_one();
        told.await.unwrap();
    }

    /// Ends the loop once it has nothing to do.
    pub(crate) fn close(&self) {
        self.queue.lock().unwrap().1 = true;
        self.filled.notify_one();
    }

    /// Writes and syncs everything that was queued meanwhile as one batch; returns the number of
    /// syncs.
    fn run(&self, mut file: File) -> u64 {
        let mut batch = Vec::new();
        let mut buffer = Vec::new();
        let mut syncs = 0;
        loop {
            {
                let queue = self.queue.lock().unwrap();
                let idle = |queue: &mut (Vec<QueuedBytes>, bool)| queue.0.is_empty() && !queue.1;
                let mut queue = self.filled.wait_while(queue, idle).unwrap();
                if queue.0.is_empty() {
                    return syncs;
                }
                std::mem::swap(&mut batch, &mut queue.0);
            }
            buffer.clear();
            for (bytes, _) in &batch {
                buffer.extend_from_slice(bytes);
            }
            file.write_all(&buffer).unwrap();
            file.sync_data().unwrap();
            syncs += 1;
            for (_, done) in batch.drain(..) {
                // the window may be over, and its task with it
                let _ = done.send(());
            }
        }
    }
}
