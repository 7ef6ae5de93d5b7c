//! Random healthy consumers: slow records, batches, late and backward commits, pauses, rebalances,
//! restarts, replays. No failure may count.
//!
//! `INFERENCE_SEEDS=10000 cargo test --test detection inference` runs more seeds;
//! `INFERENCE_SEED=<n>` replays one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fastrand::Rng;
use reprise::model::{MemberId, OffsetRuns, TopicPartition};
use reprise::retry::SignalRule;
use reprise::retry::detector::{
    DeliveredRange, FetchDecision, FetchPosition, GroupObservation, MemberFetch, Rules,
};

use crate::inference::WITH_BREAKER as DEFAULTS;
use crate::inference::app::{WAIT_MS, World};
use crate::inference::turn::by_turn;

/// The timeout is longer than any commit takes, and shorter than a script.
const RULES: Rules =
    Rules { consume_timeout_ms: 30_000, on_seek_back: SignalRule::Observe, ..DEFAULTS };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Record,
    Batch,
    Every(u64),
    /// Each commit arrives a while later, in order.
    Async,
    /// Each worker commits its own record when it is done, in any order.
    Pool,
    /// Delivered records are committed at the next poll.
    Auto(u64),
}

#[derive(Debug)]
struct Consumer {
    by: MemberFetch,
    style: Style,
    /// The longest handling time of a record.
    slow_ms: u64,
    /// The consumer fetches a partition if fewer records than this are left of it.
    ahead: usize,
    /// The consumer fetches only when no record is left.
    is_sequential: bool,
    positions: BTreeMap<TopicPartition, i64>,
    fetched: BTreeMap<TopicPartition, VecDeque<i64>>,
    paused: BTreeSet<TopicPartition>,
    /// Partitions paused or resumed during a Fetch from this offset: the records of that Fetch are
    /// dropped.
    stale: BTreeMap<TopicPartition, i64>,
    done: BTreeMap<TopicPartition, BTreeSet<i64>>,
    next: BTreeMap<TopicPartition, i64>,
    late: VecDeque<(u64, TopicPartition, i64)>,
    committed_at: u64,
    busy_until: u64,
    asked_until: u64,
}

