//! `produced-nack`: a record produced to the retry topic names a failed one. Also the steps that
//! all kinds of nacks share.

pub(super) mod verdict;

use std::collections::BTreeSet;

use crate::model::{EntryId, GroupId, Moment, Origin, RetryPlace};
use crate::retry::{
    BadNack, Bytes, DELAY_MS_MAX, Disposition, Entries, Entry, Evidence, FailureOutcome, Ladder,
    Ledger, LedgerAnswer, Nack, NackOutcome, NackTarget, NackVerdict, NamedBy, PayloadChange,
    RecordState, Reporter, RetryState, judge,
};

impl<S: Entries> Ledger<S> {
    /// Applies all nacks, or none if one is bad.
    ///
    /// A nack in a commit's metadata (`Evidence::CommitMarker`) names a record of the partition by
    /// its offset, and only its first failure counts. A produced nack by origin may also charge a
    /// retry that is in flight. A marker must not: an application that keeps a map of offsets and
    /// metadata commits that map again with every poll. With `order.mode: partition` a delivery has
    /// no other name, so each may fail by a marker once.
    pub(in crate::retry) fn take_all(
        &mut self,
        group: &GroupId,
        (evidence, by): (Evidence, &Reporter),
        nacks: &[Nack],
    ) {
        let bad = self.bad(group, evidence, nacks);
        if !bad.is_empty() {
            return self.answer(LedgerAnswer::BadNacks(bad));
        }
        let mut outcomes = Vec::with_capacity(nacks.len());
        let mut changed = BTreeSet::new();
        for (index, nack) in (0_u32..).zip(nacks) {
            outcomes.extend(self.take_nack(group, (evidence, by), (index, nack), &mut changed));
        }
        debug_assert_eq!(outcomes.len(), nacks.len(), "a judged nack is taken");
        self.answer(LedgerAnswer::Nacked(outcomes));
    }

    /// The nacks of one batch that would be refused now, by index.
    pub fn refused(
        &mut self,
        now: Moment,
        group: &GroupId,
        evidence: Evidence,
        nacks: &[Nack],
    ) -> Vec<(usize, BadNack)> {
        self.tick(now);
        self.bad(group, evidence, nacks)
    }

    /// Judges all nacks before any is applied: an earlier nack of the batch never turns a good one
    /// bad.
    fn bad(&self, group: &GroupId, evidence: Evidence, nacks: &[Nack]) -> Vec<(usize, BadNack)> {
        let judged = nacks.iter().map(|nack| self.judge_nack(group, evidence, nack));
        judged.enumerate().filter_map(|(n, verdict)| Some((n, verdict.err()?))).collect()
    }

    fn judge_nack(
        &self,
        group: &GroupId,
        evidence: Evidence,
        nack: &Nack,
    ) -> Result<(NackVerdict, Option<Entry>), BadNack> {
        if nack.want.delay_ms.is_some_and(|delay_ms| delay_ms > DELAY_MS_MAX) {
            return Err(BadNack::DelayTooLong);
        }
        let (named, entry) = match &nack.named {
            NackTarget::Unreadable => return Err(BadNack::Unreadable),
            NackTarget::NoDelivery => return Err(BadNack::NoDelivery),
            NackTarget::OtherGroup => return Err(BadNack::OtherGroup),
            NackTarget::Nothing if nack.bytes == Bytes::Value => {
                return Ok((NackVerdict::Begin, None));
            }
            NackTarget::Nothing => return Err(BadNack::ReferenceWithoutOrigin),
            NackTarget::Orphan => return Ok((NackVerdict::Begin, None)),
            NackTarget::Delivery(place) => match (self.named_by_place(group, *place), &nack.copied)
            {
                ((NamedBy::UnknownDelivery, None), Some(copied)) => {
                    let found = self.named_by_origin(group, evidence, (&copied.first, None));
                    match (copied.failures, found) {
                        (Some(failures), (_, Some(mut entry))) => {
                            let is_last = match copied.number {
                                Some(number) => number >= entry.newest_delivery(),
                                // The last failure of an ended entry is known, also of a held one
                                // that has not counted it yet.
                                None => failures >= entry.reconsume_times && !entry.has_ended(),
                            };
                            entry.catch_up(copied);
                            (NamedBy::Copied { is_last }, Some(entry))
                        }
                        (_, found) => found,
                    }
                }
                (named, _) => named,
            },
            NackTarget::Origin(origin) => {
                self.named_by_origin(group, evidence, (origin, nack.committed))
            }
        };
        let seen = entry.as_ref().map_or(RecordState::None, |entry| self.seen(entry));
        match judge(named, seen) {
            NackVerdict::Refuse => Err(BadNack::NotRemembered),
            NackVerdict::Begin | NackVerdict::Redrive | NackVerdict::Return
                if nack.bytes == Bytes::ReferenceGone =>
            {
                Err(BadNack::BytesGone)
            }
            verdict => Ok((verdict, entry)),
        }
    }

