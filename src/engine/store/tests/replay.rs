//! Releases of facts: a replay of the log alone always gives the same state.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;

use crate::engine::store::log::EntryLog;
use crate::engine::store::{ROWS_CACHE_BYTES, ROWS_FILE, ROWS_VERSION, Store};
use crate::journal::{EntryRef, MemDisk, Tables};
use crate::model::{EntryId, GroupId, Moment, MonoMs, Origin, RetryPlace, WallMs};
use crate::retry::{
    BTreeEntries, Entries, Evidence, Fact, Ledger, LedgerInput, LedgerOutput, LedgerSnapshot,
    LevelTable, Nack, NackTarget, PayloadChange, Policies, Policy, Reporter, RequestedDelay,
    RetryState, StateKind, entries_of,
};

/// The stream of every retry topic.
const STREAM: u32 = 7;

/// A log whose released entries leave the disk when the test says so.
#[derive(Default)]
pub(super) struct FakeLog {
    /// Facts on disk, by sequence.
    pub(super) facts: RefCell<BTreeMap<u64, Fact>>,
    pub(super) released: RefCell<BTreeSet<u64>>,
    /// Entries that are also batches of a dead-letter stream.
    pub(super) dead_letters: RefCell<BTreeSet<u64>>,
}

impl EntryLog for FakeLog {
    fn release(&self, entry: EntryRef) {
        assert!(!self.dead_letters.borrow().contains(&entry.seq), "dead letters are the stream's");
        self.released.borrow_mut().insert(entry.seq);
    }

    fn holds(&self, entry: EntryRef) -> bool {
        self.facts.borrow().contains_key(&entry.seq)
    }
}

struct World {
    rng: Rng,
    disk: MemDisk,
    log: FakeLog,
    ledger: Ledger<Store>,
    now: i64,
    seq: u64,
    /// The next offset in each partition of the retry topics.
    released: i64,
    /// Facts after this one stay on disk, released or not.
    held_from: u64,
    /// Held records that were ended.
    ended: u32,
}

fn policies() -> Policies {
    let (levels, _) = LevelTable::parse("1ms 2ms 3ms 20ms").unwrap();
    let keeps = Policy {
        max_reconsume_times: 2,
        levels: Arc::new(levels),
        consume_timeout_ms: 40,
        ..Policy::default()
    };
    let drops = Policy { keep_dead_letters: false, ..keeps.clone() };
    let bound = Policy { dead_letters_bytes_max: Some(10_000), ..keeps.clone() };
    Policies::new(keeps, vec![("drops".into(), drops), ("bound".into(), bound)])
}

fn open(disk: &MemDisk) -> Ledger<Store> {
    let tables = Tables::open(&disk.disk(), ROWS_FILE, ROWS_VERSION, ROWS_CACHE_BYTES);
    Ledger::new(Store::open(tables.unwrap()), policies())
}

