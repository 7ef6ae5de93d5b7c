//! Room for thousands of sockets in this process: one test at a time has them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files of the other tests of this process.
const OTHERS: u64 = 500;

static ROOM: Mutex<()> = Mutex::new(());

/// Room for so many sockets.
pub(crate) struct Room {
    /// As many as were wished for, or as the system allows.
    pub(crate) sockets: u32,
    _alone: MutexGuard<'static, ()>,
}

impl Room {
    /// Waits for its turn. Processes started from now on may have as many files.
    pub(crate) fn of(sockets: u32) -> Self {
        let alone = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
        let allowed = maximum.unwrap_or(u64::MAX).saturating_sub(OTHERS);
        let sockets = u32::try_from(allowed).map_or(sockets, |allowed| sockets.min(allowed));
        Self { sockets, _alone: alone }
    }
}
