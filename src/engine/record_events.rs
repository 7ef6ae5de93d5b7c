//! The history of one record, read from the log, oldest event first.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::detectors::{suspect_entries, window_entries};
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::kind;
use crate::journal::EntryKind;
use crate::model::{EntryId, GroupId, Origin, RetryPlace, TopicPartition, WallMs};
use crate::retry::detector::WindowRecord;
use crate::retry::suspects::{SetRecord, SuspectsRecord};
use crate::retry::{Cause, DELAYED, Disposition, Entry, Fact, decode_fact};

const FACTS: [EntryKind; 3] = [kind::BEGINS, kind::FACT, kind::DEAD_LETTER];
/// Most events of a history; the latest are kept.
const TOLD_MAX: usize = 1_000;

/// The record whose history is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryQuery {
    /// By its origin, in one group or in all.
    Origin(Option<GroupId>, Origin),
    /// By one of its deliveries through the retry topic.
    HandOut(GroupId, RetryPlace),
}

/// An event of the record in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordEvent {
    pub group: GroupId,
    /// Time of the event; `None` if the log has none: then it lies between its neighbours' times.
    pub at: Option<WallMs>,
    pub what: EventKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The entry's state changed to this.
    Entry(Box<Entry>, Cause),
    /// The entry was forgotten.
    Forgotten(Cause),
    /// A superseded entry was forgotten; another one may have begun since.
    FormerForgotten(Cause),
    /// A delivery that may have had the record was lost with its member; with the count of losses
    /// in a row.
    Lost(u32),
    /// The record became a suspect; with the time until which it is withheld, if any.
    Suspected(Option<WallMs>),
    /// The n-th failure was charged by inference.
    Charged(u32, Disposition),
    /// The record is no longer a suspect: a commit passed it, or its topic was recreated.
    Cleared,
    /// The record is settled and removed from fetches of its group.
    Skipped,
    /// A commit passed the record.
    Passed,
}

impl Engine {
    /// The history of a record in the log. Reads the whole log, so do not call it on a thread that
    /// others wait for.
    pub fn past(&self, sought: &HistoryQuery) -> Result<Vec<RecordEvent>, EngineError> {
        let mut teller = Teller::new(sought.clone());
        if let HistoryQuery::HandOut(group, place) = sought {
            // First finds the entry: facts before that delivery do not name it.
            self.journal.past(&FACTS, &mut |entry| {
                let Ok(Fact::Entry { entry, .. }) = decode_fact(&entry.head) else { return };
                if entry.group == *group && entry.places.contains(place) {
                    teller.ids.insert(entry.id, (group.clone(), entry.superseded));
                    if let Some(origin) = entry.origin.clone() {
                        teller.sought = HistoryQuery::Origin(Some(group.clone()), origin);
                    }
                }
            })?;
        }
        let kinds: Vec<EntryKind> =
            FACTS.into_iter().chain([kind::WINDOW, kind::SUSPECTS]).collect();
        self.journal.past(&kinds, &mut |entry| {
            if entry.kind == kind::WINDOW {
                if let Some((group, of, window)) = window_entries::read(entry) {
                    teller.window(&group, &of, &window.unwrap_or_default().window);
                }
            } else if entry.kind == kind::SUSPECTS {
                if let Some((group, record)) = suspect_entries::read(entry) {
                    teller.suspects(&group, &record.unwrap_or_default());
                }
            } else if let Ok(fact) = decode_fact(&entry.head) {
                teller.fact(&fact);
            }
        })?;
        Ok(teller.told())
    }
}

/// Builds the history of one record from journal entries in log order.
#[derive(Debug)]
pub struct Teller {
    sought: HistoryQuery,
    /// Entries of the record, each with whether it is superseded. One at a time, but another may
    /// follow a forgotten or superseded one.
    ids: BTreeMap<EntryId, (GroupId, bool)>,
    windows: BTreeMap<GroupId, WindowRecord>,
    /// The suspect set that has the record.
    sets: BTreeMap<GroupId, SetRecord>,
    told: VecDeque<RecordEvent>,
}