fn place(seq: u64) -> EntryRef {
    EntryRef { seq, len: 10 }
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = MemDisk::new(seed);
        let ledger = open(&disk);
        let rng = Rng::with_seed(seed);
        let log = FakeLog::default();
        Self { rng, disk, log, ledger, now: 1_000, seq: 0, released: 0, held_from: 0, ended: 0 }
    }

    fn clock(&self) -> Moment {
        Moment { wall: WallMs(self.now), mono: MonoMs(u64::try_from(self.now).unwrap()) }
    }

    fn group(&mut self) -> GroupId {
        match self.rng.u8(..6) {
            0 => "drops".into(),
            1 | 2 => "bound".into(),
            _ => "keeps".into(),
        }
    }

    fn step(&mut self) {
        self.now += self.rng.i64(0..4);
        let group = self.group();
        let lately = self.rng.i64((self.released - 10).max(0)..=self.released);
        let delivery = RetryPlace::in_stream(self.rng.u16(..3), STREAM, lately);
        let offset = self.rng.i64(0..25);
        let input = match self.rng.u8(..14) {
            0..5 => {
                let named = match self.rng.u8(..6) {
                    0 => NackTarget::Nothing,
                    1 | 2 => NackTarget::Delivery(delivery),
                    _ => NackTarget::Origin(Origin { topic: "t".into(), partition: 0, offset }),
                };
                let want = RequestedDelay { level: (offset == 7).then_some(-1), delay_ms: None };
                let nack = Nack { want, record_bytes: 10, ..Nack::of(named) };
                let by = Reporter { member: None, client: "c".into() };
                LedgerInput::Nacks { group, by, nacks: vec![nack] }
            }
            5..8 => {
                let due = self.ledger.store().due(&group, WallMs(self.now), 3);
                let Some(id) = self.rng.choice(due) else { return self.tick() };
                let (partition, offset) = (self.rng.u16(..3), self.released);
                self.released += 1;
                LedgerInput::Release { id, place: RetryPlace::in_stream(partition, STREAM, offset) }
            }
            8 => LedgerInput::RetryCommit { group, up_to: delivery },
            13 => {
                let streams = if self.rng.u8(..4) == 0 { Vec::new() } else { vec![STREAM; 3] };
                LedgerInput::RetryTopicServed { group, source: None, streams }
            }
            9 => LedgerInput::OriginCommit { group, topic: "t".into(), partition: 0, offset },
            10 => self.delete_a_dead_letter(&group),
            12 => return self.room(),
            _ => return self.tick(),
        };
        self.ledger.handle(self.clock(), input);
        self.drain();
    }

    fn tick(&mut self) {
        self.now += self.rng.i64(0..30);
        self.ledger.handle_timeout(self.clock());
        self.drain();
    }

    /// Sets the quota to one dead letter or none, and checks the held records.
    fn room(&mut self) {
        let bytes = self.rng.choice([0, 10_000]).unwrap();
        let told = LedgerInput::DeadLetterBytes { group: "bound".into(), bytes };
        for input in [told, LedgerInput::Policies(Box::new(policies()))] {
            self.ledger.handle(self.clock(), input);
            self.drain();
        }
        self.tick();
    }

    fn delete_a_dead_letter(&mut self, group: &GroupId) -> LedgerInput {
        let mut dead = entries_of(&self.ledger, group);
        dead.retain(|entry| entry.state.kind() == StateKind::Dead);
        let id = self.rng.choice(dead).map_or(EntryId(u64::MAX), |entry| entry.id);
        if let Some(letter) = self.ledger.store().payload(id) {
            assert!(self.log.dead_letters.borrow().contains(&letter.seq));
            self.log.released.borrow_mut().insert(letter.seq);
        }
        LedgerInput::DeadLetterGone { id }
    }

    fn drain(&mut self) {
        while let Some(output) = self.ledger.poll_output() {
            let LedgerOutput::Fact(fact) = output else { continue };
            self.seq += 1;
            if let Fact::Entry { cause, .. } = &fact {
                self.ended += u32::from(cause.evidence == Evidence::Unblocked);
            }
            if self.ledger.store().is_dead_letter(&fact) {
                self.log.dead_letters.borrow_mut().insert(self.seq);
            }
            self.log.facts.borrow_mut().insert(self.seq, fact.clone());
            self.ledger.store_mut().journalled(&self.log, &fact, place(self.seq));
        }
    }

    /// Removes some of the released entries from the disk.
    fn compact(&mut self) {
        let released: Vec<u64> = self.log.released.borrow().iter().copied().collect();
        for seq in released {
            if seq <= self.held_from && self.rng.u8(..3) == 0 {
                self.log.facts.borrow_mut().remove(&seq);
            }
        }
    }

    fn checkpoint(&mut self) {
        self.ledger.store_mut().checkpoint_at(self.seq);
        self.held_from = self.seq;
    }

    /// Restarts from the last checkpoint and the facts after it.
    fn restart(&mut self) {
        let before = self.ledger.fingerprint();
        self.disk.power_cut();
        let mut ledger = open(&self.disk);
        let applied = ledger.store().applied();
        assert_eq!(applied, self.held_from);
        for (seq, fact) in self.log.facts.borrow().range(applied + 1..) {
            ledger.apply(fact);
            ledger.store_mut().journalled(&self.log, fact, place(*seq));
        }
        assert_eq!(ledger.fingerprint(), before);
        ledger.recovered(self.clock());
        self.ledger = ledger;
        self.drain();
    }

    fn state(fingerprint: LedgerSnapshot) -> LedgerSnapshot {
        let mut state = fingerprint;
        // The time of the very last fact may be gone with it.
        state.marks.latest = None;
        state
    }

    fn check(&self) {
        let mut replayed = Ledger::new(BTreeEntries::default(), policies());
        for fact in self.log.facts.borrow().values() {
            replayed.apply(fact);
        }
        let live = Self::state(self.ledger.fingerprint());
        assert_eq!(Self::state(replayed.fingerprint()), live);
        for (id, entry) in &live.entries {
            let at = self.ledger.store().payload(*id).unwrap().seq;
            let dead = matches!(entry.state, RetryState::Dead { .. });
            assert_eq!(self.log.dead_letters.borrow().contains(&at), dead, "{entry:?}");
            let facts = self.log.facts.borrow();
            let Some(Fact::Entry { entry: then, payload, .. }) = facts.get(&at) else {
                panic!("the bytes of {id} are not at {at}");
            };
            assert!(then.id == *id && (dead || matches!(payload, PayloadChange::Begins(_))));
        }
        self.check_nothing_is_kept_for_nothing(&live);
    }

    fn check_nothing_is_kept_for_nothing(&self, live: &LedgerSnapshot) {
        let facts = self.log.facts.borrow();
        let kept = facts.iter().filter(|(seq, _)| !self.log.released.borrow().contains(seq));
        let (tombstones, rest): (Vec<_>, Vec<_>) =
            kept.partition(|(_, fact)| matches!(fact, Fact::Forgotten { .. }));
        assert!(rest.len() <= 2 * live.entries.len() + 1);
        let forgotten: BTreeSet<EntryId> = facts
            .values()
            .filter_map(|fact| match fact {
                Fact::Entry { entry, .. } if !live.entries.contains_key(&entry.id) => {
                    Some(entry.id)
                }
                _ => None,
            })
            .collect();
        let graved: BTreeSet<EntryId> = tombstones
            .iter()
            .filter_map(|(_, fact)| match fact {
                Fact::Forgotten { id, .. } => Some(*id),
                _ => None,
            })
            .collect();
        assert!(forgotten.is_subset(&graved), "{forgotten:?} would come back");
    }
}

