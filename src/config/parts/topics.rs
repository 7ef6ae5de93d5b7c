//! `topics`: the topics that this cluster stores itself.

use std::time::Duration;

use serde::Serialize;

use super::{DAY, DECADE, GIB, KIB, MIB, SECOND, TIB};
use crate::config::node::Value;
use crate::config::section::{Section, boolean, choice, duration, int, or_unlimited, size, text};
use crate::model::{ser_duration, ser_limit, ser_size, ser_size_limit};

/// Most partitions one topic may have.
const PARTITIONS_MAX: i64 = 10_000;
/// Kafka's longest topic name, in bytes.
const NAME_BYTES_MAX: usize = 249;

/// The moment at which a produced batch is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProduceDurability {
    /// After fdatasync: it survives a power cut.
    #[default]
    Fsync,
    /// After the write: it survives a crash of the process, not of the machine.
    Os,
}

/// A topic that is created at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopicConfig {
    pub name: String,
    pub partitions: i32,
    /// Age at which its records are deleted; `None`: never.
    #[serde(serialize_with = "ser_limit")]
    pub retention: Option<Duration>,
    /// Size of a partition above which its oldest records are deleted; `None`: no bound.
    #[serde(serialize_with = "ser_size_limit")]
    pub retention_bytes: Option<u64>,
    /// Whether producers may delay records on their way into the topic.
    pub produce_delay: bool,
}

/// Settings of topics, and the topics that are created at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopicsConfig {
    /// Create a topic when a client first asks for it.
    pub auto_create: bool,
    /// Partitions of a topic that is created without a number of them.
    pub default_partitions: i32,
    /// The moment at which a produced batch is acknowledged.
    pub durability: ProduceDurability,
    /// Age at which records are deleted; `None`: never.
    #[serde(serialize_with = "ser_limit")]
    pub retention: Option<Duration>,
    /// Size of a partition above which its oldest records are deleted; `None`: no bound.
    #[serde(serialize_with = "ser_size_limit")]
    pub retention_bytes: Option<u64>,
    /// Largest batch accepted, in bytes (Kafka's `message.max.bytes`).
    #[serde(serialize_with = "ser_size")]
    pub max_message_bytes: u64,
    /// Whether producers may delay records on their way into a topic.
    pub produce_delay: bool,
    /// The longest delay of a producer.
    #[serde(serialize_with = "ser_duration")]
    pub produce_delay_max: Duration,
    /// Bytes of all delayed records in the journal; beyond it, a produce request gets a retriable
    /// error.
    #[serde(serialize_with = "ser_size")]
    pub produce_delay_max_bytes: u64,
    /// Time without a batch after which a partition forgets a producer (Kafka's
    /// `producer.id.expiration.ms`).
    #[serde(serialize_with = "ser_duration")]
    pub producer_id_expiration: Duration,
    /// Time without use after which a transactional id is forgotten (Kafka's
    /// `transactional.id.expiration.ms`).
    #[serde(serialize_with = "ser_duration")]
    pub transactional_id_expiration: Duration,
    /// Topics that are created at start.
    pub list: Vec<TopicConfig>,
}

/// Kafka's `message.max.bytes`: 1 MiB, and the 12 bytes of a batch that its length field does not
/// count.
const MAX_MESSAGE_BYTES: u64 = MIB + 12;

impl Default for TopicsConfig {
    fn default() -> Self {
        Self {
            auto_create: true,
            default_partitions: 1,
            durability: ProduceDurability::Fsync,
            retention: Some(DAY * 7),
            retention_bytes: None,
            max_message_bytes: MAX_MESSAGE_BYTES,
            produce_delay: false,
            produce_delay_max: DAY * 40,
            produce_delay_max_bytes: 16 * GIB,
            producer_id_expiration: DAY,
            transactional_id_expiration: DAY * 7,
            list: Vec::new(),
        }
    }
}

impl TopicsConfig {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut topics = Self::default();
        let durability = [("fsync", ProduceDurability::Fsync), ("os", ProduceDurability::Os)];
        s.take("auto_create", &mut topics.auto_create, boolean);
        s.take("default_partitions", &mut topics.default_partitions, int(1..=PARTITIONS_MAX));
        s.take("durability", &mut topics.durability, choice(&durability));
        s.take("retention", &mut topics.retention, or_unlimited(duration(SECOND..=DECADE)));
        s.take(
            "retention_bytes",
            &mut topics.retention_bytes,
            or_unlimited(size(MIB..=1024 * TIB)),
        );
        s.take("max_message_bytes", &mut topics.max_message_bytes, size(KIB..=GIB));
        s.take("produce_delay", &mut topics.produce_delay, boolean);
        s.take("produce_delay_max", &mut topics.produce_delay_max, duration(SECOND..=DAY * 366));
        let most = &mut topics.produce_delay_max_bytes;
        s.take("produce_delay_max_bytes", most, size(MIB..=1024 * TIB));
        let expiration = duration(SECOND..=DECADE);
        s.take("producer_id_expiration", &mut topics.producer_id_expiration, &expiration);
        s.take("transactional_id_expiration", &mut topics.transactional_id_expiration, expiration);
        for item in s.list("list").unwrap_or_default() {
            let topic = topics.read_one(item);
            topics.list.push(topic);
        }
        s.finish();
        topics
    }

    fn read_one(&self, mut s: Section<'_>) -> TopicConfig {
        let mut topic = TopicConfig {
            name: String::new(),
            partitions: self.default_partitions,
            retention: self.retention,
            retention_bytes: self.retention_bytes,
            produce_delay: self.produce_delay,
        };
        s.take("name", &mut topic.name, topic_name);
        s.take("partitions", &mut topic.partitions, int(1..=PARTITIONS_MAX));
        s.take("retention", &mut topic.retention, or_unlimited(duration(SECOND..=DECADE)));
        s.take("retention_bytes", &mut topic.retention_bytes, or_unlimited(size(MIB..=1024 * TIB)));
        s.take("produce_delay", &mut topic.produce_delay, boolean);
        if !s.has("name") {
            s.problem("name", "is missing");
        } else if self.list.iter().any(|other| other.name == topic.name) {
            s.problem("name", "this topic is listed twice");
        }
        s.finish();
        topic
    }
}

fn topic_name(value: &Value) -> Result<String, String> {
    let name = text(value)?;
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.len() <= NAME_BYTES_MAX && name.chars().all(legal) && name != "." && name != ".." {
        Ok(name)
    } else {
        Err(format!("{name:?} is no topic name: letters, digits, `.`, `_`, `-`, at most 249"))
    }
}
