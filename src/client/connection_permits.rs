//! Counts of open connections, in all and per address, and of client objects.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::route::clients::client_address::ClientAddress;

/// The permits of open connections.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionPermits(Arc<Mutex<PermitCounts>>);

#[derive(Debug, Default)]
struct PermitCounts {
    all: usize,
    by_ip: BTreeMap<IpAddr, usize>,
    by_token: BTreeMap<ClientAddress, usize>,
}

/// The permit of one open connection; dropping it frees the permit.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    seats: ConnectionPermits,
    ip: IpAddr,
    token: Option<ClientAddress>,
}

/// The reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPermit {
    #[error("limits.connections is reached ({0})")]
    All(usize),
    #[error("limits.per_ip is reached ({0})")]
    Address(usize),
}

impl ConnectionPermits {
    /// A permit for a connection from `ip`. Loopback is not limited per address: many clients share
    /// it.
    pub(super) fn take(
        &self,
        ip: IpAddr,
        all: usize,
        per_ip: usize,
    ) -> Result<ConnectionPermit, NoPermit> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= all {
            return Err(NoPermit::All(all));
        }
        let of_ip = taken.by_ip.entry(ip).or_default();
        if *of_ip >= per_ip && !ip.is_loopback() {
            return Err(NoPermit::Address(per_ip));
        }
        *of_ip += 1;
        taken.all += 1;
        Ok(ConnectionPermit { seats: self.clone(), ip, token: None })
    }

    /// The number of open connections.
    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    /// Client objects with open connections.
    pub(super) fn clients(&self) -> usize {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let with_token: usize = taken.by_token.values().sum();
        taken.by_token.len().saturating_add(taken.all.saturating_sub(with_token))
    }
}

impl ConnectionPermit {
    /// Assigns the permit to the client object with this client address; without one, to a client
    /// of its own.
    pub(super) fn of_client(mut self, token: Option<ClientAddress>) -> Self {
        self.token = token;
        if let Some(token) = token {
            let mut counts = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.by_token.entry(token).or_default() += 1;
        }
        self
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all = counts.all.saturating_sub(1);
        count_down(&mut counts.by_ip, self.ip);
        if let Some(token) = self.token {
            count_down(&mut counts.by_token, token);
        }
    }
}

fn count_down<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() = count.get().saturating_sub(1);
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_permits_are_bounded_in_total_and_per_address() {
        let seats = ConnectionPermits::default();
        let far: IpAddr = "10.0.0.1".parse().unwrap();
        let near: IpAddr = "127.0.0.1".parse().unwrap();
        let first = seats.take(far, 3, 1).unwrap();
        assert_eq!(seats.take(far, 3, 1).unwrap_err(), NoPermit::Address(1));
        let _second = seats.take(near, 3, 1).unwrap();
        let _third = seats.take(near, 3, 1).unwrap();
        assert_eq!(seats.take(near, 3, 1).unwrap_err(), NoPermit::All(3));
        drop(first);
        assert_eq!(seats.count(), 2);
        assert!(seats.take(far, 3, 1).is_ok());
    }

    #[test]
    fn a_client_object_is_counted_once() {
        let seats = ConnectionPermits::default();
        let near: IpAddr = "127.0.0.1".parse().unwrap();
        let seat = |token| seats.take(near, 9, 9).unwrap().of_client(token);
        let (first, second) =
            (seat(Some(ClientAddress::Port(1))), seat(Some(ClientAddress::Port(1))));
        let others = [seat(Some(ClientAddress::Port(2))), seat(None), seat(None)];
        assert_eq!((seats.count(), seats.clients()), (5, 4));
        drop(first);
        assert_eq!((seats.count(), seats.clients()), (4, 4));
        drop((second, others));
        assert_eq!((seats.count(), seats.clients()), (0, 0));
    }
}
