//! A second, plain implementation of the documented retry semantics.
//!
//! The model judges every answer of the engine and, after every crash, its whole state.

use std::collections::{BTreeMap, BTreeSet};

use reprise::model::{GroupId, LaneOffset, MemberId, Origin, RetryPartition, TopicName};
use reprise::retry::RequestedDelay;

use crate::imported::Arrival;

pub const CONSUME_TIMEOUT_MS: i64 = 30_000;
const TAKE_MAX: usize = 16;
pub const BATCHES_KEPT: usize = 5;

/// The rules in force: delays by level, and the number of retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub levels_ms: Vec<i64>,
    pub max: u32,
    /// Groups with a quota on their dead letters have reached it.
    pub full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelState {
    Waiting {
        due: i64,
        delay_ms: i64,
        level: Option<u32>,
    },
    Inflight(LaneOffset),
    Committed(i64),
    Dead(i64),
    Discarded(i64),
    /// Withheld since that time; true: the withheld failure counts when it ends.
    Held(i64, bool),
}

/// One failed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub group: GroupId,
    pub origin: Option<Origin>,
    pub stands: ModelState,
    pub count: u32,
    pub handouts: u32,
    pub losses: u32,
    pub passed: Option<i64>,
    pub expires: Option<i64>,
    pub superseded: bool,
    pub lanes: Vec<LaneOffset>,
    /// The value of the record, taken from its first nack.
    pub text: String,
    /// The value of its dead letter from before a redrive, while the topic has it.
    pub letter: Option<String>,
}

impl Record {
    /// The value of the record's dead letter in the topic.
    pub fn letter(&self) -> Option<String> {
        match self.stands {
            ModelState::Dead(_) => Some(self.text.clone()),
            _ => self.letter.clone(),
        }
    }

    /// Forgets the former dead letter of a record that is final.
    pub fn settle_letter(&mut self) {
        if matches!(
            self.stands,
            ModelState::Dead(_) | ModelState::Committed(_) | ModelState::Discarded(_)
        ) {
            self.letter = None;
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NackTarget {
    Origin(Origin),
    Lane(LaneOffset),
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Nack {
    pub named: NackTarget,
    pub want: RequestedDelay,
    pub committed: Option<i64>,
    pub text: String,
}

/// The outcome of a nack: no change, a due time, a dead letter, discarded, withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    Nothing(u64),
    Due(u64, i64),
    Dead(u64),
    Discarded(u64),
    Held(u64),
}

/// One redelivery: lane offset, failures so far, value.
pub type Redelivery = (i64, u32, String);

/// An answer of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelAnswer {
    Nacked(Vec<Became>),
    Repeated,
    Bad(Vec<usize>),
    Taken(Vec<Redelivery>, LaneOffset, LaneOffset),
    Committed(usize),
    Refused,
    Slot(u16, LaneOffset, LaneOffset),
    Imported(Vec<Arrival>),
    Done,
}

/// The expected state of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub now: i64,
    pub rules: Rules,
    pub records: BTreeMap<u64, Record>,
    pub next_id: u64,
    pub slots: BTreeMap<(GroupId, u16), (Option<MemberId>, u64)>,
    /// Committed offsets of real partitions.
    pub committed: BTreeMap<(GroupId, TopicName, i32), i64>,
    /// First and last sequence of the last batches of a group's producer.
    pub stamps: BTreeMap<(GroupId, i64), Vec<(i32, i32)>>,
    /// Imported dead letters, by their numbers in the other sidecar.
    pub imported: BTreeSet<u64>,
    /// Time of the next look at the withheld records of a group.
    pub looks: BTreeMap<GroupId, i64>,
    /// Number of withheld records, and of those that became dead letters.
    pub held: (u32, u32),
    /// Timed-out deliveries whose member may still commit them. A crash forgets all of them.
    pub late: BTreeMap<(GroupId, LaneOffset), u64>,
}

/// Prefix of groups that keep no dead letters.
pub const DROPS: &str = "drops";
/// Prefix of groups with a quota on their dead letters.
pub const BOUND: &str = "bound";

impl Model {
    pub fn new(now: i64, rules: Rules) -> Self {
        Self {
            now,
            rules,
            records: BTreeMap::new(),
            next_id: 0,
            slots: BTreeMap::new(),
            committed: BTreeMap::new(),
            stamps: BTreeMap::new(),
            imported: BTreeSet::new(),
            looks: BTreeMap::new(),
            held: (0, 0),
            late: BTreeMap::new(),
        }
    }

