//! The ledger: dispatches evidence, applies facts, knows the next deadline. A file of this
//! folder has one kind of evidence.

mod aborted;
mod admin_nack;
mod behind;
mod check;
mod commit_marker;
mod damaged;
mod delay;
mod entries;
mod expiry;
mod export;
mod held;
mod import;
mod join;
mod joined;
mod lane_commit;
mod late;
mod member_lost;
mod nack;
mod operate;
mod origin_commit;
mod reads;
mod replayed;
mod reschedule;
mod room;
mod settle;
mod take;
mod verdict;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::{Deadline, EntryId, GroupId, LaneOffset, MemberId, Now, TopicPartition, WallMs};
use crate::retry::pace::Pace;
use crate::retry::{
    Answer, Cause, Entry, Evidence, Fact, Input, Ladder, Output, PayloadChange, Policies, Policy,
    Reporter, SlotView, State, StateKind, Token,
};

pub use check::Fingerprint;
pub use entries::{Counts, Entries, Marks, SlotRecord};
use late::Late;
pub use operate::RESTORE_MS;
use reschedule::Rescheduling;
use room::Room;
pub use verdict::{Named as NamedBy, Seen, Verdict, judge};

/// Entries one Take hands out at most, so that a cumulative commit is nearly one per record.
pub const TAKE_MAX: usize = 16;
/// Bytes of records one Take delivers at most, unless the first has more: as many as 16 records of
/// the usual largest size.
pub const TAKE_BYTES_MAX: u64 = 16 << 20;
/// Open hand-outs of one slot at most: the Java consumer's default `max.poll.records`.
pub const INFLIGHT_MAX: usize = 500;

/// Entries one call looks at for no other reason than that time has passed, or rules have changed:
/// there may be millions, each with a fact of half a KiB.
pub(super) const AT_ONCE: usize = 1024;

/// All retries of all groups. See the module's documentation.
#[derive(Debug)]
pub struct Ledger<S: Entries> {
    pub(super) store: S,
    pub(super) policies: Policies,
    outputs: VecDeque<Output>,
    wakes: Wakes,
    /// A lower bound of the store's first expiry, so that asking for the deadline costs nothing.
    expiry: Option<WallMs>,
    pub(super) rescheduling: Option<Rescheduling>,
    room: Room,
    pub(super) pace: Pace,
    late: Late,
    /// Both clocks at the last call: the deadline is told on the monotonic one.
    now: Now,
}

impl<S: Entries> Ledger<S> {
    /// Over a store that is empty, read from a checkpoint, or about to be filled by `apply`.
    pub fn new(store: S, policies: Policies) -> Self {
        Self {
            store,
            policies,
            outputs: VecDeque::new(),
            wakes: Wakes::default(),
            expiry: None,
            rescheduling: None,
            room: Room::default(),
            pace: Pace::default(),
            late: Late::default(),
            now: Now::default(),
        }
    }

    /// Call once after a start, when every journalled fact is applied: sets the deadlines and
    /// brings due times in line with the clock and the delay tables.
    pub fn recovered(&mut self, now: Now) {
        self.now = now;
        self.expiry = self.store.next_expiry();
        for group in self.store.groups() {
            let first = self.store.next_due(&group, None);
            self.wakes.set(&group, first);
            if self.store.counts(&group).of(StateKind::Held) > 0 {
                self.room.hasten(&group, now.wall);
            }
        }
        self.reschedule();
        #[cfg(test)]
        self.check();
    }

    /// It is now.
    pub(super) fn tick(&mut self, now: Now) {
        self.now = now;
    }

