//! The last known nodes of the upstream cluster and the local port of each. At a start the sidecar
//! opens these ports before the upstream cluster answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::broker::fact_encoding::{self, FactError};
use crate::broker::kind;
use crate::journal::{Journal, JournalEntry, NewEntry};

/// The format: a version byte, then [`Nodes`] in postcard's encoding.
const VERSION: u8 = 1;
/// The one key of its kind.
const KEY: Bytes = Bytes::from_static(b"-");

/// Limit on nodes, and on broker ports of a listener; the largest clusters have a few hundred
/// nodes.
const NODES_MAX: usize = 4_096;
/// Limit on listeners, and on bootstrap addresses.
const ADDRESSES_MAX: usize = 256;
/// Limit on the bytes of a name; a host name has at most 253.
const NAME_MAX: usize = 300;

/// The last known state of the upstream cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// The bootstrap addresses of the configuration.
    pub bootstrap: Vec<String>,
    /// The upstream cluster's id, if the cluster reports one.
    pub cluster_id: Option<String>,
    /// Host and port by node id.
    pub at: BTreeMap<i32, (String, u16)>,
    /// Distance of a node's local port from its listener's port: by listener port, then by node id.
    pub doors: BTreeMap<u16, BTreeMap<i32, u16>>,
}

/// The persisted node map.
#[derive(Debug)]
pub struct NodeMap {
    journal: Journal,
    kept: Mutex<Nodes>,
}

impl Nodes {
    /// Whether the map is within the limits that every writer keeps.
    fn is_bounded(&self) -> bool {
        let hosts = self.at.values().map(|(host, _)| host);
        let mut names = hosts.chain(&self.bootstrap).chain(&self.cluster_id);
        let mut doors = self.doors.values();
        self.at.len() <= NODES_MAX
            && self.bootstrap.len() <= ADDRESSES_MAX
            && self.doors.len() <= ADDRESSES_MAX
            && names.all(|name| name.len() <= NAME_MAX)
            && doors.all(|doors| doors.len() <= NODES_MAX)
    }
}

impl NodeMap {
    pub(super) fn new(journal: Journal) -> Self {
        Self { journal, kept: Mutex::default() }
    }

    /// An unreadable entry is skipped: the upstream cluster reports its nodes again.
    pub(super) fn replay(&self, entry: &JournalEntry) {
        let read = fact_encoding::read("node map", VERSION, &entry.head);
        let bounded = |nodes: &Nodes| nodes.is_bounded();
        let unreadable = FactError::Unreadable { what: "node map" };
        match read.and_then(|nodes| Some(nodes).filter(bounded).ok_or(unreadable)) {
            Ok(nodes) => *self.lock() = nodes,
            Err(error) => {
                let seq = entry.seq;
                tracing::warn!(
                    seq, %error,
                    "R0419 the stored brokers cannot be read: their ports open once the cluster \
                     names them; run `reprise log verify`"
                );
            }
        }
    }

    pub fn known(&self) -> Nodes {
        self.lock().clone()
    }

    /// Forgets everything except the cluster id. The next [`NodeMap::keep`] persists that.
    pub fn forget(&self) {
        let mut kept = self.lock();
        *kept = Nodes { cluster_id: kept.cluster_id.take(), ..Nodes::default() };
    }

    /// Appends the map after `change`, if it differs; the call does not wait for durability.
    pub fn keep(&self, change: impl FnOnce(&mut Nodes)) {
        let mut kept = self.lock();
        let mut nodes = kept.clone();
        change(&mut nodes);
        if nodes == *kept || !nodes.is_bounded() {
            return;
        }
        let head = fact_encoding::write(VERSION, &nodes);
        match self.journal.append(vec![NewEntry::keyed(kind::NODES, KEY, head, Bytes::new())]) {
            Ok(_) => *kept = nodes,
            Err(error) => tracing::debug!(%error, "the map of the cluster is written another time"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{JournalOptions, MemDisk, Writer};

    /// Node 7 at `k:9`, at a distance of 3 from port 9092.
    const FIRST: &[u8] = b"\x01\x01\x03k:1\x01\x01c\x01\x0e\x01k\x09\x01\x84\x47\x01\x0e\x03";

    fn map() -> (NodeMap, Writer) {
        let disk = MemDisk::new(1);
        let (journal, writer, _) = Journal::open(disk.disk(), JournalOptions::default()).unwrap();
        (NodeMap::new(journal), writer)
    }

    fn first() -> Nodes {
        Nodes {
            bootstrap: vec!["k:1".to_owned()],
            cluster_id: Some("c".to_owned()),
            at: BTreeMap::from([(7, ("k".to_owned(), 9))]),
            doors: BTreeMap::from([(9092, BTreeMap::from([(7, 3)]))]),
        }
    }

    fn entry(head: &[u8]) -> JournalEntry {
        let head = Bytes::copy_from_slice(head);
        JournalEntry {
            seq: 7,
            kind: kind::NODES,
            key: Some(KEY),
            stream: None,
            head,
            body: Bytes::new(),
        }
    }

    #[test]
    fn a_version_one_node_map_stays_readable() {
        let (map, _writer) = map();
        map.replay(&entry(FIRST));
        assert_eq!(map.known(), first());
        assert_eq!(fact_encoding::write(VERSION, &first())[..], FIRST[..]);
    }

    #[test]
    fn damaged_newer_and_oversize_node_maps_are_ignored() {
        let (map, _writer) = map();
        map.replay(&entry(FIRST));
        for end in 0..FIRST.len() {
            map.replay(&entry(&FIRST[..end]));
        }
        let mut other = FIRST.to_vec();
        other[7] = b'd';
        map.replay(&entry(&[&other[..], b"\0"].concat()));
        map.replay(&entry(&[b"\x02", &other[1..]].concat()));
        // The count of bootstrap addresses is the largest number that the encoding allows.
        map.replay(&entry(b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
        assert_eq!(map.known(), first(), "what was read before holds");
        for (at, byte) in (0..FIRST.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
            let mut bytes = FIRST.to_vec();
            bytes[at] = byte;
            map.replay(&entry(&bytes));
        }
        map.replay(&entry(FIRST));
        let mut large = first();
        large.cluster_id = Some("c".repeat(NAME_MAX + 1));
        map.replay(&entry(&fact_encoding::write(VERSION, &large)));
        let mut large = first();
        large.at = (0..=4_096).map(|node| (node, (String::new(), 1))).collect();
        map.replay(&entry(&fact_encoding::write(VERSION, &large)));
        map.keep(|nodes| *nodes = large);
        assert_eq!(map.known(), first());
        assert_eq!(map.journal.appended_seq(), 0, "nor is it written");
    }

    #[test]
    fn a_node_map_is_written_only_when_it_changes() {
        let (map, _writer) = map();
        let written = |change: fn(&mut Nodes)| {
            let before = map.journal.appended_seq();
            map.keep(change);
            map.journal.appended_seq() - before
        };
        assert_eq!(written(|_| ()), 0);
        assert_eq!(written(|nodes| *nodes = first()), 1);
        assert_eq!(written(|nodes| *nodes = first()), 0);
        assert_eq!(written(|nodes| nodes.at.clear()), 1);
        map.forget();
        assert_eq!(map.known(), Nodes { cluster_id: first().cluster_id, ..Nodes::default() });
        assert_eq!(written(|nodes| *nodes = first()), 1);
    }
}