impl Teller {
    /// An empty history of this record.
    pub fn new(sought: HistoryQuery) -> Self {
        Self {
            sought,
            ids: BTreeMap::new(),
            windows: BTreeMap::new(),
            sets: BTreeMap::new(),
            told: VecDeque::new(),
        }
    }

    /// Adds a fact of the ledger.
    pub fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Entry { entry, cause, .. } => {
                if self.is_of(entry) {
                    let (group, at) = (entry.group.clone(), Some(cause.at));
                    self.ids.insert(entry.id, (group.clone(), entry.superseded));
                    let what = EventKind::Entry(entry.clone(), cause.clone());
                    self.tell(RecordEvent { group, at, what });
                }
            }
            Fact::Forgotten { id, cause, .. } => {
                if let Some((group, is_former)) = self.ids.remove(id) {
                    let (at, cause) = (Some(cause.at), cause.clone());
                    let what = if is_former {
                        EventKind::FormerForgotten(cause)
                    } else {
                        EventKind::Forgotten(cause)
                    };
                    self.tell(RecordEvent { group, at, what });
                }
            }
            Fact::Tables { .. } => {}
        }
    }

    fn is_of(&self, entry: &Entry) -> bool {
        let by_origin = match &self.sought {
            HistoryQuery::Origin(group, origin) => {
                entry.origin.as_ref() == Some(origin)
                    && entry.group.as_str() != DELAYED
                    && group.as_ref().is_none_or(|group| *group == entry.group)
            }
            HistoryQuery::HandOut(..) => false,
        };
        by_origin || self.ids.contains_key(&entry.id)
    }

    /// Adds the next window of a partition from a group's detector.
    pub fn window(&mut self, group: &GroupId, of: &TopicPartition, window: &WindowRecord) {
        let HistoryQuery::Origin(wanted, origin) = &self.sought else { return };
        let is_there = (&of.topic, of.partition) == (&origin.topic, origin.partition);
        if !is_there || wanted.as_ref().is_some_and(|wanted| wanted != group) {
            return;
        }
        let offset = origin.offset;
        let before = self.windows.remove(group).unwrap_or_default();
        let changes = changes(offset, &before, window);
        self.windows.insert(group.clone(), window.clone());
        for (at, what) in changes {
            self.tell(RecordEvent { group: group.clone(), at, what });
        }
    }

    /// Adds the next suspects of a group.
    pub fn suspects(&mut self, group: &GroupId, record: &SuspectsRecord) {
        let HistoryQuery::Origin(wanted, origin) = &self.sought else { return };
        if wanted.as_ref().is_some_and(|wanted| wanted != group) {
            return;
        }
        let has_it = |set: &&SetRecord| {
            set.suspects.iter().any(|(topic, partition, start, end)| {
                *topic == origin.topic.as_str()
                    && *partition == origin.partition
                    && (*start..*end).contains(&origin.offset)
            })
        };
        let after = record.sets.iter().find(has_it).cloned();
        let before = self.sets.remove(group);
        self.sets.extend(after.clone().map(|set| (group.clone(), set)));
        for (at, what) in suspicion(before, after) {
            self.tell(RecordEvent { group: group.clone(), at, what });
        }
    }

    /// Removes and returns the events since the last call, oldest first.
    pub fn told(&mut self) -> Vec<RecordEvent> {
        std::mem::take(&mut self.told).into()
    }

    fn tell(&mut self, happened: RecordEvent) {
        if self.told.len() >= TOLD_MAX {
            self.told.pop_front();
        }
        self.told.push_back(happened);
    }
}

