//! Order of keys: later records of a key wait until the failed one is final.
//!
//! ```text
//! offset   5         9         12                5 final: 9 waits for its own due time,
//!          Waiting   Behind    Behind            12 stays behind it
//! ```
//! Only the first pending entry of a key in a partition is ever due. The ledger releases each
//! key-blocked entry when the one before it is final.

use crate::model::{EntryId, GroupId, OrderKey, Origin, TopicPartition};
use crate::retry::{
    Entries, Entry, Evidence, Ledger, LedgerAnswer, OrderDecision, PayloadChange, Rank, RetryState,
};

impl<S: Entries> Ledger<S> {
    /// Records about to be delivered, or just delivered, ascending by offset. A record with an
    /// earlier pending one of its key becomes key-blocked. No failure is charged.
    pub(in crate::retry) fn on_behind(
        &mut self,
        group: &GroupId,
        of: &TopicPartition,
        records: &[(i64, OrderKey)],
    ) {
        let mut outcomes = Vec::with_capacity(records.len());
        for (index, (offset, key)) in (0_u32..).zip(records) {
            outcomes.push(self.follow(group, of, index, (*offset, *key)));
        }
        self.answer(LedgerAnswer::Ordered(outcomes));
    }

    fn follow(
        &mut self,
        group: &GroupId,
        of: &TopicPartition,
        index: u32,
        (offset, key): (i64, OrderKey),
    ) -> OrderDecision {
        let TopicPartition { topic, partition } = of.clone();
        let origin = Origin { topic, partition, offset };
        if self.store.by_origin(group, &origin).is_some() {
            return OrderDecision::Known;
        }
        if self.first_of(group, of, key).is_none_or(|(first, _)| first > offset) {
            return OrderDecision::Free;
        }
        let now = self.wall();
        let state = RetryState::Behind { since: now, due: now, delay_ms: 0, level: None };
        let mut entry = Entry::new(self.next_id(), group, Some(origin), state);
        entry.key = Some(key);
        entry.max_reconsume_times = self.ladder(&entry).max_reconsume_times;
        self.record(entry, Evidence::Behind, None, PayloadChange::Begins(index));
        OrderDecision::Behind
    }

    /// The first pending entry of a key in a partition.
    fn first_of(
        &self,
        group: &GroupId,
        of: &TopicPartition,
        key: OrderKey,
    ) -> Option<(i64, EntryId)> {
        let ranks = [Rank::Ahead, Rank::Behind].into_iter();
        ranks.flat_map(|rank| self.store.of_key(group, of, key, rank, 1)).min()
    }

    /// After a change of an entry, releases the first pending entry of its key and blocks all
    /// others.
    pub(in crate::retry) fn line_up(
        &mut self,
        group: &GroupId,
        of: &TopicPartition,
        changed: &Entry,
    ) {
        let Some(key) = changed.key else { return };
        let Some((first, id)) = self.first_of(group, of, key) else { return };
        self.let_go(id);
        self.fall_behind(changed.id, first);
        for (_, other) in self.store.of_key(group, of, key, Rank::Ahead, 2) {
            self.fall_behind(other, first);
        }
    }

    fn let_go(&mut self, id: EntryId) {
        let Some(entry) = self.store.get(id) else { return };
        let Some(state) = self.let_go_state(&entry) else { return };
        let evidence = Evidence::Released;
        self.record(Entry { state, ..entry }, evidence, None, PayloadChange::Keeps);
    }

    /// The stored due time, but not before now.
    pub(in crate::retry) fn let_go_state(&self, entry: &Entry) -> Option<RetryState> {
        let RetryState::Behind { due, delay_ms, level, .. } = entry.state else { return None };
        Some(self.closer(entry, due.max(self.wall()), delay_ms, level))
    }

    fn fall_behind(&mut self, id: EntryId, first: i64) {
        let Some(entry) = self.store.get(id) else { return };
        let RetryState::Waiting { due, delay_ms, level } = entry.state else { return };
        if entry.lined().is_none_or(|(origin, ..)| origin.offset <= first) {
            return;
        }
        let state = RetryState::Behind { since: self.wall(), due, delay_ms, level };
        self.record(Entry { state, ..entry }, Evidence::Behind, None, PayloadChange::Keeps);
    }
}
