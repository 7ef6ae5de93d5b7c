//! The brokers, the sidecar's detector and its retries, and the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use reprise::model::{Moment, MonoMs, Origin, TopicPartition, WallMs};
use reprise::retry::detector::{
    DeliveredRange, Detector, DetectorOutput as Told, ExhaustedRecord, GroupObservation, Rules,
};
use reprise::retry::{
    BreakerRules, Entries, FailureHistory, Ledger, LedgerAnswer, LedgerInput, LedgerOutput, Nack,
    NackOutcome, NackTarget, Policies, Policy, Reporter, SignalRule, StateKind,
};

use crate::btree_entries::BTreeEntries;
use crate::inference::retries::{delivery, retry_partition, shop};
use crate::outage::member::Member;

/// Time between two steps of the world.
const STEP_MS: u64 = 10;
/// Start of the outage.
const BEGINS_MS: u64 = 100_000;
/// Records are produced for this long after the outage.
const AFTER_MS: u64 = 100_000;
/// Every retry was delivered by then.
const ENDS_MS: u64 = 48 * 3_600_000;

/// The way in which failed records are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryWay {
    /// The application nacks records; they are delivered again from the retry topic.
    Retries,
    /// The handler throws, and the client seeks back.
    InPlace,
}

impl fmt::Display for RetryWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Retries => "retry topic",
            Self::InPlace => "in place",
        })
    }
}

/// The records that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fails {
    /// Records handled during the outage.
    InTheOutage,
    /// Besides those, one record of this many fails at each delivery.
    OneOf(i64),
}

impl fmt::Display for Fails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InTheOutage => Ok(()),
            Self::OneOf(many) => write!(f, ", one in {many} always fails"),
        }
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) records: i64,
    pub(crate) dead: usize,
    /// Records that always fail.
    pub(crate) poisonous: usize,
    /// Records that are neither handled nor dead letters.
    pub(crate) lost: usize,
    /// Records of test batches.
    pub(crate) tested: usize,
    /// Records with counted failures.
    pub(crate) charged: usize,
    /// The most failures of one record.
    pub(crate) most: u32,
}

pub(crate) fn of(partition: i32) -> TopicPartition {
    TopicPartition { topic: "orders".into(), partition }
}

pub(crate) struct World {
    pub(crate) at: u64,
    pub(crate) detector: Detector,
    ledger: Ledger<BTreeEntries>,
    way: RetryWay,
    partitions: i32,
    records: i64,
    outage_ms: u64,
    fails: Fails,
    pub(crate) committed: BTreeMap<TopicPartition, i64>,
    handled: BTreeSet<(TopicPartition, i64)>,
    dead: BTreeSet<(TopicPartition, i64)>,
    charged: BTreeMap<(TopicPartition, i64), u32>,
    pub(crate) tested: usize,
    /// The records of the retry topic.
    released: Vec<(TopicPartition, i64)>,
    /// Rises when a pending Fetch may find something new.
    pub(crate) news: u64,
}

impl World {
    pub(crate) fn new(
        way: RetryWay,
        partitions: i32,
        records: i64,
        outage_s: u64,
        fails: Fails,
    ) -> Self {
        let policy = Policy {
            breaker: Some(BreakerRules::default()),
            on_seek_back: SignalRule::Retry,
            ..Policy::default()
        };
        let detector = Detector::new(Rules::from(&policy));
        let policies = Policies::new(policy, Vec::new());
        let mut world = Self {
            at: 1_000,
            detector,
            ledger: Ledger::new(BTreeEntries::default(), policies),
            way,
            partitions,
            records,
            outage_ms: outage_s * 1_000,
            fails,
            committed: (0..partitions).map(|n| (of(n), 0)).collect(),
            handled: BTreeSet::new(),
            dead: BTreeSet::new(),
            charged: BTreeMap::new(),
            tested: 0,
            released: Vec::new(),
            news: 0,
        };
        world.ledger.recovered(world.now());
        world
    }

