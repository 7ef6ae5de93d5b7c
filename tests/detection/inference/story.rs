//! The history of a record in the log (`reprise retry show`, `/api/v1/explain?record=`) against the
//! script's events. The history is complete and oldest first: nacks with their kind, levels,
//! deliveries, inferred failures and counts. No record is delivered while it is held.

use std::collections::{BTreeMap, BTreeSet};

use reprise::engine::{EventKind, HistoryQuery, Teller};
use reprise::model::{EntryId, Moment, MonoMs, RetryPlace, TopicPartition, WallMs};
use reprise::retry::detector::WindowRecord;
use reprise::retry::{Disposition, Entry, Evidence, Fact, RetryState};

use crate::inference::app::World;
use crate::inference::handler::{FailureWay, Truth};
use crate::inference::law::Law;
use crate::inference::retries::{RecordOrigin, Retries, origin, place, shop};
use crate::inference::world::Script;

/// An event of a record, noted by the script when it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    /// A nack: its kind, the expected state and the expected count.
    Said(Evidence, RetryState, u32),
    /// A nack of a record that its partition waits for: the expected count.
    Waited(u32),
    /// An inferred failure that moved the record from its partition: its evidence and count.
    Settled(Evidence, u32),
    /// A release into the retry topic.
    Out(RetryPlace),
}

/// Journalled facts and windows in their order, with deliveries in between.
#[derive(Debug)]
enum Line {
    Fact(Fact),
    Window(Moment, WindowRecord),
    Given(MonoMs),
}

#[derive(Debug, Default)]
pub(crate) struct Story {
    lines: Vec<Line>,
    /// Numbers of the lines about each record.
    of: BTreeMap<RecordOrigin, Vec<usize>>,
    entries: BTreeMap<EntryId, RecordOrigin>,
    /// Records in the latest window of each partition.
    windows: BTreeMap<TopicPartition, BTreeSet<i64>>,
    /// Numbers of the lines before which the sidecar restarted: holds go by a new clock from there.
    restarts: Vec<usize>,
    ledger: BTreeMap<RecordOrigin, Vec<Did>>,
}

impl Story {
    pub(crate) fn fact(&mut self, fact: &Fact) {
        let place = match fact {
            Fact::Entry { entry, .. } => {
                let place = place(entry.origin.as_ref().unwrap());
                self.entries.insert(entry.id, place.clone());
                place
            }
            Fact::Forgotten { id, .. } => self.entries[id].clone(),
            Fact::Tables { .. } => return,
        };
        self.line([place], Line::Fact(fact.clone()));
    }

    fn window(&mut self, of: &TopicPartition, now: Moment, window: WindowRecord) {
        let suspects = window.suspects.iter().map(|suspect| suspect.offset);
        let told: BTreeSet<i64> = suspects.chain(window.skipped.iter().copied()).collect();
        let mut all = self.windows.insert(of.clone(), told.clone()).unwrap_or_default();
        all.extend(told);
        let places = all.into_iter().map(|offset| (of.clone(), offset));
        self.line(places, Line::Window(now, window));
    }

    fn line(&mut self, places: impl IntoIterator<Item = RecordOrigin>, line: Line) {
        for place in places {
            self.of.entry(place).or_default().push(self.lines.len());
        }
        self.lines.push(line);
    }

    pub(crate) fn restarted(&mut self) {
        self.restarts.push(self.lines.len());
    }

    fn did(&mut self, place: RecordOrigin, did: Did) {
        self.ledger.entry(place).or_default().push(did);
    }

    pub(crate) fn said(
        &mut self,
        place: RecordOrigin,
        way: Evidence,
        (state, count): (RetryState, u32),
    ) {
        self.did(place, Did::Said(way, state, count));
    }

    pub(crate) fn waits(&mut self, place: RecordOrigin, count: u32) {
        self.did(place, Did::Waited(count));
    }

    pub(crate) fn settled(&mut self, place: RecordOrigin, why: Evidence, count: u32) {
        self.did(place, Did::Settled(why, count));
    }

    pub(crate) fn out(&mut self, place: RecordOrigin, at: RetryPlace) {
        self.did(place, Did::Out(at));
    }
}

impl World {
    pub(crate) fn told(&mut self, of: &TopicPartition, window: Option<&WindowRecord>) {
        let now = self.now();
        if let Some(retries) = &mut self.retries {
            let window = window.cloned().unwrap_or_default();
            retries.law.charged(of, &window.suspects);
            retries.story.window(of, now, window);
        }
    }

    pub(crate) fn gave(&mut self, place: RecordOrigin) {
        let at = self.now().mono;
        if let Some(retries) = &mut self.retries {
            retries.story.line([place], Line::Given(at));
        }
    }
}

