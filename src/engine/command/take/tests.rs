//! Retries whose bytes the log cannot read back, with a log on a disk in memory.

use super::*;
use crate::clock::{Clock, Hand};
use crate::engine::stepped::answered;
use crate::engine::{
    DeadLetter, Driver, EngineParts, NackBatch, NackReply, NackRequest, ProducerSequence, Replay,
};
use crate::journal::{Journal, JournalOptions, MemDisk, Writer};
use crate::model::{ClientId, Origin, WallMs};
use crate::retry::{Nack, NackTarget, Reporter, RequestedDelay, StateKind, entries_of};
use crate::wire::batch::{Headers, RawRecord, TimestampType};

/// File name of the log's first segment.
const LOG: &str = "00000000000000000001.0000.log";
const MESSAGE: &str = "__dlq.errors.message";
/// Slightly more than the delay of the first level.
const LEVEL_MS: u64 = 11_000;

struct House {
    disk: MemDisk,
    engine: Engine,
    driver: Driver,
    writer: Writer,
    hand: Hand,
}

fn shop() -> GroupId {
    GroupId::new("shop")
}

fn origin(offset: i64) -> Origin {
    Origin { topic: "orders".into(), partition: 0, offset }
}

impl House {
    fn new() -> Self {
        let disk = MemDisk::new(5);
        let (journal, writer, recovery) =
            Journal::open(disk.disk(), JournalOptions::default()).unwrap();
        let (clock, hand) = Clock::told(WallMs(1_000));
        let parts = EngineParts::plain(&journal, clock);
        let mut replay = Replay::new(Some(Replay::tables(&journal).unwrap()), &parts);
        let from = replay.from();
        recovery.replay(from, &mut |entry, at| replay.entry(entry, at)).unwrap();
        let (engine, driver) = replay.finish(parts);
        Self { disk, engine, driver, writer, hand }
    }

    fn ask<T>(&mut self, asked: impl Future<Output = T>) -> T {
        let Self { driver, writer, .. } = self;
        let step = || {
            driver.step();
            writer.step();
        };
        answered(asked, step).expect("an answer")
    }

    /// Nacks records, each with its offset as its value.
    fn fail(&mut self, offsets: &[i64]) -> Result<NackReply, EngineError> {
        let named =
            |offset| (NackTarget::Origin(origin(offset)), RequestedDelay::default(), text(offset));
        let nacks = offsets.iter().map(|offset| nack(named(*offset))).collect();
        self.say(nacks)
    }

    fn say(&mut self, nacks: Vec<NackRequest>) -> Result<NackReply, EngineError> {
        let batch = NackBatch {
            group: shop(),
            by: Reporter { member: None, client: ClientId::new("test") },
            producer: None::<ProducerSequence>,
            nacks,
        };
        let engine = self.engine.clone();
        self.ask(engine.nacks(batch))
    }

    /// Makes waiting entries due; returns what a member gets from its first offset on.
    fn taken(&mut self) -> RetryBatch {
        self.taken_within(true)
    }

    fn taken_within(&mut self, has_room: bool) -> RetryBatch {
        let engine = self.engine.clone();
        let lane = self.ask(engine.join(&shop(), MemberId::new("m-1"))).unwrap();
        self.hand.advance(LEVEL_MS);
        let from = LaneOffset { slot: lane.slot, sequence: 0 };
        self.ask(engine.take(&shop(), from, (16, OtherDeliveries::None), async |_| has_room))
            .unwrap()
    }

    fn kinds(&self) -> Vec<StateKind> {
        let entries = entries_of(&self.driver.ledger, &shop());
        entries.iter().map(|entry| entry.state.kind()).collect()
    }

    /// Value and exception message of each dead letter.
    fn dead(&self) -> Vec<(Option<bytes::Bytes>, String)> {
        let dead = self.engine.dead_letters(&shop(), 0, 1 << 20).unwrap().letters;
        let message = |letter: &DeadLetter| {
            let told = letter.record.headers.last(MESSAGE).flatten().unwrap_or_default();
            String::from_utf8_lossy(&told).into_owned()
        };
        dead.iter().map(|letter| (letter.record.value.clone(), message(letter))).collect()
    }
}

fn text(offset: i64) -> String {
    format!("what was produced at {offset}")
}

fn nack((named, want, value): (NackTarget, RequestedDelay, String)) -> NackRequest {
    let record = RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(value.into()),
        headers: Headers::NONE,
    };
    let nack = Nack {
        want,
        reason: Some("no such account".to_owned()),
        record_bytes: 40,
        ..Nack::of(named)
    };
    NackRequest { nack, record: record.to_bytes() }
}

#[test]
fn retries_without_memory_stay_outstanding() {
    let mut house = House::new();
    house.fail(&[1, 2, 3]).unwrap();
    let counted = |taken: RetryBatch| (taken.records.len(), taken.next.sequence);
    assert_eq!(counted(house.taken_within(false)), (0, 3));
    assert_eq!(counted(house.taken()), (3, 3), "under the offsets of before");
}

#[test]
fn a_damaged_retry_becomes_a_dead_letter_and_others_continue() {
    let mut house = House::new();
    house.fail(&[1, 2, 3]).unwrap();
    assert!(house.disk.damage(LOG, text(2).as_bytes()));
    let taken = house.taken();
    assert_eq!((taken.records.len(), taken.next.sequence), (2, 3));
    let (dead, waits) = (StateKind::Dead, StateKind::Inflight);
    assert_eq!(house.kinds(), [waits, dead, waits]);
    let [(None, message)] = &house.dead()[..] else { panic!("{:?}", house.dead()) };
    assert!(message.starts_with("its bytes cannot be read back: "), "{message}");
    assert!(message.contains("is damaged at byte"), "{message}");
    let engine = house.engine.clone();
    assert_eq!(house.ask(engine.lane_commit(&shop(), taken.next)).unwrap(), 2);
    assert_eq!(house.engine.trouble(), None);
}

#[test]
fn a_damaged_dead_letter_does_not_stop_other_records() {
    let mut house = House::new();
    house.fail(&[1, 2]).unwrap();
    let taken = house.taken();
    assert_eq!(taken.records.len(), 2);
    assert!(house.disk.damage(LOG, text(1).as_bytes()));
    let first = NackTarget::Lane(LaneOffset { sequence: 0, ..taken.next });
    let want = RequestedDelay { level: Some(-1), ..RequestedDelay::default() };
    house.say(vec![nack((first, want, String::new()))]).unwrap();
    let [(None, message)] = &house.dead()[..] else { panic!("{:?}", house.dead()) };
    assert!(message.contains("cannot be read back"), "{message}");
    assert!(message.ends_with("; no such account"), "{message}");
    assert_eq!(house.engine.trouble(), None);
    house.fail(&[3]).unwrap();
    assert_eq!(house.taken().records.len(), 2);
}

#[test]
fn an_engine_ahead_of_its_log_reports_it() {
    let mut house = House::new();
    house.fail(&[1]).unwrap();
    assert_eq!(house.engine.trouble(), None);
    house.disk.fail_nth_sync(1);
    assert!(house.fail(&[2]).is_err());
    let engine = house.engine.clone();
    assert!(house.ask(engine.join(&shop(), MemberId::new("m-1"))).is_err());
    let trouble = house.engine.trouble().unwrap();
    assert!(trouble.starts_with("the retry engine stopped acknowledging: "), "{trouble}");
}
