//! Subscription and assignment: the consumer protocol inside `JoinGroup` and `SyncGroup`.
//!
//! Parsing is lenient: kafka-go announces version 1 and leaves the owned partitions out. Bytes that
//! are not edited return unchanged.
//!
//! ```text
//! subscription: version i16 | topics [string] | user data | v1+ owned [topic [i32]] | the rest
//! assignment:   version i16 | partitions [topic [i32]] | user data | the rest
//! ```

use bytes::{BufMut, Bytes, BytesMut};

use crate::model::TopicName;
use crate::wire::reader::{ReadError, Reader, length};

/// The first version with owned partitions (KIP-429).
const OWNED_SINCE: i16 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPartitions {
    pub topic: TopicName,
    /// Partitions in the order received.
    pub partitions: Vec<i32>,
}

/// The metadata of a `JoinGroup` protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub version: i16,
    /// Topics that the member subscribes to.
    pub topics: Vec<TopicName>,
    /// The assignor's own bytes, unchanged.
    pub user_data: Option<Bytes>,
    /// Partitions that the member owns; `None`: the client left the field out.
    pub owned: Option<Vec<TopicPartitions>>,
    /// Generation, rack and fields of later versions, unchanged.
    rest: Bytes,
}

/// The assignment of one member in `SyncGroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub version: i16,
    pub partitions: Vec<TopicPartitions>,
    /// The assignor's own bytes, unchanged.
    pub user_data: Option<Bytes>,
    rest: Bytes,
}

impl Subscription {
    /// A version 0 subscription to these topics, without other fields.
    pub fn to(topics: Vec<TopicName>) -> Self {
        Self { version: 0, topics, user_data: None, owned: None, rest: Bytes::new() }
    }

    pub fn parse(bytes: &Bytes) -> Result<Self, ReadError> {
        let mut r = Reader::new(bytes);
        let version = r.int16()?;
        let mut topics = Vec::new();
        for _ in 0..count(&mut r, 2)? {
            topics.push(TopicName::new(r.string()?));
        }
        // kafka-go's oldest form ends after the topics.
        let user_data = if r.is_empty() { None } else { r.nullable_bytes()? };
        let user_data = user_data.map(|data| bytes.slice_ref(data));
        let owned = if version >= OWNED_SINCE && !r.is_empty() {
            Some(topic_partitions(&mut r)?)
        } else {
            None
        };
        Ok(Self { version, topics, user_data, owned, rest: bytes.slice_ref(r.rest()) })
    }

    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(self.version);
        put_len(&mut out, self.topics.len());
        for topic in &self.topics {
            put_string(&mut out, topic.as_str());
        }
        put_user_data(&mut out, self.user_data.as_ref());
        if let Some(owned) = &self.owned {
            put_topic_partitions(&mut out, owned);
        }
        out.put_slice(&self.rest);
        out.freeze()
    }
}

impl Assignment {
    /// An assignment without partitions, in version 0.
    pub fn empty() -> Self {
        Self { version: 0, partitions: Vec::new(), user_data: None, rest: Bytes::new() }
    }

    /// Reads a `SyncGroup` assignment. An empty one means no partitions.
    pub fn parse(bytes: &Bytes) -> Result<Self, ReadError> {
        if bytes.is_empty() {
            return Ok(Self::empty());
        }
        let mut r = Reader::new(bytes);
        let version = r.int16()?;
        let partitions = topic_partitions(&mut r)?;
        let user_data = if r.is_empty() { None } else { r.nullable_bytes()? };
        let user_data = user_data.map(|data| bytes.slice_ref(data));
        Ok(Self { version, partitions, user_data, rest: bytes.slice_ref(r.rest()) })
    }

    pub fn strip(&mut self, drops: impl Fn(&str) -> bool) {
        self.partitions.retain(|entry| !drops(entry.topic.as_str()));
    }

    /// Adds a partition unless it is already assigned.
    pub fn append(&mut self, topic: &TopicName, partition: i32) {
        match self.partitions.iter_mut().find(|entry| entry.topic == *topic) {
            Some(entry) if entry.partitions.contains(&partition) => {}
            Some(entry) => entry.partitions.push(partition),
            None => self
                .partitions
                .push(TopicPartitions { topic: topic.clone(), partitions: vec![partition] }),
        }
    }

    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(self.version);
        put_topic_partitions(&mut out, &self.partitions);
        put_user_data(&mut out, self.user_data.as_ref());
        out.put_slice(&self.rest);
        out.freeze()
    }
}

/// An array's count, bounded by the bytes after it; a null array counts as 0.
fn count(r: &mut Reader<'_>, element_bytes_min: usize) -> Result<usize, ReadError> {
    let count = match r.int32()? {
        -1 => 0,
        count => length(count)?,
    };
    if count > r.remaining() / element_bytes_min { Err(ReadError::Truncated) } else { Ok(count) }
}

fn topic_partitions(r: &mut Reader<'_>) -> Result<Vec<TopicPartitions>, ReadError> {
    let mut all = Vec::new();
    for _ in 0..count(r, 6)? {
        let topic = TopicName::new(r.string()?);
        let mut partitions = Vec::new();
        for _ in 0..count(r, 4)? {
            partitions.push(r.int32()?);
        }
        all.push(TopicPartitions { topic, partitions });
    }
    Ok(all)
}

fn put_topic_partitions(out: &mut BytesMut, all: &[TopicPartitions]) {
    put_len(out, all.len());
    for entry in all {
        put_string(out, entry.topic.as_str());
        put_len(out, entry.partitions.len());
        for &partition in &entry.partitions {
            out.put_i32(partition);
        }
    }
}