#[test]
fn a_replay_without_released_facts_gives_the_same_state() {
    let (mut gone, mut tombstones_gone, mut dead, mut ended) = (0, 0, 0, 0);
    for seed in 0..16 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
            match world.rng.u8(..24) {
                0 => world.checkpoint(),
                1 => world.compact(),
                2 => {
                    let limit = world.rng.usize(1..5);
                    tombstones_gone += world.ledger.store_mut().sweep(&world.log, limit);
                }
                3 => world.check(),
                4 if world.rng.u8(..3) == 0 => world.restart(),
                _ => {}
            }
        }
        world.check();
        gone += world.seq - u64::try_from(world.log.facts.borrow().len()).unwrap();
        dead += world.log.dead_letters.borrow().len();
        ended += world.ended;
    }
    assert!(gone > 500 && tombstones_gone > 20 && dead > 15, "{gone} {tombstones_gone} {dead}");
    assert!(ended > 3, "{ended}");
}

#[test]
fn only_the_last_tombstone_remains_when_all_entries_are_forgotten() {
    let mut world = World::new(7);
    for _ in 0..300 {
        world.step();
    }
    let groups = ["keeps", "drops", "bound"].map(GroupId::from);
    for group in groups {
        for entry in entries_of(&world.ledger, &group) {
            world.ledger.store_mut().remove(entry.id);
            let cause = crate::retry::Cause {
                evidence: crate::retry::Evidence::MemoryEnded,
                at: WallMs(world.now),
                by: None,
            };
            world.seq += 1;
            let crate::retry::Entry { id, group, state: last, redrives, .. } = entry;
            let fact = Fact::Forgotten { id, group, cause, last, redrives };
            world.log.facts.borrow_mut().insert(world.seq, fact.clone());
            world.ledger.store_mut().journalled(&world.log, &fact, place(world.seq));
        }
    }
    let letters = world.log.dead_letters.borrow().clone();
    world.log.released.borrow_mut().extend(letters);
    world.held_from = world.seq;
    for _ in 0..60 {
        world.compact();
        world.ledger.store_mut().sweep(&world.log, 1000);
    }
    let facts = world.log.facts.borrow();
    let left = |wanted: fn(&Fact) -> bool| facts.values().filter(|fact| wanted(fact)).count();
    assert_eq!(left(|fact| matches!(fact, Fact::Entry { .. })), 0);
    assert_eq!(left(|fact| matches!(fact, Fact::Forgotten { .. })), 1);
    assert_eq!(world.ledger.store().groups(), []);
}
