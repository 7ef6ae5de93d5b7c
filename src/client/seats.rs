//! How many connections are open, in all and per address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_ip: BTreeMap<IpAddr, usize>,
}

/// One open connection; dropping it frees the seat.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    ip: IpAddr,
}

/// Why a connection is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoSeat {
    #[error("limits.connections is reached ({0})")]
    All(usize),
    #[error("limits.per_ip is reached ({0})")]
    Address(usize),
}

impl Seats {
    /// A seat for a connection from `ip`. Loopback stands for many clients behind one address.
    pub(super) fn take(&self, ip: IpAddr, all: usize, per_ip: usize) -> Result<Seat, NoSeat> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= all {
            return Err(NoSeat::All(all));
        }
        let of_ip = taken.by_ip.entry(ip).or_default();
        if *of_ip >= per_ip && !ip.is_loopback() {
            return Err(NoSeat::Address(per_ip));
        }
        *of_ip += 1;
        taken.all += 1;
        Ok(Seat { seats: self.clone(), ip })
    }

    /// Open connections.
    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        let left = taken.by_ip.get_mut(&self.ip).map(|count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == Some(0) {
            taken.by_ip.remove(&self.ip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_bounded_in_all_and_per_address_and_come_back() {
        let seats = Seats::default();
        let far: IpAddr = "10.0.0.1".parse().unwrap();
        let near: IpAddr = "127.0.0.1".parse().unwrap();
        let first = seats.take(far, 3, 1).unwrap();
        assert_eq!(seats.take(far, 3, 1).unwrap_err(), NoSeat::Address(1));
        let _second = seats.take(near, 3, 1).unwrap();
        let _third = seats.take(near, 3, 1).unwrap();
        assert_eq!(seats.take(near, 3, 1).unwrap_err(), NoSeat::All(3));
        drop(first);
        assert_eq!(seats.count(), 2);
        assert!(seats.take(far, 3, 1).is_ok());
    }
}