struct Script {
    world: World,
    rng: Rng,
    members: Vec<Consumer>,
    epoch: i32,
    named: u64,
    /// Step numbers from 60 up to this one, of a thousand, pause or resume a partition.
    pauses_below: u32,
    charged: Vec<String>,
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let world = World::new(RULES, rng.i32(1..=5), rng.i64(20..200));
        let pauses_below = if rng.bool() { 90 } else { 200 };
        let mut script = Self {
            world,
            rng,
            members: Vec::new(),
            epoch: 0,
            named: 0,
            pauses_below,
            charged: Vec::new(),
        };
        for _ in 0..script.rng.usize(1..=3) {
            script.join();
        }
        script.rebalance();
        script
    }

    fn join(&mut self) {
        self.named += 1;
        let member = MemberId::new(&format!("m{}", self.named));
        let style = match self.rng.u8(0..6) {
            0 => Style::Record,
            1 => Style::Batch,
            2 => Style::Every(self.rng.u64(500..6_000)),
            3 => Style::Async,
            4 => Style::Pool,
            _ => Style::Auto(self.rng.u64(500..6_000)),
        };
        let by = MemberFetch {
            member,
            came: self.world.now().mono,
            conn: self.named,
            max_wait_ms: WAIT_MS,
            retries: reprise::retry::RetrySubscription::default(),
        };
        self.members.push(Consumer {
            by,
            style,
            slow_ms: [15, 15, 900, 4_000][self.rng.usize(0..4)],
            ahead: if self.rng.bool() { 1 } else { 100 },
            is_sequential: self.rng.u8(0..3) == 0,
            positions: BTreeMap::new(),
            fetched: BTreeMap::new(),
            paused: BTreeSet::new(),
            stale: BTreeMap::new(),
            done: BTreeMap::new(),
            next: BTreeMap::new(),
            late: VecDeque::new(),
            committed_at: 0,
            busy_until: 0,
            asked_until: 0,
        });
    }

    /// All members rejoin: handled records are committed, and partitions change hands.
    fn rebalance(&mut self) {
        self.epoch += 1;
        for n in 0..self.members.len() {
            self.commit_done(n);
            let (member, epoch) = (self.members[n].by.member.clone(), self.epoch);
            let now = self.world.now();
            self.world.detector.handle(now, GroupObservation::Assigned { member, epoch });
        }
        let partitions: Vec<TopicPartition> = self.world.ends.keys().cloned().collect();
        let mut assigned: Vec<BTreeSet<TopicPartition>> = vec![BTreeSet::new(); self.members.len()];
        for partition in partitions {
            let to = self.rng.usize(0..self.members.len());
            assigned[to].insert(partition);
        }
        for (consumer, assigned) in self.members.iter_mut().zip(assigned) {
            consumer.positions.retain(|partition, _| assigned.contains(partition));
            let refetches = self.rng.bool();
            for partition in assigned {
                let committed = self.world.committed.get(&partition).copied().unwrap_or(0);
                let is_kept = consumer.positions.contains_key(&partition);
                if !is_kept || refetches {
                    let from = if is_kept { consumer.first(&partition) } else { committed };
                    consumer.start_at(&partition, from);
                }
            }
            consumer.forget_others();
        }
        self.check();
    }

    /// One step of one member, or of the world.
    fn step(&mut self) {
        match self.rng.u32(0..1_000) {
            0..6 => self.rebalance(),
            6..12 => self.restart(),
            12..15 if self.members.len() < 4 => {
                self.join();
                self.rebalance();
            }
            15..20 => self.replay(),
            20..60 => {
                for end in self.world.ends.values_mut() {
                    *end += self.rng.i64(0..40);
                }
            }
            step if step >= 60 && step < self.pauses_below => self.pause(),
            _ => {
                for n in 0..self.members.len() {
                    self.live(n);
                }
                let ms = self.rng.u64(1..60);
                self.world.pass(ms);
            }
        }
        self.check();
    }

    /// Stops a process, and starts another one, as a new member or as the same static one.
    fn restart(&mut self) {
        let n = self.rng.usize(0..self.members.len());
        self.commit_done(n);
        let is_static = self.rng.bool();
        let old = self.members.remove(n);
        if !is_static {
            let now = self.world.now();
            self.world
                .detector
                .handle(now, GroupObservation::Lost { member: old.by.member.clone(), left: true });
        }
        self.join();
        if is_static && let Some(new) = self.members.last_mut() {
            new.by.member = old.by.member;
        }
        self.rebalance();
    }

    /// Seeks back to an offset committed long ago.
    fn replay(&mut self) {
        let n = self.rng.usize(0..self.members.len());
        let Some((partition, _)) = self.members[n].positions.iter().next() else { return };
        let partition = partition.clone();
        let committed = self.world.committed.get(&partition).copied().unwrap_or(0);
        if committed == 0 {
            return;
        }
        let to = self.rng.i64(0..committed);
        if self.rng.bool() {
            self.world.committed.insert(partition.clone(), to);
            let (of, now) = (partition.clone(), self.world.now());
            let seen = GroupObservation::Committed { partition: of, offset: to };
            self.world.detector.handle(now, seen);
        }
        self.members[n].start_at(&partition, to);
    }

    fn pause(&mut self) {
        let n = self.rng.usize(0..self.members.len());
        let consumer = &mut self.members[n];
        let is_waiting = consumer.asked_until > self.world.at;
        for (partition, position) in consumer.positions.clone() {
            if consumer.paused.remove(&partition) {
                // Prefetched records were dropped, so they are fetched again.
                consumer.refetch(&partition);
            } else if self.rng.bool() {
                if is_waiting {
                    consumer.stale.insert(partition.clone(), position);
                }
                consumer.paused.insert(partition);
            }
        }
    }

    /// Fetches, handles, commits.
    fn live(&mut self, n: usize) {
        let at = self.world.at;
        if self.members[n].asked_until <= at {
            self.fetch(n);
        }
        let consumer = &mut self.members[n];
        if consumer.busy_until <= at {
            let ready = consumer.fetched.iter_mut().filter(|(p, _)| !consumer.paused.contains(*p));
            let ready: Vec<TopicPartition> =
                ready.filter(|(_, left)| !left.is_empty()).map(|(p, _)| p.clone()).collect();
            for partition in ready {
                let several = if consumer.style == Style::Pool { 4 } else { 1 };
                let left = consumer.fetched.get_mut(&partition).unwrap();
                let mut batch: Vec<i64> = left.drain(..left.len().min(several)).collect();
                if consumer.style == Style::Pool {
                    self.rng.shuffle(&mut batch);
                }
                consumer.busy_until = at + self.rng.u64(0..=consumer.slow_ms);
                for offset in batch {
                    consumer.done.entry(partition.clone()).or_default().insert(offset);
                    if consumer.style == Style::Pool {
                        consumer.late.push_back((at, partition.clone(), offset + 1));
                    }
                }
            }
        }
        self.commit(n);
    }

    fn fetch(&mut self, n: usize) {
        let now = self.world.now();
        let consumer = &mut self.members[n];
        let has_some =
            consumer.fetched.iter().any(|(p, l)| !l.is_empty() && !consumer.paused.contains(p));
        if consumer.is_sequential && (has_some || consumer.busy_until > self.world.at) {
            return;
        }
        let is_empty =
            |p: &&TopicPartition| consumer.fetched.get(*p).is_none_or(|l| l.len() < consumer.ahead);
        let stale = std::mem::take(&mut consumer.stale);
        let is_wanted = |p: &&TopicPartition| !consumer.paused.contains(*p) && is_empty(p);
        let wanted = consumer.positions.keys().filter(|p| stale.contains_key(*p) || is_wanted(p));
        let asked: Vec<FetchPosition> = wanted
            .map(|p| {
                let offset = *stale.get(p).unwrap_or(&consumer.positions[p]);
                FetchPosition { partition: p.clone(), offset }
            })
            .collect();
        if asked.is_empty() {
            return;
        }
        if consumer.asked_until == 0 {
            consumer.by.came = now.mono;
        }
        let plan = self.world.detector.asked(now, &consumer.by, &asked);
        let is_answered = consumer.asked_until > 0 || plan.serve.contains(&FetchDecision::Again);
        let mut handed = Vec::new();
        let turn = by_turn(&asked, &plan.serve, |ask| self.world.ends[&ask.partition]).cloned();
        for (ask, serve) in asked.iter().zip(plan.serve) {
            let by_turn = turn.as_ref() == Some(&ask.partition);
            self.world.touched += usize::from(serve != FetchDecision::Open);
            let many = self.rng.i64(1..80);
            let all = ask.offset..self.world.ends[&ask.partition].min(ask.offset + many);
            let all = match serve {
                FetchDecision::Open => all,
                FetchDecision::Turn { .. } if !by_turn => ask.offset..ask.offset,
                FetchDecision::Nothing | FetchDecision::Again => ask.offset..ask.offset,
                FetchDecision::Below { without, below } if without.is_empty() => {
                    ask.offset..all.end.min(below)
                }
                FetchDecision::Turn { without, .. } if without.is_empty() => {
                    ask.offset..all.end.min(ask.offset + 1)
                }
                other => {
                    self.charged.push(format!("{other:?} for {:?}", consumer.by.member));
                    all
                }
            };
            if all.start < all.end {
                let (partition, from, end) = (ask.partition.clone(), ask.offset, all.end);
                if !stale.contains_key(&partition) {
                    consumer.positions.insert(partition.clone(), end);
                    consumer.fetched.entry(partition.clone()).or_default().extend(all);
                }
                let (turn, hidden) = (by_turn.then_some(end - 1), OffsetRuns::default());
                let sparse = Vec::new();
                handed.push(DeliveredRange { partition, from, end, turn, hidden, sparse });
            }
        }
        let is_waiting = handed.is_empty() && !is_answered;
        consumer.asked_until = if is_waiting { self.world.at + WAIT_MS } else { 0 };
        self.world.detector.handed(now, &consumer.by, &handed);
    }

    fn commit(&mut self, n: usize) {
        let at = self.world.at;
        let consumer = &mut self.members[n];
        let due = match consumer.style {
            Style::Record => true,
            Style::Batch => consumer.fetched.values().all(VecDeque::is_empty),
            Style::Every(ms) | Style::Auto(ms) => at >= consumer.committed_at + ms,
            Style::Async => {
                for (partition, offset) in consumer.contiguous() {
                    consumer.late.push_back((at + 300, partition, offset));
                }
                false
            }
            Style::Pool => false,
        };
        while consumer.late.front().is_some_and(|(when, _, _)| *when <= at) {
            let (_, partition, offset) = consumer.late.pop_front().unwrap();
            let now = self.world.now();
            if consumer.positions.contains_key(&partition) {
                self.world.committed.insert(partition.clone(), offset);
                self.world.detector.handle(now, GroupObservation::Committed { partition, offset });
            }
        }
        if due {
            self.commit_done(n);
        }
    }

    fn commit_done(&mut self, n: usize) {
        let consumer = &mut self.members[n];
        consumer.committed_at = self.world.at;
        let late: Vec<_> = consumer.late.drain(..).map(|(_, of, offset)| (of, offset)).collect();
        for (partition, offset) in late.into_iter().chain(consumer.contiguous()) {
            let now = self.world.now();
            self.world.committed.insert(partition.clone(), offset);
            self.world.detector.handle(now, GroupObservation::Committed { partition, offset });
        }
    }

    fn check(&mut self) {
        self.world.drain();
        for settling in std::mem::take(&mut self.world.dead) {
            self.charged.push(format!("{settling:?}"));
        }
        for (partition, offset, times) in self.world.charged() {
            self.charged.push(format!("{partition}@{offset}: {times}"));
        }
    }

    /// Consumes all that is left, with no further events.
    fn calm_down(&mut self) -> bool {
        for consumer in &mut self.members {
            consumer.slow_ms = 15;
            for partition in std::mem::take(&mut consumer.paused) {
                consumer.refetch(&partition);
            }
        }
        for _ in 0..60_000 {
            for n in 0..self.members.len() {
                self.live(n);
            }
            self.world.pass(25);
            self.check();
            let is_done = |consumer: &Consumer| {
                consumer.positions.iter().all(|(partition, position)| {
                    consumer.first(partition) == *position
                        && *position == self.world.ends[partition]
                })
            };
            if self.members.iter().all(is_done) {
                self.idle();
                return true;
            }
        }
        false
    }

    /// Handles all records; members that commit in time also commit them.
    fn idle(&mut self) {
        for _ in 0..3 * RULES.consume_timeout_ms / WAIT_MS {
            for n in 0..self.members.len() {
                self.live(n);
            }
            self.world.pass(WAIT_MS);
        }
        self.check();
    }
}

