//! Named threads.

use std::thread::{self, JoinHandle};

use crate::server::start_error::StartError;

/// Niceness of background threads: beside threads that answer requests such a thread gets a tenth
/// of a core, and otherwise all of it.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

pub(super) fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map_err(StartError::Thread)
}

/// Starts a thread of lower priority, for background work.
pub(super) fn spawn_nice(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    spawn(name, move || {
        // On Linux the niceness belongs to the thread, whatever POSIX says. Without the permission
        // the thread keeps the normal priority.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(NICER) {
            tracing::debug!(%error, "a thread keeps its priority");
        }
        body();
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn only_background_threads_run_at_lower_priority() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let (before, (sender, told)) = (nice(), channel());
        let thread = spawn_nice("nice", move || sender.send(nice()).unwrap()).unwrap();
        thread.join().unwrap();
        assert_eq!(told.recv(), Ok((before + NICER).min(19)));
        assert_eq!(nice(), before);
    }
}
