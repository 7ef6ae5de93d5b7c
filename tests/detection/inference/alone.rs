//! Retries that crash their consumer, among others that do not: no failure of the others counts.
//!
//! The ledger of the retries and the detector run together, as a Fetch and its commits use both.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use reprise::model::{EntryId, GroupId, LaneOffset, Origin};
use reprise::retry::detector::{GroupObservation, LaneGiven};
use reprise::retry::{
    Disposition, Entry, Fact, Ledger, LedgerAnswer, LedgerInput, LedgerOutput, Nack, NackTarget,
    Policies, Policy, Reporter, StateKind, TAKE_MAX,
};

use crate::btree_entries::BTreeEntries;
use crate::inference::RULES;
use crate::inference::app::{App, Commits, Did, World, of};

fn shop() -> GroupId {
    "shop".into()
}

/// A group with its retries.
struct Both {
    world: World,
    ledger: Ledger<BTreeEntries>,
    journal: Vec<Fact>,
    policy: Policy,
}

/// A process of the application.
struct Process {
    app: App,
    next: LaneOffset,
    hand: VecDeque<(LaneOffset, Entry)>,
    done: Option<LaneOffset>,
    commits: Commits,
    committed_at: u64,
}

impl Both {
    fn new(max_reconsume_times: u32) -> Self {
        let policy = Policy { max_reconsume_times, ..Policy::default() };
        let mut world = World::new(RULES, 2, 0);
        world.commit(&of(0), 0);
        world.commit(&of(1), 0);
        let policies = Policies::new(policy.clone(), Vec::new());
        let mut ledger = Ledger::new(BTreeEntries::default(), policies);
        ledger.recovered(world.now());
        Self { world, ledger, journal: Vec::new(), policy }
    }

    fn ask(&mut self, input: LedgerInput) -> Option<LedgerAnswer> {
        self.ledger.handle(self.world.now(), input);
        self.drain()
    }

    fn drain(&mut self) -> Option<LedgerAnswer> {
        let mut last = None;
        while let Some(output) = self.ledger.poll_output() {
            match output {
                LedgerOutput::Fact(fact) => self.journal.push(fact),
                LedgerOutput::Answer(answer) => last = Some(answer),
                LedgerOutput::Wake { .. } => {}
            }
        }
        last
    }

    /// Reports to the ledger the retries that are no longer delivered by themselves.
    fn joined(&mut self) {
        for lane in std::mem::take(&mut self.world.joined) {
            self.ask(LedgerInput::Joined { group: shop(), lane });
        }
    }

    fn seen(&mut self, seen: GroupObservation) {
        let now = self.world.now();
        self.world.detector.handle(now, seen);
        self.world.drain();
        self.joined();
    }

    fn pass(&mut self, ms: u64) {
        self.world.pass(ms);
        self.joined();
        self.ledger.handle_timeout(self.world.now());
        self.drain();
    }

    fn nack(&mut self, offset: i64) {
        let by = Reporter { member: None, client: "app".into() };
        let nack =
            Nack::of(NackTarget::Origin(Origin { topic: "past".into(), partition: 0, offset }));
        self.ask(LedgerInput::Nacks { group: shop(), by, nacks: vec![nack] });
    }

    fn start(&mut self, commits: Commits) -> Process {
        let mut app = self.world.start(commits);
        app.by.has_lane = true;
        let member = app.by.member.clone();
        let Some(LedgerAnswer::Slot(view)) = self.ask(LedgerInput::Join { group: shop(), member })
        else {
            panic!()
        };
        let (next, committed_at) = (view.position, self.world.at);
        Process { app, next, hand: VecDeque::new(), done: None, commits, committed_at }
    }

    fn lose(&mut self, process: &Process) {
        self.world.lose(&process.app);
        self.joined();
        self.ask(LedgerInput::Leave { group: shop(), member: process.app.by.member.clone() });
    }

