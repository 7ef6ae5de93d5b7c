//! Dead letters and their topic, with a log on a disk in memory, stepped by the test.

use super::*;
use crate::clock::{Clock, Hand};
use crate::engine::audit;
use crate::engine::stepped::answered;
use crate::engine::{
    EngineParts, NackBatch, NackRequest, ReleaseOutcome, Replay, RetryPartitionLog,
};
use crate::journal::{Journal, JournalOptions, MemDisk, StreamId, Writer};
use crate::model::{ClientId, Origin, RetryPair, WallMs};
use crate::retry::{
    Entry, Nack, NackTarget, RESTORE_MS, Reporter, RequestedDelay, StateKind, entries_of,
};
use crate::wire::batch::{Headers, RawRecord, TimestampType};

const LETTERS: i64 = 4;
/// Added by an edit to the number of an order.
const EDITED: i64 = 100;

struct House {
    engine: Engine,
    driver: Driver,
    writer: Writer,
    hand: Hand,
    /// The next offset of the retry topic.
    released: i64,
}

fn shop() -> GroupId {
    GroupId::new("shop")
}

fn record(offset: i64) -> Bytes {
    let record = RawRecord {
        timestamp_ms: 5,
        timestamp_type: TimestampType::CreateTime,
        key: Some("k".into()),
        value: Some(format!("order {offset}").into()),
        headers: Headers::NONE,
    };
    record.to_bytes()
}

impl House {
    /// `None` when the power went meanwhile.
    fn open_at(disk: &MemDisk, wall: WallMs) -> Option<Self> {
        let (journal, writer, recovery) =
            Journal::open(disk.disk(), JournalOptions::default()).ok()?;
        let (clock, hand) = Clock::told(wall);
        let parts = EngineParts::plain(&journal, clock);
        let mut replay = Replay::new(Some(Replay::tables(&journal).ok()?), &parts);
        let from = replay.from();
        recovery.replay(from, &mut |entry, at| replay.entry(entry, at)).ok()?;
        let (engine, driver) = replay.finish(parts);
        let of = RetryPartitionLog { stream: StreamId(0), committed: 0 };
        engine.serve_topic_behind(&RetryPair::of_group(&shop()), vec![of]);
        Some(Self { engine, driver, writer, hand, released: 0 })
    }

    fn open(disk: &MemDisk) -> Option<Self> {
        Self::open_at(disk, WallMs(1_000))
    }

    fn step(&mut self) {
        self.driver.step();
        self.writer.step();
    }

    /// The answer; `None` when the power went.
    fn ask<T>(&mut self, asked: impl Future<Output = Result<T, EngineError>>) -> Option<T> {
        answered(asked, || self.step())?.ok()
    }

    /// Makes dead letters from `orders-0@0` on.
    fn fill(&mut self) -> Option<()> {
        for offset in 0..LETTERS {
            let origin = Origin { topic: "orders".into(), partition: 0, offset };
            let want = RequestedDelay { level: Some(-1), delay_ms: None };
            let nack = Nack { want, record_bytes: 9, ..Nack::of(NackTarget::Origin(origin)) };
            let by = Reporter { member: None, client: ClientId::new("app") };
            let nacks = vec![NackRequest { nack, record: record(offset) }];
            let batch = NackBatch { group: shop(), by, producer: None, nacks };
            let engine = self.engine.clone();
            self.ask(engine.nacks(batch))?;
        }
        Some(())
    }

    fn entries(&self) -> Vec<Entry> {
        entries_of(&self.driver.ledger, &shop())
    }

    fn operate(&mut self, action: Action, offsets: &[i64]) -> Option<Vec<ActionOutcome>> {
        let all = self.entries();
        let of = |offset: &i64| {
            let mut known = all.iter();
            known.find(|known| known.origin.as_ref().is_some_and(|o| o.offset == *offset))
        };
        let ids = offsets.iter().map(|offset| of(offset).unwrap().id).collect();
        let records = match action {
            Action::Redrive => offsets.iter().map(|offset| record(*offset)).collect(),
            Action::Edit => offsets.iter().map(|offset| record(EDITED + offset)).collect(),
            _ => Vec::new(),
        };
        let by = Operator {
            name: "kim".into(),
            is_claimed: false,
            peer: "::1".into(),
            note: "INC-1".into(),
        };
        let (group, arrivals) = (shop(), Vec::new());
        let (target, job) = (None, None);
        let request = OperateRequest { group, action, ids, records, arrivals, target, by, job };
        let engine = self.engine.clone();
        self.ask(async move { engine.operate(request).await })
    }