fn put_user_data(out: &mut BytesMut, data: Option<&Bytes>) {
    match data {
        None => out.put_i32(-1),
        Some(data) => {
            put_len(out, data.len());
            out.put_slice(data);
        }
    }
}

/// Counts come from parsed arrays or a few appends, so they fit into 32 bits.
fn put_len(out: &mut BytesMut, len: usize) {
    out.put_i32(i32::try_from(len).unwrap_or(i32::MAX));
}

/// Topic names have at most 249 bytes.
fn put_string(out: &mut BytesMut, text: &str) {
    let len = i16::try_from(text.len()).unwrap_or(i16::MAX);
    out.put_i16(len);
    out.put_slice(text.as_bytes().get(..usize::from(len.unsigned_abs())).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::consumer_protocol_assignment as crate_assignment;
    use kafka_protocol::messages::consumer_protocol_subscription as crate_subscription;
    use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

    use super::*;

    fn subscription(version: i16) -> Bytes {
        let mut of = ConsumerProtocolSubscription::default();
        of.topics =
            vec![StrBytes::from_static_str("orders"), StrBytes::from_static_str("reprise.retry.g")];
        of.user_data = Some(Bytes::from_static(&[9, 9]));
        if version >= 1 {
            of.owned_partitions = ["orders", "reprise.retry.g"]
                .map(|topic| {
                    crate_subscription::TopicPartition::default()
                        .with_topic(StrBytes::from_static_str(topic).into())
                        .with_partitions(vec![0, 2])
                })
                .to_vec();
        }
        if version >= 2 {
            of.generation_id = 7;
        }
        if version >= 3 {
            of.rack_id = Some(StrBytes::from_static_str("rack"));
        }
        versioned(version, &of)
    }

    fn assignment(version: i16) -> Bytes {
        let mut of = ConsumerProtocolAssignment::default();
        of.assigned_partitions = ["orders", "reprise.retry.g"]
            .map(|topic| {
                crate_assignment::TopicPartition::default()
                    .with_topic(StrBytes::from_static_str(topic).into())
                    .with_partitions(vec![1, 4])
            })
            .to_vec();
        of.user_data = Some(Bytes::from_static(&[1, 2, 3]));
        versioned(version, &of)
    }

    fn versioned<M: Encodable>(version: i16, message: &M) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(version);
        message.encode(&mut out, version).unwrap();
        out.freeze()
    }

    #[test]
    fn unchanged_subscriptions_and_assignments_keep_every_byte() {
        for version in 0..=3 {
            let bytes = subscription(version);
            let of = Subscription::parse(&bytes).unwrap();
            assert_eq!(of.topics, ["orders".into(), "reprise.retry.g".into()]);
            assert_eq!(of.owned.as_ref().map(Vec::len), (version >= 1).then_some(2));
            assert_eq!(of.to_bytes(), bytes, "subscription {version}");
            let bytes = assignment(version);
            let of = Assignment::parse(&bytes).unwrap();
            assert_eq!((of.version, of.partitions.len()), (version, 2));
            assert_eq!(of.to_bytes(), bytes, "assignment {version}");
        }
    }

    #[test]
    fn a_changed_assignment_is_readable_by_the_codec_crate() {
        for version in 0..=3 {
            let mut of = Assignment::parse(&assignment(version)).unwrap();
            of.strip(|topic| topic.starts_with("reprise.retry."));
            of.append(&"reprise.retry.shop".into(), 0);
            of.append(&"reprise.retry.shop".into(), 0);
            of.append(&"orders".into(), 9);
            let mut bytes = of.to_bytes().slice(2..);
            let seen = ConsumerProtocolAssignment::decode(&mut bytes, version).unwrap();
            let pairs: Vec<(String, Vec<i32>)> = seen
                .assigned_partitions
                .iter()
                .map(|p| (p.topic.to_string(), p.partitions.clone()))
                .collect();
            assert_eq!(
                pairs,
                [("orders".into(), vec![1, 4, 9]), ("reprise.retry.shop".into(), vec![0])]
            );
            assert_eq!(seen.user_data, Some(Bytes::from_static(&[1, 2, 3])));
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn kafka_gos_version_1_without_owned_partitions_is_readable() {
        let mut bytes = subscription(0).to_vec();
        bytes[1] = 1;
        let bytes = Bytes::from(bytes);
        let of = Subscription::parse(&bytes).unwrap();
        assert_eq!((of.version, of.owned.clone()), (1, None));
        assert_eq!(of.to_bytes(), bytes);
        assert_eq!(Assignment::parse(&Bytes::new()), Ok(Assignment::empty()));
    }

    #[test]
    fn lying_counts_are_refused_and_no_cut_panics() {
        for good in [subscription(3), assignment(3)] {
            for at in 0..good.len() {
                let mut bytes = good.to_vec();
                for byte in bytes.iter_mut().skip(at).take(4) {
                    *byte = 0x7f;
                }
                let bytes = Bytes::from(bytes);
                let _ = Subscription::parse(&bytes);
                let _ = Assignment::parse(&bytes);
                let _ = Subscription::parse(&good.slice(..at));
                let _ = Assignment::parse(&good.slice(..at));
            }
        }
        let huge = Bytes::from_static(&[0, 1, 0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(Subscription::parse(&huge), Err(ReadError::Truncated));
        assert_eq!(Assignment::parse(&huge), Err(ReadError::Truncated));
    }
}
