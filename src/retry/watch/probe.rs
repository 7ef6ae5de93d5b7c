//! What is given while a group is held: which record, to whose Fetch, and what came of it.
//!
//! A probe is lent to one connection at a time, and whoever asks next is another one than before:
//! another partition, a retry instead of a record, another member. So a record that fails whatever
//! happens is told from an outage, in which everything does.

use std::collections::{BTreeMap, VecDeque};

use crate::model::{EntryId, LaneOffset, MonoMs, TopicPartition};

/// Probes of one record that failed, with none of another one and no success since the group is
/// held, after which it is a record that fails: with a step of 1 s at first they take eleven
/// minutes. With every other record that fails it takes more by the square: two hours for the
/// first of two, seven for that of three. What is in the way of so many is an outage.
pub(in crate::retry) const PROBES_OF_ONE: usize = 16;
/// Records whose failed probes are counted; with more of them nobody is blamed.
const BLAMED_MAX: usize = 100;
/// Probes that are remembered while nothing is heard of them; of more, the last ones.
const OUT_MAX: usize = 100;
/// How long a Fetch that says nothing has a probe before another one may have it: longer than a
/// broker is asked for it.
const LENT_MS: u64 = 1_000;
/// Who had none to give is asked again no sooner.
const DECLINED_MS: u64 = 100;
/// From the second step on, who had the last probe lets others come first for so long.
const GRACE_MS: u64 = 500;
/// Whoever has not asked for so long is not waited for.
const ASKS_MS: u64 = 5_000;
/// Askers remembered.
const ASKERS_MAX: usize = 1_000;

/// A record that is given while everything else is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::retry) enum Probe {
    /// One of a real partition.
    Record(TopicPartition, i64),
    /// A retry, as it was handed out, and which.
    Lane(LaneOffset, EntryId),
}

impl Probe {
    /// The same record, whatever hand-out of it.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lane(_, one), Self::Lane(_, other)) => one == other,
            _ => self == other,
        }
    }
}

/// Who asks for a probe: a connection, for records or for retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::retry) struct Asker {
    pub(in crate::retry) conn: u64,
    pub(in crate::retry) for_lane: bool,
}

/// The probes of a group, from when it was held until one succeeds.
#[derive(Debug, Default)]
pub(in crate::retry) struct Probes {
    /// Nothing is heard of these, oldest first.
    out: VecDeque<Probe>,
    /// Whose connection may have the next one, and until when.
    lent: Option<(u64, MonoMs)>,
    /// Connections that had nothing to give, and until when they are passed over.
    declined: BTreeMap<u64, MonoMs>,
    /// When each asked last.
    askers: BTreeMap<Asker, MonoMs>,
    last: Option<Asker>,
    /// Partitions in the order of their last probes.
    given: BTreeMap<TopicPartition, u64>,
    count: u64,
    /// Records whose probes failed, and how often.
    blamed: Vec<(Probe, usize)>,
}

impl Probes {
    /// Somebody asks, whether a probe is due or not.
    pub(in crate::retry) fn asks(&mut self, now: MonoMs, asker: Asker) {
        self.askers.insert(asker, now);
        self.askers.retain(|_, asked| now.since(*asked) <= ASKS_MS);
        if self.askers.len() > ASKERS_MAX {
            self.askers.pop_first();
        }
    }

    /// Whether this asker may have the probe that is due since `due`; otherwise when to ask again.
    pub(in crate::retry) fn lend(
        &mut self,
        now: MonoMs,
        (due, is_early): (MonoMs, bool),
        asker: Asker,
    ) -> Result<MonoMs, MonoMs> {
        let grace = due.plus(GRACE_MS);
        let others = self.askers.len() > 1;
        if !is_early && others && self.last == Some(asker) && now < grace {
            return Err(grace);
        }
        if let Some((conn, until)) = self.lent.filter(|(_, until)| *until > now) {
            return if conn == asker.conn { Ok(until) } else { Err(until) };
        }
        if self.lent.take().is_some_and(|(conn, _)| conn == asker.conn) {
            self.declined.insert(asker.conn, now.plus(DECLINED_MS));
        }
        self.declined.retain(|_, until| *until > now);
        if let Some(until) = self.declined.get(&asker.conn) {
            return Err(*until);
        }
        let until = now.plus(LENT_MS);
        self.lent = Some((asker.conn, until));
        Ok(until)
    }

    /// A connection had nothing to give; whether the probe was its.
    pub(in crate::retry) fn declines(&mut self, now: MonoMs, conn: u64) -> bool {
        let was_lent = self.lent.take_if(|(lent, _)| *lent == conn).is_some();
        if was_lent {
            self.declined.insert(conn, now.plus(DECLINED_MS));
        }
        was_lent
    }

    /// A probe has left.
    pub(in crate::retry) fn given(&mut self, by: Asker, probe: Probe) {
        self.lent = None;
        self.declined.clear();
        self.last = Some(by);
        if let Probe::Record(partition, _) = &probe {
            self.count = self.count.saturating_add(1);
            self.given.insert(partition.clone(), self.count);
        }
        self.out.retain(|known| !known.is_same(&probe));
        self.out.push_back(probe);
        if self.out.len() > OUT_MAX {
            self.out.pop_front();
        }
    }

    /// Which of these partitions comes first, and so on: their places.
    pub(in crate::retry) fn places<'a>(
        &self,
        partitions: impl Iterator<Item = &'a TopicPartition>,
    ) -> Vec<usize> {
        let turns = partitions.map(|of| self.given.get(of).copied().unwrap_or(0)).enumerate();
        let mut line: Vec<(u64, usize)> = turns.map(|(nth, turn)| (turn, nth)).collect();
        line.sort_unstable();
        let mut places = vec![0; line.len()];
        for (place, (_, nth)) in line.into_iter().enumerate() {
            if let Some(of) = places.get_mut(nth) {
                *of = place;
            }
        }
        places
    }

    /// Takes out those that are out and fit, oldest first.
    pub(in crate::retry) fn take(&mut self, is_it: impl Fn(&Probe) -> bool) -> Vec<Probe> {
        let (found, rest) = self.out.drain(..).partition(is_it);
        self.out = rest;
        let found: VecDeque<Probe> = found;
        found.into()
    }

    /// A probe has failed.
    pub(in crate::retry) fn blame(&mut self, probe: &Probe) {
        self.lent = None;
        if let Some((_, times)) = self.blamed.iter_mut().find(|(known, _)| known.is_same(probe)) {
            *times = times.saturating_add(1);
        } else if self.blamed.len() < BLAMED_MAX {
            self.blamed.push((probe.clone(), 1));
        }
    }

    /// So many probes were this record, and failed, that it is the record and no outage.
    pub(in crate::retry) fn is_blamed(&self, is_it: impl Fn(&Probe) -> bool) -> bool {
        let records = self.blamed.len();
        let wanted = PROBES_OF_ONE.saturating_mul(records).saturating_mul(records);
        let mut of_it = self.blamed.iter().filter(|(known, _)| is_it(known));
        records < BLAMED_MAX && of_it.any(|(_, times)| *times >= wanted)
    }

    /// The retry that was handed out so is out as a probe: which.
    pub(in crate::retry) fn entry_of(&self, lane: LaneOffset) -> Option<EntryId> {
        self.out.iter().find_map(|probe| match probe {
            Probe::Lane(known, entry) if *known == lane => Some(*entry),
            _ => None,
        })
    }
}
