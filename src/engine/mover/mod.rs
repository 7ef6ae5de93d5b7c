//! The mover: it releases due retries into the retry topics of their group, and delayed records
//! into their own topics (`engine/delayed/delivering.rs`).
//!
//! **Invariant:** a retry enters a topic of the embedded cluster in the same atomic group as its
//! entry notes that. A crash leaves both or neither. A topic of the cluster behind gets the retry
//! first ([`release_queue`]), and a crash repeats at most the batches in flight.
//!
//! Nothing is released while nobody reads the topic, and a [`ReleaseWindow`] bounds the retries
//! beyond the group's commit. So the rest can be listed, delayed and ended.

mod noting;
pub(super) mod release_queue;
mod releasing;
mod scan;
#[cfg(test)]
mod tests;
mod unserved_runs;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) use crate::engine::mover::scan::{
    BUSY_MS, FULL_MS, NextSlice, SLICE_BYTES, Scan, UNSERVED_MS,
};
use crate::engine::mover::unserved_runs::UnservedRuns;
pub(in crate::engine) use crate::engine::mover::unserved_runs::UnservedSources;
use crate::engine::mover::window::ReleaseWindow;
use crate::journal::StreamId;
use crate::model::{
    EntryId, GroupId, MonoMs, RetryPair, RetryPartition, RetryPlace, TopicName, TopicPartition,
};
use crate::retry::delayed;

/// A topic that nobody fetched for this long has no reader.
const READ_MS: u64 = 60_000;
/// Groups that get a slice before other work runs.
const GROUPS_AT_ONCE: usize = 8;

/// A partition of a retry topic.
#[derive(Clone, Copy, Debug)]
pub struct RetryPartitionLog {
    /// The stream of the log. In the cluster behind: a number of the topic, which another topic by
    /// the same name has not.
    pub stream: StreamId,
    /// The group's committed offset, or 0.
    pub committed: i64,
}

/// Readers of each retry topic, and the topics that are served.
#[derive(Debug, Default)]
pub(super) struct RetryReaders {
    /// The last Fetch; `None`: all readers have left, or none has fetched yet.
    last: Mutex<BTreeMap<RetryPair, Option<MonoMs>>>,
    served: Mutex<BTreeSet<RetryPair>>,
}