impl Consumer {
    /// The first record that the application has not handled.
    fn first(&self, partition: &TopicPartition) -> i64 {
        let left = self.fetched.get(partition).and_then(|left| left.front());
        left.copied().unwrap_or_else(|| self.positions.get(partition).copied().unwrap_or(0))
    }

    /// Drops unhandled records, to be fetched again. Handled ones are still to be committed.
    fn refetch(&mut self, partition: &TopicPartition) {
        let from = self.first(partition);
        self.positions.insert(partition.clone(), from);
        self.fetched.remove(partition);
    }

    fn start_at(&mut self, partition: &TopicPartition, offset: i64) {
        self.positions.insert(partition.clone(), offset);
        self.fetched.remove(partition);
        self.done.remove(partition);
        self.next.insert(partition.clone(), offset);
        self.late.retain(|(_, of, _)| of != partition);
    }

    fn forget_others(&mut self) {
        let Self { positions, fetched, done, next, paused, .. } = self;
        fetched.retain(|partition, _| positions.contains_key(partition));
        done.retain(|partition, _| positions.contains_key(partition));
        next.retain(|partition, _| positions.contains_key(partition));
        paused.retain(|partition| positions.contains_key(partition));
    }

    /// Partitions whose handled prefix grew, with its end.
    fn contiguous(&mut self) -> Vec<(TopicPartition, i64)> {
        let mut moved = Vec::new();
        for (partition, done) in &mut self.done {
            let next = self.next.entry(partition.clone()).or_default();
            let before = *next;
            while done.remove(&*next) {
                *next += 1;
            }
            if *next > before {
                moved.push((partition.clone(), *next));
            }
        }
        moved
    }
}

#[test]
fn no_healthy_consumer_is_ever_charged() {
    let one: Option<u64> = std::env::var("INFERENCE_SEED").ok().map(|n| n.parse().unwrap());
    let many = std::env::var("INFERENCE_SEEDS").map_or(1_000, |n| n.parse().unwrap());
    let seeds = one.map_or(0..many, |seed| seed..seed + 1);
    let (mut touched, mut outages, mut falsely) = (0, 0, Vec::new());
    for seed in seeds.clone() {
        let mut script = Script::new(seed);
        for _ in 0..400 {
            script.step();
        }
        let ends = script.calm_down();
        touched += usize::from(script.world.touched > 0);
        outages += usize::from(script.world.outages > 0);
        if !script.charged.is_empty() || !ends {
            falsely.push((seed, ends, script.charged.first().cloned()));
        }
    }
    let many = seeds.count();
    println!(
        "inference: {many} scripts, {touched} ever held, {outages} taken for an outage, {falsely:?}"
    );
    assert_eq!(outages, 0, "a healthy group is never held as a whole");
    assert_eq!(falsely, [], "INFERENCE_SEED=<n> runs one again");
}
