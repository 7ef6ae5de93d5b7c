//! One topic with its partitions, and its format in the journal.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::broker::producers::Producers;
use crate::broker::settings::TopicSettings;
use crate::journal::{EncodedHead, StreamId};
use crate::model::TopicName;

/// The version byte of a stored topic.
const VERSION: u8 = 1;

/// A topic of this cluster.
#[derive(Debug)]
pub struct Topic {
    pub name: TopicName,
    /// The topic id in Metadata v10+ and Fetch v13+.
    pub id: Uuid,
    /// By partition index.
    pub partitions: Vec<Partition>,
    /// The settings in effect: the defaults with `overrides` applied.
    pub settings: TopicSettings,
    /// Settings of the topic that differ from the defaults, as Kafka spells them.
    pub overrides: Vec<(String, String)>,
    /// A dead-letter topic: the retry engine's rules apply to it instead of retention.
    pub dead_letters: bool,
}

/// One partition: a stream of the journal and the state of its producers.
#[derive(Debug)]
pub struct Partition {
    pub index: i32,
    /// The journal stream with its batches.
    pub stream: StreamId,
    /// The last batches of each idempotent producer.
    pub producers: Arc<Mutex<Producers>>,
}

impl Topic {
    pub fn partition(&self, index: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(index).ok()?)
    }
}

/// Stored format of a topic.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicRecord {
    /// The topic id's 16 bytes.
    pub id: [u8; 16],
    /// The stream of each partition.
    pub streams: Vec<u32>,
    /// Settings that differ from the defaults, as Kafka spells them.
    pub settings: Vec<(String, String)>,
}

impl TopicRecord {
    /// Encodes a version byte, then postcard.
    pub fn encode(&self) -> EncodedHead {
        EncodedHead::of(postcard::to_extend(self, vec![VERSION]))
    }

    /// `None` for a version or bytes this build cannot read.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        (*version == VERSION).then(|| postcard::from_bytes(rest).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_stored_by_version_1_is_read_for_ever() {
        let record = TopicRecord {
            id: [7; 16],
            streams: vec![3, 300],
            settings: vec![("retention.ms".into(), "5".into())],
        };
        let mut fixture = vec![1];
        fixture.extend([7; 16]);
        fixture.extend([2, 3, 0xac, 2, 1, 12]);
        fixture.extend(b"retention.ms");
        fixture.extend([1, b'5']);
        assert_eq!(record.encode().as_bytes(), fixture);
        assert_eq!(TopicRecord::parse(&fixture), Some(record));
        assert_eq!(TopicRecord::parse(&[2, 0]), None);
        assert_eq!(TopicRecord::parse(&[]), None);
    }
}
