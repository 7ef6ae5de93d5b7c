//! The ledger: dispatches inputs, applies facts, computes the next deadline. Each file of this
//! folder handles one kind of evidence.

mod check;
mod dead_letter_quota;
mod delay;
mod entries;
mod expiry;
mod import;
mod ladder_end;
mod letters;
mod nack;
mod operate;
mod origin_commit;
mod reads;
mod release;
mod reschedule;
mod settle;
mod unreadable;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::{Deadline, EntryId, GroupId, Moment, WallMs};
use crate::retry::rate_limit::RateLimit;
use crate::retry::{
    Cause, Entry, Evidence, Fact, Ladder, LedgerAnswer, LedgerInput, LedgerOutput, PayloadChange,
    Policies, Policy, RecordShape, Reporter, RetryState, StateKind,
};

pub use check::LedgerSnapshot;
use dead_letter_quota::DeadLetterQuota;
pub use entries::{Entries, EntryCounts, Marks};
pub use nack::verdict::{NackVerdict, NameKind as NamedBy, RecordState, judge};
pub use operate::RESTORE_MS;
use reschedule::Rescheduling;

/// Most entries that one call handles for expiry or changed rules: millions may be due, each with a
/// fact of half a KiB.
pub(super) const AT_ONCE: usize = 1024;

/// All retries and dead letters of all groups.
#[derive(Debug)]
pub struct Ledger<S: Entries> {
    pub(super) store: S,
    pub(super) policies: Policies,
    outputs: VecDeque<LedgerOutput>,
    wakes: WakeTimes,
    /// Lower bound of the store's first expiry, so that `poll_timeout` does not read the store.
    expiry: Option<WallMs>,
    pub(super) rescheduling: Option<Rescheduling>,
    room: DeadLetterQuota,
    pub(super) pace: RateLimit,
    /// Shapes of the records of the input being handled, by their index.
    shapes: Vec<Option<RecordShape>>,
    /// The clocks at the last call; deadlines are on the monotonic one.
    now: Moment,
}

impl<S: Entries> Ledger<S> {
    /// The store is empty, read from a checkpoint, or about to be filled by `apply`.
    pub fn new(store: S, policies: Policies) -> Self {
        Self {
            store,
            policies,
            outputs: VecDeque::new(),
            wakes: WakeTimes::default(),
            expiry: None,
            rescheduling: None,
            room: DeadLetterQuota::default(),
            pace: RateLimit::default(),
            shapes: Vec::new(),
            now: Moment::default(),
        }
    }

    /// Call once after a start, when every journalled fact is applied. Sets the deadlines and
    /// corrects due times by the clock and the delay tables.
    pub fn recovered(&mut self, now: Moment) {
        self.now = now;
        self.expiry = self.store.next_expiry();
        for group in self.store.groups() {
            let first = self.store.next_due(&group, None);
            self.wakes.set(&group, first);
            if self.store.counts(&group).of(StateKind::Blocked) > 0 {
                self.room.hasten(&group, now.wall);
            }
        }
        self.reschedule();
        #[cfg(test)]
        self.check();
    }

    pub(super) fn tick(&mut self, now: Moment) {
        self.now = now;
    }

    /// Handles an input that brings records. An entry that begins with a record gets its shape.
    pub fn handle_records(
        &mut self,
        now: Moment,
        input: LedgerInput,
        shapes: Vec<Option<RecordShape>>,
    ) {
        self.shapes = shapes;
        self.handle(now, input);
        self.shapes.clear();
    }

