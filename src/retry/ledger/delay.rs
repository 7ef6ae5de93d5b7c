//! Delayed first deliveries: produced records wait here, then enter their topic.
//!
//! Each is an entry of the reserved group [`DELAYED`], so that its due time is durable.

use crate::model::{EntryId, Origin, TopicName, WallMs};
use crate::retry::{
    DELAY_MS_MAX, DELAYED, DelayEnd, Entries, Entry, Evidence, Ledger, LedgerAnswer, PayloadChange,
    RetryState, delayed,
};

impl<S: Entries> Ledger<S> {
    /// Makes one entry for each record, named by the entry's id in place of an offset.
    pub(in crate::retry) fn on_delay(
        &mut self,
        topic: &TopicName,
        partition: i32,
        records: &[DelayEnd],
    ) {
        for (index, until) in (0_u32..).zip(records) {
            let (due, delay_ms) = due(*until, self.wall());
            let id = self.next_id();
            let origin = named(topic, partition, id);
            let state = RetryState::Waiting { due, delay_ms, level: None };
            let entry = Entry::new(id, &delayed(), Some(origin), state);
            self.record(entry, Evidence::Delayed, None, PayloadChange::Begins(index));
        }
    }

    /// Forgets a record that entered its topic, or whose topic is deleted.
    pub(in crate::retry) fn on_delivered(&mut self, id: EntryId, arrived: bool) {
        if self.store.get(id).is_some_and(|entry| entry.group.as_str() == DELAYED) {
            self.forget(id, if arrived { Evidence::Delivered } else { Evidence::Reset });
        }
    }

    pub(in crate::retry) fn on_cancel(&mut self, records: &[Origin]) {
        let mut cancelled = Vec::with_capacity(records.len());
        for record in records {
            let id = u64::try_from(record.offset).map(EntryId).ok();
            let known = id.and_then(|id| self.store.get(id));
            let is_it = known.is_some_and(|entry| {
                entry.group.as_str() == DELAYED && entry.origin.as_ref() == Some(record)
            });
            if let Some(id) = id.filter(|_| is_it) {
                self.forget(id, Evidence::Cancelled);
            }
            cancelled.push(is_it);
        }
        self.answer(LedgerAnswer::Cancelled(cancelled));
    }
}

/// Ids stay below 2^63 in practice.
fn named(topic: &TopicName, partition: i32, id: EntryId) -> Origin {
    let offset = i64::try_from(id.0).unwrap_or(i64::MAX);
    Origin { topic: topic.clone(), partition, offset }
}

/// `After`: a wall clock that goes back over a restart shortens the delay. `At`: the moment is
/// absolute, so the stored delay is the maximum and never shortens it.
fn due(until: DelayEnd, now: WallMs) -> (WallMs, u64) {
    match until {
        DelayEnd::After(delay_ms) => (now.plus(delay_ms), delay_ms),
        DelayEnd::At(at) => (at.max(now), DELAY_MS_MAX),
    }
}
