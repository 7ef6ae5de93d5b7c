//! Retries in the retry topic: a due one is released, and the group's commits acknowledge it.

use crate::model::{EntryId, GroupId, Moment, RetryPartition, RetryPlace, TopicName};
use crate::retry::{Entries, Entry, Evidence, Ledger, LedgerAnswer, PayloadChange, RetryState};

impl<S: Entries> Ledger<S> {
    /// The number of retries that the group's rate allows now, at most `wanted`, and the ms until
    /// the next one.
    pub fn may_release(&mut self, now: Moment, group: &GroupId, wanted: usize) -> (usize, u64) {
        self.tick(now);
        match self.policy(group).rate {
            Some(rate) => self.pace.allows(group, rate, now.mono, wanted),
            None => (wanted, 0),
        }
    }

    /// The entry as the release of a waiting one leaves it.
    pub fn released(&self, id: EntryId, place: RetryPlace) -> Option<Entry> {
        let mut entry = self.store.get(id)?;
        let RetryState::Waiting { due, level, .. } = entry.state else { return None };
        (entry.last_due, entry.last_level) = (Some(due), level);
        entry.state = RetryState::Released { place, since: self.wall() };
        entry.expires = None;
        entry.handed_out(place);
        Some(entry)
    }

    /// A due retry enters the retry topic of its group.
    pub(in crate::retry) fn on_release(&mut self, id: EntryId, place: RetryPlace) {
        let Some(entry) = self.released(id, place) else { return };
        if let Some(rate) = self.policy(&entry.group).rate {
            let now = self.now().mono;
            self.pace.left(&entry.group, rate, now, 1);
        }
        self.record(entry, Evidence::HandOut, None, PayloadChange::Keeps);
    }

    /// The group committed an offset of its retry topic: the retries below are acknowledged.
    pub(in crate::retry) fn on_retry_commit(&mut self, group: &GroupId, up_to: RetryPlace) {
        let at = self.wall();
        let mut count = 0;
        for id in self.released_below(group, up_to) {
            let Some(mut entry) = self.store.get(id) else { continue };
            entry.state = RetryState::Committed { at };
            entry.expires = self.memory_ends(&entry);
            self.record(entry, Evidence::RetryCommit, None, PayloadChange::Keeps);
            count += 1;
        }
        // The window of the partition has room for as many as the commit passed, those that failed
        // again among them.
        self.wake_if_due(group);
        self.answer(LedgerAnswer::Acknowledged(count));
    }

    /// A retry topic has these streams now. Its retries in any other stream are due again: the
    /// topic was deleted.
    pub(in crate::retry) fn on_retry_topic_served(
        &mut self,
        group: &GroupId,
        source: Option<&TopicName>,
        streams: &[u32],
    ) {
        let due = self.wall();
        let partitions = self.store.partitions(group).into_iter();
        let is_lost =
            |of: &RetryPartition| of.by_topic == source.is_some() && !streams.contains(&of.stream);
        for partition in partitions.filter(is_lost) {
            for id in self.store.unread(group, partition.at(0), usize::MAX) {
                let Some(mut entry) = self.store.get(id) else { continue };
                if source.is_none() || entry.source() == source {
                    entry.state = RetryState::Waiting { due, delay_ms: 0, level: None };
                    self.record(entry, Evidence::Reset, None, PayloadChange::Keeps);
                }
            }
        }
    }

    /// The released retries of a partition below an offset, in order.
    fn released_below(&self, group: &GroupId, end: RetryPlace) -> Vec<EntryId> {
        let is_below = |id: &EntryId| {
            let entry = self.store.get(*id);
            entry.and_then(|entry| entry.unread()).is_some_and(|place| place < end)
        };
        let released = self.store.unread(group, end.partition.at(0), usize::MAX);
        released.into_iter().take_while(is_below).collect()
    }

    /// The number of retries in a partition of the retry topic that the group has not committed
    /// past.
    pub fn unread(&self, group: &GroupId, partition: RetryPartition) -> usize {
        self.store.open(group, partition)
    }
}