    /// Takes one input; drain `poll_output` afterwards.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.now = now;
        match input {
            Input::Nacks { token, group, by, nacks } => self.on_nacks(token, &group, &by, &nacks),
            Input::Marked { token, group, by, nacks } => {
                self.on_marked(token, &group, &by, &nacks);
            }
            Input::Posted { token, group, by, nacks } => {
                self.on_posted(token, &group, &by, &nacks);
            }
            Input::Take { token, group, from, max, company } => {
                self.on_take(token, &group, from, (max, company));
            }
            Input::Joined { group, lane } => self.on_joined(&group, lane),
            Input::LaneCommit { token, group, up_to } => self.on_lane_commit(token, &group, up_to),
            Input::Aborted { group, up_to } => self.on_aborted(&group, up_to),
            Input::Damaged { id, why } => self.on_damaged(id, &why),
            Input::TakenBack { group, origin } => self.on_taken_back(&group, &origin),
            Input::Undecided { group, origin } => self.on_undecided(&group, &origin),
            Input::Replayed { group, topic, partition, offsets } => {
                self.on_replayed(&group, &topic, partition, &offsets);
            }
            Input::TopicGone { topic } => self.on_topic_gone(&topic),
            Input::OriginCommit { group, topic, partition, offset } => {
                self.on_origin_commit(&group, &topic, partition, offset);
            }
            Input::Join { token, group, member } => self.on_join(token, &group, member),
            Input::Leave { group, member } => self.on_member_lost(&group, &member),
            Input::Silent { group, member } => self.on_member_silent(&group, &member),
            Input::Operate { token, group, action, ids } => {
                self.on_operate(token, &group, action, &ids);
            }
            Input::DeadLetterGone { id } => self.on_dead_letter_gone(id),
            Input::DeadLetterBytes { group, bytes } => self.room.told(group, bytes),
            Input::Export { token, step, ids } => self.on_export(token, step, &ids),
            Input::Import { token, group, imports } => self.on_import(token, &group, imports),
            Input::Settle { token, group, settling, record_bytes, key } => {
                self.on_settle(token, &group, &settling, (record_bytes, key));
            }
            Input::Behind { token, group, partition, records } => {
                self.on_behind(token, &group, &partition, &records);
            }
            Input::Delay { topic, partition, records } => {
                self.on_delay(&topic, partition, &records);
            }
            Input::Delivered { id, arrived } => self.on_delivered(id, arrived),
            Input::Cancel { token, records } => self.on_cancel(token, &records),
            Input::Policies(policies) => {
                self.policies = *policies;
                self.room.hasten_all(now.wall);
                self.reschedule();
            }
        }
        #[cfg(test)]
        self.check();
    }

    /// Does what is due; early or repeated calls change nothing.
    pub fn handle_timeout(&mut self, now: Now) {
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
            self.outputs.push_back(Output::Wake { group });
        }
        #[cfg(test)]
        self.check();
    }

    /// The next thing to do; `None`: nothing until the next call.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When `handle_timeout` is wanted; `None`: not at all.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let now = self.rescheduling.as_ref().map(|_| self.now.wall);
        let moments = [now, self.expiry, self.wakes.first(), self.room.first()];
        let first = moments.into_iter().flatten().min()?;
        Some(self.now.deadline(first))
    }

    /// Applies a journalled fact; in the journal's order the state comes out as it was.
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
            Fact::Slot { group, slot, member, next_sequence, .. } => {
                let known = self.store.slot(group, *slot).map_or(0, |known| known.next_sequence);
                let next_sequence = known.max(*next_sequence);
                let record = SlotRecord { slot: *slot, member: member.clone(), next_sequence };
                self.store.put_slot(group, &record);
            }
            Fact::Tables { mark, .. } => marks.tables = Some(*mark),
        }
        self.store.put_marks(marks);
    }

    /// The store, for checkpoints.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store, for the engine's own upkeep of it; entries change by `apply` only.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// The rules of all groups.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The rules in force.
    pub fn policy(&self, group: &GroupId) -> &Policy {
        self.policies.of(group)
    }

    /// Which rules of `groups` those are; `None`: no group's own.
    pub fn rule_of(&self, group: &GroupId) -> Option<&str> {
        self.policies.rule_of(group)
    }

    /// Whether there are rules with this pattern.
    pub fn has_rule(&self, pattern: &str) -> bool {
        self.policies.has_rule(pattern)
    }

    /// The rules in force for one record.
    pub fn ladder(&self, entry: &Entry) -> Ladder {
        self.policies.ladder(entry)
    }

    fn apply_entry(&mut self, entry: &Entry) {
        self.store.put(entry);
        self.expiry = self.expiry.into_iter().chain(entry.expires).min();
        if let Some(due) = entry.due() {
            self.wakes.earlier(&entry.group, due);
        }
        let Some(lane) = entry.inflight() else { return };
        let after = lane.sequence.saturating_add(1);
        let known = self.store.slot(&entry.group, lane.slot);
        if known.as_ref().is_none_or(|known| known.next_sequence < after) {
            let member = known.and_then(|known| known.member);
            let record = SlotRecord { slot: lane.slot, member, next_sequence: after };
            self.store.put_slot(&entry.group, &record);
        }
    }
}

