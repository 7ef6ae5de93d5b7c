//! Journal cost of an open transaction, and its recovery.

use super::*;
use crate::broker::fact_encoding::FactError;

/// Partitions of topic `many`.
const MANY: i32 = 1_000;

impl House {
    fn with_many() -> Self {
        let mut house = Self::new();
        let spec = TopicSpec { name: "many".into(), partitions: MANY, settings: Vec::new() };
        house.broker.topics.create(&spec, Uuid::from_u128(2)).unwrap();
        house.writer.step();
        house
    }

    fn join_many(&self, by: Incarnation, index: i32) {
        let topic = self.broker.topics.find(&"many".into()).unwrap();
        let parts = vec![part(&topic, topic.partition(index).unwrap())];
        let joining = Joining { parts, ..Joining::default() };
        self.broker.join_transaction("x", by, joining).unwrap();
    }

    /// Bytes that are appended and not yet written.
    fn unwritten(&self) -> u64 {
        self.broker.journal.stats().queued_bytes
    }

    fn state(&self) -> Transaction {
        self.broker.transactions.find("x").unwrap()
    }

    fn steps(&self) -> u32 {
        self.broker.transactions.lock().steps("x")
    }

    fn has_step(&self, by: Incarnation, number: u32) -> bool {
        let key = step::entry(by.0, number, &a_step()).key.unwrap();
        self.broker.journal.keyed_get(kind::TRANSACTION_STEP, &key).unwrap().is_some()
    }

    /// Makes a checkpoint of the journal's index while the writer runs.
    fn checkpoint(&mut self) {
        let (journal, writer) = (self.broker.journal.clone(), &mut self.writer);
        std::thread::scope(|scope| {
            let saved = scope.spawn(|| journal.checkpoint());
            while !saved.is_finished() {
                writer.step();
            }
            saved.join().unwrap().unwrap();
        });
    }
}

fn a_step() -> TransactionStep {
    let open = Transaction::new(1000, 60_000, WallMs(1));
    let open = open.joined((1000, 0), Joining::default(), WallMs(2)).unwrap().unwrap();
    let item = CommitItem {
        topic: "t".into(),
        partition: 2,
        offset: 812,
        leader_epoch: -1,
        metadata: "m".into(),
    };
    let part = TransactionPartition { stream: 7, topic: "o".into(), partition: 1 };
    let joining = Joining { parts: vec![part], group: Some("g".into()), items: vec![item] };
    match open.joining((1000, 0), joining, WallMs(3)).unwrap() {
        Some(AdditionOutcome::Step(step)) => step,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_thousand_partitions_cost_linear_journal_bytes() {
    let mut house = House::with_many();
    let by = house.begin("x");
    house.join_many(by, 0);
    house.writer.step();
    let (mut bytes, mut whole, mut dearest) = (0, 0, 0);
    for index in 1..MANY {
        house.join_many(by, index);
        bytes += house.unwritten();
        dearest = house.unwritten().max(dearest);
        whole += u64::try_from(transaction_record::write(&house.state()).len()).unwrap();
        house.writer.step();
    }
    house.end("x", by, true).unwrap();
    let end = house.unwritten();
    assert!(dearest < 100, "{dearest} bytes for one of them");
    assert!(60 * bytes < whole, "{bytes} bytes, of {whole} of the whole state each time");
    // One marker for each partition, and one tombstone for each step.
    assert!(end < 250 * 1_000, "{end} bytes at the end");
}

#[test]
fn transaction_steps_are_restored_after_a_power_cut() {
    for (checkpoints, index_is_lost) in [(false, false), (true, false), (true, true)] {
        let mut house = House::with_many();
        let by = house.begin("x");
        for index in 0..20 {
            house.join_many(by, index);
        }
        house.offset(by, "g", 5);
        if checkpoints {
            house.writer.step();
            house.checkpoint();
        }
        for index in 20..40 {
            house.join_many(by, index);
        }
        house.offset(by, "g", 9);
        house.writer.step();
        let before = house.state();
        assert_eq!(before.parts.len(), 40);
        if index_is_lost {
            house.disk.disk().remove("index.redb").unwrap();
        }
        let mut house = house.power_cut();
        assert_eq!(house.state(), before);
        house.join_many(by, 40);
        house.writer.step();
        let (before, mut house) = (house.state(), house.power_cut());
        assert_eq!(house.state(), before, "steps go on where they were");
        house.end("x", by, true).unwrap();
        house.writer.step();
        assert_eq!(house.committed("g"), Some(9));
    }
}

#[test]
fn the_steps_of_an_ended_transaction_never_reach_the_next() {
    let mut house = House::with_many();
    let by = house.begin("x");
    for index in 0..10 {
        house.join_many(by, index);
    }
    assert!(house.has_step(by, 8));
    house.end("x", by, false).unwrap();
    assert!((0..10).all(|number| !house.has_step(by, number)));
    house.join_many(by, 0);
    house.join_many(by, 11);
    house.writer.step();
    let before = house.state();
    let house = house.power_cut();
    assert_eq!(house.state(), before);
    assert_eq!(before.parts.len(), 2);
}

#[test]
fn repeated_offset_commits_do_not_fill_the_log() {
    let mut house = House::new();
    let by = house.begin("x");
    house.join("x", by, 0);
    for offset in 0..1_000 {
        house.offset(by, "g", offset);
        assert!(house.steps() <= 64 + 4, "{}", house.steps());
    }
    let bytes = house.broker.transactions.lock().room_for(64 << 20);
    assert_eq!(bytes, Err(TransactionError::TooMany), "what it has is counted");
    assert_eq!(house.broker.transactions.lock().room_for((64 << 20) - (32 << 10)), Ok(()));
    house.writer.step();
    let mut house = house.power_cut();
    house.end("x", by, true).unwrap();
    house.writer.step();
    assert_eq!(house.committed("g"), Some(999));
}

#[test]
fn repeated_requests_write_nothing() {
    let mut house = House::with_many();
    let by = house.begin("x");
    house.join_many(by, 0);
    house.join_many(by, 1);
    house.offset(by, "g", 7);
    house.writer.step();
    house.join_many(by, 1);
    house.offset(by, "g", 7);
    assert_eq!(house.unwritten(), 0);
    house.offset(by, "g", 6);
    assert!(house.unwritten() > 0, "another offset is news");
}

#[test]
fn a_version_one_step_stays_readable() {
    let joins = a_step();
    let open = Transaction::new(1000, 60_000, WallMs(1));
    let loses = open.after(a_step()).losing(&"o".into(), WallMs(3)).unwrap();
    let loses_offsets = open.after(a_step()).losing_offsets(&"g".into(), |_, _| true, WallMs(3));
    let fixtures: [(TransactionStep, &[u8]); 3] = [
        (loses_offsets.unwrap(), b"\x01\x06\x02\x01g\x01\x01t\x04"),
        (loses, b"\x01\x06\x01\x01o"),
        (joins, b"\x01\x06\x00\x01\x07\x01o\x02\x01\x01g\x01\x01t\x04\xd8\x0c\x01\x01m\x00"),
    ];
    for (step, fixture) in fixtures {
        let mut entry = step::entry(1000, 5, &step).read_back();
        assert_eq!(entry.head[..], fixture[..]);
        assert_eq!(entry.key.as_deref(), Some(&b"\0\0\0\0\0\0\x03\xe8\0\0\0\x05"[..]));
        assert_eq!(step::read(&entry).unwrap(), Some((1000, 5, step)));
        entry.head = Bytes::from_static(b"\x02\x06");
        assert!(matches!(step::read(&entry), Err(FactError::Newer { .. })));
    }
}
