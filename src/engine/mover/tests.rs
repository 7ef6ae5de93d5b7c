//! The engine with a log on a disk in memory, stepped by the test; the clock is manual.

mod behind;
mod deleted;
mod divided;
mod letters;

use std::collections::BTreeSet;

use bytes::Bytes;

use super::FULL_MS;
use super::window::WINDOW;
use super::*;
use crate::clock::{Clock, Hand};
use crate::engine::stepped::answered;
use crate::engine::{Driver, Engine, EngineParts, NackBatch, NackRequest, Replay};
use crate::journal::{Journal, JournalOptions, MemDisk, Writer};
use crate::model::{ClientId, Origin, RetryPair, TopicName, WallMs};
use crate::retry::{
    Evidence, Nack, NackTarget, Policies, Policy, Reporter, RequestedDelay, StateKind,
};
use crate::wire::batch::{Batch, Headers, RawRecord, TimestampType, records};

/// Delay of the nacks.
const DELAY_MS: u64 = 1_000;

struct House {
    disk: MemDisk,
    now: WallMs,
    streams: usize,
    rate: Option<u32>,
    /// The dead letters are in the cluster behind.
    letters_behind: bool,
    running: Option<Running>,
}

struct Running {
    engine: Engine,
    driver: Driver,
    writer: Writer,
    journal: Journal,
    hand: Hand,
}

fn shop() -> GroupId {
    GroupId::new("shop")
}

fn retry_topic() -> TopicName {
    TopicName::new("reprise.retry.shop")
}

impl House {
    fn new(streams: usize) -> Self {
        Self::on_disk(streams, 5)
    }

    fn on_disk(streams: usize, seed: u64) -> Self {
        let (disk, now) = (MemDisk::new(seed), WallMs(1_000_000));
        let mut house =
            Self { disk, now, streams, rate: None, letters_behind: false, running: None };
        assert!(house.start());
        house
    }

    /// False when the power went meanwhile.
    fn start(&mut self) -> bool {
        let (clock, hand) = Clock::told(self.now);
        let options = JournalOptions { segment_bytes: 8 << 20, ..JournalOptions::default() };
        let Ok((journal, writer, recovery)) = Journal::open(self.disk.disk(), options) else {
            return false;
        };
        let mut parts = EngineParts::plain(&journal, clock);
        let policy = Policy { rate: self.rate, ..Policy::default() };
        let policies = Policies::new(policy, Vec::new());
        parts.policies = policies.with_letters_behind(self.letters_behind);
        let Ok(tables) = Replay::tables(&journal) else { return false };
        let mut replay = Replay::new(Some(tables), &parts);
        let from = replay.from();
        if recovery.replay(from, &mut |entry, at| replay.entry(entry, at)).is_err() {
            return false;
        }
        let (engine, driver) = replay.finish(parts);
        self.running = Some(Running { engine, driver, writer, journal, hand });
        let streams: Option<Vec<StreamId>> = (0..self.streams).map(|of| self.stream(of)).collect();
        let Some(streams) = streams else { return false };
        self.serve(&streams);
        self.step();
        true
    }

    fn serve(&mut self, streams: &[StreamId]) {
        let log = |stream: &StreamId| RetryPartitionLog { stream: *stream, committed: 0 };
        self.on()
            .engine
            .serve_retry_topic(&RetryPair::of_group(&shop()), streams.iter().map(log).collect());
    }

    fn on(&mut self) -> &mut Running {
        self.running.as_mut().unwrap()
    }

    fn stream(&mut self, partition: usize) -> Option<StreamId> {
        self.on().journal.stream_open(&format!("t/1/{partition}")).ok()
    }

    fn step(&mut self) {
        let on = self.on();
        on.driver.step();
        on.writer.step();
    }

    fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| self.step());
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.plus(ms);
        self.on().hand.advance(ms);
        self.step();
    }

    fn reads(&mut self) {
        let now = self.on().driver.clock.now().mono;
        self.on().engine.reads_retries(&RetryPair::of_group(&shop()), now);
    }

    fn ask<T>(&mut self, asked: impl Future<Output = T>) -> Option<T> {
        answered(asked, || self.step())
    }

    /// Nacks records of `orders` by these offsets; whether the nacks are durable.
    fn fail(&mut self, offsets: std::ops::Range<i64>, key: Option<&'static str>) -> bool {
        self.fail_with(offsets, &record(key, 10))
    }

    fn fail_with(&mut self, offsets: std::ops::Range<i64>, record: &Bytes) -> bool {
        let nacks = offsets.map(|offset| {
            let origin = Origin { topic: "orders".into(), partition: 0, offset };
            let want = RequestedDelay { level: None, delay_ms: Some(DELAY_MS) };
            let record_bytes = u64::try_from(record.len()).unwrap();
            let nack = Nack { want, record_bytes, ..Nack::of(NackTarget::Origin(origin)) };
            NackRequest { nack, record: record.clone() }
        });
        self.take(nacks.collect())
    }

    /// Whether the nacks are durable.
    fn take(&mut self, nacks: Vec<NackRequest>) -> bool {
        let by = Reporter { member: None, client: ClientId::new("test") };
        let batch = NackBatch { group: shop(), by, producer: None, nacks };
        let engine = self.on().engine.clone();
        let said = engine.said(batch, Evidence::Nack);
        self.ask(said).is_some_and(|answer| answer.is_ok())
    }

    /// Nacks deliveries of the only partition for the last time.
    fn fail_released(&mut self, offsets: std::ops::Range<i64>) -> bool {
        let stream = self.stream(0).unwrap();
        let nacks = offsets.map(|offset| {
            let want = RequestedDelay { level: Some(-1), delay_ms: None };
            let place = RetryPlace::in_stream(0, stream.0, offset);
            let nack = Nack { want, record_bytes: 30, ..Nack::of(NackTarget::Delivery(place)) };
            NackRequest { nack, record: record(None, 10) }
        });
        self.take(nacks.collect())
    }

    /// Commits an offset of the retry topic.
    fn commit(&mut self, partition: i32, offset: i64) -> bool {
        let engine = self.on().engine.clone();
        let offsets = vec![(retry_topic(), partition, offset)];
        self.ask(async move { engine.origin_commits(&shop(), offsets).await })
            .is_some_and(|told| told.is_ok())
    }

    /// The origins in a partition of the retry topic, in order.
    fn released(&mut self, partition: usize) -> Vec<String> {
        let Some(stream) = self.stream(partition) else { return Vec::new() };
        let bounds = self.on().journal.stream_bounds(stream).unwrap();
        if bounds.start == bounds.visible_end {
            return Vec::new();
        }
        let Ok(read) = self.on().journal.stream_read(stream, 0, usize::MAX) else {
            return Vec::new();
        };
        let all = read.batches;
        let mut origins = Vec::new();
        for batch in all {
            for record in records(&Batch::parse(&batch.body).unwrap(), 8 << 20).unwrap() {
                let origin = record.unwrap().headers.last("ORIGIN_MESSAGE_ID").flatten().unwrap();
                origins.push(String::from_utf8(origin.to_vec()).unwrap());
            }
        }
        origins
    }

    fn count(&mut self, kind: StateKind) -> u64 {
        self.on().driver.ledger.counts(&shop()).of(kind)
    }
}

fn record(key: Option<&'static str>, size: usize) -> Bytes {
    RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::CreateTime,
        key: key.map(Bytes::from),
        value: Some(vec![b'x'; size].into()),
        headers: Headers::NONE,
    }
    .to_bytes()
}

fn origins(offsets: std::ops::Range<i64>) -> Vec<String> {
    offsets.map(|offset| format!("orders-0@{offset}")).collect()
}

#[test]
fn nothing_is_released_while_nobody_reads_the_topic() {
    let mut house = House::new(1);
    assert!(house.fail(0..3, None));
    house.pass(DELAY_MS);
    assert_eq!((house.released(0), house.count(StateKind::Waiting)), (Vec::new(), 3));
    house.reads();
    house.step();
    assert_eq!((house.released(0), house.count(StateKind::Unread)), (origins(0..3), 3));
    // The last reader is gone.
    assert!(house.fail(3..4, None));
    house.pass(READ_MS);
    assert_eq!(house.released(0).len(), 3);
    house.reads();
    house.step();
    assert_eq!(house.released(0), origins(0..4));
}

