//! Retry topics in the model: due retries are handed over and released, and commits acknowledge
//! them.

use std::collections::BTreeMap;

use reprise::engine::ReleaseOutcome;
use reprise::model::{GroupId, Origin, RetryPair, RetryPartition, TopicName};

use crate::model::{Model, ModelState, Nack, NackTarget, Record, memory_ends};

pub const PARTITIONS: u16 = 2;
/// Time after a Fetch for which a topic has a reader.
const READ_MS: i64 = 60_000;
/// Pauses after a batch that was not written, and after a refused retry.
const LATER_MS: i64 = 1_000;
const REFUSED_MS: i64 = 30_000;

/// The retry topics of a group since the start of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTopics {
    /// In the order in which they were served last.
    topics: Vec<RetryTopic>,
    /// Retries on their way into a topic, with their partition there.
    sent: BTreeMap<u64, RetryPartition>,
    /// Times of the last Fetch by a reader that has not left.
    read: BTreeMap<Source, i64>,
    paused_until: i64,
    /// Refused retries, and the end of their pause.
    refused: BTreeMap<u64, i64>,
}

/// The topic whose retries a retry topic has; `None`: it is that of the whole group.
pub type Source = Option<TopicName>;

impl Record {
    /// The topic of the record as produced.
    fn source(&self) -> Source {
        self.origin.as_ref().map(|origin| origin.topic.clone())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RetryTopic {
    source: Source,
    stream: u32,
    partitions: BTreeMap<u16, Partition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Partition {
    is_sending: bool,
    /// End of the pause after a denied batch.
    not_before: i64,
    /// Number of retries that are still to be sent alone.
    alone: usize,
    /// The offset behind the last noted retry.
    end: i64,
    committed: i64,
}

impl GroupTopics {
    /// The ends of pauses.
    pub fn deadlines(&self) -> impl Iterator<Item = i64> {
        self.refused.values().copied().chain([self.paused_until])
    }

    pub fn is_read(&mut self, source: &Source, now: i64) {
        self.read.insert(source.clone(), now);
    }

    pub fn no_reader(&mut self) {
        self.read.clear();
    }

    fn has_reader(&self, source: &Source, now: i64) -> bool {
        self.read.get(source).is_some_and(|at| now - at < READ_MS)
    }

    /// The topic that the retries of `source` enter: one of their own that is read, or else that of
    /// the group. A retry without a source enters any.
    fn topic_for(&self, source: &Source, now: i64) -> Option<&RetryTopic> {
        let read = || self.topics.iter().filter(|topic| self.has_reader(&topic.source, now));
        let of = |source: &Source| read().find(|topic| topic.source == *source);
        of(source).or_else(|| of(&None)).or_else(|| read().find(|_| source.is_none()))
    }

    fn partition(&mut self, of: RetryPartition) -> Option<&mut Partition> {
        let mut topics = self.topics.iter_mut();
        let is_it = |topic: &&mut RetryTopic| {
            topic.stream == of.stream && topic.source.is_some() == of.by_topic
        };
        topics.find(is_it)?.partitions.get_mut(&of.index)
    }
}

impl Model {
    pub fn topics_of(&mut self, group: &GroupId) -> &mut GroupTopics {
        self.topics.entry(group.clone()).or_default()
    }

    /// The topic has this stream now. Retries released to another one are due again.
    pub fn serve(&mut self, pair: &RetryPair, stream: u32) {
        let of_group = self.topics_of(&pair.group);
        let topics = &mut of_group.topics;
        let known = topics.iter().position(|topic| topic.source == pair.source);
        let known = known.map(|at| topics.swap_remove(at)).filter(|topic| topic.stream == stream);
        let partitions = || (0..PARTITIONS).map(|of| (of, Partition::default())).collect();
        let source = pair.source.clone();
        let topic =
            known.unwrap_or_else(|| RetryTopic { source, stream, partitions: partitions() });
        topics.push(topic);
        self.give_back(pair, Some(stream));
    }

    /// The topic is deleted.
    pub fn lose(&mut self, pair: &RetryPair) {
        let of_group = self.topics_of(&pair.group);
        of_group.topics.retain(|topic| topic.source != pair.source);
        if of_group.topics.is_empty() {
            let read = std::mem::take(&mut of_group.read);
            *of_group = GroupTopics { read, ..GroupTopics::default() };
        }
        self.give_back(pair, None);
    }

    /// Retries of the pair that were released to another topic than this one are due again.
    fn give_back(&mut self, pair: &RetryPair, stream: Option<u32>) {
        let of_group = self.records.values_mut().filter(|record| record.group == pair.group);
        for record in of_group {
            if let ModelState::Released(place, _) = record.stands
                && place.partition.by_topic == pair.source.is_some()
                && (pair.source.is_none() || record.source() == pair.source)
                && Some(place.partition.stream) != stream
            {
                record.stands = ModelState::Waiting { due: self.now, delay_ms: 0, level: None };
            }
        }
    }

    /// The retries of a group that may be handed over now, in order, each with the retry topic that
    /// it enters.
    pub fn releasable(&self, group: &GroupId) -> Vec<(u64, Source)> {
        let Some(topics) = self.topics.get(group) else { return Vec::new() };
        if self.now < topics.paused_until {
            return Vec::new();
        }
        let is_free = |of: &&Partition| !of.is_sending && of.not_before <= self.now;
        let room = |topic: &RetryTopic| {
            let free = topic.partitions.values().filter(is_free);
            let room = free.map(|of| if of.alone > 0 { 1 } else { usize::MAX });
            room.fold(0, usize::saturating_add)
        };
        let mut rooms: BTreeMap<Source, usize> =
            topics.topics.iter().map(|topic| (topic.source.clone(), room(topic))).collect();
        let rests = |id: &u64| topics.refused.get(id).is_some_and(|until| self.now < *until);
        let due = self.due(group).into_iter().map(|(_, id)| id);
        let may_leave = due.filter(|id| !topics.sent.contains_key(id) && !rests(id));
        let enters = may_leave.filter_map(|id| {
            let source = self.records[&id].source();
            let topic = topics.topic_for(&source, self.now)?.source.clone();
            let room = rooms.get_mut(&topic).filter(|room| **room > 0)?;
            *room -= usize::from(*room < usize::MAX);
            Some((id, topic))
        });
        enters.collect()
    }

    /// The number of failures and the value of a retry in the topic.
    pub fn redelivery(&self, id: u64) -> (u32, &str) {
        let record = &self.records[&id];
        (record.count, &record.text)
    }

    pub fn hand_over(&mut self, group: &GroupId, partition: RetryPartition, ids: &[u64]) {
        let topics = self.topics_of(group);
        topics.sent.extend(ids.iter().map(|id| (*id, partition)));
        let of = topics.partition(partition).unwrap();
        assert!(!of.is_sending, "a partition has one batch on its way");
        assert!(of.alone == 0 || ids.len() == 1, "a refused batch is sent one by one");
        of.is_sending = true;
    }

    /// Whether nacks wait for the end of a batch: one names a retry that the topic may have.
    pub fn waits(&self, group: &GroupId, nacks: &[Nack]) -> bool {
        let mut topics = self.topics[group].clone();
        if topics.sent.is_empty() {
            return false;
        }
        let sent = topics.sent.clone();
        let leaves = |origin: &Origin| {
            self.of_origin(group, origin).is_some_and(|id| sent.contains_key(&id))
        };
        nacks.iter().any(|nack| match &nack.named {
            NackTarget::Nothing => false,
            NackTarget::Delivery(place, copied) => {
                let of = topics.partition(place.partition);
                of.is_some_and(|of| of.is_sending && of.end <= place.offset)
                    || copied.as_ref().is_some_and(|(origin, _)| leaves(origin))
            }
            NackTarget::Origin(origin) => leaves(origin),
        })
    }

    /// A batch has ended. Returns the commit that was waiting for its retries.
    pub fn release_ended(
        &mut self,
        group: &GroupId,
        partition: RetryPartition,
        ids: &[u64],
        outcome: &ReleaseOutcome,
    ) -> Option<i64> {
        let now = self.now;
        let topics = self.topics.get_mut(group).unwrap();
        topics.sent.retain(|id, of| !ids.contains(id) || *of != partition);
        let of = topics.partition(partition)?;
        of.is_sending = false;
        of.alone = of.alone.saturating_sub(ids.len());
        let base = match (outcome, ids) {
            (ReleaseOutcome::Written { base }, _) => *base,
            (ReleaseOutcome::Later, _) => {
                topics.paused_until = now + LATER_MS;
                return None;
            }
            (ReleaseOutcome::Denied(_), _) => {
                of.not_before = now + REFUSED_MS;
                topics.refused.extend(ids.iter().map(|id| (*id, now + REFUSED_MS)));
                return None;
            }
            (ReleaseOutcome::Refused(_), [id]) => {
                topics.refused.insert(*id, now + REFUSED_MS);
                return None;
            }
            (ReleaseOutcome::Refused(_), _) => {
                of.alone = ids.len();
                return None;
            }
        };
        of.end = base + i64::try_from(ids.len()).unwrap();
        let committed = of.committed;
        for (offset, id) in (base..).zip(ids) {
            topics.refused.remove(id);
            let Some(record) = self.records.get_mut(id) else { continue };
            if let ModelState::Waiting { .. } = record.stands {
                let place = partition.at(offset);
                record.stands = ModelState::Released(place, now);
                record.places.push(place);
                record.handouts += 1;
                record.expires = None;
            }
        }
        Some(committed).filter(|committed| *committed > base)
    }

    /// The group has committed an offset of a retry topic: the retries below it are acknowledged.
    pub fn retry_commit(&mut self, group: &GroupId, partition: RetryPartition, offset: i64) {
        self.topics_of(group).partition(partition).unwrap().committed = offset;
        for record in self.records.values_mut().filter(|record| record.group == *group) {
            if let ModelState::Released(place, _) = record.stands
                && place.partition == partition
                && place.offset < offset
            {
                record.stands = ModelState::Committed(self.now);
                record.expires = memory_ends(record);
            }
        }
    }
}
