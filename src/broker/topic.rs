//! One topic and its partitions, and how they are stored.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::broker::producers::Producers;
use crate::broker::settings::TopicSettings;
use crate::journal::{Encoded, StreamId};
use crate::model::TopicName;

/// The version byte of a stored topic.
const VERSION: u8 = 1;

/// A topic of this cluster.
#[derive(Debug)]
pub struct Topic {
    /// As on the wire.
    pub name: TopicName,
    /// What Metadata v10+ and Fetch v13+ call it.
    pub id: Uuid,
    /// By partition index.
    pub partitions: Vec<Partition>,
    /// What its creator set, or the defaults.
    pub settings: TopicSettings,
    /// What was set on the topic itself, as Kafka spells it.
    pub overrides: Vec<(String, String)>,
    /// A dead-letter topic is kept by the retry engine's rules, not by retention.
    pub dead_letters: bool,
}

/// One partition: a stream of the journal and what is known of its producers.
#[derive(Debug)]
pub struct Partition {
    /// Its number in the topic.
    pub index: i32,
    /// Where its batches are.
    pub stream: StreamId,
    /// The last batches of each idempotent producer.
    pub producers: Arc<Mutex<Producers>>,
}

impl Topic {
    /// The partition of that number.
    pub fn partition(&self, index: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(index).ok()?)
    }
}

/// A topic as the journal keeps it.
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
    /// Version byte, then postcard.
    pub fn encode(&self) -> Encoded {
        Encoded::of(postcard::to_extend(self, vec![VERSION]))
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
