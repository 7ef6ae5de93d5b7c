//! The store on disk answers as the store in memory does, flushed, reopened or crashed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fastrand::Rng;

use crate::api::mask;
use crate::engine::store::key::EntryClass;
use crate::engine::store::{Checkpoint, ROWS_CACHE_BYTES, ROWS_FILE, ROWS_VERSION, Store};
use crate::engine::{EngineError, Shape};
use crate::journal::{MemDisk, Tables};
use crate::model::{EntryId, GroupId, Origin, RetryPlace, TopicPartition, WallMs};
use crate::retry::{
    BTreeEntries, Disposition, Entries, Entry, Marks, RecordShape, RetryState, StateKind,
};

/// The model and sequence of the last finished checkpoint.
type Saved = Arc<Mutex<(BTreeEntries, u64)>>;

const GROUPS: [&str; 4] = ["shop", "", "g\u{e9}\0x", "shop.eu"];
const TOPICS: [&str; 3] = ["orders", "orde", "a-b@1"];

/// Random changes that a ledger could make: each origin and delivery leads to one entry.
struct Script {
    rng: Rng,
    ids: Vec<EntryId>,
    next: u64,
}

impl Script {
    fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), ids: Vec::new(), next: 0 }
    }

    fn group(&mut self) -> GroupId {
        GROUPS[self.rng.usize(..GROUPS.len())].into()
    }

    fn unique(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wall(&mut self) -> WallMs {
        WallMs(match self.rng.u8(..20) {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => self.rng.i64(-50..200),
        })
    }

    fn place(&mut self) -> RetryPlace {
        let offset = i64::try_from(self.unique()).unwrap();
        RetryPlace::in_stream(self.rng.u16(..4), self.rng.u32(..2), offset)
    }

    fn new_entry(&mut self) -> Entry {
        let id = EntryId(self.unique());
        self.ids.push(id);
        let origin = self.rng.u8(..5).checked_sub(1).map(|n| Origin {
            topic: TOPICS[usize::from(n) % 3].into(),
            partition: i32::from(n) - 1,
            offset: i64::try_from(self.unique()).unwrap() - 20,
        });
        Entry {
            id,
            group: self.group(),
            origin,
            produced_for: None,
            state: RetryState::Discarded { at: WallMs(0) },
            reconsume_times: self.rng.u32(..),
            max_reconsume_times: 16,
            handouts: 0,
            first_failed: None,
            last_failed: Some(self.wall()),
            disposition: Some(Disposition::SeekBack),
            reason: Some("why".repeat(self.rng.usize(..40))),
            places: Vec::new(),
            history: vec![(WallMs(1), Disposition::Rejected)],
            passed: None,
            expires: None,
            last_due: Some(WallMs(3)),
            last_level: None,
            superseded: false,
            redrives: self.rng.u32(0..3),
            shape: self
                .rng
                .bool()
                .then(|| RecordShape::of(Some(b"order-1"), self.rng.usize(..9_999))),
        }
    }

    fn change(&mut self, entry: &mut Entry) {
        let at = self.wall();
        entry.state = match self.rng.u8(..9) {
            0..3 => RetryState::Waiting { due: at, delay_ms: 1, level: Some(self.rng.u32(..4)) },
            3 => RetryState::Waiting { due: at, delay_ms: 1, level: None },
            4 | 5 => {
                let place = self.place();
                entry.places.push(place);
                RetryState::Released { place, since: at }
            }
            6 => RetryState::Committed { at },
            7 => RetryState::Blocked {
                since: at,
                disposition: Disposition::MaxAttempts,
                charged: true,
            },
            _ => RetryState::Dead { at },
        };
        if entry.places.len() > 5 {
            entry.places.remove(0);
        }
        entry.passed = self.rng.bool().then_some(at);
        entry.expires = self.rng.bool().then(|| self.wall());
        entry.superseded = entry.superseded || self.rng.u8(..10) == 0;
    }

    fn step(&mut self, model: &mut BTreeEntries, store: &mut Store) {
        match self.rng.u8(..20) {
            0..6 => {
                let mut entry = self.new_entry();
                self.change(&mut entry);
                both(model, store, |entries| entries.put(&entry));
            }
            6..14 => {
                let Some(id) = self.rng.choice(&self.ids).copied() else { return };
                let Some(mut entry) = model.get(id) else { return };
                self.change(&mut entry);
                both(model, store, |entries| entries.put(&entry));
            }
            14..17 => {
                let Some(id) = self.rng.choice(&self.ids).copied() else { return };
                both(model, store, |entries| entries.remove(id));
            }
            _ => {
                let marks = Marks {
                    next_id: self.rng.u64(..),
                    latest: Some(self.wall()),
                    tables: self.rng.bool().then_some(3),
                };
                both(model, store, |entries| entries.put_marks(marks));
            }
        }
    }

    fn compare(&mut self, model: &BTreeEntries, store: &Store) {
        assert_eq!(store.failed(), None);
        assert_eq!(store.groups(), model.groups());
        assert_eq!(store.marks(), model.marks());
        let now = self.wall();
        let limit = self.rng.usize(..6);
        assert_eq!(store.expired(now, limit), model.expired(now, limit));
        assert_eq!(store.next_expiry(), model.next_expiry());
        for id in &self.ids {
            assert_eq!(store.get(*id), model.get(*id));
        }
        for group in GROUPS.iter().chain(&["other"]).map(|group| GroupId::from(*group)) {
            self.compare_group(model, store, &group);
        }
    }

    fn compare_group(&mut self, model: &BTreeEntries, store: &Store, group: &GroupId) {
        let (now, limit) = (self.wall(), self.rng.usize(..9));
        assert_eq!(store.counts(group), model.counts(group));
        assert_eq!(store.partitions(group), model.partitions(group));
        assert_eq!(store.due(group, now, limit), model.due(group, now, limit));
        assert_eq!(store.count_due(group, now), model.count_due(group, now));
        assert_eq!(store.next_due(group, None), model.next_due(group, None));
        assert_eq!(store.next_due(group, Some(now)), model.next_due(group, Some(now)));
        let after = self.rng.choice(&self.ids).copied();
        assert_eq!(store.page(group, after, limit), model.page(group, after, limit));
        assert_eq!(store.page(group, None, usize::MAX), model.page(group, None, usize::MAX));
        compare_classes(model, store, (group, after));
        assert_eq!(store.blocked(group, after, limit), model.blocked(group, after, limit));
        assert_eq!(store.blocked(group, None, usize::MAX), model.blocked(group, None, usize::MAX));
        let from = RetryPlace::in_stream(self.rng.u16(..4), self.rng.u32(..2), self.rng.i64(..50));
        assert_eq!(store.unread(group, from, limit), model.unread(group, from, limit));
        assert_eq!(store.open(group, from.partition), model.open(group, from.partition));
        for (topic, partition) in TOPICS.iter().zip([-1, 0, 1]) {
            let (topic, offset) = ((*topic).into(), self.rng.i64(-20..200));
            assert_eq!(store.of_topic(group, &topic), model.of_topic(group, &topic));
            assert_eq!(
                store.not_passed_below(group, &topic, partition, offset),
                model.not_passed_below(group, &topic, partition, offset),
            );
            assert_eq!(
                store.passed_from(group, &topic, partition, offset),
                model.passed_from(group, &topic, partition, offset),
            );
        }
        for entry in self.ids.iter().filter_map(|id| model.get(*id)) {
            if let Some(origin) = &entry.origin {
                assert_eq!(store.by_origin(group, origin), model.by_origin(group, origin));
            }
            for place in &entry.places {
                assert_eq!(store.by_place(group, *place), model.by_place(group, *place));
            }
        }
        compare_not_passed(model, store, (group, limit));
        compare_shapes(model, store, group);
    }
}

