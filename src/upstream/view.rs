//! Addresses of the brokers, as the cluster's Metadata answers name them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bound of the brokers kept: the largest clusters have a few hundred.
const NODES_MAX: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// A host name or an IP address.
    pub host: String,
    pub port: u16,
}

/// Node ids and addresses.
pub type Brokers = Vec<(i32, Address)>;

impl Address {
    /// Takes host and port of a Kafka answer; `None`: the port is 0 or not a port.
    pub fn of_wire(host: &str, port: i32) -> Option<Self> {
        let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
        Some(Self { host: host.to_owned(), port })
    }

    /// Whether the name shows that bytes sent there stay on this machine.
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

#[derive(Debug, Default)]
pub(super) struct View(RwLock<KnownBrokers>);

#[derive(Debug, Default)]
struct KnownBrokers {
    listed: BTreeMap<i32, Address>,
    /// Addresses kept from an earlier start, until the cluster lists all its brokers.
    earlier: BTreeMap<i32, Address>,
}

impl View {
    pub(super) fn address(&self, node: i32) -> Option<Address> {
        let known = self.read();
        known.listed.get(&node).or_else(|| known.earlier.get(&node)).cloned()
    }

    /// Only brokers that the cluster has named since the start; an older address may be another
    /// cluster's.
    pub(super) fn addresses(&self) -> Vec<Address> {
        self.read().listed.values().cloned().collect()
    }

    pub(super) fn nodes(&self) -> Vec<i32> {
        self.read().listed.keys().copied().collect()
    }

    pub(super) fn remember(&self, brokers: BTreeMap<i32, Address>) {
        self.write().earlier = brokers;
    }

    /// An empty list is ignored: a broker that has just started knows no others.
    pub(super) fn replace(&self, brokers: Brokers) {
        if brokers.is_empty() {
            return;
        }
        let brokers: BTreeMap<_, _> = brokers.into_iter().take(NODES_MAX).collect();
        let known = self.read();
        if known.listed == brokers && known.earlier.is_empty() {
            return;
        }
        drop(known);
        tracing::info!(brokers = brokers.len(), "the cluster's brokers have changed");
        *self.write() = KnownBrokers { listed: brokers, earlier: BTreeMap::new() };
    }

    pub(super) fn insert(&self, node: i32, address: Address) {
        let known = self.read();
        let has_space = known.listed.len() < NODES_MAX || known.listed.contains_key(&node);
        let is_new = known.listed.get(&node) != Some(&address);
        drop(known);
        if has_space && is_new {
            self.write().listed.insert(node, address);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownBrokers> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownBrokers> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
