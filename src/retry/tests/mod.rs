//! Tests of the whole ledger, on a virtual clock.

mod delayed;
mod held;
mod imports;
mod ladder;
mod marked;
mod memory;
mod operate;
mod posted;
mod releases;
mod replay;
mod restart;
mod rules;
mod settling;
mod table;

use std::sync::Arc;

use crate::model::{GroupId, Moment, MonoMs, Origin, RetryPlace, WallMs};
use crate::retry::ledger::AT_ONCE;
use crate::retry::{
    BTreeEntries, BadNack, Bytes, Entries, Entry, Fact, FailureHistory, Ledger, LedgerAnswer,
    LedgerInput, LedgerOutput, LevelTable, Nack, NackOutcome, NackTarget, Policies, Policy,
    Reporter, RequestedDelay, StateKind,
};

/// The stream of the retry topic.
const STREAM: u32 = 7;

/// A ledger, its journal and its clock.
struct Rig {
    ledger: Ledger<BTreeEntries>,
    journal: Vec<Fact>,
    wakes: usize,
    now: Moment,
    /// The next offset of the retry topic.
    next: i64,
}

impl Rig {
    fn new(policy: Policy) -> Self {
        Self::with(Policies::new(policy, Vec::new()))
    }

    fn with(policies: Policies) -> Self {
        let now = Moment { wall: WallMs(1_700_000_000_000), mono: MonoMs(0) };
        let ledger = Ledger::new(BTreeEntries::default(), policies);
        let mut rig = Self { ledger, journal: Vec::new(), wakes: 0, now, next: 0 };
        rig.ledger.recovered(now);
        rig.drain();
        rig
    }

    fn advance(&mut self, ms: u64) {
        self.now = Moment { wall: self.now.wall.plus(ms), mono: self.now.mono.plus(ms) };
        for _ in 0..100 {
            let before = self.journal.len();
            self.ledger.handle_timeout(self.now);
            self.drain();
            let most = self.journal.len() - before;
            assert!(most <= 2 * AT_ONCE, "{most} facts at once");
            let deadline = self.ledger.poll_timeout();
            if deadline.is_none_or(|deadline| deadline.0 > self.now.mono) {
                return;
            }
        }
        panic!("a deadline lies ahead when all is done that is due");
    }

    fn send(&mut self, input: LedgerInput) -> Option<LedgerAnswer> {
        self.ledger.handle(self.now, input);
        self.drain()
    }

    /// Journals facts, counts wakes, returns the answer. Panics on a second answer.
    fn drain(&mut self) -> Option<LedgerAnswer> {
        let mut last = None;
        while let Some(output) = self.ledger.poll_output() {
            match output {
                LedgerOutput::Fact(fact) => self.journal.push(fact),
                LedgerOutput::Wake { .. } => self.wakes += 1,
                LedgerOutput::Answer(answer) => {
                    assert_eq!(last, None, "one answer per input");
                    last = Some(answer);
                }
            }
        }
        last
    }

    fn nacks(&mut self, group: &str, nacks: Vec<Nack>) -> LedgerAnswer {
        let by = Reporter { member: None, client: "app".into() };
        let input = LedgerInput::Nacks { group: group.into(), by, nacks };
        self.send(input).unwrap()
    }

    fn nack(&mut self, nack: Nack) -> Result<NackOutcome, BadNack> {
        match self.nacks("shop", vec![nack]) {
            LedgerAnswer::Nacked(outcomes) => Ok(outcomes[0]),
            LedgerAnswer::BadNacks(bad) => Err(bad[0].1),
            other => panic!("{other:?}"),
        }
    }

    /// Releases all due retries of the group into partition 0 of its topic.
    fn release(&mut self) -> Vec<(RetryPlace, Entry)> {
        let due = self.ledger.store().due(&shop(), self.now.wall, usize::MAX);
        let mut released = Vec::new();
        for id in due {
            let place = RetryPlace::in_stream(0, STREAM, self.next);
            self.next += 1;
            assert_eq!(self.send(LedgerInput::Release { id, place }), None);
            released.push((place, self.ledger.entry(id).unwrap()));
        }
        released
    }

    /// Releases the due retry; expects exactly one.
    fn release_one(&mut self) -> (RetryPlace, Entry) {
        let mut released = self.release();
        assert_eq!(released.len(), 1);
        released.remove(0)
    }

    /// The group commits this place. Returns the number of acknowledged retries.
    fn commit(&mut self, up_to: RetryPlace) -> usize {
        match self.send(LedgerInput::RetryCommit { group: shop(), up_to }) {
            Some(LedgerAnswer::Acknowledged(count)) => count,
            other => panic!("{other:?}"),
        }
    }

    /// Commits past this delivery; expects that the commit acknowledges one retry.
    fn acknowledge(&mut self, place: RetryPlace) {
        assert_eq!(self.commit(after(place)), 1);
    }

    fn origin_commit(&mut self, offset: i64) {
        let (group, topic) = ("shop".into(), "orders".into());
        let answer = self.send(LedgerInput::OriginCommit { group, topic, partition: 0, offset });
        assert_eq!(answer, None);
    }

    /// The group's entries by id.
    fn entries(&self) -> Vec<Entry> {
        entries_of(&self.ledger, &shop())
    }

    /// The group's entries in one state, by id.
    fn entries_in(&self, kind: StateKind) -> Vec<Entry> {
        self.entries().into_iter().filter(|entry| entry.state.kind() == kind).collect()
    }

    /// The group's entry; expects exactly one.
    fn only(&self) -> Entry {
        let mut all = self.entries();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    fn count(&self, kind: StateKind) -> u64 {
        self.ledger.counts(&shop()).of(kind)
    }

    /// Nacks `orders-0@offset` and releases its retry once it is due.
    fn unread(&mut self, offset: i64) -> (RetryPlace, Entry) {
        self.nack(fail(offset)).unwrap();
        self.advance(10_000);
        self.release_one()
    }
}

/// All entries of a group, by id.
pub(crate) fn entries_of<S: Entries>(ledger: &Ledger<S>, group: &GroupId) -> Vec<Entry> {
    let store = ledger.store();
    store.page(group, None, usize::MAX).into_iter().filter_map(|id| store.get(id)).collect()
}

fn shop() -> GroupId {
    "shop".into()
}

fn order(offset: i64) -> Origin {
    Origin { topic: "orders".into(), partition: 0, offset }
}

fn fail(offset: i64) -> Nack {
    Nack::of(NackTarget::Origin(order(offset)))
}

fn fail_delivery(place: RetryPlace) -> Nack {
    Nack::of(NackTarget::Delivery(place))
}

fn level(nack: Nack, level: i32) -> Nack {
    Nack { want: RequestedDelay { level: Some(level), delay_ms: None }, ..nack }
}

fn after(place: RetryPlace) -> RetryPlace {
    RetryPlace { offset: place.offset + 1, ..place }
}

fn max(max_reconsume_times: u32) -> Policy {
    Policy { max_reconsume_times, ..Policy::default() }
}

fn table(text: &str) -> Policy {
    Policy { levels: Arc::new(LevelTable::parse(text).unwrap().0), ..Policy::default() }
}