impl RetryReaders {
    pub(super) fn is_served(&self, pair: &RetryPair) -> bool {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).contains(pair)
    }

    pub(super) fn set_served(&self, pair: &RetryPair, is_served: bool) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if is_served {
            served.insert(pair.clone());
        } else {
            served.remove(pair);
        }
    }

    /// Notes a Fetch; true: nobody read the topic before.
    pub(super) fn note_fetch(&self, pair: &RetryPair, now: MonoMs) -> bool {
        let before = self.lock().insert(pair.clone(), Some(now)).flatten();
        before.is_none_or(|before| now.since(before) >= READ_MS)
    }

    /// A member has subscribed to the topic.
    pub(super) fn note_subscription(&self, pair: &RetryPair) {
        let mut last = self.lock();
        if !last.contains_key(pair) {
            last.insert(pair.clone(), None);
        }
    }

    /// All readers of the group's retry topics have left, besides those of `subscribed`.
    pub(super) fn all_left(&self, group: &GroupId, subscribed: &BTreeSet<RetryPair>) {
        let mut last = self.lock();
        for (pair, last) in last.range_mut(RetryPair::of_group(group)..) {
            if pair.group != *group {
                break;
            }
            if !subscribed.contains(pair) {
                *last = None;
            }
        }
    }

    /// Whether the topic has or had a reader since the start.
    pub(super) fn was_read(&self, pair: &RetryPair) -> bool {
        self.lock().contains_key(pair)
    }

    /// Whether the topic is read.
    pub(super) fn is_read(&self, pair: &RetryPair, now: MonoMs) -> bool {
        self.lock().get(pair).is_some_and(|last| is_lately(*last, now))
    }

    /// The owners of the group's retry topics that are read.
    pub(super) fn read(&self, group: &GroupId, now: MonoMs) -> BTreeSet<RetryPair> {
        let last = self.lock();
        let topics = last.range(RetryPair::of_group(group)..);
        let topics = topics.take_while(|(pair, _)| pair.group == *group);
        let read = topics.filter(|(_, last)| is_lately(**last, now));
        read.map(|(pair, _)| pair.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RetryPair, Option<MonoMs>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_lately(last: Option<MonoMs>, now: MonoMs) -> bool {
    last.is_some_and(|last| now.since(last) < READ_MS)
}

/// The groups with retry topics, and those with work.
#[derive(Debug)]
pub(super) struct Mover {
    pub(super) groups: BTreeMap<GroupId, GroupTopics>,
    /// Groups whose due retries may be released.
    ready: BTreeSet<GroupId>,
    /// The group with the last slice.
    last: Option<GroupId>,
    /// Earliest time of the next slice, after the engine could not decide.
    not_before: MonoMs,
}

/// The cluster that has a retry topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum RetryTopicPlace {
    Embedded,
    /// The cluster behind.
    Behind,
}

/// The retry topics of a group, and the pass through its due retries.
#[derive(Debug)]
pub(super) struct GroupTopics {
    place: RetryTopicPlace,
    topics: Vec<RetryTopic>,
    /// Retries that are on their way into the cluster behind.
    sent: BTreeMap<EntryId, RetryPartition>,
    /// Number of released records without a key.
    turn: i64,
    scan: Scan,
    unserved: UnservedRuns,
}

#[derive(Debug)]
pub(super) struct RetryTopic {
    name: TopicName,
    pair: RetryPair,
    partitions: Vec<ReleasePartition>,
    /// The group's last commit here that was seen.
    committed_at: Option<MonoMs>,
    /// Somebody reads the topic, as of the running slice.
    is_read: bool,
}

#[derive(Debug)]
struct ReleasePartition {
    stream: StreamId,
    window: ReleaseWindow,
    /// The last offset that the group is known to have committed.
    committed: i64,
    /// The offset behind the last noted retry.
    end: i64,
    /// A batch is on its way into the cluster behind.
    is_sending: bool,
    /// Retries that are sent alone, since the cluster refused them in one batch.
    alone: usize,
    /// The time of the next try, after the cluster has denied one.
    not_before: MonoMs,
}

impl ReleasePartition {
    fn new(of: RetryPartitionLog) -> Self {
        let (window, RetryPartitionLog { stream, committed }) = (ReleaseWindow::default(), of);
        Self {
            stream,
            window,
            committed,
            end: 0,
            is_sending: false,
            alone: 0,
            not_before: MonoMs(0),
        }
    }

    fn has_room(&mut self, now: MonoMs, unread: usize, bytes: u64) -> bool {
        !self.is_sending && self.not_before <= now && self.window.has_room(now, unread, bytes)
    }
}

impl GroupTopics {
    pub(super) fn new(place: RetryTopicPlace) -> Self {
        Self {
            place,
            topics: Vec::new(),
            sent: BTreeMap::new(),
            turn: 0,
            scan: Scan::default(),
            unserved: UnservedRuns::default(),
        }
    }

    /// The retry topic of the pair has these partitions now.
    pub(super) fn serve(
        &mut self,
        name: TopicName,
        pair: &RetryPair,
        partitions: &[RetryPartitionLog],
    ) {
        let known = self.topics.iter().position(|topic| topic.pair == *pair);
        let before = known.map(|index| self.topics.swap_remove(index));
        let committed_at = before.as_ref().and_then(|before| before.committed_at);
        let before = before.map(|before| before.partitions).unwrap_or_default();
        let mut before = before.into_iter().peekable();
        let partition = |of: &RetryPartitionLog| {
            let same = before.next_if(|known| known.stream == of.stream);
            same.unwrap_or_else(|| ReleasePartition::new(*of))
        };
        let partitions = partitions.iter().map(partition).collect();
        let pair = pair.clone();
        self.topics.push(RetryTopic { name, pair, partitions, committed_at, is_read: false });
        self.topics_changed();
    }

    fn topics_changed(&mut self) {
        self.scan.forget_places();
        self.unserved.forget();
    }

    /// The retry topic of `source` is no more.
    pub(super) fn remove(&mut self, source: Option<&TopicName>) {
        self.topics.retain(|topic| topic.source() != source);
        self.topics_changed();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Whether a retry topic has the partition.
    pub(super) fn has(&self, of: RetryPartition) -> bool {
        self.topic_of(of).is_some()
    }

    /// The streams of the retry topic of `source`.
    pub(super) fn streams(&self, source: Option<&TopicName>) -> Vec<u32> {
        let topics = self.topics.iter().filter(|topic| topic.source() == source);
        topics.flat_map(|topic| &topic.partitions).map(|of| of.stream.0).collect()
    }

    /// The pass has looked at every due retry.
    fn end_pass(&mut self, now: MonoMs) -> NextSlice {
        self.unserved.end_pass(now);
        self.scan.end(now)
    }

    /// Whether a topic has a retry topic of its own.
    fn is_divided(&self) -> bool {
        self.topics.iter().any(|topic| topic.source().is_some())
    }

    /// The index of the retry topic that is read and has the retries of `source`. One of the whole
    /// group has those of topics whose own retry topic nobody reads. A record without a source goes
    /// to any.
    fn index_for(&self, source: Option<&TopicName>) -> Option<usize> {
        let of = |source: Option<&TopicName>| {
            let is_it = |topic: &RetryTopic| topic.is_read && topic.source() == source;
            self.topics.iter().position(is_it)
        };
        let any = || self.topics.iter().position(|topic| topic.is_read && source.is_none());
        of(source).or_else(|| of(None)).or_else(any)
    }

    fn topic_of(&self, of: RetryPartition) -> Option<&RetryTopic> {
        self.topics.iter().find(|topic| topic.has(of))
    }

    fn partition(&self, of: RetryPartition) -> Option<&ReleasePartition> {
        self.topic_of(of)?.partitions.get(usize::from(of.index))
    }

    fn topic_of_mut(&mut self, of: RetryPartition) -> Option<&mut RetryTopic> {
        self.topics.iter_mut().find(|topic| topic.has(of))
    }

    fn partition_mut(&mut self, of: RetryPartition) -> Option<&mut ReleasePartition> {
        let topic = self.topic_of_mut(of)?;
        topic.partitions.get_mut(usize::from(of.index))
    }

    /// Whether another retry may enter this partition, behind `unread` ones and `bytes` that are
    /// about to enter.
    fn has_room(&mut self, of: RetryPartition, now: MonoMs, unread: usize, bytes: u64) -> bool {
        self.partition_mut(of).is_some_and(|of| of.has_room(now, unread, bytes))
    }

    /// The group committed past `count` retries, up to this delivery.
    fn committed(&mut self, up_to: RetryPlace, count: usize, now: MonoMs) {
        let Some(topic) = self.topic_of_mut(up_to.partition) else { return };
        topic.committed_at = Some(now);
        if let Some(of) = topic.partitions.get_mut(usize::from(up_to.partition.index)) {
            of.committed = up_to.offset;
            of.window.committed(now, up_to.offset, count);
        }
    }

    /// Whether a batch for the partition has one retry.
    fn sends_alone(&self, of: RetryPartition) -> bool {
        self.partition(of).is_some_and(|of| of.alone > 0)
    }

    fn released(&mut self, of: RetryPartition, last: i64, bytes: u64) {
        if let Some(of) = self.partition_mut(of) {
            of.window.released(last, bytes);
        }
    }
}

impl RetryTopic {
    /// The topic whose retries the retry topic has.
    fn source(&self) -> Option<&TopicName> {
        self.pair.source.as_ref()
    }

    fn has(&self, of: RetryPartition) -> bool {
        self.partition(of.index) == Some(of)
    }

    /// The partition by its index.
    fn partition(&self, index: u16) -> Option<RetryPartition> {
        let of = self.partitions.get(usize::from(index))?;
        Some(self.pair.partition(of.stream.0, index))
    }
}

impl Mover {
    pub(super) fn new() -> Self {
        let of_delayed = GroupTopics::new(RetryTopicPlace::Embedded);
        Self {
            groups: BTreeMap::from([(delayed(), of_delayed)]),
            ready: BTreeSet::new(),
            last: None,
            not_before: MonoMs(0),
        }
    }

    /// The pass through the due entries of a group.
    pub(super) fn scan(&mut self, group: &GroupId) -> Option<&mut Scan> {
        self.groups.get_mut(group).map(|topics| &mut topics.scan)
    }

    /// The delivery at an offset, if the partition is one of the group's retry topics.
    pub(super) fn delivery_at(
        &self,
        group: &GroupId,
        of: &TopicPartition,
        offset: i64,
    ) -> Option<RetryPlace> {
        let topic = self.groups.get(group)?.topics.iter().find(|topic| topic.name == of.topic)?;
        Some(topic.partition(u16::try_from(of.partition).ok()?)?.at(offset))
    }

    /// The topic partition of a delivery.
    pub(super) fn partition_of(
        &self,
        group: &GroupId,
        of: RetryPartition,
    ) -> Option<TopicPartition> {
        let topic = self.groups.get(group)?.topic_of(of)?.name.clone();
        Some(TopicPartition { topic, partition: i32::from(of.index) })
    }

    /// The pair of the retry topic with that name.
    pub(super) fn pair_of(&self, group: &GroupId, name: &TopicName) -> Option<&RetryPair> {
        let topic = self.groups.get(group)?.topics.iter().find(|topic| topic.name == *name)?;
        Some(&topic.pair)
    }

    /// Due retries of the group that the last pass has found without a reader.
    pub(super) fn unserved(&self, group: &GroupId) -> UnservedSources {
        self.groups.get(group).map(|topics| topics.unserved.told()).unwrap_or_default()
    }

    /// Retries of the group that cannot be released, with the reasons.
    pub(super) fn aside(&self, group: &GroupId) -> impl Iterator<Item = (EntryId, &str)> {
        self.groups.get(group).into_iter().flat_map(|topics| topics.scan.aside())
    }

    /// Due retries of the group may be released.
    pub(super) fn wake(&mut self, group: &GroupId) {
        if let Some(topics) = self.groups.get_mut(group) {
            topics.scan.wake();
            self.ready.insert(group.clone());
        }
    }

    /// Time of the next slice; `None`: there is nothing to do.
    pub(super) fn alarm(&self) -> Option<MonoMs> {
        let first = self.ready.iter().map(|group| self.alarm_of(group)).min();
        first.map(|first| first.max(self.not_before))
    }

    fn alarm_of(&self, group: &GroupId) -> MonoMs {
        self.groups.get(group).map_or(MonoMs(0), |topics| topics.scan.alarm())
    }

    /// The groups of the next slices, each in turn.
    fn take_ready(&mut self, now: MonoMs) -> Vec<GroupId> {
        let is_due = |group: &&GroupId| self.alarm_of(group) <= now;
        let (before, behind): (Vec<&GroupId>, Vec<&GroupId>) =
            self.ready.iter().filter(is_due).partition(|group| Some(*group) <= self.last.as_ref());
        let next = behind.into_iter().chain(before).take(GROUPS_AT_ONCE);
        let next: Vec<GroupId> = next.cloned().collect();
        for group in &next {
            self.ready.remove(group);
        }
        self.last = next.last().cloned().or(self.last.take());
        next
    }
}