    pub(crate) fn run(mut self) -> Ran {
        let (way, partitions) = (self.way, self.partitions);
        let members = partitions.min(4);
        let mut members: Vec<Member> = (0..members)
            .map(|nth| {
                let own = (0..partitions).filter(|n| n % members == nth).map(of);
                Member::join(&mut self, nth, way, own.collect())
            })
            .collect();
        while !self.is_over() {
            for member in &mut members {
                member.live(&mut self);
            }
            self.pass();
        }
        let each = |n| (0..self.len(n)).map(move |offset| (of(n), offset));
        let all: Vec<(TopicPartition, i64)> = (0..partitions).flat_map(each).collect();
        let is_poisonous = |(of, offset): &&(TopicPartition, i64)| self.always_fails(of, *offset);
        let is_lost = |one: &&(TopicPartition, i64)| {
            !self.handled.contains(*one) && !self.dead.contains(*one)
        };
        Ran {
            records: self.records,
            dead: self.dead.len(),
            poisonous: all.iter().filter(is_poisonous).count(),
            lost: all.iter().filter(is_lost).count(),
            tested: self.tested,
            charged: self.charged.len(),
            most: self.charged.values().max().copied().unwrap_or(0),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment { wall: WallMs(i64::try_from(self.at).unwrap()), mono: MonoMs(self.at) }
    }

    /// Number of records that the partition has in the end.
    fn len(&self, partition: i32) -> i64 {
        let (all, each) = (self.records, i64::from(self.partitions));
        all / each + i64::from(i64::from(partition) < all % each)
    }

    /// Number of records so far: they are produced at one rate before, during and after the outage.
    pub(crate) fn end(&self, of: &TopicPartition) -> i64 {
        if *of == retry_partition() {
            return i64::try_from(self.released.len()).unwrap();
        }
        let in_all = i64::try_from(BEGINS_MS + self.outage_ms + AFTER_MS).unwrap();
        let at = i64::try_from(self.at).unwrap().min(in_all);
        self.len(of.partition) * at / in_all
    }

    /// The record as produced that this one is, or copies.
    fn produced(&self, of: &TopicPartition, offset: i64) -> (TopicPartition, i64) {
        if *of == retry_partition() {
            return self.released[usize::try_from(offset).unwrap()].clone();
        }
        (of.clone(), offset)
    }

    fn is_over(&self) -> bool {
        let is_consumed = |(of, committed): (&TopicPartition, &i64)| {
            let is_retry = *of == retry_partition();
            *committed >= if is_retry { self.end(of) } else { self.len(of.partition) }
        };
        let counts = self.ledger.counts(&shop());
        let open = [StateKind::Waiting, StateKind::Unread].map(|kind| counts.of(kind));
        self.at > ENDS_MS || (self.committed.iter().all(is_consumed) && open == [0, 0])
    }

    fn pass(&mut self) {
        self.at += STEP_MS;
        let now = self.now();
        if self.at.is_multiple_of(1_000) {
            self.detector.handle_timeout(now);
            for settling in self.detector.settlings_let_go() {
                self.settle(&settling);
            }
        }
        if self.ledger.poll_timeout().is_some_and(|deadline| deadline.0 <= now.mono) {
            self.ledger.handle_timeout(now);
        }
        self.drain();
        if self.way == RetryWay::Retries {
            self.release();
        }
    }

    /// Releases every due retry.
    fn release(&mut self) {
        for id in self.ledger.store().due(&shop(), self.now().wall, usize::MAX) {
            let origin = self.ledger.entry(id).unwrap().origin.unwrap();
            let place = delivery(self.end(&retry_partition()));
            self.ask(LedgerInput::Release { id, place });
            self.released.push((TopicPartition::from(&origin), origin.offset));
            self.news += 1;
        }
    }

    fn always_fails(&self, of: &TopicPartition, offset: i64) -> bool {
        match self.fails {
            Fails::InTheOutage => false,
            Fails::OneOf(many) => {
                let has_neighbour = offset + 1 < self.len(of.partition);
                has_neighbour && (offset + 7 * i64::from(of.partition)) % many == 50
            }
        }
    }

    /// Whether the handler succeeds on a record.
    pub(crate) fn is_handled(&mut self, of: &TopicPartition, offset: i64) -> bool {
        let (of, offset) = self.produced(of, offset);
        let outage = BEGINS_MS..BEGINS_MS + self.outage_ms;
        let is_handled = !self.always_fails(&of, offset) && !outage.contains(&self.at);
        if is_handled {
            self.handled.insert((of, offset));
        }
        is_handled
    }

    pub(crate) fn tell(&mut self, seen: GroupObservation) {
        let now = self.now();
        self.detector.handle(now, seen);
        self.drain();
    }

    pub(crate) fn commit(&mut self, of: &TopicPartition, offset: i64) {
        if let Some(settling) = self.detector.settling_before(of, offset) {
            self.settle(&settling);
        }
        self.committed.insert(of.clone(), offset);
        let (group, TopicPartition { topic, partition }) = (shop(), of.clone());
        self.ask(if *of == retry_partition() {
            LedgerInput::RetryCommit { group, up_to: delivery(offset) }
        } else {
            LedgerInput::OriginCommit { group, topic, partition, offset }
        });
        self.tell(GroupObservation::Committed { partition: of.clone(), offset });
    }

    pub(crate) fn hand(
        &mut self,
        by: &reprise::retry::detector::MemberFetch,
        handed: &DeliveredRange,
    ) {
        let records = usize::try_from(handed.end - handed.from).unwrap();
        self.tested += if self.detector.is_held() { records } else { 0 };
        let now = self.now();
        self.detector.handed(now, by, std::slice::from_ref(handed));
        self.drain();
    }

    /// Makes a record in place a dead letter.
    pub(crate) fn settle(&mut self, settling: &ExhaustedRecord) {
        let (of, offset) = (settling.partition.clone(), settling.offset);
        self.dead.insert((of.clone(), offset));
        let now = self.now();
        self.detector.settled(now, &of, offset..=offset);
        self.drain();
    }

    /// Nacks a record, or a retry.
    pub(crate) fn nack(&mut self, of: &TopicPartition, offset: i64) {
        let (partition, produced) = (of.clone(), self.produced(of, offset));
        let (named, carried, seen) = if *of == retry_partition() {
            let spared = self.detector.is_paused();
            let carried = FailureHistory { spared, ..FailureHistory::default() };
            let seen = GroupObservation::RetryNacked { partition, offset };
            (NackTarget::Delivery(delivery(offset)), carried, seen)
        } else {
            let TopicPartition { topic, partition: index } = partition.clone();
            let named = NackTarget::Origin(Origin { topic, partition: index, offset });
            let carried = self.detector.charged(of, offset);
            (named, carried, GroupObservation::Nacked { partition, offset })
        };
        if !carried.spared {
            *self.charged.entry(produced.clone()).or_default() += 1;
        }
        let nack =
            Nack { committed: Some(self.committed[&produced.0]), carried, ..Nack::of(named) };
        let by = Reporter { member: None, client: "app".into() };
        let nacks = vec![nack];
        match self.ask(LedgerInput::Nacks { group: shop(), by, nacks }) {
            Some(LedgerAnswer::Nacked(outcomes)) => {
                if matches!(outcomes[..], [NackOutcome::Dead { .. }]) {
                    self.dead.insert(produced);
                }
            }
            other => panic!("{other:?}"),
        }
        self.tell(seen);
    }

    fn ask(&mut self, input: LedgerInput) -> Option<LedgerAnswer> {
        self.ledger.handle(self.now(), input);
        self.drain()
    }

    /// Carries out the ledger's actions. Returns the last answer.
    pub(crate) fn drain(&mut self) -> Option<LedgerAnswer> {
        let mut last = None;
        while let Some(output) = self.ledger.poll_output() {
            match output {
                LedgerOutput::Answer(answer) => last = Some(answer),
                LedgerOutput::Wake { .. } => self.news += 1,
                LedgerOutput::Fact(_) => {}
            }
        }
        while let Some(output) = self.detector.poll_output() {
            match output {
                Told::Wake => self.news += 1,
                Told::Window { partition, window: Some(window) } => {
                    for suspect in window.suspects.iter().filter(|s| s.reconsume_times > 0) {
                        let of = (partition.clone(), suspect.offset);
                        let charged = self.charged.entry(of).or_default();
                        *charged = suspect.reconsume_times.max(*charged);
                    }
                }
                _ => {}
            }
        }
        last
    }
}
