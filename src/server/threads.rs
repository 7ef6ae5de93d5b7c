//! Threads of their own, each with a name.

use std::thread::{self, JoinHandle};

use crate::server::start::StartError;

/// By how much a thread is nicer that works for later: next to those who answer somebody it gets a
/// tenth of a core, without them all of it.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

pub(super) fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map_err(StartError::Thread)
}

/// The same for work that nobody waits for.
pub(super) fn spawn_nice(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    spawn(name, move || {
        // On Linux this is the thread's own, whatever POSIX says. Where it is not allowed the
        // thread takes its turn with the others.
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
    fn who_works_for_later_is_nice_and_nobody_else() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let (before, (sender, told)) = (nice(), channel());
        let thread = spawn_nice("nice", move || sender.send(nice()).unwrap()).unwrap();
        thread.join().unwrap();
        assert_eq!(told.recv(), Ok((before + NICER).min(19)));
        assert_eq!(nice(), before);
    }
}
