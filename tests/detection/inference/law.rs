//! A second, plain implementation of the documented retry semantics: delays, attempts and counts.
//! Every fact in the journal is checked against it.

use std::collections::BTreeMap;

use reprise::model::{EntryId, Moment, RetryPlace, TopicPartition, WallMs};
use reprise::retry::detector::{ExhaustedRecord, SuspectRecord};
use reprise::retry::{
    Disposition, Entry, Evidence, Fact, FailureHistory, NackTarget, Policy, RetryState,
};

use crate::inference::retries::{RecordOrigin, place};

/// Retries in place at most, if failures are only inferred.
const IN_PLACE: u32 = 6;
/// Losses of an isolated record that end it in place.
const CRASHES: u32 = 6;

pub(crate) struct Law {
    levels_ms: Vec<u64>,
    max: u32,
    known: BTreeMap<EntryId, Entry>,
    by_place: BTreeMap<RecordOrigin, EntryId>,
    /// Evidence and earlier count of the next nack.
    said: (Evidence, FailureHistory),
    settling: Option<ExhaustedRecord>,
    /// Failures of records in their own places.
    in_place: BTreeMap<RecordOrigin, u32>,
    /// Evidence, expected state and expected count after the last nack.
    came: Option<(Evidence, RetryState, u32)>,
    /// Dead letters, and the failures of each.
    pub(crate) dead: BTreeMap<RecordOrigin, u32>,
    /// Failures that did not count because the breaker was open.
    pub(crate) spared: u32,
    /// Retries that left the queue.
    pub(crate) left: u32,
    pub(crate) most: u32,
}