    fn named_by_origin(
        &self,
        group: &GroupId,
        evidence: Evidence,
        (origin, committed): (&Origin, Option<i64>),
    ) -> (NamedBy, Option<Entry>) {
        let id = self.store.by_origin(group, origin);
        let entry = id.and_then(|id| self.store.get(id));
        let passed = entry.as_ref().is_some_and(|entry| entry.passed.is_some());
        let commit_past = committed.map_or(passed, |offset| offset > origin.offset);
        let is_marked = evidence == Evidence::CommitMarker;
        (if is_marked { NamedBy::Marked } else { NamedBy::Origin { commit_past } }, entry)
    }

    fn named_by_place(&self, group: &GroupId, place: RetryPlace) -> (NamedBy, Option<Entry>) {
        let id = self.store.by_place(group, place);
        match id.and_then(|id| self.store.get(id)) {
            None => (NamedBy::UnknownDelivery, None),
            Some(entry) if entry.places.last() == Some(&place) => {
                (NamedBy::CurrentDelivery, Some(entry))
            }
            Some(entry) => (NamedBy::OlderDelivery, Some(entry)),
        }
    }

    fn seen(&self, entry: &Entry) -> RecordState {
        match entry.state {
            RetryState::Waiting { .. } if entry.is_inferred() => RecordState::Inferred,
            RetryState::Waiting { .. } | RetryState::Blocked { .. } => RecordState::Waiting,
            RetryState::Released { .. } => RecordState::Unread,
            RetryState::Committed { .. } => RecordState::Committed,
            RetryState::Dead { at } => {
                let out_until = at.plus(self.policy(&entry.group).consume_timeout_ms);
                if self.wall() <= out_until { RecordState::Dead } else { RecordState::DeadLongAgo }
            }
            RetryState::Discarded { .. } | RetryState::Discarding { .. } => RecordState::Discarded,
        }
    }

    /// Applies one good nack. `None` only for a bad one, which `take_all` refuses before. A batch
    /// changes an entry once: its facts are one group of the log, and a second fact of an entry
    /// would need the place of the first.
    fn take_nack(
        &mut self,
        group: &GroupId,
        (evidence, by): (Evidence, &Reporter),
        (index, nack): (u32, &Nack),
        changed: &mut BTreeSet<EntryId>,
    ) -> Option<NackOutcome> {
        let (verdict, known) = self.judge_nack(group, evidence, nack).ok()?;
        if let Some(entry) = known.as_ref().filter(|entry| changed.contains(&entry.id)) {
            return Some(NackOutcome::Nothing { id: entry.id });
        }
        let (entry, payload, bytes) = match (verdict, known) {
            (NackVerdict::Charge, Some(entry)) => {
                let bytes = self.store.record_bytes(entry.id);
                (self.charge(entry, nack, bytes), PayloadChange::Keeps, bytes)
            }
            (NackVerdict::Return, Some(entry)) => {
                let bytes = nack.record_bytes;
                (self.charge(entry, nack, bytes), PayloadChange::Begins(index), bytes)
            }
            (NackVerdict::Confirm, Some(entry)) => {
                let bytes = self.store.record_bytes(entry.id);
                (self.confirm(entry, nack, bytes), PayloadChange::Keeps, bytes)
            }
            (NackVerdict::Begin, _) => {
                let entry = self.begin(group, nack);
                (entry, PayloadChange::Begins(index), nack.record_bytes)
            }
            (NackVerdict::Redrive, Some(entry)) => {
                let Some(delay_ms) = self.redrive_delay(&entry, nack) else {
                    return Some(NackOutcome::Nothing { id: entry.id });
                };
                let entry = self.redriven(self.passed(entry, nack), delay_ms);
                (entry, PayloadChange::Begins(index), nack.record_bytes)
            }
            (_, known) => return known.map(|entry| NackOutcome::Nothing { id: entry.id }),
        };
        self.note_end(&entry, bytes);
        changed.insert(entry.id);
        let evidence = if verdict == NackVerdict::Redrive { Evidence::Redrive } else { evidence };
        let outcome = self.outcome(&entry);
        self.record(entry, evidence, Some(by), payload);
        outcome
    }

    /// Marks the entry as committed past, if the nack's committed offset says so.
    fn passed(&self, mut entry: Entry, nack: &Nack) -> Entry {
        let past = |origin: &Origin| nack.committed.is_some_and(|offset| offset > origin.offset);
        if entry.passed.is_none() && entry.origin.as_ref().is_some_and(past) {
            entry.passed = Some(self.wall());
        }
        entry
    }

    /// The delay that a nack requests for a dead letter; `None`: the nack requests a dead letter.
    fn redrive_delay(&self, entry: &Entry, nack: &Nack) -> Option<u64> {
        // Level 0 means no level.
        if nack.want.delay_ms.is_none() && nack.want.level.unwrap_or(0) == 0 {
            return Some(0);
        }
        match self.ladder(entry).delays.levels.next(nack.want, 0) {
            FailureOutcome::After { delay_ms, .. } => Some(delay_ms),
            FailureOutcome::Never => None,
        }
    }