/// What the rules in `on/` are written with.
impl<S: Entries> Ledger<S> {
    /// The wall clock at this call.
    pub(super) fn wall(&self) -> WallMs {
        self.now.wall
    }

    /// Both clocks at this call.
    pub(super) fn now(&self) -> Now {
        self.now
    }

    /// Lets the group's Fetches try again in a while, whatever is due.
    pub(super) fn wake_in(&mut self, group: &GroupId, ms: u64) {
        self.wakes.earlier(group, self.now.wall.plus(ms));
    }

    /// Journals an entry's new state and applies it.
    pub(super) fn record(
        &mut self,
        entry: Entry,
        evidence: Evidence,
        by: Option<&Reporter>,
        payload: PayloadChange,
    ) {
        let cause = self.cause(evidence, by);
        let keyed = entry.key.is_some().then(|| entry.clone());
        self.emit(Fact::Entry { entry: Box::new(entry), cause, payload });
        self.changed(keyed);
    }

    /// Whoever comes after this one may be due now.
    fn changed(&mut self, keyed: Option<Entry>) {
        let Some(entry) = keyed else { return };
        let Some(origin) = &entry.origin else { return };
        let of = TopicPartition { topic: origin.topic.clone(), partition: origin.partition };
        self.line_up(&entry.group, &of, &entry);
    }

    /// Journals that an entry is forgotten and forgets it.
    pub(super) fn forget(&mut self, id: EntryId, evidence: Evidence) {
        let cause = self.cause(evidence, None);
        let keyed = self.store.get(id).filter(|entry| entry.key.is_some());
        self.emit(Fact::Forgotten { id, cause });
        self.changed(keyed);
    }

    /// Journals a slot and applies it.
    pub(super) fn record_slot(&mut self, group: &GroupId, record: SlotRecord) {
        let SlotRecord { slot, member, next_sequence } = record;
        let at = self.wall();
        self.emit(Fact::Slot { group: group.clone(), slot, member, next_sequence, at });
    }

    /// Journals against which delay tables due times were checked.
    pub(super) fn record_tables(&mut self, mark: u64) {
        let at = self.wall();
        self.emit(Fact::Tables { mark, at });
    }

    pub(super) fn answer(&mut self, token: Token, answer: Answer) {
        self.outputs.push_back(Output::Answer { token, answer });
    }

    /// The id a new entry gets; ids count up with the facts that use them.
    pub(super) fn next_id(&self) -> EntryId {
        EntryId(self.marks().next_id)
    }

    pub(super) fn marks(&self) -> Marks {
        self.store.marks()
    }

    /// A slot's first unacknowledged offset and its log end.
    pub(super) fn view(&self, group: &GroupId, record: &SlotRecord) -> SlotView {
        let slot = record.slot;
        let next = LaneOffset { slot, sequence: record.next_sequence };
        let position = self.store.first_open(group, slot).unwrap_or(next);
        SlotView { slot, position, next }
    }

    /// The slot this member holds.
    pub(super) fn slot_of(&self, group: &GroupId, member: &MemberId) -> Option<SlotRecord> {
        let held = |record: &SlotRecord| record.member.as_ref() == Some(member);
        self.store.slots(group).into_iter().find(held)
    }

    /// There is room for what was due already: lets the group's Fetches try again.
    pub(super) fn wake_if_due(&mut self, group: &GroupId) {
        if self.store.next_due(group, None).is_some_and(|due| due <= self.wall()) {
            self.outputs.push_back(Output::Wake { group: group.clone() });
        }
    }

    /// When a settled entry is forgotten: the consume timeout after both its end and the commit
    /// that passed its origin. A dead letter stays as long as it is kept.
    pub(super) fn memory_ends(&self, entry: &Entry) -> Option<WallMs> {
        if let State::Discarding { since, .. } = entry.state {
            return Some(since.plus(RESTORE_MS));
        }
        let (State::Committed { at } | State::Discarded { at }) = entry.state else {
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
        self.outputs.push_back(Output::Fact(fact));
    }
}

/// When each group is to be woken: at or before the first due time that has not woken it yet.
#[derive(Debug, Default)]
struct Wakes {
    by_group: BTreeMap<GroupId, WallMs>,
    by_time: BTreeSet<(WallMs, GroupId)>,
}

impl Wakes {
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
