//! What the log tells of a record (`reprise retry show`, `/api/v1/explain?record=`) is what has
//! happened to it, oldest first: what was said and in which way, by which level it waits, each
//! hand-out, what was inferred, the counts, and that nobody was given it while it was held.

use std::collections::{BTreeMap, BTreeSet};

use reprise::engine::{Happening, Sought, Teller};
use reprise::model::{EntryId, LaneOffset, MonoMs, Now, TopicPartition, WallMs};
use reprise::retry::detector::{Settling, WindowRecord};
use reprise::retry::{Disposition, Entry, Evidence, Fact, State};

use crate::app::World;
use crate::handler::{Truth, Way};
use crate::law::Law;
use crate::retries::{Place, Retries, origin, place, shop};
use crate::world::Script;

/// Something that happened to a record, as whoever did it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    /// It was said to have failed in this way; what the law says comes of it, and its count.
    Said(Evidence, State, u32),
    /// The same where its partition waits for it: the count.
    Waited(u32),
    /// It left its place, charged for what was seen: what, and its count.
    Settled(Evidence, u32),
    /// It was handed out from the queue.
    Out(LaneOffset),
}

/// All that was journalled, in that order, and what was handed out of partitions in between.
#[derive(Debug)]
enum Line {
    Fact(Fact),
    Window(Now, WindowRecord),
    Given(MonoMs),
}

#[derive(Debug, Default)]
pub(crate) struct Story {
    lines: Vec<Line>,
    /// Those that are about a record.
    of: BTreeMap<Place, Vec<usize>>,
    entries: BTreeMap<EntryId, Place>,
    /// Of which records the latest window of a partition tells.
    windows: BTreeMap<TopicPartition, BTreeSet<i64>>,
    /// Lines before which the sidecar was started anew: what is held goes by another clock.
    restarts: Vec<usize>,
    ledger: BTreeMap<Place, Vec<Did>>,
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
            Fact::Slot { .. } | Fact::Tables { .. } => return,
        };
        self.line([place], Line::Fact(fact.clone()));
    }

    fn window(&mut self, of: &TopicPartition, now: Now, window: WindowRecord) {
        let suspects = window.suspects.iter().map(|suspect| suspect.offset);
        let told: BTreeSet<i64> = suspects.chain(window.skipped.iter().copied()).collect();
        let mut all = self.windows.insert(of.clone(), told.clone()).unwrap_or_default();
        all.extend(told);
        let places = all.into_iter().map(|offset| (of.clone(), offset));
        self.line(places, Line::Window(now, window));
    }

    fn line(&mut self, places: impl IntoIterator<Item = Place>, line: Line) {
        for place in places {
            self.of.entry(place).or_default().push(self.lines.len());
        }
        self.lines.push(line);
    }

    pub(crate) fn restarted(&mut self) {
        self.restarts.push(self.lines.len());
    }

    fn did(&mut self, place: Place, did: Did) {
        self.ledger.entry(place).or_default().push(did);
    }

    pub(crate) fn said(&mut self, place: Place, way: Evidence, (state, count): (State, u32)) {
        self.did(place, Did::Said(way, state, count));
    }

    pub(crate) fn waits(&mut self, place: Place, count: u32) {
        self.did(place, Did::Waited(count));
    }

    pub(crate) fn settled(&mut self, settling: &Settling) {
        let place = (settling.partition.clone(), settling.offset);
        self.did(place, Did::Settled(settling.evidence, settling.reconsume_times + 1));
    }

    /// What is open is given again at the same offset: no other hand-out.
    pub(crate) fn out(&mut self, given: &[(LaneOffset, Entry)]) {
        for (lane, entry) in given {
            let (place, out) = (place(entry.origin.as_ref().unwrap()), Did::Out(*lane));
            if !self.ledger.get(&place).is_some_and(|known| known.contains(&out)) {
                self.did(place, out);
            }
        }
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

    pub(crate) fn gave(&mut self, place: Place) {
        let at = self.now().mono;
        if let Some(retries) = &mut self.retries {
            retries.story.line([place], Line::Given(at));
        }
    }
}

/// One record's story as it is told.
struct Telling<'a> {
    place: &'a Place,
    truth: &'a Truth,
    teller: Teller,
    told: Vec<Did>,
    /// The entry that answers for it.
    stands: Option<Entry>,
    held_until: Option<MonoMs>,
}

impl<'a> Telling<'a> {
    fn of(place: &'a Place, truth: &'a Truth) -> Self {
        let teller = Teller::new(Sought::Origin(Some(shop()), origin(place)));
        Self { place, truth, teller, told: Vec::new(), stands: None, held_until: None }
    }

    fn read(&mut self, line: &Line) {
        match line {
            Line::Fact(fact) => {
                self.teller.fact(fact);
                self.hear(Now::default());
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

    fn hear(&mut self, now: Now) {
        for happened in self.teller.told() {
            self.happened(now, happened.what);
        }
    }

    fn happened(&mut self, now: Now, what: Happening) {
        match what {
            Happening::Entry(entry, cause) => self.changed(*entry, cause.evidence),
            Happening::Forgotten(_) => self.stands = None,
            Happening::Charged(count, Disposition::Rejected) => self.told.push(Did::Waited(count)),
            Happening::Charged(count, why) => self.is_inferred(count, why),
            Happening::Suspected(due) => {
                let left = |due: WallMs| now.mono.plus(due.since(now.wall));
                self.held_until = due.map(left);
            }
            Happening::Cleared | Happening::Skipped | Happening::Passed => self.held_until = None,
            Happening::FormerForgotten(_) | Happening::Lost(_) | Happening::Out { .. } => {}
        }
    }

    fn changed(&mut self, entry: Entry, why: Evidence) {
        let count = entry.reconsume_times;
        let did = match why {
            Evidence::CommitMarker | Evidence::Nack | Evidence::AdminNack => {
                Some(Did::Said(why, entry.state, count))
            }
            Evidence::HandOut => entry.inflight().map(Did::Out),
            Evidence::Behind => None,
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

    /// A failure that nobody spoke of was one of this kind.
    fn is_inferred(&self, count: u32, why: Disposition) {
        let (place, truth) = (self.place, self.truth);
        assert!(count <= truth.may_count(), "{place:?}: {count} of {truth:?}");
        let is_it = match why {
            Disposition::SeekBack => matches!(truth.way, Way::Throws | Way::Any),
            Disposition::Crashed | Disposition::CommitFailed => {
                matches!(truth.way, Way::Dies | Way::Any)
            }
            _ => false,
        };
        assert!(is_it || truth.lost > 0, "{place:?} is told to have failed by {why:?}: {truth:?}");
    }
}

impl Retries {
    /// What is told of one record.
    pub(crate) fn is_told(&self, place: &Place, truth: &Truth, law: &Law) {
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
    /// What people are told of a suspect now is what is told of it after a restart.
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