    pub fn take(&mut self, group: &GroupId, from: LaneOffset, max: usize) -> ModelAnswer {
        let max = max.min(TAKE_MAX);
        self.late.retain(|(of, lane), _| of != group || lane.slot != from.slot || *lane < from);
        let slot = (group.clone(), from.slot.0);
        let (member, mut next) = self.slots.get(&slot).cloned().unwrap_or((None, 0));
        let held = member.is_some();
        let mut ids: Vec<u64> = Vec::new();
        if held && from.sequence <= next {
            let open = self.open(group, from.slot);
            ids.extend(open.iter().filter(|(lane, _)| *lane >= from).map(|(_, id)| *id).take(max));
            let mut due = self.due(group);
            due.truncate(max - ids.len());
            for (due_at, id) in due {
                assert!(due_at <= self.now, "never early");
                let record = self.records.get_mut(&id).unwrap();
                let lane = LaneOffset { slot: from.slot, sequence: next };
                next += 1;
                record.stands = ModelState::Inflight(lane);
                record.lanes.push(lane);
                record.handouts += 1;
                record.expires = Some(self.now + CONSUME_TIMEOUT_MS);
                ids.push(id);
            }
            self.slots.insert(slot, (member, next));
        }
        let redeliveries = ids.iter().map(|id| {
            let record = &self.records[id];
            (record.lanes.last().unwrap().to_kafka(), record.count, record.text.clone())
        });
        let redeliveries = redeliveries.collect();
        // A retry partition without an owner, or fetched beyond its end, ends at the fetch offset.
        let (position, end) = if held { self.view(group, from.slot, next) } else { (from, from) };
        ModelAnswer::Taken(redeliveries, position, end.max(from))
    }

    pub fn lane_commit(&mut self, group: &GroupId, up_to: LaneOffset) -> ModelAnswer {
        let known = self.slots.get(&(group.clone(), up_to.slot.0));
        if known.is_none_or(|(_, next)| up_to.sequence > *next) {
            return ModelAnswer::Refused;
        }
        let mut acknowledged = 0;
        for (lane, id) in self.open(group, up_to.slot) {
            if lane < up_to {
                let record = self.records.get_mut(&id).unwrap();
                record.stands = ModelState::Committed(self.now);
                record.settle_letter();
                record.expires = memory_ends(record);
                acknowledged += 1;
            }
        }
        ModelAnswer::Committed(acknowledged + self.commit_late(group, up_to))
    }

