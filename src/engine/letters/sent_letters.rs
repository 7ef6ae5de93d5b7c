//! State of the dead-letter topics of the cluster behind: entries that were sent, and those that
//! their topic does not take.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::mover::Scan;
use crate::model::{EntryId, GroupId, MonoMs};

/// Groups that get a batch before other work runs.
const GROUPS_AT_ONCE: usize = 8;

/// The dead-letter topics of the cluster behind.
#[derive(Debug, Default)]
pub(in crate::engine) struct SentLetters {
    pub(super) topics: BTreeMap<GroupId, LetterTopic>,
    /// Groups whose blocked entries may be sent.
    pub(super) ready: BTreeSet<GroupId>,
    /// Earliest time of the next batch, after the engine could not decide.
    pub(super) not_before: MonoMs,
}

#[derive(Debug, Default)]
pub(super) struct LetterTopic {
    /// The topic was read to the end since the start and since a batch with an unknown fate.
    pub(super) is_read: bool,
    pub(super) is_sending: bool,
    /// The number of the last batch that has ended, among those of all groups.
    pub(super) ended: u64,
    /// Entries that were sent and not read back; with the offset, once it is known.
    pub(super) sent: BTreeMap<EntryId, Option<i64>>,
    /// Entries that are sent alone, since the cluster refused them in one batch.
    pub(super) alone: usize,
    pub(super) scan: Scan,
    pub(super) not_before: MonoMs,
}

impl SentLetters {
    /// Whether a batch of the group is on its way.
    pub(super) fn is_sending(&self, group: &GroupId) -> bool {
        self.topics.get(group).is_some_and(|topic| topic.is_sending)
    }

    /// Whether the topic was read to its end, so that entries may be sent.
    pub(super) fn is_read(&self, group: &GroupId) -> bool {
        self.topics.get(group).is_some_and(|topic| topic.is_read)
    }

    /// Groups that have or had blocked entries since the start.
    pub(super) fn groups(&self) -> impl Iterator<Item = &GroupId> {
        self.topics.keys()
    }

    /// Entries of the group that its topic does not take, with the reasons.
    pub(in crate::engine) fn aside(
        &self,
        group: &GroupId,
    ) -> impl Iterator<Item = (EntryId, &str)> {
        self.topics.get(group).into_iter().flat_map(|topic| topic.scan.aside())
    }

    /// Entries of the group may be sent.
    pub(in crate::engine) fn wake(&mut self, group: &GroupId) {
        self.topics.entry(group.clone()).or_default();
        self.ready.insert(group.clone());
    }

    /// The topic was read to this end. The read began after so many batches had ended.
    pub(super) fn read_to_end(&mut self, group: &GroupId, end: i64, since: u64) {
        let Some(topic) = self.topics.get_mut(group).filter(|topic| topic.ended <= since) else {
            return;
        };
        topic.is_read = true;
        // An entry that was not found is not there.
        topic.sent.retain(|_, offset| offset.is_some_and(|at| at >= end));
        self.ready.insert(group.clone());
    }

    /// The topic was deleted or made anew.
    pub(super) fn lose(&mut self, group: &GroupId) {
        if let Some(topic) = self.topics.get_mut(group) {
            topic.is_read = false;
        }
    }

    /// The entry whose dead letter was written at an offset.
    pub(super) fn at(&self, group: &GroupId, offset: i64) -> Option<EntryId> {
        let sent = &self.topics.get(group)?.sent;
        sent.iter().find(|(_, at)| **at == Some(offset)).map(|(id, _)| *id)
    }

    /// The dead letters of these entries were read back.
    pub(super) fn arrived(&mut self, group: &GroupId, ids: impl Iterator<Item = EntryId>) {
        let Some(topic) = self.topics.get_mut(group) else { return };
        for id in ids {
            topic.sent.remove(&id);
            topic.scan.released(id);
        }
    }

    /// Time of the next batch; `None`: there is nothing to do.
    pub(in crate::engine) fn alarm(&self) -> Option<MonoMs> {
        let at = |group| self.topics.get(group).map_or(MonoMs(0), |topic| topic.not_before);
        self.ready.iter().map(at).min().map(|first| first.max(self.not_before))
    }

    pub(super) fn take_ready(&mut self, now: MonoMs) -> Vec<GroupId> {
        let is_due =
            |group: &&GroupId| self.topics.get(*group).is_some_and(|topic| topic.not_before <= now);
        let due = self.ready.iter().filter(is_due).take(GROUPS_AT_ONCE);
        let due: Vec<GroupId> = due.cloned().collect();
        for group in &due {
            self.ready.remove(group);
        }
        due
    }
}