    /// Kills or stops the sidecar, and starts it from its journal.
    fn restart(&mut self, is_stopped: bool) {
        if is_stopped {
            self.world.stop();
            self.joined();
        } else {
            self.world.restart();
        }
        let policies = Policies::new(self.policy.clone(), Vec::new());
        self.ledger = Ledger::new(BTreeEntries::default(), policies);
        for fact in &self.journal {
            self.ledger.apply(fact);
        }
        self.ledger.recovered(self.world.now());
        self.drain();
    }

    /// A Fetch of the retry topic.
    fn take(&mut self, process: &mut Process) {
        let (now, from) = (self.world.now(), process.next);
        let (room, company) = self.world.detector.lane_turn(now, from.slot);
        self.world.drain();
        self.joined();
        let max = room.unwrap_or(TAKE_MAX);
        let taken = self.ask(LedgerInput::Take { group: shop(), from, max, company });
        let Some(LedgerAnswer::Taken { entries, position, next_due, single, .. }) = taken else {
            panic!("{taken:?}")
        };
        let below = Some(position).filter(|position| *position < from);
        let out = below.into_iter().chain(entries.iter().map(|(lane, _)| *lane)).collect();
        let is_due = next_due.is_some_and(|due| due <= now.wall);
        let (member, waits) = (process.app.by.member.clone(), room == Some(0) && is_due);
        let told = LaneGiven { member, slot: from.slot, out, waits, single };
        self.seen(GroupObservation::LaneGiven(told));
        if let Some((last, _)) = entries.last() {
            process.next = LaneOffset { sequence: last.sequence + 1, ..*last };
        }
        process.hand.extend(entries);
    }

    fn commit(&mut self, process: &mut Process) {
        process.committed_at = self.world.at;
        let Some(up_to) = process.done.take() else { return };
        self.ask(LedgerInput::LaneCommit { group: shop(), up_to });
        self.seen(GroupObservation::LaneBelow { up_to });
    }

    fn commit_in_time(&mut self, process: &mut Process) {
        let is_time = match process.commits {
            Commits::PerRecord => true,
            Commits::Every(ms) => self.world.at >= process.committed_at + ms,
            Commits::PerBatch => process.hand.is_empty(),
            Commits::Never => false,
        };
        if is_time {
            self.commit(process);
        }
    }

    /// One poll loop iteration; false: the process has died.
    fn round(&mut self, process: &mut Process, handler: &mut impl FnMut(&Entry) -> Did) -> bool {
        self.take(process);
        if !process.app.poll(&mut self.world, |_, _| Did::Well(1)) {
            return false;
        }
        self.pass(1);
        while let Some((lane, entry)) = process.hand.pop_front() {
            match handler(&entry) {
                Did::Well(ms) => {
                    self.pass(ms);
                    process.done = Some(LaneOffset { sequence: lane.sequence + 1, ..lane });
                    self.commit_in_time(process);
                }
                Did::Die(ms) => {
                    // The consumer fetches ahead, and gets further records.
                    let died = self.world.at + ms;
                    while self.world.at < died {
                        self.take(process);
                        process.app.poll(&mut self.world, |_, _| Did::Well(0));
                        self.pass(100.min(died.saturating_sub(self.world.at).max(1)));
                        self.commit_in_time(process);
                    }
                    return false;
                }
                Did::Throw | Did::Nack => unreachable!(),
            }
        }
        self.commit_in_time(process);
        true
    }

    fn produce(&mut self, rng: &mut Rng) {
        if rng.u8(0..4) == 0 {
            *self.world.ends.get_mut(&of(rng.i32(0..2))).unwrap() += rng.i64(1..5);
        }
    }

    fn entries(&self) -> BTreeMap<EntryId, Entry> {
        self.ledger.fingerprint().entries
    }

    fn is_over(&self) -> bool {
        self.entries().values().all(Entry::is_settled)
    }
}