#[test]
fn a_retry_is_never_early_and_its_commit_acknowledges_it() {
    let mut house = House::new(1);
    house.reads();
    assert!(house.fail(0..2, None));
    house.pass(DELAY_MS - 1);
    assert_eq!(house.released(0), Vec::<String>::new());
    house.pass(1);
    assert_eq!(house.released(0), origins(0..2));
    assert!(house.commit(0, 1));
    assert_eq!((house.count(StateKind::Unread), house.count(StateKind::Committed)), (1, 1));
    house.running = None;
    house.disk.process_crash();
    assert!(house.start());
    assert_eq!((house.count(StateKind::Unread), house.count(StateKind::Committed)), (1, 1));
    house.reads();
    house.pass(DELAY_MS);
    assert_eq!(house.released(0), origins(0..2), "nothing again");
}

#[test]
fn a_full_window_holds_back_only_its_partition() {
    let mut house = House::new(2);
    house.reads();
    let count = i64::try_from(WINDOW).unwrap();
    // One key, so one partition.
    assert!(house.fail(0..count + 100, Some("a")));
    assert!(house.fail(count + 100..count + 120, None));
    house.now = house.now.plus(DELAY_MS);
    house.on().hand.advance(DELAY_MS);
    house.steps(40);
    let (keyed, other) = if house.released(0).len() > WINDOW / 2 { (0, 1) } else { (1, 0) };
    let keyless = house.released(other).len();
    assert_eq!(keyless, 20, "they go where there is room");
    assert_eq!(house.count(StateKind::Unread), u64::try_from(WINDOW + keyless).unwrap());
    let partition = i32::try_from(keyed).unwrap();
    assert!(house.commit(partition, 50));
    house.steps(4);
    assert_eq!(house.released(keyed).len(), WINDOW + 50);
}

/// Nacks of one key fill a partition, and 20 others may enter any.
fn fill_one_partition(house: &mut House, waiting: i64) -> usize {
    house.reads();
    let count = i64::try_from(WINDOW).unwrap() + waiting;
    assert!(house.fail(0..count, Some("a")));
    assert!(house.fail(count..count + 20, None));
    house.now = house.now.plus(DELAY_MS);
    house.on().hand.advance(DELAY_MS);
    house.steps(100);
    usize::from(house.released(0).len() < WINDOW)
}

#[test]
fn retries_behind_a_full_partition_hold_back_no_younger_ones() {
    let mut house = House::new(2);
    let full = fill_one_partition(&mut house, 5_000);
    assert_eq!(house.released(full).len(), WINDOW);
    assert_eq!(house.released(1 - full).len(), 20);
    let from = 100_000;
    assert!(house.fail(from..from + 5, None));
    house.pass(DELAY_MS);
    for _ in 0..40 {
        house.pass(1);
    }
    assert_eq!(house.released(1 - full).len(), 25);
}

#[test]
fn the_rate_is_not_spent_on_a_full_partition() {
    let mut house = House::new(2);
    let full = fill_one_partition(&mut house, 200);
    house.rate = Some(1);
    house.running = None;
    house.disk.process_crash();
    assert!(house.start());
    house.reads();
    let from = 100_000;
    assert!(house.fail(from..from + 3, None));
    house.pass(DELAY_MS);
    for expected in 21..=23 {
        assert_eq!(house.released(1 - full).len(), expected);
        for _ in 0..4 {
            house.pass(250);
        }
    }
    assert_eq!(house.released(full).len(), WINDOW);
}

#[test]
fn a_commit_past_failed_retries_makes_room() {
    let mut house = House::new(1);
    house.reads();
    let window = i64::try_from(WINDOW).unwrap();
    assert!(house.fail(0..window + 10, None));
    house.now = house.now.plus(DELAY_MS);
    house.on().hand.advance(DELAY_MS);
    house.steps(40);
    assert_eq!(house.released(0).len(), WINDOW);
    assert!(house.fail_released(0..window));
    assert!(house.commit(0, window));
    house.step();
    house.step();
    assert_eq!(house.released(0).len(), WINDOW + 10);
}

