//! Dead letters whose topic is in the cluster behind; the test is the writer and the reader.

use super::*;
use crate::engine::{ReadLetters, ReleaseBatch, ReleaseOutcome};

fn house() -> House {
    let mut house = House::new(0);
    house.letters_behind = true;
    house.restart();
    house
}

/// A house whose topic is empty and read, with `count` exhausted records.
fn with_exhausted(count: i64) -> House {
    let mut house = house();
    house.exhaust(0..count);
    house.read(Vec::new(), 0, 0);
    house
}

fn topic() -> TopicName {
    TopicName::new("reprise.dlq.shop")
}

fn numbered(base: i64, batch: &ReleaseBatch) -> Vec<(i64, RawRecord)> {
    (base..).zip(batch.records.iter().cloned()).collect()
}

impl House {
    fn restart(&mut self) {
        self.running = None;
        assert!(self.start());
    }

    /// Records fail for the last time.
    fn exhaust(&mut self, offsets: std::ops::Range<i64>) {
        let nacks = offsets.map(|offset| {
            let origin = Origin { topic: "orders".into(), partition: 0, offset };
            let want = RequestedDelay { level: Some(-1), delay_ms: None };
            let nack = Nack { want, record_bytes: 30, ..Nack::of(NackTarget::Origin(origin)) };
            NackRequest { nack, record: record(None, 10) }
        });
        assert!(self.take(nacks.collect()));
    }

    fn batches(&mut self) -> u64 {
        self.on().engine.count_letter_batches()
    }

    /// The topic has these records up to its end, as of `since`.
    fn read(&mut self, records: Vec<(i64, RawRecord)>, next: i64, since: u64) {
        let read = ReadLetters { group: shop(), records, next, is_end: true, since };
        let engine = self.on().engine.clone();
        let taken = self.ask(async move { engine.take_letters(read).await });
        taken.unwrap().unwrap();
        self.steps(2);
    }

    /// The exhausted records that are not in their topic, and the dead letters.
    fn ends(&mut self) -> [u64; 2] {
        [StateKind::Blocked, StateKind::Dead].map(|of| self.count(of))
    }
}

#[test]
fn a_dead_letter_has_its_offset_in_the_cluster() {
    let mut house = house();
    house.exhaust(0..2);
    assert!(house.batch().is_none(), "its topic was not read");
    house.read(Vec::new(), 5, 0);
    let batch = house.batch().unwrap();
    assert_eq!((batch.records.len(), batch.topic.clone()), (2, topic()));
    let records = numbered(7, &batch);
    house.end(batch, ReleaseOutcome::Written { base: 7 });
    assert_eq!(house.ends(), [2, 0]);
    let since = house.batches();
    house.read(records, 9, since);
    assert_eq!(house.ends(), [0, 2]);
    let letters = house.on().engine.dead_letters(&shop(), 0, usize::MAX).unwrap().letters;
    let found: Vec<i64> = letters.iter().map(|letter| letter.offset).collect();
    assert_eq!((found, house.on().engine.letters_end(&topic())), (vec![7, 8], 9));
    assert!(house.batch().is_none());
}

#[test]
fn a_batch_of_unknown_fate_is_looked_for_first() {
    let mut house = with_exhausted(1);
    let batch = house.batch().unwrap();
    let before = house.batches();
    house.end(batch, ReleaseOutcome::Later);
    assert!(house.batch().is_none());
    house.read(Vec::new(), 0, before);
    assert!(house.batch().is_none(), "that read began before the batch ended");
    let since = house.batches();
    house.read(Vec::new(), 0, since);
    let batch = house.batch().unwrap();
    let records = numbered(0, &batch);
    house.end(batch, ReleaseOutcome::Later);
    let since = house.batches();
    house.read(records, 1, since);
    assert_eq!(house.ends(), [0, 1], "its origin tells the entry");
    assert!(house.batch().is_none());
}

#[test]
fn a_crash_repeats_no_dead_letter_with_an_origin() {
    let mut house = with_exhausted(2);
    let records = numbered(0, &house.batch().unwrap());
    house.restart();
    assert_eq!(house.ends(), [2, 0]);
    assert!(house.batch().is_none());
    house.read(records, 2, 0);
    assert_eq!(house.ends(), [0, 2]);
    assert!(house.batch().is_none());
}

#[test]
fn records_of_others_are_dead_letters_beside_ours() {
    let mut house = with_exhausted(1);
    let batch = house.batch().unwrap();
    let mut records = numbered(1, &batch);
    let theirs = RawRecord::parse(&record(None, 3)).unwrap();
    // Another sidecar wrote the same origin before.
    records.insert(0, (0, RawRecord { headers: records[0].1.headers.clone(), ..theirs.clone() }));
    records.push((4, theirs));
    house.end(batch, ReleaseOutcome::Written { base: 1 });
    let since = house.batches();
    house.read(records, 5, since);
    assert_eq!(house.ends(), [0, 3]);
    house.restart();
    assert_eq!(house.ends(), [0, 3]);
    assert_eq!(house.on().engine.letters_end(&topic()), 5);
}

#[test]
fn a_refused_dead_letter_waits_and_others_go_on() {
    let mut house = with_exhausted(3);
    let refused = || ReleaseOutcome::Refused("too large".to_owned());
    let batch = house.batch().unwrap();
    house.end(batch, refused());
    let mut written = Vec::new();
    for is_taken in [true, false, true] {
        let batch = house.batch().unwrap();
        assert_eq!(batch.records.len(), 1);
        let base = i64::try_from(written.len()).unwrap();
        let outcome = if is_taken { ReleaseOutcome::Written { base } } else { refused() };
        written.extend(numbered(base, &batch).into_iter().filter(|_| is_taken));
        house.end(batch, outcome);
    }
    let since = house.batches();
    house.read(written, 2, since);
    assert_eq!(house.ends(), [1, 2]);
    assert!(house.batch().is_none());
    house.pass(UNSERVED_MS);
    assert_eq!(house.batch().unwrap().records.len(), 1);
}