/// Runs until every retry is settled. Returns the number of crashes.
fn live(
    both: &mut Both,
    (commits, rng): (Commits, &mut Rng),
    restarts: u32,
    mut handler: impl FnMut(&Entry) -> Did,
) -> u32 {
    let mut process = both.start(commits);
    let mut deaths = 0;
    for _ in 0..60_000 {
        if both.is_over() {
            return deaths;
        }
        both.produce(rng);
        let lives = both.round(&mut process, &mut handler);
        let is_restarted = restarts > 0 && rng.u32(0..restarts) == 0;
        if restarts > 0 && rng.u32(0..restarts * 2) == 0 {
            both.restart(rng.bool());
        }
        if !lives || is_restarted {
            deaths += u32::from(!lives);
            both.lose(&process);
            both.pass(rng.u64(1..4_000));
            process = both.start(commits);
        }
        let step = rng.u64(1..300);
        both.pass(step);
    }
    panic!("it never ends: {:?}", both.entries());
}

const WAYS: [Commits; 5] = [
    Commits::PerRecord,
    Commits::PerBatch,
    Commits::Every(200),
    Commits::Every(1_000),
    Commits::Every(5_000),
];

fn seeds() -> u64 {
    std::env::var("INFERENCE_SEEDS").map_or(300, |seeds| seeds.parse().unwrap()) / 10 + 1
}

#[test]
fn only_the_crashing_retry_is_charged_until_its_dead_letter() {
    for seed in 0..seeds() {
        let mut rng = Rng::with_seed(seed);
        let (commits, max) = (WAYS[rng.usize(0..WAYS.len())], rng.u32(1..8));
        let mut both = Both::new(max);
        let many = rng.i64(1..12);
        let poison = rng.i64(0..many);
        for offset in 0..many {
            both.nack(offset);
            let ms = rng.u64(0..20);
            both.pass(ms);
        }
        let slow_ms = if rng.bool() { 0 } else { rng.u64(0..4_000) };
        let is_poison = |entry: &Entry| entry.origin.as_ref().unwrap().offset == poison;
        let deaths = live(&mut both, (commits, &mut rng), 0, |entry| {
            if is_poison(entry) { Did::Die(slow_ms) } else { Did::Well(2) }
        });
        for entry in both.entries().values() {
            let found = (entry.state.kind(), entry.reconsume_times);
            let told =
                format!("seed {seed}, {commits:?}, {slow_ms} ms, {deaths} deaths: {entry:?}");
            if is_poison(entry) {
                assert_eq!(found, (StateKind::Dead, max + 1), "{told}");
                assert_eq!(entry.disposition, Some(Disposition::Crashed), "{told}");
            } else {
                assert_eq!(found, (StateKind::Committed, 1), "{told}");
            }
        }
        // No record is delivered by itself until the timeout exceeds the time to a commit or a
        // crash.
        let most = RULES.suspects.crash_limit + max + 1 + if slow_ms == 0 { 4 } else { 6 };
        assert!(deaths <= most, "seed {seed}, {commits:?}, {slow_ms} ms, max {max}: {deaths}");
        assert_eq!((both.world.charged(), both.world.dead.len()), (Vec::new(), 0), "seed {seed}");
    }
}

#[test]
fn restarts_of_healthy_consumers_charge_no_retry() {
    for seed in 0..seeds() {
        let mut rng = Rng::with_seed(seed);
        let commits = WAYS[rng.usize(0..WAYS.len())];
        // Most processes live long enough to commit.
        let least = match commits {
            Commits::Every(ms) => 5 + u32::try_from(ms).unwrap() / 30,
            _ => 5,
        };
        let restarts = rng.u32(least..4 * least);
        let mut both = Both::new(16);
        for offset in 0..rng.i64(1..40) {
            both.nack(offset);
        }
        live(&mut both, (commits, &mut rng), restarts, |_| Did::Well(3));
        for entry in both.entries().values() {
            let found = (entry.state.kind(), entry.reconsume_times);
            assert_eq!(found, (StateKind::Committed, 1), "seed {seed}, {commits:?}: {entry:?}");
        }
        assert_eq!((both.world.charged(), both.world.dead.len()), (Vec::new(), 0), "seed {seed}");
    }
}
