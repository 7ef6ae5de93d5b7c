//! The mover: it releases due retries into the retry topic of their group.
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
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::engine::mover::scan::Scan;
use crate::engine::mover::window::ReleaseWindow;
use crate::journal::StreamId;
use crate::model::{EntryId, GroupId, MonoMs, RetryPlace, TopicName, TopicPartition};

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

/// Readers of each group's retry topic, and the groups whose topic is served.
#[derive(Debug, Default)]
pub(super) struct RetryReaders {
    /// The last Fetch; `None`: all readers have left, or none has fetched yet.
    last: Mutex<BTreeMap<GroupId, Option<MonoMs>>>,
    served: Mutex<BTreeSet<GroupId>>,
}

impl RetryReaders {
    pub(super) fn is_served(&self, group: &GroupId) -> bool {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).contains(group)
    }

    pub(super) fn set_served(&self, group: &GroupId, is_served: bool) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if is_served {
            served.insert(group.clone());
        } else {
            served.remove(group);
        }
    }

    /// Notes a Fetch; true: nobody read the topic before.
    pub(super) fn note_fetch(&self, group: &GroupId, now: MonoMs) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.insert(group.clone(), Some(now)).flatten();
        before.is_none_or(|before| now.since(before) >= READ_MS)
    }

    /// A member has subscribed to the topic.
    pub(super) fn note_subscription(&self, group: &GroupId) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !last.contains_key(group) {
            last.insert(group.clone(), None);
        }
    }

    pub(super) fn all_left(&self, group: &GroupId) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.get_mut(group) {
            *last = None;
        }
    }

    /// Whether the topic has or had a reader since the start.
    pub(super) fn was_read(&self, group: &GroupId) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).contains_key(group)
    }

    pub(super) fn is_read(&self, group: &GroupId, now: MonoMs) -> bool {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(group).is_some_and(|last| last.is_some_and(|last| now.since(last) < READ_MS))
    }
}

/// The retry topics, and the groups with work.
#[derive(Debug, Default)]
pub(super) struct Mover {
    pub(super) topics: BTreeMap<GroupId, RetryTopic>,
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

#[derive(Debug)]
pub(super) struct RetryTopic {
    name: TopicName,
    place: RetryTopicPlace,
    partitions: Vec<ReleasePartition>,
    /// Retries that are on their way into the cluster behind.
    sent: BTreeMap<EntryId, StreamId>,
    /// The group's last commit that was seen here.
    committed_at: Option<MonoMs>,
    /// Number of released records without a key.
    turn: i64,
    scan: Scan,
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
}

impl ReleasePartition {
    fn new(of: RetryPartitionLog) -> Self {
        let (window, RetryPartitionLog { stream, committed }) = (ReleaseWindow::default(), of);
        Self { stream, window, committed, end: 0, is_sending: false, alone: 0 }
    }

    fn has_room(&mut self, now: MonoMs, unread: usize, bytes: u64) -> bool {
        !self.is_sending && self.window.has_room(now, unread, bytes)
    }
}

impl RetryTopic {
    pub(super) fn new(name: TopicName, place: RetryTopicPlace) -> Self {
        Self {
            name,
            place,
            partitions: Vec::new(),
            sent: BTreeMap::new(),
            committed_at: None,
            turn: 0,
            scan: Scan::default(),
        }
    }

    /// The topic has these partitions now.
    pub(super) fn set_partitions(&mut self, partitions: &[RetryPartitionLog]) {
        let mut known = std::mem::take(&mut self.partitions).into_iter().peekable();
        let partition = |of: &RetryPartitionLog| {
            let same = known.next_if(|known| known.stream == of.stream);
            same.unwrap_or_else(|| ReleasePartition::new(*of))
        };
        self.partitions = partitions.iter().map(partition).collect();
        self.scan.forget_places();
    }

    /// Whether another retry may enter this partition, behind `unread` ones and `bytes` that are
    /// about to enter.
    fn has_room(&mut self, partition: u16, now: MonoMs, unread: usize, bytes: u64) -> bool {
        let of = self.partitions.get_mut(usize::from(partition));
        of.is_some_and(|of| of.has_room(now, unread, bytes))
    }

    /// The group committed past `count` retries, up to this delivery.
    fn committed(&mut self, up_to: RetryPlace, count: usize, now: MonoMs) {
        self.committed_at = Some(now);
        if let Some(of) = self.partitions.get_mut(usize::from(up_to.slot.0)) {
            of.committed = up_to.offset();
            of.window.committed(now, up_to.offset(), count);
        }
    }

    /// Whether a batch for the partition has one retry.
    fn sends_alone(&self, partition: u16) -> bool {
        self.partitions.get(usize::from(partition)).is_some_and(|of| of.alone > 0)
    }

    fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.partitions.iter().map(|of| of.stream)
    }

    fn released(&mut self, partition: u16, last: i64, bytes: u64) {
        if let Some(of) = self.partitions.get_mut(usize::from(partition)) {
            of.window.released(last, bytes);
        }
    }
}

impl Mover {
    /// The retry topic of a group, if its retries go through one.
    pub(super) fn topic(&self, group: &GroupId) -> Option<&TopicName> {
        self.topics.get(group).map(|topic| &topic.name)
    }

    /// The delivery at an offset, if the partition is one of the group's retry topic.
    pub(super) fn delivery_at(
        &self,
        group: &GroupId,
        of: &TopicPartition,
        offset: i64,
    ) -> Option<RetryPlace> {
        let topic = self.topics.get(group).filter(|topic| topic.name == of.topic)?;
        let index = u16::try_from(of.partition).ok()?;
        let partition = topic.partitions.get(usize::from(index))?;
        Some(RetryPlace::in_stream(index, partition.stream.0, offset))
    }

    /// Due retries of the group may be released.
    pub(super) fn wake(&mut self, group: &GroupId) {
        if let Some(topic) = self.topics.get_mut(group) {
            topic.scan.wake();
            self.ready.insert(group.clone());
        }
    }

    /// Time of the next slice; `None`: there is nothing to do.
    pub(super) fn alarm(&self) -> Option<MonoMs> {
        let first = self.ready.iter().map(|group| self.alarm_of(group)).min();
        first.map(|first| first.max(self.not_before))
    }

    fn alarm_of(&self, group: &GroupId) -> MonoMs {
        self.topics.get(group).map_or(MonoMs(0), |topic| topic.scan.alarm())
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
