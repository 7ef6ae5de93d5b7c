//! Which broker is where, as the cluster's own answers say.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Brokers remembered at most: the largest clusters have a few hundred.
const NODES_MAX: usize = 4_096;

/// Where a broker listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Address {
    /// As a broker is named on the wire; `None`: no connection can be made to that port.
    pub fn of_wire(host: &str, port: i32) -> Option<Self> {
        let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
        Some(Self { host: host.to_owned(), port })
    }

    /// Whether bytes sent there stay on this machine, as far as its name tells.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.map_or_else(|_| self.host == "localhost", |address| address.is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The brokers known so far.
#[derive(Debug, Default)]
pub(super) struct View(RwLock<BTreeMap<i32, Address>>);

impl View {
    pub(super) fn address(&self, node: i32) -> Option<Address> {
        self.read().get(&node).cloned()
    }

    pub(super) fn addresses(&self) -> Vec<Address> {
        self.read().values().cloned().collect()
    }

    #[cfg(test)]
    pub(super) fn nodes(&self) -> Vec<i32> {
        self.read().keys().copied().collect()
    }

    /// An empty list says nothing: a broker that has just started knows no others.
    pub(super) fn replace(&self, brokers: Vec<(i32, Address)>) {
        if brokers.is_empty() {
            return;
        }
        let brokers: BTreeMap<_, _> = brokers.into_iter().take(NODES_MAX).collect();
        if *self.read() != brokers {
            tracing::info!(brokers = brokers.len(), "the cluster's brokers have changed");
            *self.write() = brokers;
        }
    }

    pub(super) fn insert(&self, node: i32, address: Address) {
        let known = self.read();
        let room = known.len() < NODES_MAX || known.contains_key(&node);
        let news = known.get(&node) != Some(&address);
        drop(known);
        if room && news {
            self.write().insert(node, address);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<i32, Address>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<i32, Address>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