    /// Handles one input; drain `poll_output` afterwards.
    pub fn handle(&mut self, now: Moment, input: LedgerInput) {
        self.now = now;
        match input {
            LedgerInput::Nacks { group, by, nacks } => {
                self.take_all(&group, (Evidence::Nack, &by), &nacks);
            }
            LedgerInput::Marked { group, by, nacks } => {
                self.take_all(&group, (Evidence::CommitMarker, &by), &nacks);
            }
            LedgerInput::Posted { group, by, nacks } => {
                self.take_all(&group, (Evidence::AdminNack, &by), &nacks);
            }
            LedgerInput::Release { id, place } => self.on_release(id, place),
            LedgerInput::RetryCommit { group, up_to } => self.on_retry_commit(&group, up_to),
            LedgerInput::RetryTopicServed { group, source, streams } => {
                self.on_retry_topic_served(&group, source.as_ref(), &streams);
            }
            LedgerInput::Damaged { id, why } => self.on_damaged(id, &why),
            LedgerInput::TopicGone { topic } => self.on_topic_gone(&topic),
            LedgerInput::OriginCommit { group, topic, partition, offset } => {
                self.on_origin_commit(&group, &topic, partition, offset);
            }
            LedgerInput::Operate { group, action, ids } => {
                self.on_operate(&group, action, &ids);
            }
            LedgerInput::DeadLetterGone { id } => self.on_dead_letter_gone(id),
            LedgerInput::DeadLetterBytes { group, bytes } => self.room.told(group, bytes),
            LedgerInput::Import { group, imports } => self.on_import(&group, imports),
            LedgerInput::Letters { group, letters } => self.on_letters(&group, letters),
            LedgerInput::Settle { group, settling, place, record_bytes } => {
                self.on_settle(&group, (&settling, place), record_bytes);
            }
            LedgerInput::Delay { topic, partition, records } => {
                self.on_delay(&topic, partition, &records);
            }
            LedgerInput::Delivered { id, arrived } => self.on_delivered(id, arrived),
            LedgerInput::Cancel { records } => self.on_cancel(&records),
            LedgerInput::Policies(policies) => {
                self.policies = *policies;
                self.room.hasten_all(now.wall);
                self.reschedule();
            }
        }
        #[cfg(test)]
        self.check();
    }

    /// Handles all due deadlines. Early or repeated calls have no effect.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.now = now;
        if self.expiry.is_some_and(|expiry| expiry <= now.wall) {
            self.on_expiry();
            self.expiry = self.store.next_expiry();
        }
        self.go_on_rescheduling();
        self.on_looks();
        for group in self.wakes.take_due(now.wall) {
            let later = self.store.next_due(&group, Some(now.wall));
            self.wakes.set(&group, later);
            self.outputs.push_back(LedgerOutput::Wake { group });
        }
        #[cfg(test)]
        self.check();
    }

    /// The next output; `None`: no more until the next call.
    pub fn poll_output(&mut self) -> Option<LedgerOutput> {
        self.outputs.pop_front()
    }

    /// Time of the next `handle_timeout`; `None`: no deadline.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let now = self.rescheduling.as_ref().map(|_| self.now.wall);
        let moments = [now, self.expiry, self.wakes.first(), self.room.first()];
        let first = moments.into_iter().flatten().min()?;
        Some(self.now.deadline(first))
    }

    /// Applies a journalled fact. Facts in the order of the journal restore the state. An id
    /// counts by one and cannot reach 2^64.
    pub fn apply(&mut self, fact: &Fact) {
        let mut marks = self.store.marks();
        marks.latest = marks.latest.max(Some(fact.at()));
        match fact {
            Fact::Entry { entry, .. } => {
                marks.next_id = marks.next_id.max(entry.id.0.saturating_add(1));
                self.apply_entry(entry);
            }
            Fact::Forgotten { id, .. } => {
                marks.next_id = marks.next_id.max(id.0.saturating_add(1));
                self.store.remove(*id);
            }
            Fact::Tables { mark, .. } => marks.tables = Some(*mark),
        }
        self.store.put_marks(marks);
    }

    /// The store, for checkpoints.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store, for the engine's own upkeep of it. Entries change by `apply` only.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    pub fn policy(&self, group: &GroupId) -> &Policy {
        self.policies.of(group)
    }

    /// The pattern of the group's rules; `None`: the group has the fallback.
    pub fn rule_of(&self, group: &GroupId) -> Option<&str> {
        self.policies.rule_of(group)
    }

    /// Whether there are rules with this pattern.
    pub fn has_rule(&self, pattern: &str) -> bool {
        self.policies.has_rule(pattern)
    }

    pub fn ladder(&self, entry: &Entry) -> Ladder {
        self.policies.ladder(entry)
    }

    fn apply_entry(&mut self, entry: &Entry) {
        self.store.put(entry);
        self.expiry = self.expiry.into_iter().chain(entry.expires).min();
        if let Some(due) = entry.due() {
            self.wakes.earlier(&entry.group, due);
        }
    }
}

/// Shared steps of the handlers in this folder.
impl<S: Entries> Ledger<S> {
    pub(super) fn wall(&self) -> WallMs {
        self.now.wall
    }

    pub(super) fn now(&self) -> Moment {
        self.now
    }

