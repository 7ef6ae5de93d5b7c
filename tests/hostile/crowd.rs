//! Sockets by the thousand in this process: one test at a time may have them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files left to the other tests of this process.
const OTHERS: u64 = 500;

static ROOM: Mutex<()> = Mutex::new(());

/// The permit to open many sockets.
pub(crate) struct SocketPermit {
    /// The requested number, or what the system allows.
    pub(crate) sockets: u32,
    _alone: MutexGuard<'static, ()>,
}

impl SocketPermit {
    /// Waits until no other test has the permit, and raises the file limit for processes started
    /// later.
    pub(crate) fn of(sockets: u32) -> Self {
        let alone = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
        let allowed = maximum.unwrap_or(u64::MAX).saturating_sub(OTHERS);
        let sockets = u32::try_from(allowed).map_or(sockets, |allowed| sockets.min(allowed));
        Self { sockets, _alone: alone }
    }
}