    /// Values of the dead letters in their topic, by offset.
    fn letters(&self) -> Vec<(i64, String)> {
        let read = self.engine.dead_letters(&shop(), 0, 1 << 20).unwrap();
        let value =
            |record: &RawRecord| String::from_utf8_lossy(record.value.as_ref().unwrap()).into();
        read.letters.iter().map(|letter| (letter.offset, value(&letter.record))).collect()
    }

    fn offsets(&self) -> Vec<i64> {
        self.letters().into_iter().map(|(offset, _)| offset).collect()
    }

    /// Deletes the first letters, as far as they have been settled for a day.
    fn delete_settled(&mut self) -> Option<u64> {
        let oldest = WallMs(self.driver.clock.now().wall.0.saturating_sub_unsigned(RESTORE_MS));
        let engine = self.engine.clone();
        self.ask(async move { engine.delete_settled(oldest).await })
    }

    fn count(&mut self, kind: StateKind) -> usize {
        self.entries().iter().filter(|entry| entry.state.kind() == kind).count()
    }

    /// Releases everything due and commits it. Returns values and counts of redrives.
    fn consume(&mut self) -> Vec<(String, u32)> {
        let engine = self.engine.clone();
        engine.reads_retries(&RetryPair::of_group(&shop()), self.driver.clock.now().mono);
        let next = engine.next_release();
        let Some(batch) = answered(next, || self.step()) else { return Vec::new() };
        let told = batch.records.iter().map(|record| {
            let count = record.headers.last("x-retry-redrive-count").flatten();
            let count = count.map_or(0, |count| String::from_utf8_lossy(&count).parse().unwrap());
            (String::from_utf8_lossy(record.value.as_ref().unwrap()).into_owned(), count)
        });
        let told: Vec<_> = told.collect();
        let base = self.released;
        self.released += i64::try_from(told.len()).unwrap();
        engine.release_ended(batch, ReleaseOutcome::Written { base });
        let offsets = vec![("reprise.retry.shop".into(), 0, self.released)];
        self.ask(async move { engine.origin_commits(&shop(), offsets).await }).unwrap();
        told
    }
}

fn reopened(house: House, disk: &MemDisk) -> House {
    let (wall, released) = (house.driver.clock.now().wall, house.released);
    drop(house);
    House { released, ..House::open_at(disk, wall).unwrap() }
}

#[test]
fn settled_letters_are_deleted_from_the_front_after_a_day() {
    let disk = MemDisk::new(7);
    let mut house = House::open(&disk).unwrap();
    house.fill().unwrap();
    assert_eq!(house.operate(Action::Redrive, &[0, 2]).unwrap(), [ActionOutcome::Done; 2]);
    house.operate(Action::Discard, &[1]).unwrap();
    assert_eq!(house.delete_settled(), Some(0), "the redriven records are on their way");
    assert_eq!(house.consume(), [("order 0".to_owned(), 1), ("order 2".to_owned(), 1)]);
    house.hand.advance(RESTORE_MS - 1);
    assert_eq!((house.delete_settled(), house.offsets()), (Some(0), vec![0, 1, 2, 3]));
    house = reopened(house, &disk);
    house.hand.advance(2);
    house.step();
    assert_eq!((house.delete_settled(), house.offsets()), (Some(3), vec![3]), "letter 3 is open");
    house = reopened(house, &disk);
    assert_eq!(house.offsets(), [3]);
    house.operate(Action::Redrive, &[3]).unwrap();
    house.consume();
    house.hand.advance(2 * RESTORE_MS);
    house.step();
    assert_eq!((house.delete_settled(), house.offsets()), (Some(1), vec![]), "forgotten by then");
    assert_eq!(house.engine.dead_letter_bounds(&shop()).unwrap().next, 4);
}

#[test]
fn a_redriven_record_that_dies_again_has_a_later_letter() {
    let disk = MemDisk::new(8);
    let mut house = House::open(&disk).unwrap();
    house.fill().unwrap();
    house.operate(Action::Redrive, &[1]).unwrap();
    assert_eq!(house.operate(Action::DeadLetterNow, &[1]).unwrap(), [ActionOutcome::Done]);
    house.operate(Action::Redrive, &[0]).unwrap();
    house.consume();
    for _ in 0..2 {
        assert_eq!(house.offsets(), [0, 1, 2, 3, 4]);
        assert_eq!(house.letters()[4].1, "order 1");
        house = reopened(house, &disk);
    }
    house.hand.advance(RESTORE_MS + 1);
    house.step();
    assert_eq!(
        (house.delete_settled(), house.offsets()),
        (Some(2), vec![2, 3, 4]),
        "its first letter"
    );
}

