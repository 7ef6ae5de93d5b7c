//! Clients to which this node is listed as a broker, in front of a cluster.
//!
//! A client without our topics sees only the cluster's brokers, so tools that count brokers are
//! right. A client that requests one of our topics needs its leader. Some clients request a topic
//! only once, so the node stays listed to them.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::route::clients::client_address::ClientAddress;
use crate::route::clients::conn::Conn;

/// Bound of clients. A forgotten client sees the node again with its next request for a topic of
/// ours.
const CLIENTS_MAX: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// The reason why the node is listed to a client; a later reason includes the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::route) enum ListingReason {
    /// A listing of all topics showed one of ours: DescribeCluster lists the node.
    TopicShown,
    /// The client requested a topic of ours: Metadata lists the node too.
    TopicRequested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ClientKey {
    /// Identified by its client address.
    Address(ClientAddress),
    /// Identified by a hash of the peer's IP address and the client id, which may be 32 KiB long.
    Peer(u64),
}

#[derive(Debug)]
pub struct NodeListing {
    clients: Mutex<LruCache<ClientKey, ListingReason>>,
    hasher: RandomState,
}

impl Default for NodeListing {
    fn default() -> Self {
        Self { clients: Mutex::new(LruCache::new(CLIENTS_MAX)), hasher: RandomState::new() }
    }
}

impl NodeListing {
    fn key(&self, conn: &Conn) -> ClientKey {
        conn.token.map_or_else(|| self.peer(conn.peer.ip(), conn), ClientKey::Address)
    }

    fn peer(&self, ip: IpAddr, conn: &Conn) -> ClientKey {
        ClientKey::Peer(self.hasher.hash_one((ip, conn.client().as_str())))
    }

    pub(super) fn add(&self, conn: &Conn, reason: ListingReason) {
        let key = self.key(conn);
        let mut clients = self.lock();
        let before = clients.get(&key).copied();
        if before.is_none_or(|before| before < reason) {
            clients.put(key, reason);
        }
    }

    pub(super) fn reason(&self, conn: &Conn) -> Option<ListingReason> {
        let key = self.key(conn);
        self.lock().get(&key).copied()
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<ClientKey, ListingReason>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn conn(ip: [u8; 4], token: Option<ClientAddress>, client: &str) -> Conn {
        let peer = SocketAddr::from((Ipv4Addr::from(ip), 40_000));
        let conn = Conn::new(1, peer, ("localhost".to_owned(), 9092), token, None);
        conn.heard(Some(client));
        conn
    }

    #[test]
    fn clients_of_the_same_name_differ_by_client_address() {
        let listing = NodeListing::default();
        let at = |host| Some(ClientAddress::Address(Ipv4Addr::new(127, 64, 0, host)));
        listing.add(&conn([127, 0, 0, 1], at(1), "app"), ListingReason::TopicRequested);
        let reason = |host| listing.reason(&conn([127, 0, 0, 1], at(host), "app"));
        assert_eq!([reason(1), reason(2)], [Some(ListingReason::TopicRequested), None]);
    }

    #[test]
    fn without_client_addresses_peer_and_client_id_tell_a_client() {
        let listing = NodeListing::default();
        listing.add(&conn([10, 0, 0, 1], None, "app"), ListingReason::TopicShown);
        let knows = |ip, client| listing.reason(&conn(ip, None, client)).is_some();
        assert!(knows([10, 0, 0, 1], "app"));
        assert!(!knows([10, 0, 0, 1], "tool") && !knows([10, 0, 0, 2], "app"));
    }

    #[test]
    fn a_requested_topic_outranks_a_shown_one() {
        let listing = NodeListing::default();
        let client = conn([10, 0, 0, 1], None, "app");
        listing.add(&client, ListingReason::TopicRequested);
        listing.add(&client, ListingReason::TopicShown);
        assert_eq!(listing.reason(&client), Some(ListingReason::TopicRequested));
    }
}