/// Each entry of a group is in the class of its state.
fn compare_classes(
    model: &BTreeEntries,
    store: &Store,
    (group, after): (&GroupId, Option<EntryId>),
) {
    let all = model.page(group, after, usize::MAX);
    for class in [EntryClass::Open, EntryClass::Dead, EntryClass::Done] {
        let is_of = |id: &&EntryId| {
            let entry = model.get(**id).unwrap();
            let is_dead = entry.state.kind() == StateKind::Dead;
            class
                == if is_dead {
                    EntryClass::Dead
                } else if entry.is_settled() {
                    EntryClass::Done
                } else {
                    EntryClass::Open
                }
        };
        let of_class: Vec<EntryId> = all.iter().filter(is_of).copied().collect();
        assert_eq!(store.of_class(group, class, after, usize::MAX), of_class);
        let first = of_class.iter().take(2).copied().collect::<Vec<_>>();
        assert_eq!(store.of_class(group, class, after, 2), first);
    }
}

/// Compares the last `most` offsets of each partition with the model's commit index.
fn compare_not_passed(model: &BTreeEntries, store: &Store, (group, most): (&GroupId, usize)) {
    let mut expected = BTreeMap::new();
    for id in model.page(group, None, usize::MAX) {
        let Some(Origin { topic, partition, .. }) = model.get(id).unwrap().origin else { continue };
        let ids = model.not_passed_below(group, &topic, partition, i64::MAX);
        let entries = ids.iter().skip(ids.len().saturating_sub(most)).map(|id| model.get(*id));
        let offsets: Vec<i64> =
            entries.map(|entry| entry.unwrap().origin.unwrap().offset).collect();
        if !offsets.is_empty() {
            expected.insert(TopicPartition { topic, partition }, offsets);
        }
    }
    let mut found = store.not_passed(group, most);
    found.sort();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
}

