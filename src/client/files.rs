//! File descriptors: some are kept free, because the log must be able to begin a segment when
//! clients have taken all others.

use std::os::fd::AsRawFd;

use rustix::process::{Resource, getrlimit};

/// Kept free of clients, or a quarter where that is less. People who look may take half of that.
const KEPT: u64 = 32;

/// How many files this process may have open.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// Connections may take the descriptors below this one.
    end: u64,
    /// Files a connection takes in the end.
    each: u64,
}

impl Files {
    /// As the system says now. In front of a cluster each connection takes a second one, later.
    pub(super) fn now(in_front: bool) -> Self {
        Self::new(most(), in_front)
    }

    /// For the admin port: it answers when clients have taken all that they may.
    pub fn of_people() -> Self {
        Self { end: most() - kept(most()) / 2, each: 1 }
    }

    fn new(most: u64, in_front: bool) -> Self {
        Self { end: most - kept(most), each: if in_front { 2 } else { 1 } }
    }

    /// Whether too few would be left behind `accepted`, one of so many connections. The system
    /// gives out the lowest descriptor that is free, so its number says how many are taken.
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
    fn some_are_kept_free_and_two_are_counted_for_a_client_in_front_of_a_cluster() {
        let short = |most, in_front, number, connections| {
            Files::new(most, in_front).are_short(&Numbered(number), connections)
        };
        assert!(!short(1024, false, 991, 900) && short(1024, false, 992, 900));
        assert!(!short(64, false, 47, 0) && short(64, false, 48, 0));
        assert!(!short(1024, true, 600, 495) && short(1024, true, 600, 496));
        assert!(!short(u64::MAX, true, i32::MAX, 1_000_000));
    }
}
