//! End of in-place retries: a record with inferred failures leaves its partition for the dead
//! letters. In a group with a retry topic it may wait for its next retry instead.

use crate::model::{GroupId, Origin};
use crate::retry::detector::ExhaustedRecord;
use crate::retry::ledger::nack::outcome;
use crate::retry::{
    Disposition, Entries, Entry, FailureHistory, FailureOutcome, Ledger, LedgerAnswer, NackOutcome,
    PayloadChange, RequestedDelay, RetryState,
};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_settle(
        &mut self,
        group: &GroupId,
        settling: &ExhaustedRecord,
        record_bytes: u64,
    ) {
        let origin = Origin {
            topic: settling.partition.topic.clone(),
            partition: settling.partition.partition,
            offset: settling.offset,
        };
        // The group has an entry of this origin already.
        if let Some(id) = self.store.by_origin(group, &origin) {
            return self.answer(LedgerAnswer::Nacked(vec![NackOutcome::Nothing { id }]));
        }
        let unborn = RetryState::Discarded { at: self.wall() };
        let mut entry = Entry::new(self.next_id(), group, Some(origin), unborn);
        let ExhaustedRecord { reconsume_times, disposition, evidence, .. } = *settling;
        let ladder = self.ladder(&entry);
        entry.max_reconsume_times = ladder.max_reconsume_times;
        // The last failure is charged below, together with the new state.
        let before = settling.history.split_last().map_or(&[][..], |(_, before)| before);
        entry.carry(&FailureHistory { reconsume_times, history: before.to_vec(), spared: false });
        let entry = match ladder.delays.levels.next(RequestedDelay::default(), reconsume_times) {
            FailureOutcome::After { .. }
                if settling.is_retried && ladder.is_over(entry.first_failed, self.wall()) =>
            {
                self.end(entry, Disposition::Expired, true, record_bytes)
            }
            FailureOutcome::After { delay_ms, level }
                if settling.is_retried && reconsume_times < ladder.max_reconsume_times =>
            {
                entry.failed(self.wall(), disposition);
                if entry.has_crashed() {
                    // The record was isolated in its own partition, so its retries are isolated
                    // too.
                    entry.losses = self.policy(group).crash_limit;
                }
                self.wait(entry, delay_ms, level)
            }
            FailureOutcome::After { .. } | FailureOutcome::Never => {
                self.end(entry, disposition, true, record_bytes)
            }
        };
        self.note_end(&entry, record_bytes);
        let outcomes = outcome(entry.id, &entry.state).into_iter().collect();
        self.record(entry, evidence, None, PayloadChange::Begins(0));
        self.answer(LedgerAnswer::Nacked(outcomes));
    }
}
