//! Retry topics in the model: due retries are handed over and released, and commits acknowledge
//! them.

use std::collections::BTreeMap;

use reprise::engine::ReleaseOutcome;
use reprise::model::{GroupId, Origin, RetryPartition, RetryPlace};

use crate::model::{Model, ModelState, Nack, NackTarget, memory_ends};

pub const PARTITIONS: u16 = 2;
/// Time after a Fetch for which a topic has a reader.
const READ_MS: i64 = 60_000;
/// Pauses after a batch that was not written, and after a refused retry.
const LATER_MS: i64 = 1_000;
const REFUSED_MS: i64 = 30_000;

/// A retry topic since the start of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryTopic {
    pub stream: u32,
    partitions: BTreeMap<u16, Partition>,
    /// Retries on their way into the topic, with the stream that it has for them.
    sent: BTreeMap<u64, u32>,
    /// Time of the last Fetch by a reader that has not left.
    pub read: Option<i64>,
    paused_until: i64,
    /// Refused retries, and the end of their pause.
    refused: BTreeMap<u64, i64>,
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

impl RetryTopic {
    /// The ends of pauses.
    pub fn deadlines(&self) -> impl Iterator<Item = i64> {
        self.refused.values().copied().chain([self.paused_until])
    }
}

impl Model {
    pub fn topic(&mut self, group: &GroupId) -> &mut RetryTopic {
        self.topics.get_mut(group).unwrap()
    }

    /// The topic has this stream now. Retries released to another one are due again.
    pub fn serve(&mut self, group: &GroupId, stream: u32) {
        let topic = self.topics.entry(group.clone()).or_default();
        if topic.stream != stream {
            topic.stream = stream;
            topic.partitions = (0..PARTITIONS).map(|of| (of, Partition::default())).collect();
        }
        for record in self.records.values_mut().filter(|record| record.group == *group) {
            if let ModelState::Released(place, _) = record.stands
                && place.partition.stream != stream
            {
                record.stands = ModelState::Waiting { due: self.now, delay_ms: 0, level: None };
            }
        }
    }

    /// The topic is deleted.
    pub fn lose(&mut self, group: &GroupId) {
        let topic = self.topic(group);
        *topic = RetryTopic { read: topic.read, ..RetryTopic::default() };
        self.serve(group, 0);
    }

    /// The retries of a group that are handed over now, in order.
    pub fn releasable(&self, group: &GroupId) -> Vec<u64> {
        let topic = &self.topics[group];
        let is_read = topic.read.is_some_and(|at| self.now - at < READ_MS);
        if !is_read || self.now < topic.paused_until {
            return Vec::new();
        }
        let is_free = |of: &&Partition| !of.is_sending && of.not_before <= self.now;
        let free = topic.partitions.values().filter(is_free);
        let room = free.map(|of| if of.alone > 0 { 1 } else { usize::MAX });
        let room = room.fold(0, usize::saturating_add);
        let rests = |id: &u64| topic.refused.get(id).is_some_and(|until| self.now < *until);
        let due = self.due(group).into_iter().map(|(_, id)| id);
        due.filter(|id| !topic.sent.contains_key(id) && !rests(id)).take(room).collect()
    }

    /// The number of failures and the value of a retry in the topic.
    pub fn redelivery(&self, id: u64) -> (u32, &str) {
        let record = &self.records[&id];
        (record.count, &record.text)
    }

    pub fn hand_over(&mut self, group: &GroupId, partition: u16, ids: &[u64]) {
        let topic = self.topic(group);
        topic.sent.extend(ids.iter().map(|id| (*id, topic.stream)));
        let of = topic.partitions.get_mut(&partition).unwrap();
        assert!(!of.is_sending, "a partition has one batch on its way");
        assert!(of.alone == 0 || ids.len() == 1, "a refused batch is sent one by one");
        of.is_sending = true;
    }

    /// Whether nacks wait for the end of a batch: one names a retry that the topic may have.
    pub fn waits(&self, group: &GroupId, nacks: &[Nack]) -> bool {
        let topic = &self.topics[group];
        let leaves = |origin: &Origin| {
            self.of_origin(group, origin).is_some_and(|id| topic.sent.contains_key(&id))
        };
        let is_sent = |nack: &Nack| match &nack.named {
            NackTarget::Nothing => false,
            NackTarget::Delivery(place, copied) => {
                let of = topic.partitions.get(&place.partition.index);
                let is_ours = place.partition.stream == topic.stream;
                of.is_some_and(|of| is_ours && of.is_sending && of.end <= place.offset)
                    || copied.as_ref().is_some_and(|(origin, _)| leaves(origin))
            }
            NackTarget::Origin(origin) => leaves(origin),
        };
        !topic.sent.is_empty() && nacks.iter().any(is_sent)
    }

    /// A batch has ended. Returns the commit that was waiting for its retries.
    pub fn release_ended(
        &mut self,
        group: &GroupId,
        (stream, partition): (u32, u16),
        ids: &[u64],
        outcome: &ReleaseOutcome,
    ) -> Option<i64> {
        let now = self.now;
        let topic = self.topics.get_mut(group).unwrap();
        topic.sent.retain(|id, of| !ids.contains(id) || *of != stream);
        if topic.stream != stream {
            return None;
        }
        let of = topic.partitions.get_mut(&partition).unwrap();
        of.is_sending = false;
        of.alone = of.alone.saturating_sub(ids.len());
        let base = match (outcome, ids) {
            (ReleaseOutcome::Written { base }, _) => *base,
            (ReleaseOutcome::Later, _) => {
                topic.paused_until = now + LATER_MS;
                return None;
            }
            (ReleaseOutcome::Denied(_), _) => {
                of.not_before = now + REFUSED_MS;
                topic.refused.extend(ids.iter().map(|id| (*id, now + REFUSED_MS)));
                return None;
            }
            (ReleaseOutcome::Refused(_), [id]) => {
                topic.refused.insert(*id, now + REFUSED_MS);
                return None;
            }
            (ReleaseOutcome::Refused(_), _) => {
                of.alone = ids.len();
                return None;
            }
        };
        of.end = base + i64::try_from(ids.len()).unwrap();
        for (offset, id) in (base..).zip(ids) {
            topic.refused.remove(id);
            let Some(record) = self.records.get_mut(id) else { continue };
            if let ModelState::Waiting { .. } = record.stands {
                let place = RetryPlace::in_stream(partition, stream, offset);
                record.stands = ModelState::Released(place, now);
                record.places.push(place);
                record.handouts += 1;
                record.expires = None;
            }
        }
        Some(of.committed).filter(|committed| *committed > base)
    }

    /// The group has committed an offset of its retry topic: the retries below are acknowledged.
    pub fn retry_commit(&mut self, group: &GroupId, partition: u16, offset: i64) {
        let topic = self.topic(group);
        topic.partitions.get_mut(&partition).unwrap().committed = offset;
        let stream = topic.stream;
        for record in self.records.values_mut().filter(|record| record.group == *group) {
            if let ModelState::Released(place, _) = record.stands
                && place.partition == (RetryPartition { stream, index: partition, by_topic: false })
                && place.offset < offset
            {
                record.stands = ModelState::Committed(self.now);
                record.expires = memory_ends(record);
            }
        }
    }
}
