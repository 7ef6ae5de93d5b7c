//! The cluster id and producer ids.

use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::fact_encoding::{self, FactError};
use crate::broker::kind;
use crate::journal::{Journal, JournalEntry, NewEntry};

/// The format of both kinds: a version byte, then text or a number in postcard's encoding.
const VERSION: u8 = 1;
/// Producer ids are reserved in blocks (Kafka: `ProducerIdsBlock`, 1000), one write each.
const BLOCK: i64 = 1000;
/// The one key of each kind.
const KEY: Bytes = Bytes::from_static(b"-");

/// Ids that must be unique for ever.
#[derive(Debug)]
pub struct Ids {
    journal: Journal,
    cluster: OnceLock<String>,
    producers: Mutex<Block>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    next: i64,
    /// The journal has reserved all ids below.
    end: i64,
    /// Sequence of the entry that reserved the block.
    seq: u64,
}

impl Ids {
    pub(super) fn new(journal: Journal) -> Self {
        Self { journal, cluster: OnceLock::new(), producers: Mutex::default() }
    }

    pub(super) fn cluster_id(&self) -> &str {
        self.cluster.get().map_or("", String::as_str)
    }

    pub(super) fn replay(&self, entry: &JournalEntry) -> Result<(), FactError> {
        if entry.kind == kind::CLUSTER {
            // The cluster id is written once, at the first start, so a second one is ignored.
            drop(self.cluster.set(fact_encoding::read("cluster id", VERSION, &entry.head)?));
        } else {
            let end = fact_encoding::read("producer id", VERSION, &entry.head)?;
            let block = Block { next: end, end, seq: entry.seq };
            *self.producers.lock().unwrap_or_else(PoisonError::into_inner) = block;
        }
        Ok(())
    }

    pub(super) async fn settle_cluster_id(&self) -> Result<(), BrokerError> {
        if self.cluster.get().is_some() {
            return Ok(());
        }
        let id = Uuid::new_v4().simple().to_string();
        let id: String = id.chars().take(22).collect();
        let head = fact_encoding::write(VERSION, &id);
        let entry = NewEntry::keyed(kind::CLUSTER, KEY, head, Bytes::new());
        let seq = self.journal.append(vec![entry])?.seq();
        self.journal.durable(seq).await?;
        drop(self.cluster.set(id));
        Ok(())
    }

    pub(super) async fn next_producer_id(&self) -> Result<i64, BrokerError> {
        let (id, seq) = self.take()?;
        self.journal.durable(seq).await?;
        Ok(id)
    }

    /// Takes the next producer id without waiting. The caller appends after `seq`, so its entry
    /// becomes durable after the reservation.
    pub(super) fn take(&self) -> Result<(i64, u64), BrokerError> {
        let mut block = self.producers.lock().unwrap_or_else(PoisonError::into_inner);
        if block.next >= block.end {
            let end = block.end.saturating_add(BLOCK);
            let head = fact_encoding::write(VERSION, &end);
            let entry = NewEntry::keyed(kind::PRODUCER_ID, KEY, head, Bytes::new());
            block.seq = self.journal.append(vec![entry])?.seq();
            block.end = end;
        }
        let id = block.next;
        block.next += 1;
        Ok((id, block.seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{JournalOptions, MemDisk};

    #[test]
    fn ids_written_by_the_first_version_are_read_for_ever() {
        let disk = MemDisk::new(1);
        let (journal, _, _) = Journal::open(disk.disk(), JournalOptions::default()).unwrap();
        let ids = Ids::new(journal);
        let entry = |kind, head: &'static [u8]| JournalEntry {
            seq: 7,
            kind,
            key: Some(KEY),
            stream: None,
            head: Bytes::from_static(head),
            body: Bytes::new(),
        };
        ids.replay(&entry(kind::CLUSTER, b"\x01\x03abc")).unwrap();
        assert_eq!(ids.cluster_id(), "abc");
        ids.replay(&entry(kind::PRODUCER_ID, b"\x01\xd0\x0f")).unwrap();
        assert_eq!(ids.producers.lock().unwrap().next, 1000);
        assert_eq!(fact_encoding::write(VERSION, &"abc")[..], b"\x01\x03abc"[..]);
        assert_eq!(fact_encoding::write(VERSION, &1000_i64)[..], b"\x01\xd0\x0f"[..]);
        assert!(ids.replay(&entry(kind::PRODUCER_ID, b"\x02\xd0\x0f")).is_err());
    }
}