/// The shapes of a group count each of its dead letters once.
fn compare_shapes(model: &BTreeEntries, store: &Store, group: &GroupId) {
    let mut expected = BTreeMap::<(String, String, Option<RecordShape>), u64>::new();
    for id in model.page(group, None, usize::MAX) {
        let entry = model.get(id).unwrap();
        if let RetryState::Dead { .. } = entry.state {
            let topic = entry.origin.map_or_else(String::new, |origin| origin.topic.to_string());
            let shape = (topic, mask(&entry.reason.unwrap()), entry.shape);
            *expected.entry(shape).or_default() += 1;
        }
    }
    let found = store.shapes(group, WallMs(0), usize::MAX);
    assert!(found.shapes.is_sorted_by_key(|one| std::cmp::Reverse(one.letters)));
    let found = found.shapes.into_iter();
    let found = found.map(|one| {
        let Shape { topic, reason, record, .. } = one.shape;
        ((topic, reason, record), one.letters)
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
}

fn both(model: &mut BTreeEntries, store: &mut Store, change: impl Fn(&mut dyn Entries)) {
    change(model);
    change(store);
}

fn open(disk: &MemDisk) -> Store {
    let tables = Tables::open(&disk.disk(), ROWS_FILE, ROWS_VERSION, ROWS_CACHE_BYTES);
    Store::open(tables.unwrap())
}

#[test]
fn a_store_without_a_disk_answers_as_the_reference_does() {
    for seed in 0..10 {
        let mut script = Script::new(seed);
        let (mut model, mut store) = (BTreeEntries::default(), Store::in_memory());
        for _ in 0..200 {
            script.step(&mut model, &mut store);
            if script.rng.u8(..10) == 0 {
                script.compare(&model, &store);
            }
        }
        store.flush();
        script.compare(&model, &store);
        assert!(model.groups().len() > 2 && store.applied() == 0);
    }
}

#[test]
fn a_disk_store_equals_the_reference_also_after_crashes() {
    let mut crashes = 0;
    for seed in 0..12 {
        let disk = MemDisk::new(seed);
        let mut script = Script::new(seed);
        let (mut model, mut store) = (BTreeEntries::default(), open(&disk));
        let mut saved = (model.clone(), 0);
        for step in 1..400 {
            script.step(&mut model, &mut store);
            match script.rng.u8(..40) {
                0 | 1 => store.flush(),
                2 => {
                    store.checkpoint_at(step);
                    saved = (model.clone(), step);
                }
                3 => {
                    if script.rng.bool() {
                        disk.power_cut();
                    }
                    drop(store);
                    store = open(&disk);
                    assert_eq!(store.applied(), saved.1);
                    model = saved.0.clone();
                    crashes += 1;
                }
                4..8 => script.compare(&model, &store),
                _ => {}
            }
        }
        script.compare(&model, &store);
    }
    assert!(crashes > 50);
}

/// Starts a checkpoint; `saved` gets the model once it is done.
fn checkpoint(store: &mut Store, model: &BTreeEntries, applied: u64, saved: &Saved) {
    let (saved, model) = (Arc::clone(saved), model.clone());
    let done = move |kept: Result<(), EngineError>| {
        kept.unwrap();
        *saved.lock().unwrap() = (model, applied);
    };
    store.checkpoint(Checkpoint { applied, first: Box::new(|| Ok(())), done: Box::new(done) });
}

#[test]
fn rows_flushed_concurrently_stay_readable() {
    let (mut crashes, mut behind) = (0, 0);
    for seed in 0..12 {
        let disk = MemDisk::new(seed);
        let mut script = Script::new(seed);
        let (mut model, mut store) = (BTreeEntries::default(), open(&disk));
        let mut flusher = store.flusher();
        let saved = Saved::default();
        for step in 1..600 {
            script.step(&mut model, &mut store);
            match script.rng.u8(..40) {
                0..3 => store.flush(),
                3 => checkpoint(&mut store, &model, step, &saved),
                4 => {
                    if script.rng.bool() {
                        disk.power_cut();
                    }
                    drop(store);
                    store = open(&disk);
                    flusher = store.flusher();
                    let (as_saved, applied) = saved.lock().unwrap().clone();
                    assert_eq!(store.applied(), applied);
                    model = as_saved;
                    crashes += 1;
                }
                5..9 => flusher.step(),
                9..14 => {
                    behind += usize::from(store.rows.leaving() > 0);
                    script.compare(&model, &store);
                }
                _ => {}
            }
        }
        script.compare(&model, &store);
    }
    assert!(crashes > 50 && behind > 200, "{crashes} {behind}");
}

#[test]
fn a_store_without_its_flusher_fails_and_persists_nothing() {
    let disk = MemDisk::new(1);
    let mut script = Script::new(1);
    let (mut model, mut store) = (BTreeEntries::default(), open(&disk));
    drop(store.flusher());
    for _ in 0..50 {
        script.step(&mut model, &mut store);
    }
    assert_eq!(store.failed(), None);
    let done = |kept: Result<(), EngineError>| assert!(kept.is_err());
    store.checkpoint(Checkpoint { applied: 9, first: Box::new(|| Ok(())), done: Box::new(done) });
    assert!(store.failed().unwrap().contains("has ended"), "{:?}", store.failed());
    assert_eq!(open(&disk).applied(), 0);
}

#[test]
fn a_power_cut_leaves_one_of_two_checkpoints() {
    let (mut before, mut after) = (0, 0);
    for seed in 0..40 {
        let disk = MemDisk::new(seed);
        let mut script = Script::new(seed);
        let (mut model, mut store) = (BTreeEntries::default(), open(&disk));
        for _ in 0..60 {
            script.step(&mut model, &mut store);
        }
        store.checkpoint_at(1);
        let first = model.clone();
        for _ in 0..60 {
            script.step(&mut model, &mut store);
        }
        disk.power_cut_at(1 + seed);
        store.flush();
        store.checkpoint_at(2);
        drop(store);
        disk.power_cut_at(1 << 40);
        disk.power_cut();
        let store = open(&disk);
        if store.applied() == 1 {
            before += 1;
            script.compare(&first, &store);
        } else {
            after += 1;
            assert_eq!(store.applied(), 2);
            script.compare(&model, &store);
        }
    }
    assert!(before > 0 && after > 0, "{before} {after}");
}

#[test]
fn reads_after_a_failure_are_empty_with_a_reason() {
    let disk = MemDisk::new(1);
    let mut script = Script::new(1);
    let (mut model, mut store) = (BTreeEntries::default(), open(&disk));
    for _ in 0..50 {
        script.step(&mut model, &mut store);
    }
    assert_eq!(store.failed(), None);
    disk.power_cut();
    store.flush();
    store.checkpoint_at(9);
    assert!(store.failed().unwrap().contains(ROWS_FILE), "{:?}", store.failed());
    assert!(script.ids.iter().all(|id| store.get(*id).is_none()));
    assert_eq!(store.next_expiry(), None);
}

#[test]
fn due_counts_are_exact_near_either_end() {
    let mut script = Script::new(3);
    let mut store = Store::in_memory();
    for due in 0..25_000 {
        let mut entry = script.new_entry();
        entry.group = "shop".into();
        entry.state = RetryState::Waiting { due: WallMs(due), delay_ms: 1, level: None };
        store.put(&entry);
    }
    let count = |now| store.count_due(&"shop".into(), WallMs(now));
    assert_eq!((count(-1), count(9_000), count(24_999), count(20_000)), (0, 9_001, 25_000, 20_001));
    assert_eq!(count(12_000), 10_000);
    assert_eq!(store.counts(&"shop".into()).of(StateKind::Waiting), 25_000);
}