/// The history of one record.
struct Telling<'a> {
    place: &'a RecordOrigin,
    truth: &'a Truth,
    teller: Teller,
    told: Vec<Did>,
    /// The entry that the history shows as current.
    stands: Option<Entry>,
    held_until: Option<MonoMs>,
}

impl<'a> Telling<'a> {
    fn of(place: &'a RecordOrigin, truth: &'a Truth) -> Self {
        let teller = Teller::new(HistoryQuery::Origin(Some(shop()), origin(place)));
        Self { place, truth, teller, told: Vec::new(), stands: None, held_until: None }
    }

    fn read(&mut self, line: &Line) {
        match line {
            Line::Fact(fact) => {
                self.teller.fact(fact);
                self.hear(Moment::default());
            }
            Line::Window(now, window) => {
                self.teller.window(&shop(), &self.place.0, window);
                self.hear(*now);
            }
            Line::Given(at) => {
                let (place, until) = (self.place, self.held_until);
                let is_free = until.is_none_or(|until| until <= *at);
                assert!(is_free, "{place:?} was given at {at:?}, held until {until:?}");
            }
        }
    }

    fn hear(&mut self, now: Moment) {
        for happened in self.teller.told() {
            self.happened(now, happened.what);
        }
    }

    fn happened(&mut self, now: Moment, what: EventKind) {
        match what {
            EventKind::Entry(entry, cause) => self.changed(*entry, cause.evidence),
            EventKind::Forgotten(_) => self.stands = None,
            EventKind::Charged(count, Disposition::Rejected) => self.told.push(Did::Waited(count)),
            EventKind::Charged(count, why) => self.is_inferred(count, why),
            EventKind::Suspected(due) => {
                let left = |due: WallMs| now.mono.plus(due.since(now.wall));
                self.held_until = due.map(left);
            }
            EventKind::Cleared | EventKind::Skipped | EventKind::Passed => self.held_until = None,
            EventKind::FormerForgotten(_) | EventKind::Lost(_) => {}
        }
    }

    fn changed(&mut self, entry: Entry, why: Evidence) {
        let count = entry.reconsume_times;
        let did = match why {
            Evidence::CommitMarker | Evidence::Nack | Evidence::AdminNack | Evidence::Redrive => {
                Some(Did::Said(why, entry.state, count))
            }
            Evidence::HandOut => entry.unread().map(Did::Out),
            Evidence::MemberLost | Evidence::SeekBack => Some(Did::Settled(why, count)),
            _ if self.stands.as_ref().is_none_or(|known| known.id != entry.id)
                && !entry.superseded =>
            {
                Some(Did::Settled(why, count))
            }
            _ => None,
        };
        self.told.extend(did);
        match &self.stands {
            Some(known) if entry.superseded && known.id != entry.id => {}
            _ => self.stands = Some(entry).filter(|entry| !entry.superseded),
        }
    }

    /// Checks the kind of an inferred failure.
    fn is_inferred(&self, count: u32, why: Disposition) {
        let (place, truth) = (self.place, self.truth);
        assert!(count <= truth.may_count(), "{place:?}: {count} of {truth:?}");
        let is_it = match why {
            Disposition::SeekBack => matches!(truth.way, FailureWay::Throws | FailureWay::Any),
            Disposition::Crashed => {
                matches!(truth.way, FailureWay::Dies | FailureWay::Any)
            }
            _ => false,
        };
        assert!(is_it || truth.lost > 0, "{place:?} is told to have failed by {why:?}: {truth:?}");
    }
}

impl Retries {
    /// Checks the history of one record.
    pub(crate) fn is_told(&self, place: &RecordOrigin, truth: &Truth, law: &Law) {
        let mut telling = Telling::of(place, truth);
        let mut restarts = self.story.restarts.iter().peekable();
        for nth in self.story.of.get(place).into_iter().flatten() {
            while restarts.next_if(|restart| *restart <= nth).is_some() {
                telling.held_until = None;
            }
            telling.read(&self.story.lines[*nth]);
        }
        let ledger = self.story.ledger.get(place).cloned().unwrap_or_default();
        assert_eq!(telling.told, ledger, "told of {place:?}, and what was so");
        assert_eq!(telling.stands.as_ref(), law.of(place), "where {place:?} stands");
    }
}

impl Script {
    /// Checks that the explained suspects are those in the journal.
    pub(crate) fn explains(&self) {
        for window in self.world.detector.explain(self.world.now()) {
            let kept = self.world.kept.get(&window.partition).cloned().unwrap_or_default();
            let kept = kept.suspects.iter().map(|one| (one.offset, one.reconsume_times));
            let told = window.suspects.iter().map(|one| (one.offset, one.reconsume_times));
            let (kept, told): (Vec<_>, Vec<_>) = (kept.collect(), told.collect());
            assert_eq!(told, kept, "suspects of {}", window.partition);
        }
    }
}
