//! The mover: it releases due retries into the retry topic of their group.
//!
//! **Invariant:** a retry enters the topic in the same atomic group as its entry notes that. A
//! crash leaves both or neither.
//!
//! Nothing is released while nobody reads the topic, and at most [`WINDOW`] retries lie in a
//! partition beyond the group's commit. So the rest can be listed, delayed and ended.

mod releasing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::journal::StreamId;
use crate::model::{EntryId, GroupId, LaneOffset, MonoMs};

/// Retries in one partition of a retry topic beyond the group's commit.
const WINDOW: usize = 4_096;
/// A topic that nobody fetched for this long has no reader.
const READ_MS: u64 = 60_000;

/// A partition of a retry topic.
#[derive(Clone, Copy, Debug)]
pub struct RetryPartitionLog {
    pub stream: StreamId,
    /// The group's committed offset, or 0.
    pub committed: i64,
}

/// The last Fetch of each group's retry topic.
#[derive(Debug, Default)]
pub(super) struct RetryReaders(Mutex<BTreeMap<GroupId, MonoMs>>);

impl RetryReaders {
    /// Notes a Fetch; true: nobody read the topic before.
    pub(super) fn read(&self, group: &GroupId, now: MonoMs) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.insert(group.clone(), now);
        before.is_none_or(|before| now.since(before) >= READ_MS)
    }

    pub(super) fn forget(&self, group: &GroupId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(group);
    }

    pub(super) fn is_read(&self, group: &GroupId, now: MonoMs) -> bool {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(group).is_some_and(|last| now.since(*last) < READ_MS)
    }
}

/// The retry topics, and the groups with work.
#[derive(Debug, Default)]
pub(super) struct Mover {
    pub(super) topics: BTreeMap<GroupId, RetryTopic>,
    /// Groups whose due retries may be released now.
    ready: BTreeSet<GroupId>,
    /// Earliest time of the next step, after a step that failed.
    not_before: MonoMs,
}

#[derive(Debug, Default)]
pub(super) struct RetryTopic {
    /// The stream of each partition.
    pub(super) streams: Vec<StreamId>,
    /// Number of released records without a key.
    turn: i64,
    /// Due retries that wait for the window of their partition.
    behind: BTreeSet<EntryId>,
}

impl Mover {
    /// Whether the retries of a group go through a topic.
    pub(super) fn has_topic(&self, group: &GroupId) -> bool {
        self.topics.contains_key(group)
    }

    /// The place of a record in the group's retry topic.
    pub(super) fn lane(&self, group: &GroupId, partition: i32, offset: i64) -> Option<LaneOffset> {
        let index = u16::try_from(partition).ok()?;
        let stream = self.topics.get(group)?.streams.get(usize::from(index))?;
        Some(LaneOffset::in_stream(index, stream.0, offset))
    }

    /// Due retries of the group may be released.
    pub(super) fn wake(&mut self, group: &GroupId) {
        if let Some(topic) = self.topics.get_mut(group) {
            topic.behind.clear();
            self.ready.insert(group.clone());
        }
    }

    /// Time of the next step; `None`: there is nothing to do.
    pub(super) fn alarm(&self) -> Option<MonoMs> {
        (!self.ready.is_empty()).then_some(self.not_before)
    }
}