#[test]
fn an_edited_record_has_a_letter_each_time() {
    let disk = MemDisk::new(13);
    let mut house = House::open(&disk).unwrap();
    house.fill().unwrap();
    house.operate(Action::Edit, &[1]).unwrap();
    house.operate(Action::DeadLetterNow, &[1]).unwrap();
    house.operate(Action::Edit, &[1]).unwrap();
    house = reopened(house, &disk);
    house.operate(Action::DeadLetterNow, &[1]).unwrap();
    let of_order_1 = |house: &House| {
        let letters = house.letters();
        let values = letters.into_iter().map(|(_, value)| value);
        values.filter(|value| value.ends_with('1')).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(of_order_1(&house), ["order 1", "order 101", "order 101"]);
        assert_eq!(house.count(StateKind::Dead), 4);
        house = reopened(house, &disk);
    }
    house.operate(Action::Discard, &[1]).unwrap();
    house.operate(Action::Restore, &[1]).unwrap();
    assert_eq!(house.count(StateKind::Dead), 4, "no letter more");
    house.operate(Action::Redrive, &[1]).unwrap();
    house = reopened(house, &disk);
    assert_eq!(house.consume(), [("order 1".to_owned(), 3)], "the original may be sent back");
    assert_eq!(of_order_1(&house).len(), 3);
}

#[test]
fn deleting_an_original_leaves_its_edited_letter() {
    let disk = MemDisk::new(14);
    let mut house = House::open(&disk).unwrap();
    house.fill().unwrap();
    house.operate(Action::Edit, &[1]).unwrap();
    house.operate(Action::DeadLetterNow, &[1]).unwrap();
    let engine = house.engine.clone();
    let topic = "reprise.dlq.shop".into();
    let deleted = async move { engine.delete_letters(&topic, 3, Operator::default()).await };
    assert_eq!(house.ask(deleted), Some((3, 2)));
    assert_eq!(house.offsets(), [3, 4]);
    house.operate(Action::Redrive, &[1]).unwrap();
    assert_eq!(house.consume(), [("order 1".to_owned(), 2)]);
}

#[test]
fn a_full_disk_records_sent_dead_letters() {
    let disk = MemDisk::new(15);
    let mut house = House::open(&disk).unwrap();
    house.fill().unwrap();
    disk.set_capacity(Some(disk.used_bytes() + (1 << 20)));
    assert!(house.driver.journal.free_bytes() <= 1 << 20);
    assert_eq!(house.operate(Action::Redrive, &[0]), None, "a redrive needs room");
    assert_eq!(house.operate(Action::Send, &[1]), Some(vec![ActionOutcome::Done]));
    assert_eq!(house.count(StateKind::Discarded), 1);
}

#[test]
fn a_discarded_letter_is_settled_after_a_day_unless_restored() {
    let disk = MemDisk::new(9);
    let mut house = House::open(&disk).unwrap();
    house.fill().unwrap();
    assert_eq!(house.operate(Action::Discard, &[0, 1, 2]).unwrap(), [ActionOutcome::Done; 3]);
    house = reopened(house, &disk);
    assert_eq!(house.operate(Action::Restore, &[1]).unwrap(), [ActionOutcome::Done]);
    assert_eq!(house.offsets(), [0, 1, 2, 3]);
    house = reopened(house, &disk);
    house.hand.advance(RESTORE_MS);
    house.step();
    house.hand.advance(1);
    assert_eq!((house.delete_settled(), house.offsets()), (Some(1), vec![1, 2, 3]));
    assert_eq!(house.count(StateKind::Dead), 2);
    house.operate(Action::Redrive, &[1]).unwrap();
    assert_eq!(house.consume(), [("order 1".to_owned(), 1)]);
}

#[test]
fn deleted_letters_leave_for_good() {
    let disk = MemDisk::new(11);
    let mut house = House::open(&disk).unwrap();
    house.fill().unwrap();
    house.operate(Action::Redrive, &[1]).unwrap();
    house.operate(Action::Discard, &[2]).unwrap();
    let engine = house.engine.clone();
    let topic = "reprise.dlq.shop".into();
    let deleted = async move { engine.delete_letters(&topic, 3, Operator::default()).await };
    assert_eq!(house.ask(deleted), Some((3, 2)));
    for _ in 0..2 {
        assert_eq!(house.offsets(), [3]);
        assert_eq!(house.count(StateKind::Discarded), 2);
        let restored = house.operate(Action::Restore, &[2]).unwrap();
        assert_eq!(restored, [ActionOutcome::Refused(StateKind::Discarded)]);
        house = reopened(house, &disk);
    }
    assert_eq!(house.consume(), [("order 1".to_owned(), 1)], "its retry is its own record");
}