    pub fn origin_commit(
        &mut self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> ModelAnswer {
        self.committed.insert((group.clone(), topic.clone(), partition), offset);
        let mut forgotten = Vec::new();
        for (id, record) in &mut self.records {
            let Some(origin) = &record.origin else { continue };
            let same = origin.topic == *topic && origin.partition == partition;
            if record.group != *group || !same || record.superseded {
                continue;
            }
            let is_past = origin.offset < offset;
            match (record.passed, is_past, record.stands) {
                (None, true, _) => {
                    record.passed = Some(self.now);
                    if !is_pending(record.stands) {
                        record.expires = memory_ends(record);
                    }
                }
                (Some(_), false, ModelState::Committed(_) | ModelState::Discarded(_)) => {
                    forgotten.push(*id);
                }
                (Some(_), false, ModelState::Dead(_)) => record.superseded = true,
                (Some(_), false, _) => record.passed = None,
                _ => {}
            }
        }
        for id in forgotten {
            self.records.remove(&id);
        }
        ModelAnswer::Done
    }

    pub fn join(&mut self, group: &GroupId, member: &MemberId) -> ModelAnswer {
        let of_group = || self.slots.iter().filter(|((g, _), _)| g == group);
        let held = of_group().find(|(_, (holder, _))| holder.as_ref() == Some(member));
        let free = of_group().find(|(_, (holder, _))| holder.is_none());
        let slot = held.or(free).map(|((_, slot), (_, next))| (*slot, *next));
        let new = of_group().last().map_or(0, |((_, slot), _)| slot + 1);
        let (slot, next) = slot.unwrap_or((new, 0));
        self.slots.insert((group.clone(), slot), (Some(member.clone()), next));
        let (position, end) = self.view(group, RetryPartition(slot), next);
        ModelAnswer::Slot(slot, position, end)
    }

    pub fn leave(&mut self, group: &GroupId, member: &MemberId) {
        let Some(slot) = self.slot_of(group, member) else { return };
        for (_, id) in self.open(group, RetryPartition(slot)) {
            self.lost(id);
        }
        self.slots.get_mut(&(group.clone(), slot)).unwrap().0 = None;
        self.late.retain(|(of, lane), _| of != group || lane.slot != RetryPartition(slot));
    }

    /// Advances the time.
    pub fn time(&mut self, now: i64) {
        self.now = now;
        let due = |(_, r): &(&u64, &Record)| r.expires.is_some_and(|at| at <= now);
        let due: Vec<u64> = self.records.iter().filter(due).map(|(id, _)| *id).collect();
        for id in due {
            let (group, stands) = (self.records[&id].group.clone(), self.records[&id].stands);
            if let ModelState::Inflight(lane) = stands {
                self.lost(id);
                self.late.insert((group, lane), id);
            } else {
                self.records.remove(&id);
            }
        }
        self.look();
    }

    /// New rules, or the same rules after a restart at another wall-clock time. Due times that
    /// neither clock nor table explains come nearer; no due time moves away.
    pub fn reload(&mut self, rules: &Rules) {
        self.rules = rules.clone();
        self.look_at_once();
        for record in self.records.values_mut() {
            if let ModelState::Waiting { due, delay_ms, level } = record.stands {
                let present = level.and_then(|level| rules.levels_ms.get(level as usize - 1));
                let shorter = present.map_or(delay_ms, |present| delay_ms.min(*present));
                if self.now + shorter < due {
                    let due = self.now + shorter;
                    record.stands = ModelState::Waiting { due, delay_ms: shorter, level };
                }
            }
            let furthest = self.now + CONSUME_TIMEOUT_MS;
            record.expires = record.expires.map(|at| at.min(furthest));
        }
    }

    pub fn slot_of(&self, group: &GroupId, member: &MemberId) -> Option<u16> {
        let mut slots = self.slots.iter().filter(|((g, _), _)| g == group);
        let held = slots.find(|(_, (holder, _))| holder.as_ref() == Some(member));
        held.map(|((_, slot), _)| *slot)
    }

    /// Outstanding deliveries of a retry partition, by lane offset.
    pub fn open(&self, group: &GroupId, slot: RetryPartition) -> Vec<(LaneOffset, u64)> {
        let mut open: Vec<(LaneOffset, u64)> = Vec::new();
        for (id, record) in self.records.iter().filter(|(_, record)| record.group == *group) {
            if let ModelState::Inflight(lane) = record.stands
                && lane.slot == slot
            {
                open.push((lane, *id));
            }
        }
        open.sort();
        open
    }

    /// Time of the next event that needs no request.
    pub fn next_deadline(&self) -> Option<i64> {
        let times = self.records.values().flat_map(|record| {
            let due = match record.stands {
                ModelState::Waiting { due, .. } => Some(due),
                _ => None,
            };
            [due, record.expires]
        });
        times.flatten().chain(self.looks.values().copied()).filter(|at| *at > self.now).min()
    }

    pub fn of_origin(&self, group: &GroupId, origin: &Origin) -> Option<u64> {
        let same = |r: &Record| r.group == *group && r.origin.as_ref() == Some(origin);
        let found = self.records.iter().find(|(_, r)| same(r) && !r.superseded);
        found.map(|(id, _)| *id)
    }

    fn due(&self, group: &GroupId) -> Vec<(i64, u64)> {
        let mut due: Vec<(i64, u64)> = Vec::new();
        for (id, record) in self.records.iter().filter(|(_, record)| record.group == *group) {
            if let ModelState::Waiting { due: at, .. } = record.stands
                && at <= self.now
            {
                due.push((at, *id));
            }
        }
        due.sort_unstable();
        due
    }

    fn view(&self, group: &GroupId, slot: RetryPartition, next: u64) -> (LaneOffset, LaneOffset) {
        let end = LaneOffset { slot, sequence: next };
        (self.open(group, slot).first().map_or(end, |(lane, _)| *lane), end)
    }

    fn lost(&mut self, id: u64) {
        let record = self.records.get_mut(&id).unwrap();
        let delay_ms = (1_000_i64 << record.losses.min(10)).min(30_000);
        record.stands = ModelState::Waiting { due: self.now + delay_ms, delay_ms, level: None };
        record.losses += 1;
        record.expires = None;
    }
}

fn is_pending(stands: ModelState) -> bool {
    matches!(stands, ModelState::Waiting { .. } | ModelState::Inflight(_) | ModelState::Held(..))
}

pub fn memory_ends(record: &Record) -> Option<i64> {
    let (ModelState::Committed(at) | ModelState::Discarded(at)) = record.stands else {
        return None;
    };
    let passed = if record.origin.is_some() { record.passed? } else { at };
    Some(at.max(passed) + CONSUME_TIMEOUT_MS)
}