    /// Journals and applies an entry's new state.
    pub(super) fn record(
        &mut self,
        mut entry: Entry,
        evidence: Evidence,
        by: Option<&Reporter>,
        payload: PayloadChange,
    ) {
        if let PayloadChange::Begins(index) = payload {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            entry.shape = self.shapes.get(index).cloned().flatten();
        }
        debug_assert!(self.keeps_count(&entry), "the failures of {} fell", entry.id);
        let cause = self.cause(evidence, by);
        self.emit(Fact::Entry { entry: Box::new(entry), cause, payload });
    }

    /// Whether an entry has at least its former failures; only a redrive lowers them.
    fn keeps_count(&self, entry: &Entry) -> bool {
        let known = self.store.get(entry.id);
        known.is_none_or(|known| {
            known.reconsume_times <= entry.reconsume_times || known.redrives < entry.redrives
        })
    }

    /// Journals that an entry is forgotten, and removes it.
    pub(super) fn forget(&mut self, id: EntryId, evidence: Evidence) {
        let known = self.store.get(id);
        let Some(Entry { group, state: last, redrives, .. }) = known else { return };
        let cause = self.cause(evidence, None);
        self.emit(Fact::Forgotten { id, group, cause, last, redrives });
    }

    /// Journals the hash of the delay tables that the due times were checked against.
    pub(super) fn record_tables(&mut self, mark: u64) {
        let at = self.wall();
        self.emit(Fact::Tables { mark, at });
    }

    pub(super) fn answer(&mut self, answer: LedgerAnswer) {
        self.outputs.push_back(LedgerOutput::Answer(answer));
    }

    /// The id of the next new entry; the fact of that entry raises it.
    pub(super) fn next_id(&self) -> EntryId {
        EntryId(self.marks().next_id)
    }

    pub(super) fn marks(&self) -> Marks {
        self.store.marks()
    }

    /// Wakes the group if a retry is due.
    pub(super) fn wake_if_due(&mut self, group: &GroupId) {
        if self.store.next_due(group, None).is_some_and(|due| due <= self.wall()) {
            self.outputs.push_back(LedgerOutput::Wake { group: group.clone() });
        }
    }

    /// Time at which a final entry is forgotten: the consume timeout after its end and the commit
    /// past its origin. A dead letter stays until it is deleted.
    pub(super) fn memory_ends(&self, entry: &Entry) -> Option<WallMs> {
        if let RetryState::Discarding { since, .. } = entry.state {
            return Some(since.plus(RESTORE_MS));
        }
        let (RetryState::Committed { at } | RetryState::Discarded { at }) = entry.state else {
            return None;
        };
        let passed = if entry.origin.is_some() { entry.passed? } else { at };
        Some(at.max(passed).plus(self.policy(&entry.group).consume_timeout_ms))
    }

    fn cause(&self, evidence: Evidence, by: Option<&Reporter>) -> Cause {
        Cause { evidence, at: self.wall(), by: by.cloned() }
    }

    fn emit(&mut self, fact: Fact) {
        self.apply(&fact);
        self.outputs.push_back(LedgerOutput::Fact(fact));
    }
}

/// Next wake-up of each group: at or before the first due time without a wake-up yet.
#[derive(Debug, Default)]
struct WakeTimes {
    by_group: BTreeMap<GroupId, WallMs>,
    by_time: BTreeSet<(WallMs, GroupId)>,
}

impl WakeTimes {
    fn first(&self) -> Option<WallMs> {
        self.by_time.first().map(|(at, _)| *at)
    }

    fn set(&mut self, group: &GroupId, at: Option<WallMs>) {
        if let Some(old) = self.by_group.remove(group) {
            self.by_time.remove(&(old, group.clone()));
        }
        if let Some(at) = at {
            self.by_group.insert(group.clone(), at);
            self.by_time.insert((at, group.clone()));
        }
    }

    fn earlier(&mut self, group: &GroupId, at: WallMs) {
        if self.by_group.get(group).is_none_or(|known| at < *known) {
            self.set(group, Some(at));
        }
    }

    fn take_due(&mut self, now: WallMs) -> Vec<GroupId> {
        let due: Vec<GroupId> =
            self.by_time.iter().take_while(|(at, _)| *at <= now).map(|(_, g)| g.clone()).collect();
        for group in &due {
            self.set(group, None);
        }
        due
    }
}