#[test]
fn letters_older_than_their_retention_are_deleted() {
    let disk = MemDisk::new(12);
    let mut house = House::open(&disk).unwrap();
    house.fill().unwrap();
    let died = house.driver.clock.now().wall;
    house.hand.advance(10);
    house.operate(Action::Redrive, &[0]).unwrap();
    house.operate(Action::DeadLetterNow, &[0]).unwrap();
    let expired = |house: &mut House, oldest| {
        let engine = house.engine.clone();
        house.ask(async move { engine.expire_letters(&shop(), oldest).await }).unwrap()
    };
    assert_eq!(expired(&mut house, died), 0);
    assert_eq!(expired(&mut house, died.plus(1)), 3, "one of the four was sent back");
    assert_eq!(house.letters(), [(4, "order 0".to_owned())]);
    let audit = house.engine.audit(None, 2, 10).unwrap();
    assert_eq!((audit[0].1.by.name.as_str(), audit[0].1.changed), ("retention", 3));
}

#[test]
fn every_action_is_in_the_audit_log() {
    let disk = MemDisk::new(10);
    let mut house = House::open(&disk).unwrap();
    house.fill().unwrap();
    house.operate(Action::Discard, &[0, 1]).unwrap();
    house.operate(Action::Discard, &[1, 2]).unwrap();
    house = reopened(house, &disk);
    let audit = house.engine.audit(None, 0, 10).unwrap();
    let told = audit.iter().map(|(number, record)| {
        let places = record.places.join(" ");
        (*number, record.action.as_str(), record.changed, record.left, places)
    });
    let expected = [
        (0, "discard", 2, 0, "orders-0@0 orders-0@1".to_owned()),
        (1, "discard", 1, 1, "orders-0@2".to_owned()),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let of = |group: &str, from| house.engine.audit(Some(&group.into()), from, 1).unwrap();
    assert_eq!((of("shop", 1), of("cart", 0)), (audit[1..].to_vec(), Vec::new()));
    let by = &audit[0].1.by;
    assert_eq!((by.name.as_str(), by.peer.as_str(), by.note.as_str()), ("kim", "::1", "INC-1"));
    let (journal, now) = (&house.driver.journal, house.driver.clock.now().wall);
    audit::expire(journal, now.plus(90 * 86_400_000)).unwrap();
    assert_eq!(house.engine.audit(None, 0, 10).unwrap().len(), 2);
    audit::expire(journal, now.plus(90 * 86_400_000 + 1)).unwrap();
    house.writer.step();
    assert_eq!(house.engine.audit(None, 0, 10).unwrap(), [], "for 90 days");
}

/// Discards, redrives and deletes what is settled until the power goes.
fn run(disk: &MemDisk) -> Option<()> {
    let mut house = House::open(disk)?;
    house.fill()?;
    house.operate(Action::Discard, &[0, 1])?;
    house.operate(Action::Redrive, &[2])?;
    house.hand.advance(RESTORE_MS + 1);
    house.step();
    house.delete_settled()?;
    house.operate(Action::Restore, &[3])?;
    Some(())
}

#[test]
fn no_power_cut_loses_or_doubles_a_letter() {
    let whole = MemDisk::new(0);
    assert!(run(&whole).is_some());
    for cut in 1..=whole.operations() {
        let disk = MemDisk::new(cut);
        disk.power_cut_at(cut);
        let ended = run(&disk);
        if disk.operations() < cut {
            disk.power_cut();
        }
        let mut house = House::open_at(&disk, WallMs(2_000)).unwrap();
        let letters = house.offsets();
        for entry in house.entries() {
            let (state, offset) = (entry.state, entry.origin.unwrap().offset);
            let is_there = letters.contains(&offset);
            match state.kind() {
                StateKind::Dead => assert!(is_there, "cut {cut}: letter {offset} is lost"),
                StateKind::Waiting => assert_eq!(entry.redrives, 1, "cut {cut}"),
                StateKind::Discarded => assert!(offset < 2, "cut {cut}"),
                other => panic!("cut {cut}: {offset} is {other:?}"),
            }
        }
        if ended.is_some() {
            assert_eq!(letters, [2, 3], "cut {cut}");
        }
        let waiting = house.count(StateKind::Waiting);
        house.hand.advance(1);
        house.driver.step();
        assert_eq!(house.consume().len(), waiting, "cut {cut}: each is delivered once");
    }
}
