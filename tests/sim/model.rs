//! A second, plain implementation of the documented retry semantics.
//!
//! The model judges every answer of the engine and, after every crash, its whole state.

use std::collections::{BTreeMap, BTreeSet};

use reprise::model::{GroupId, Origin, RetryPlace, TopicName};
use reprise::retry::RequestedDelay;

use crate::imported::Arrival;
use crate::release::GroupTopics;

pub const CONSUME_TIMEOUT_MS: i64 = 30_000;
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
    /// In the retry topic since that time.
    Released(RetryPlace, i64),
    Committed(i64),
    Dead(i64),
    Discarded(i64),
    /// Withheld since that time; true: the withheld failure counts when it ends.
    Blocked(i64, bool),
}

/// One failed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub group: GroupId,
    pub origin: Option<Origin>,
    pub stands: ModelState,
    pub count: u32,
    pub handouts: u32,
    pub passed: Option<i64>,
    pub expires: Option<i64>,
    pub superseded: bool,
    pub places: Vec<RetryPlace>,
    /// The value of the record, taken from its first nack.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NackTarget {
    Origin(Origin),
    /// A delivery, with the origin and the failures that its headers name.
    Delivery(RetryPlace, Option<(Origin, u32)>),
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
    Blocked(u64),
}

/// An answer of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelAnswer {
    Nacked(Vec<Became>),
    Repeated,
    Bad(Vec<usize>),
    Imported(Vec<Arrival>),
    /// The value of a record.
    Value(String),
    Done,
}

/// The expected state of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub now: i64,
    pub rules: Rules,
    pub records: BTreeMap<u64, Record>,
    pub next_id: u64,
    /// Committed offsets of real partitions.
    pub committed: BTreeMap<(GroupId, TopicName, i32), i64>,
    /// First and last sequence of the last batches of a group's producer.
    pub stamps: BTreeMap<(GroupId, i64), Vec<(i32, i32)>>,
    /// Imported dead letters, by their numbers in the other sidecar.
    pub imported: BTreeSet<u64>,
    /// The values of all dead letters: they stay in their topic.
    pub letters: BTreeMap<GroupId, Vec<String>>,
    /// Time of the next look at the withheld records of a group.
    pub looks: BTreeMap<GroupId, i64>,
    /// Number of withheld records, and of those that became dead letters.
    pub held: (u32, u32),
    /// The retry topics of each group. A crash forgets their state.
    pub topics: BTreeMap<GroupId, GroupTopics>,
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
            committed: BTreeMap::new(),
            stamps: BTreeMap::new(),
            imported: BTreeSet::new(),
            letters: BTreeMap::new(),
            looks: BTreeMap::new(),
            held: (0, 0),
            topics: BTreeMap::new(),
        }
    }

    pub fn origin_commit(
        &mut self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) {
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
    }

    /// Advances the time.
    pub fn time(&mut self, now: i64) {
        self.now = now;
        self.records.retain(|_, record| record.expires.is_none_or(|at| at > now));
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

    /// Time of the next event that needs no request.
    pub fn next_deadline(&self) -> Option<i64> {
        let times = self.records.values().flat_map(|record| {
            let due = match record.stands {
                ModelState::Waiting { due, .. } => Some(due),
                _ => None,
            };
            [due, record.expires]
        });
        let pauses = self.topics.values().flat_map(GroupTopics::deadlines);
        let times = times.flatten().chain(self.looks.values().copied()).chain(pauses);
        times.filter(|at| *at > self.now).min()
    }

    pub fn of_origin(&self, group: &GroupId, origin: &Origin) -> Option<u64> {
        let same = |r: &Record| r.group == *group && r.origin.as_ref() == Some(origin);
        let found = self.records.iter().find(|(_, r)| same(r) && !r.superseded);
        found.map(|(id, _)| *id)
    }

    /// Waiting records of a group that are due, in order.
    pub fn due(&self, group: &GroupId) -> Vec<(i64, u64)> {
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
}

pub fn is_pending(stands: ModelState) -> bool {
    matches!(
        stands,
        ModelState::Waiting { .. } | ModelState::Released(..) | ModelState::Blocked(..)
    )
}

pub fn memory_ends(record: &Record) -> Option<i64> {
    let (ModelState::Committed(at) | ModelState::Discarded(at)) = record.stands else {
        return None;
    };
    let passed = if record.origin.is_some() { record.passed? } else { at };
    Some(at.max(passed) + CONSUME_TIMEOUT_MS)
}