#[test]
fn large_retries_that_fail_again_leave_the_window() {
    let mut house = House::new(1);
    house.reads();
    let large = record(None, 4 << 20);
    for offset in 0..18 {
        assert!(house.fail_with(offset..offset + 1, &large));
    }
    house.now = house.now.plus(DELAY_MS);
    house.on().hand.advance(DELAY_MS);
    house.steps(40);
    let first = house.released(0).len();
    assert!((15..18).contains(&first), "64 MiB and no more: {first}");
    let first = i64::try_from(first).unwrap();
    assert!(house.fail_released(0..first));
    assert!(house.commit(0, first));
    house.steps(10);
    assert_eq!(house.released(0).len(), 18);
}

#[test]
fn the_window_grows_with_what_a_group_commits() {
    let mut house = House::new(1);
    house.reads();
    let window = i64::try_from(WINDOW).unwrap();
    for part in 0..8 {
        assert!(house.fail(part * window..(part + 1) * window, None));
    }
    house.now = house.now.plus(DELAY_MS);
    house.on().hand.advance(DELAY_MS);
    for (committed, released) in [(0, 1), (1, 2), (2, 4), (4, 8)] {
        assert!(house.commit(0, committed * window));
        house.steps(200);
        assert_eq!(house.released(0).len(), released * WINDOW, "{committed}");
    }
}

#[test]
fn records_of_a_key_share_a_partition() {
    let mut house = House::new(3);
    house.reads();
    for key in ["a", "b", "c", "d"] {
        let from = i64::from(key.as_bytes()[0]) * 10;
        assert!(house.fail(from..from + 5, Some(key)));
    }
    assert!(house.fail(0..30, None));
    house.pass(DELAY_MS);
    let partitions: Vec<Vec<String>> = (0..3).map(|of| house.released(of)).collect();
    for partition in &partitions {
        let keyless = origins(0..30).into_iter().filter(|one| partition.contains(one)).count();
        assert_eq!(keyless, 10);
    }
    for key in ["a", "b", "c", "d"] {
        let from = i64::from(key.as_bytes()[0]) * 10;
        let of_key = origins(from..from + 5);
        let holding = partitions.iter().filter(|held| held.contains(&of_key[0]));
        let holding: Vec<_> = holding.collect();
        assert!(holding.len() == 1 && of_key.iter().all(|one| holding[0].contains(one)));
    }
}

#[test]
fn a_full_disk_keeps_retries_waiting() {
    let mut house = House::new(1);
    house.reads();
    assert!(house.fail(0..3, None));
    house.disk.set_capacity(Some(house.disk.used_bytes() + 1_000));
    house.on().journal.housekeeper().step().unwrap();
    house.pass(DELAY_MS);
    assert_eq!((house.released(0), house.count(StateKind::Waiting)), (Vec::new(), 3));
    house.disk.set_capacity(None);
    house.on().journal.housekeeper().step().unwrap();
    house.pass(FULL_MS);
    assert_eq!(house.released(0), origins(0..3));
}

/// Every nack that was answered comes once.
#[test]
fn a_power_cut_loses_and_doubles_no_retry() {
    let mut cut = 0;
    for (seed, at) in (0..8).flat_map(|seed| (1..30).map(move |at| (seed, at))) {
        let mut house = House::on_disk(2, seed);
        house.disk.power_cut_at(at);
        let mut durable = BTreeSet::new();
        for round in 0..4 {
            house.reads();
            let from = round * 5;
            if house.fail(from..from + 5, None) {
                durable.extend(origins(from..from + 5));
            }
            house.pass(DELAY_MS / 2);
            house.commit(0, round);
        }
        let before: Vec<Vec<String>> = (0..2).map(|of| house.released(of)).collect();
        cut += usize::from(durable.len() < 20);
        house.disk.power_cut_at(u64::MAX >> 1);
        house.disk.power_cut();
        assert!(house.start(), "{at}");
        for (of, before) in before.iter().enumerate() {
            assert!(house.released(of).starts_with(before), "{at}: nothing visible goes");
        }
        house.reads();
        house.pass(DELAY_MS);
        house.step();
        let all: Vec<String> = (0..2).flat_map(|of| house.released(of)).collect();
        let once: BTreeSet<&String> = all.iter().collect();
        assert_eq!(once.len(), all.len(), "{at}: none twice");
        let missing: Vec<_> = durable.iter().filter(|one| !once.contains(one)).collect();
        assert!(missing.is_empty(), "{at}: {missing:?}");
    }
    assert!(cut > 50, "{cut}");
}