    fn begin(&self, group: &GroupId, nack: &Nack) -> Entry {
        let origin = match &nack.named {
            NackTarget::Origin(origin) => Some(origin.clone()),
            _ => nack.copied.as_ref().map(|copied| copied.first.clone()),
        };
        let unborn = RetryState::Discarded { at: self.wall() };
        let mut entry = Entry::new(self.next_id(), group, origin, unborn);
        entry.carry(&nack.carried);
        if let Some(copied) = &nack.copied {
            let carried = entry.reconsume_times;
            entry.catch_up(copied);
            entry.reconsume_times = entry.reconsume_times.max(carried);
        }
        if entry.origin.is_none() {
            entry.produced_for.clone_from(&nack.produced_for);
        }
        if nack.named == NackTarget::Nothing {
            self.delay(entry, nack)
        } else {
            self.charge(entry, nack, nack.record_bytes)
        }
    }

    /// A new delayed record: no failure is charged.
    fn delay(&self, mut entry: Entry, nack: &Nack) -> Entry {
        let ladder = self.ladder(&entry);
        entry.max_reconsume_times = limit(nack, &ladder);
        match ladder.delays.levels.next(nack.want, 0) {
            FailureOutcome::After { delay_ms, level } => self.wait(entry, delay_ms, level),
            FailureOutcome::Never => {
                self.end(entry, Disposition::ExplicitDlq, false, nack.record_bytes)
            }
        }
    }

    /// Charges one more failure.
    fn charge(&self, entry: Entry, nack: &Nack, record_bytes: u64) -> Entry {
        let before = entry.reconsume_times;
        self.fail(entry, nack, (before, true), record_bytes)
    }

    /// Replaces an inferred failure by the application's own report, without a second charge.
    fn confirm(&self, mut entry: Entry, nack: &Nack, record_bytes: u64) -> Entry {
        // `fail` adds the failure to the history again.
        entry.history.pop();
        entry.last_failed = Some(self.wall());
        let before = entry.reconsume_times.saturating_sub(1);
        self.fail(entry, nack, (before, false), record_bytes)
    }

    /// A failure after `before` earlier ones; `counts`: not charged yet. The limit is compared
    /// before the charge: a limit of 16 means 16 retries and a dead letter that counts 17.
    fn fail(
        &self,
        mut entry: Entry,
        nack: &Nack,
        (before, counts): (u32, bool),
        record_bytes: u64,
    ) -> Entry {
        let ladder = self.ladder(&entry);
        entry.max_reconsume_times = limit(nack, &ladder);
        let mut entry = self.passed(entry, nack);
        entry.explain(nack.reason.as_deref());
        match ladder.delays.levels.next(nack.want, before) {
            FailureOutcome::Never => {
                self.end(entry, Disposition::ExplicitDlq, counts, record_bytes)
            }
            FailureOutcome::After { delay_ms, level } if nack.carried.spared => {
                entry.dispose(self.wall(), Disposition::Rejected);
                self.wait(entry, delay_ms, level)
            }
            FailureOutcome::After { .. } if before >= entry.max_reconsume_times => {
                self.end(entry, Disposition::MaxAttempts, counts, record_bytes)
            }
            FailureOutcome::After { .. } if ladder.is_over(entry.first_failed, self.wall()) => {
                self.end(entry, Disposition::Expired, counts, record_bytes)
            }
            FailureOutcome::After { delay_ms, level } => {
                if counts {
                    entry.failed(self.wall(), Disposition::Rejected);
                } else {
                    entry.dispose(self.wall(), Disposition::Rejected);
                }
                self.wait(entry, delay_ms, level)
            }
        }
    }

    pub(super) fn wait(&self, mut entry: Entry, delay_ms: u64, level: Option<u32>) -> Entry {
        let delay_ms = match level {
            Some(_) => self.ladder(&entry).delays.spread(&entry, delay_ms),
            None => delay_ms,
        };
        entry.state = RetryState::Waiting { due: self.wall().plus(delay_ms), delay_ms, level };
        entry.expires = None;
        entry
    }

    /// The outcome of a nack that leaves an entry in this state. A record on its way to the
    /// dead-letter topic counts as a dead letter.
    pub(super) fn outcome(&self, entry: &Entry) -> Option<NackOutcome> {
        let id = entry.id;
        let is_sent = self.policies.has_letters_behind() && self.has_room(&entry.group, 0);
        match entry.state {
            RetryState::Waiting { due, .. } => Some(NackOutcome::Scheduled { id, due }),
            RetryState::Blocked { .. } if !is_sent => Some(NackOutcome::Blocked { id }),
            RetryState::Dead { .. } | RetryState::Blocked { .. } => Some(NackOutcome::Dead { id }),
            RetryState::Discarded { .. } => Some(NackOutcome::Discarded { id }),
            _ => None,
        }
    }
}

/// A limit in the nack wins over every rule.
fn limit(nack: &Nack, ladder: &Ladder) -> u32 {
    nack.max_reconsume_times.unwrap_or(ladder.max_reconsume_times)
}
