//! End of in-place retries: a record with inferred failures leaves its partition for the dead
//! letters. In a group with a retry topic it may wait for its next retry instead.

use crate::model::{GroupId, Origin, RetryPlace};
use crate::retry::detector::ExhaustedRecord;
use crate::retry::{
    Disposition, Entries, Entry, FailureHistory, FailureOutcome, Ledger, LedgerAnswer, NackOutcome,
    PayloadChange, RequestedDelay, RetryState,
};

impl<S: Entries> Ledger<S> {
    pub(in crate::retry) fn on_settle(
        &mut self,
        group: &GroupId,
        (settling, place): (&ExhaustedRecord, Option<RetryPlace>),
        record_bytes: u64,
    ) {
        let delivery = place.and_then(|place| self.store.by_place(group, place));
        if let Some(entry) = delivery.and_then(|id| self.store.get(id)) {
            return self.settle_delivery(entry, settling, place);
        }
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
        let reconsume_times = settling.reconsume_times;
        let ladder = self.ladder(&entry);
        entry.max_reconsume_times = ladder.max_reconsume_times;
        // The last failure is charged below, together with the new state.
        let before = settling.history.split_last().map_or(&[][..], |(_, before)| before);
        entry.carry(&FailureHistory { reconsume_times, history: before.to_vec(), spared: false });
        let entry = self.fail_by_detection(entry, settling, record_bytes);
        self.note_end(&entry, record_bytes);
        let outcomes = self.outcome(&entry).into_iter().collect();
        self.record(entry, settling.evidence, None, PayloadChange::Begins(0));
        self.answer(LedgerAnswer::Nacked(outcomes));
    }

    /// A delivery of the retry topic has failed, however often it was lost: one failure of its
    /// entry, unless the entry has gone on since.
    fn settle_delivery(
        &mut self,
        entry: Entry,
        settling: &ExhaustedRecord,
        place: Option<RetryPlace>,
    ) {
        if entry.unread() != place {
            let outcome = NackOutcome::Nothing { id: entry.id };
            return self.answer(LedgerAnswer::Nacked(vec![outcome]));
        }
        let record_bytes = self.store.record_bytes(entry.id);
        let entry = self.fail_by_detection(entry, settling, record_bytes);
        self.note_end(&entry, record_bytes);
        let outcomes = self.outcome(&entry).into_iter().collect();
        self.record(entry, settling.evidence, None, PayloadChange::Keeps);
        self.answer(LedgerAnswer::Nacked(outcomes));
    }

    /// Charges the last failure: the entry waits for its next delivery, or ends.
    fn fail_by_detection(
        &self,
        mut entry: Entry,
        settling: &ExhaustedRecord,
        record_bytes: u64,
    ) -> Entry {
        let (disposition, before) = (settling.disposition, entry.reconsume_times);
        let ladder = self.ladder(&entry);
        match ladder.delays.levels.next(RequestedDelay::default(), before) {
            FailureOutcome::After { .. }
                if settling.is_retried && ladder.is_over(entry.first_failed, self.wall()) =>
            {
                self.end(entry, Disposition::Expired, true, record_bytes)
            }
            FailureOutcome::After { delay_ms, level }
                if settling.is_retried && before < entry.max_reconsume_times =>
            {
                entry.failed(self.wall(), disposition);
                self.wait(entry, delay_ms, level)
            }
            FailureOutcome::After { .. } | FailureOutcome::Never => {
                self.end(entry, disposition, true, record_bytes)
            }
        }
    }
}