/// The events of one record between two states of its suspect set.
fn suspicion(
    before: Option<SetRecord>,
    after: Option<SetRecord>,
) -> Vec<(Option<WallMs>, EventKind)> {
    let Some(after) = after else {
        let is_cleared = before.is_some_and(|before| before.failures == 0);
        return if is_cleared { vec![(None, EventKind::Cleared)] } else { Vec::new() };
    };
    let is_alone = |set: &SetRecord| {
        set.is_tested && set.suspects.iter().map(|(.., start, end)| end - start).sum::<i64>() == 1
    };
    let before = before.unwrap_or_default();
    let mut told = Vec::new();
    if after.losses > before.losses {
        told.push((None, EventKind::Lost(after.losses)));
    }
    if is_alone(&after) && !is_alone(&before) {
        told.push((None, EventKind::Suspected(None)));
    }
    if after.failures > before.failures {
        let at = after.failed_at.last().copied();
        told.push((at, EventKind::Charged(after.failures, Disposition::Crashed)));
    }
    told
}

/// The events of one record between two states of its window.
fn changes(
    offset: i64,
    before: &WindowRecord,
    after: &WindowRecord,
) -> Vec<(Option<WallMs>, EventKind)> {
    let suspect = |window: &WindowRecord| {
        window.suspects.iter().find(|suspect| suspect.offset == offset).cloned()
    };
    let mut told = Vec::new();
    let (known, now) = (suspect(before), suspect(after));
    if let Some(now) = &now {
        let charged = known.as_ref().map_or(0, |known| known.reconsume_times);
        let news = now.reconsume_times.saturating_sub(charged);
        let count = usize::try_from(news).unwrap_or(usize::MAX).min(now.history.len());
        let latest = now.history.iter().skip(now.history.len().saturating_sub(count));
        for (n, (at, why)) in (charged.saturating_add(1)..).zip(latest) {
            told.push((Some(*at), EventKind::Charged(n, *why)));
        }
        if known.as_ref().is_none_or(|known| known.due != now.due) {
            told.push((None, EventKind::Suspected(now.due)));
        }
    }
    let skipped = |window: &WindowRecord| window.skipped.contains(&offset);
    match (skipped(before), skipped(after)) {
        (false, true) => told.push((None, EventKind::Skipped)),
        (true, false) => told.push((None, EventKind::Passed)),
        _ if known.is_some() && now.is_none() => told.push((None, EventKind::Cleared)),
        _ => {}
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::detector::SuspectRecord;

    fn window(suspect: Option<SuspectRecord>) -> WindowRecord {
        WindowRecord { suspects: suspect.into_iter().collect(), ..idle() }
    }

    fn idle() -> WindowRecord {
        WindowRecord::default()
    }

    fn suspect(history: &[(WallMs, Disposition)], due: Option<WallMs>) -> SuspectRecord {
        let reconsume_times = u32::try_from(history.len()).unwrap();
        SuspectRecord { offset: 7, reconsume_times, due, history: history.to_vec() }
    }

    fn told(before: &WindowRecord, after: &WindowRecord) -> Vec<EventKind> {
        changes(7, before, after).into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn the_history_of_a_record_follows_its_window() {
        let crash = |at| (WallMs(at), Disposition::Crashed);
        let held = window(Some(suspect(&[], Some(WallMs(3)))));
        assert_eq!(told(&idle(), &held), [EventKind::Suspected(Some(WallMs(3)))]);
        let twice = window(Some(suspect(&[crash(4), crash(5)], Some(WallMs(6)))));
        let charged = |n| EventKind::Charged(n, Disposition::Crashed);
        let again = EventKind::Suspected(Some(WallMs(6)));
        assert_eq!(told(&held, &twice), [charged(1), charged(2), again]);
        let at: Vec<_> = changes(7, &held, &twice).into_iter().map(|(at, _)| at).collect();
        assert_eq!(at, [Some(WallMs(4)), Some(WallMs(5)), None]);
        let settled = WindowRecord { skipped: vec![7], ..window(None) };
        assert_eq!(told(&twice, &settled), [EventKind::Skipped]);
        assert_eq!(told(&settled, &idle()), [EventKind::Passed]);
        assert_eq!(told(&twice, &idle()), [EventKind::Cleared]);
    }
}
