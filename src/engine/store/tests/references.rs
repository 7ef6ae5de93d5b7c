//! The rules of references into the log, one by one.

use super::replay::FakeLog;
use crate::engine::store::{Store, log::EntryLog, value};
use crate::journal::EntryRef;
use crate::model::{EntryId, RetryPlace, WallMs};
use crate::retry::{Cause, Entries, Entry, Evidence, Fact, Marks, PayloadChange, RetryState};

struct StoreFixture {
    store: Store,
    log: FakeLog,
    seq: u64,
}

impl StoreFixture {
    fn new() -> Self {
        Self { store: Store::in_memory(), log: FakeLog::default(), seq: 0 }
    }

    fn tell(&mut self, fact: &Fact) -> u64 {
        self.seq += 1;
        if self.store.is_dead_letter(fact) {
            self.log.dead_letters.borrow_mut().insert(self.seq);
        }
        self.log.facts.borrow_mut().insert(self.seq, fact.clone());
        self.store.journalled(&self.log, fact, EntryRef { seq: self.seq, len: 9 });
        self.seq
    }

    fn put(&mut self, id: u64, state: RetryState, payload: PayloadChange) -> u64 {
        let entry = Entry { id: EntryId(id), state, ..super::fixtures::entry() };
        let marks = self.store.marks();
        self.store.put_marks(Marks { next_id: marks.next_id.max(id + 1), ..marks });
        self.tell(&Fact::Entry { entry: Box::new(entry), cause: cause(), payload })
    }

    fn forget(&mut self, id: u64) -> u64 {
        let last = RetryState::Committed { at: WallMs(3) };
        let (id, group) = (EntryId(id), super::fixtures::entry().group);
        self.tell(&Fact::Forgotten { id, group, cause: cause(), last, redrives: 1 })
    }

    fn is_released(&self, seq: u64) -> bool {
        self.log.released.borrow().contains(&seq)
    }

    /// Removes released entries from the disk.
    fn compact(&self) {
        let released = self.log.released.borrow();
        self.log.facts.borrow_mut().retain(|seq, _| !released.contains(seq));
    }

    fn payload(&self, id: u64) -> Option<u64> {
        self.store.payload(EntryId(id)).map(|at| at.seq)
    }
}

fn cause() -> Cause {
    Cause { evidence: Evidence::Nack, at: WallMs(1), by: None }
}

const WAITING: RetryState = RetryState::Waiting { due: WallMs(1), delay_ms: 1, level: None };
const DEAD: RetryState = RetryState::Dead { at: WallMs(2) };
const BEGINS: PayloadChange = PayloadChange::Begins(0);
const KEEPS: PayloadChange = PayloadChange::Keeps;

#[test]
fn a_later_fact_releases_the_previous_one_but_no_bytes() {
    let mut told = StoreFixture::new();
    let begins = told.put(1, WAITING, BEGINS);
    let second = told.put(1, WAITING, KEEPS);
    let third = told.put(1, WAITING, KEEPS);
    assert_eq!(told.payload(1), Some(begins));
    assert!(!told.is_released(begins) && told.is_released(second) && !told.is_released(third));
    let anew = told.put(1, WAITING, BEGINS);
    assert_eq!(told.payload(1), Some(anew));
    assert!(told.is_released(begins) && told.is_released(third) && !told.is_released(anew));
}

#[test]
fn a_dead_letter_replaces_the_bytes_and_is_never_released() {
    let mut told = StoreFixture::new();
    let begins = told.put(1, WAITING, BEGINS);
    let letter = told.put(1, DEAD, KEEPS);
    assert!(told.is_released(begins));
    assert_eq!(told.payload(1), Some(letter));
    let later = told.put(1, DEAD, KEEPS);
    assert!(!told.log.dead_letters.borrow().contains(&later), "one letter, then plain facts");
    let back = told.put(1, WAITING, BEGINS);
    assert!(told.is_released(later) && !told.is_released(letter));
    let second_letter = told.put(1, DEAD, KEEPS);
    assert_eq!(told.payload(1), Some(second_letter));
    assert!(told.is_released(back));
    let tombstone = told.forget(1);
    told.put(2, WAITING, BEGINS);
    told.compact();
    assert_eq!(told.store.sweep(&told.log, 9), 0, "both letters would bring it back");
    for seq in [letter, second_letter] {
        told.log.facts.borrow_mut().remove(&seq);
    }
    assert_eq!(told.store.sweep(&told.log, 9), 1);
    assert!(told.is_released(tombstone));
}

#[test]
fn the_highest_tombstone_stays_until_a_higher_id_exists() {
    let mut told = StoreFixture::new();
    told.put(1, WAITING, BEGINS);
    let tombstone = told.forget(1);
    told.compact();
    assert_eq!(told.log.facts.borrow().len(), 1);
    assert_eq!(told.store.sweep(&told.log, 9), 0);
    told.put(2, WAITING, BEGINS);
    assert_eq!(told.store.sweep(&told.log, 9), 1);
    assert!(told.is_released(tombstone));
}

#[test]
fn sweeps_go_round_so_that_none_waits_for_another() {
    let mut told = StoreFixture::new();
    for id in 0..10 {
        told.put(id, WAITING, BEGINS);
        told.forget(id);
    }
    let stuck: Vec<u64> = (0..5).map(|n| 2 * n + 1).collect();
    told.log
        .facts
        .borrow_mut()
        .retain(|seq, fact| matches!(fact, Fact::Forgotten { .. }) || stuck.contains(seq));
    let swept: Vec<usize> = (0..6).map(|_| told.store.sweep(&told.log, 3)).collect();
    // Ids 5 to 8 are free and 9 is the highest; sweeps take three at a time: 0–2, 3–5, 6–8, 9, and
    // round again.
    assert_eq!(swept, [0, 1, 3, 0, 0, 0]);
    assert!(stuck.iter().all(|seq| told.log.holds(EntryRef { seq: *seq, len: 9 })));
}

#[test]
fn an_unsettled_entry_keeps_a_bounded_list_of_facts() {
    let mut told = StoreFixture::new();
    let place = RetryPlace::in_stream(3, 0, 9);
    told.put(1, WAITING, BEGINS);
    for _ in 0..1000 {
        told.put(1, RetryState::Released { place, since: WallMs(1) }, KEEPS);
        told.put(1, WAITING, KEEPS);
        told.compact();
    }
    let refs = value::bytes(&*told.store.known(EntryId(1)).refs.unwrap()).unwrap().len();
    assert!(refs < 64 * 10, "{refs} bytes");
    assert_eq!(told.payload(1), Some(1));
}