impl Law {
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut law = Self {
            levels_ms: Vec::new(),
            max: 0,
            known: BTreeMap::new(),
            by_place: BTreeMap::new(),
            said: (Evidence::Nack, FailureHistory::default()),
            settling: None,
            in_place: BTreeMap::new(),
            came: None,
            dead: BTreeMap::new(),
            spared: 0,
            left: 0,
            most: 0,
        };
        law.rule(policy);
        law
    }

    pub(crate) fn rule(&mut self, policy: &Policy) {
        self.levels_ms = policy.levels.iter().collect();
        self.max = policy.max_reconsume_times;
    }

    pub(crate) fn said(&mut self, way: Evidence, carried: &FailureHistory) {
        self.said = (way, carried.clone());
    }

    pub(crate) fn settles(&mut self, settling: &ExhaustedRecord) {
        self.settling = Some(settling.clone());
    }

    /// Whether the settling had no effect, because the record had an entry.
    pub(crate) fn is_unsettled(&mut self) -> bool {
        self.settling.take().is_some()
    }

    /// The expected outcome of the last nack, if the nack was new.
    pub(crate) fn came(&mut self) -> Option<(Evidence, RetryState, u32)> {
        self.came.take()
    }

    pub(crate) fn of(&self, place: &RecordOrigin) -> Option<&Entry> {
        self.known.get(self.by_place.get(place)?).filter(|entry| !entry.superseded)
    }

    /// The entry that a nack names.
    pub(crate) fn named(&self, named: &NackTarget) -> Option<&Entry> {
        match named {
            NackTarget::Origin(origin) => self.of(&place(origin)),
            NackTarget::Delivery(delivery) => {
                self.all().find(|entry| entry.places.last() == Some(delivery))
            }
            _ => None,
        }
    }

    /// Entries of a partition with origins from `offset` on.
    pub(crate) fn origins_from(
        &self,
        of: &TopicPartition,
        offset: i64,
    ) -> impl Iterator<Item = &Entry> {
        let from = self.by_place.range((of.clone(), offset)..(of.clone(), i64::MAX));
        from.filter_map(|(_, id)| self.known.get(id))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.known.values()
    }

    /// Origins of entries that no commit has passed.
    pub(crate) fn not_passed(&self) -> BTreeMap<TopicPartition, Vec<i64>> {
        let mut all: BTreeMap<TopicPartition, Vec<i64>> = BTreeMap::new();
        let ids = self.by_place.iter().filter(|(_, id)| self.known[*id].passed.is_none());
        for ((of, offset), _) in ids {
            all.entry(of.clone()).or_default().push(*offset);
        }
        all
    }

    /// Offsets of failed deliveries of the retry topic.
    pub(crate) fn failed_deliveries(&self, (from, to): (RetryPlace, RetryPlace)) -> Vec<i64> {
        let all = self.known.values();
        let failed = all.flat_map(|entry| {
            let open = entry.unread();
            entry.places.iter().copied().filter(move |delivery| Some(*delivery) != open)
        });
        failed
            .filter(|delivery| (from..to).contains(delivery))
            .map(|delivery| delivery.offset)
            .collect()
    }

    fn waiting(&self) -> impl Iterator<Item = (&Entry, WallMs)> {
        self.known.values().filter_map(|entry| match entry.state {
            RetryState::Waiting { due, .. } => Some((entry, due)),
            _ => None,
        })
    }

    /// Time at which the next entry is due.
    pub(crate) fn next_due(&self, now: Moment) -> Option<WallMs> {
        self.waiting().map(|(_, due)| due).filter(|due| *due > now.wall).min()
    }

    /// In place a record has fewer attempts than an application makes before it gives up, unless
    /// the application nacks it.
    fn limit(&self, history: &[(WallMs, Disposition)]) -> u32 {
        let was_said = history.last().is_some_and(|(_, why)| *why == Disposition::Rejected);
        if was_said { self.max } else { self.max.min(IN_PLACE) }
    }

    /// Checks the counted failures in a partition: each record has an attempt left.
    pub(crate) fn charged(&mut self, of: &TopicPartition, suspects: &[SuspectRecord]) {
        let is_there = |offset: i64| suspects.iter().any(|suspect| suspect.offset == offset);
        self.in_place.retain(|(other, offset), _| other != of || is_there(*offset));
        for suspect in suspects {
            let (count, limit) = (suspect.reconsume_times, self.limit(&suspect.history));
            let known = self.in_place.insert((of.clone(), suspect.offset), count);
            let is_news = known.unwrap_or_default() < count;
            assert!(!is_news || count <= limit, "a limit of {limit}, and it goes on: {suspect:?}");
        }
    }

    /// The delay and the level after `before` failures.
    fn ladder(&self, before: u32) -> (u64, u32) {
        let last = u32::try_from(self.levels_ms.len()).unwrap();
        let level = (3 + before).min(last);
        (self.levels_ms[usize::try_from(level).unwrap() - 1], level)
    }

    /// The earlier due time of the entry's own delay and the present delay of its level.
    fn nearest(
        &self,
        now: Moment,
        due: WallMs,
        delay_ms: u64,
        level: Option<u32>,
    ) -> (WallMs, u64) {
        let at = |level: u32| self.levels_ms.get(usize::try_from(level).unwrap() - 1);
        let present = level.and_then(at).copied();
        let shorter_ms = present.map_or(delay_ms, |present| present.min(delay_ms));
        let latest = now.wall.plus(shorter_ms);
        if due <= latest { (due, delay_ms) } else { (latest, shorter_ms) }
    }

    /// Checks that all waiting entries follow the rules in force and this clock.
    pub(crate) fn is_kept(&self, now: Moment, when: &str) {
        for entry in self.known.values() {
            let RetryState::Waiting { due, delay_ms, level } = entry.state else { continue };
            let (nearest, _) = self.nearest(now, due, delay_ms, level);
            assert_eq!(due, nearest, "{when}: {entry:?}");
        }
    }

    /// Checks a journalled fact.
    pub(crate) fn judge(&mut self, now: Moment, fact: &Fact) {
        match fact {
            Fact::Entry { entry, cause, .. } => {
                let before = self.known.get(&entry.id).cloned();
                self.judge_entry(now, before.as_ref(), entry, cause.evidence);
                if let Some(origin) = entry.origin.as_ref().filter(|_| !entry.superseded) {
                    self.by_place.insert(place(origin), entry.id);
                }
                self.known.insert(entry.id, (**entry).clone());
            }
            Fact::Forgotten { id, .. } => {
                let gone = self.known.remove(id).unwrap();
                assert!(gone.is_settled(), "forgotten, and not settled: {gone:?}");
                self.by_place.retain(|_, known| known != id);
            }
            Fact::Tables { .. } => {}
        }
    }

    fn judge_entry(&mut self, now: Moment, before: Option<&Entry>, entry: &Entry, why: Evidence) {
        if before.is_some_and(|before| before.redrives < entry.redrives) {
            assert_eq!(why, Evidence::Redrive);
            return self.judge_redrive(now, before, entry);
        }
        let count = before.map_or(0, |before| before.reconsume_times);
        assert!(entry.reconsume_times >= count, "a count fell: {before:?} {entry:?}");
        let stood = before.map(|before| before.state);
        match (why, stood) {
            (Evidence::CommitMarker | Evidence::Nack | Evidence::AdminNack, _) => {
                assert_eq!(why, self.said.0, "it was said in another way: {entry:?}");
                self.judge_said(now, before, entry);
            }
            _ if self.settling.is_some() => self.judge_settled(now, before, entry),
            (Evidence::HandOut, Some(RetryState::Waiting { due, .. })) => {
                assert!(due <= now.wall, "early: {entry:?} at {now:?}");
                assert!(entry.unread().is_some() && entry.reconsume_times == count);
                self.left += 1;
                self.most = self.most.max(count);
            }
            (Evidence::Rescheduled, Some(RetryState::Waiting { due, delay_ms, level })) => {
                let (due, delay_ms) = self.nearest(now, due, delay_ms, level);
                let state = RetryState::Waiting { due, delay_ms, level };
                assert_eq!((entry.state, entry.reconsume_times), (state, count), "rescheduled");
            }
            (Evidence::HandOut, _) | (_, None) => panic!("{why:?} of {stood:?}: {entry:?}"),
            _ => assert_eq!(entry.reconsume_times, count, "{why:?} charged {entry:?}"),
        }
    }

    /// Checks a dead letter whose origin a nack names: its retries begin again, at once.
    fn judge_redrive(&mut self, now: Moment, before: Option<&Entry>, entry: &Entry) {
        self.said.1 = FailureHistory::default();
        let place = place(entry.origin.as_ref().unwrap());
        assert!(self.dead.remove(&place).is_some(), "no dead letter: {before:?}");
        let waits = RetryState::Waiting { due: now.wall, delay_ms: 0, level: None };
        assert_eq!((entry.state, entry.reconsume_times), (waits, 0), "from {before:?}");
        self.came = Some((Evidence::Redrive, waits, 0));
    }

    /// Checks the entry after a nack.
    fn judge_said(&mut self, now: Moment, before: Option<&Entry>, entry: &Entry) {
        let said = std::mem::take(&mut self.said.1);
        let known = before.map_or(said.reconsume_times, |before| before.reconsume_times);
        // An inferred failure without a delivery since is the one that the nack confirms.
        let is_that = before.is_some_and(|before| {
            let last = before.disposition;
            before.handouts == 0 && last.is_some_and(|last| last != Disposition::Rejected)
        });
        let (failed, charged) = if is_that { (known - 1, known) } else { (known, known + 1) };
        let (delay_ms, level) = self.ladder(failed);
        let due = now.wall.plus(delay_ms);
        let waits = RetryState::Waiting { due, delay_ms, level: Some(level) };
        let expected = if said.spared {
            self.spared += 1;
            (waits, known)
        } else if failed >= self.max {
            let origin = entry.origin.as_ref().unwrap();
            self.dead.insert(place(origin), charged);
            (RetryState::Dead { at: now.wall }, charged)
        } else {
            (waits, charged)
        };
        let found = (entry.state, entry.reconsume_times);
        assert_eq!(found, expected, "a limit of {}, from {before:?}", self.max);
        self.came = Some((self.said.0, expected.0, expected.1));
    }

    /// Checks the entry or dead letter after an inferred failure. However often a retry was lost,
    /// its delivery is one failure.
    fn judge_settled(&mut self, now: Moment, before: Option<&Entry>, entry: &Entry) {
        let settling = self.settling.take().unwrap();
        let failed = before.map_or(settling.reconsume_times, |before| before.reconsume_times);
        let (delay_ms, level) = self.ladder(failed);
        let waits =
            RetryState::Waiting { due: now.wall.plus(delay_ms), delay_ms, level: Some(level) };
        let is_lost = matches!(settling.evidence, Evidence::MemberLost | Evidence::SeekBack);
        let expected = if settling.is_retried && failed < self.max {
            waits
        } else if is_lost {
            let place = place(entry.origin.as_ref().unwrap());
            // A withheld record ends with the failures counted so far.
            assert!(failed < CRASHES.max(self.max + 1), "{settling:?}");
            self.dead.insert(place, failed + 1);
            RetryState::Dead { at: now.wall }
        } else {
            let place = place(entry.origin.as_ref().unwrap());
            let known = self.in_place.remove(&place).unwrap_or_default();
            let limit = if settling.is_retried { self.max } else { self.limit(&settling.history) };
            // A limit that was lowered since the last failure applies now.
            assert_eq!(failed, limit.max(known), "a limit of {limit}: {settling:?}");
            self.dead.insert(place, failed + 1);
            RetryState::Dead { at: now.wall }
        };
        let found = (entry.state, entry.reconsume_times);
        assert_eq!(found, (expected, failed + 1), "settled: {settling:?}");
    }
}
