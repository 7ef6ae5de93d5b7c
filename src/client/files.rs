//! File descriptors: some are kept free, because the log must be able to start a segment when
//! clients have taken all others.

use std::os::fd::AsRawFd;

use rustix::process::{Resource, getrlimit};

/// Descriptors kept free of clients, at most a quarter of all. The admin port may take half of
/// them.
const KEPT: u64 = 32;

/// The limit of open files for one kind of connection.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// The lowest descriptor number that connections may not take.
    end: u64,
    /// Descriptors that one connection takes in the end.
    each: u64,
}

impl Files {
    /// The limit as the system reports it. In front of a cluster each connection later takes a
    /// second descriptor.
    pub(super) fn now(in_front: bool) -> Self {
        Self::new(most(), in_front)
    }

    /// The limit of the admin port: it answers even when clients have taken all of theirs.
    pub fn of_people() -> Self {
        Self { end: most() - kept(most()) / 2, each: 1 }
    }

    fn new(most: u64, in_front: bool) -> Self {
        Self { end: most - kept(most), each: if in_front { 2 } else { 1 } }
    }

    /// Whether too few descriptors are left after `accepted`, one of so many connections. The
    /// system gives out the lowest free descriptor, so its number tells how many are taken.
    pub fn are_short(self, accepted: &impl AsRawFd, connections: usize) -> bool {
        let number = u64::try_from(accepted.as_raw_fd()).unwrap_or(0);
        let connections = u64::try_from(connections).unwrap_or(u64::MAX);
        number >= self.end || connections.saturating_mul(self.each) >= self.end
    }
}

fn most() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn kept(most: u64) -> u64 {
    KEPT.min(most / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbered(i32);

    impl AsRawFd for Numbered {
        fn as_raw_fd(&self) -> i32 {
            self.0
        }
    }

    #[test]
    fn free_files_are_reserved_and_cluster_clients_need_two() {
        let short = |most, in_front, number, connections| {
            Files::new(most, in_front).are_short(&Numbered(number), connections)
        };
        assert!(!short(1024, false, 991, 900) && short(1024, false, 992, 900));
        assert!(!short(64, false, 47, 0) && short(64, false, 48, 0));
        assert!(!short(1024, true, 600, 495) && short(1024, true, 600, 496));
        assert!(!short(u64::MAX, true, i32::MAX, 1_000_000));
    }
}
