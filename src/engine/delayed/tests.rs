//! The engine with a log on a disk in memory, stepped by the test; the clock is manual.

use std::task::{Context, Poll, Waker};

use super::delivering::{LEAVING, SLICE_RECORDS};
use super::*;
use crate::clock::{Clock, Hand};
use crate::engine::mover::{FULL_MS, SLICE_BYTES, UNSERVED_MS};
use crate::engine::stepped::answered;
use crate::engine::{Driver, Engine, EngineError, EngineParts, Replay};
use crate::journal::{EntryKind, Journal, JournalOptions, MemDisk, StreamAppend, Writer};
use crate::model::WallMs;
use crate::observe::Metrics;
use crate::retry::DelayEnd;
use crate::wire::batch::{Batch, Headers, RawRecord, TimestampType, records};

/// Kind of a producer's batch in the log.
const PRODUCED: EntryKind = EntryKind(19);

struct House {
    disk: MemDisk,
    now: WallMs,
    bytes_max: u64,
    running: Option<Running>,
}

struct Running {
    engine: Engine,
    driver: Driver,
    writer: Writer,
    journal: Journal,
    hand: Hand,
    metrics: Metrics,
}

impl House {
    fn new() -> Self {
        Self::within(u64::MAX)
    }

    fn within(bytes_max: u64) -> Self {
        let (disk, now) = (MemDisk::new(5), WallMs(1_000_000));
        let mut house = Self { disk, now, bytes_max, running: None };
        house.start();
        house
    }

    fn start(&mut self) {
        let (clock, hand) = Clock::told(self.now);
        let config = JournalOptions { segment_bytes: 8 << 20, ..JournalOptions::default() };
        let (journal, writer, recovery) = Journal::open(self.disk.disk(), config).unwrap();
        let mut parts = EngineParts::plain(&journal, clock);
        parts.delayed_bytes_max = self.bytes_max;
        let metrics = parts.metrics.clone();
        let mut replay = Replay::new(Some(Replay::tables(&journal).unwrap()), &parts);
        let from = replay.from();
        recovery.replay(from, &mut |entry, at| replay.entry(entry, at)).unwrap();
        let (engine, driver) = replay.finish(parts);
        self.running = Some(Running { engine, driver, writer, journal, hand, metrics });
        self.step();
    }

    fn killed(&mut self) {
        self.running = None;
        self.disk.process_crash();
        self.start();
    }

    fn on(&mut self) -> &mut Running {
        self.running.as_mut().unwrap()
    }

    fn step(&mut self) {
        let on = self.on();
        on.driver.step();
        on.writer.step();
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.plus(ms);
        self.on().hand.advance(ms);
        self.step();
    }

    fn ask<T>(&mut self, asked: impl Future<Output = T>) -> T {
        answered(asked, || self.step()).expect("an answer")
    }

    fn stream(&mut self, name: &str) -> StreamId {
        self.on().journal.stream_open(name).unwrap()
    }

    /// Delays records of `size` bytes, after a batch of the same partition.
    fn delay(
        &mut self,
        stream: StreamId,
        after_ms: u64,
        sizes: &[usize],
    ) -> Result<(), EngineError> {
        self.put_off(stream, after_ms, sizes.iter().map(|size| record(*size)).collect())
    }

    fn put_off(
        &mut self,
        stream: StreamId,
        after_ms: u64,
        stored: Vec<Bytes>,
    ) -> Result<(), EngineError> {
        let journal = self.on().journal.clone();
        let append = Box::new(move |more: EntrySource<'_>| {
            let part = StreamAppend { stream, records: 1, max_timestamp_ms: 1 };
            let batch = NewEntry::bare_batch(PRODUCED, part, "batch".into());
            let more = more()?;
            let appended = journal.append_reserved([vec![batch], more].concat());
            Some(appended.ok()?.refs.into_iter().skip(1).collect())
        });
        let until = DelayEnd::After(after_ms);
        let records = stored.into_iter().map(|record| (until, record)).collect();
        let batch = DelayBatch { topic: "orders".into(), partition: 0, stream, records, append };
        let engine = self.on().engine.clone();
        self.ask(engine.delay(batch))
    }

    /// Number of records that have entered the stream.
    fn arrived(&mut self, stream: StreamId) -> usize {
        let journal = &self.on().journal;
        let Some(bounds) = journal.stream_bounds(stream) else { return 0 };
        if bounds.start == bounds.visible_end {
            return 0;
        }
        let all = journal.stream_read(stream, 0, usize::MAX).unwrap().batches;
        let delivered = all.iter().filter(|batch| batch.kind == crate::engine::kind::DELIVERED);
        delivered.map(|b| records(&Batch::parse(&b.body).unwrap(), 1 << 24).unwrap().count()).sum()
    }

    fn totals(&mut self) -> DelayedTotals {
        let engine = self.on().engine.clone();
        self.ask(async move { engine.delayed_totals().await }).unwrap()
    }

    fn list(&mut self) -> Vec<DelayedRecord> {
        let engine = self.on().engine.clone();
        self.ask(async move { engine.delayed(None, 10_000, u64::MAX).await }).unwrap()
    }

    fn topic_gone(&mut self) {
        let engine = self.on().engine.clone();
        self.ask(async move { engine.topic_gone(&"orders".into()).await }).unwrap();
    }

    fn counted(&mut self, outcome: &str) -> String {
        let text = self.on().metrics.render().unwrap();
        let name = format!("reprise_delayed_records_total{{outcome=\"{outcome}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(name.as_str()));
        line.unwrap_or("0").to_owned()
    }
}

/// A stored record with unique contents.
fn record(size: usize) -> Bytes {
    let value: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(size).collect();
    RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(value.into()),
        headers: Headers::NONE,
    }
    .to_bytes()
}

#[test]
fn a_failed_batch_leaves_no_records_and_the_engine_continues() {
    let mut house = House::new();
    let (gone, stream) = (house.stream("gone"), house.stream("orders"));
    house.on().journal.stream_drop(gone).unwrap();
    house.delay(gone, 60_000, &[10, 20]).unwrap();
    assert_eq!(house.totals(), DelayedTotals::default(), "its topic went in that very moment");
    house.delay(stream, 5, &[10]).unwrap();
    house.killed();
    assert_eq!(house.totals().records, 1, "and nothing of it comes back");
    house.pass(5);
    assert_eq!((house.arrived(stream), house.totals().records), (1, 0));
}

#[test]
fn a_delayed_record_never_enters_a_recreated_topic() {
    let mut house = House::new();
    let old = house.stream("t/1/0");
    house.delay(old, 1_000, &[10, 20]).unwrap();
    house.on().journal.stream_drop(old).unwrap();
    let new = house.stream("t/2/0");
    house.delay(new, 1_000, &[30]).unwrap();
    // A kill came before the engine heard of the deletion.
    house.killed();
    house.pass(1_000);
    assert_eq!((house.arrived(new), house.arrived(old)), (1, 0));
    assert_eq!((house.totals().records, house.counted("dropped")), (0, "2".to_owned()));
}

#[test]
fn a_topic_deletion_drops_only_its_own_delayed_records() {
    let mut house = House::new();
    let old = house.stream("t/1/0");
    house.delay(old, 60_000, &vec![1; LEAVING + 10]).unwrap();
    house.on().journal.stream_drop(old).unwrap();
    let new = house.stream("t/2/0");
    house.delay(new, 60_000, &[30]).unwrap();
    house.topic_gone();
    house.step();
    assert_eq!(house.totals().records, 1);
    house.pass(60_000);
    assert_eq!(house.arrived(new), 1);
}

#[test]
fn an_unreadable_delayed_record_is_set_aside_and_counted() {
    let mut house = House::new();
    let stream = house.stream("orders");
    house.put_off(stream, 5, vec!["rubbish".into()]).unwrap();
    house.delay(stream, 5, &[50, 60]).unwrap();
    house.pass(5);
    assert_eq!(house.arrived(stream), 2);
    let totals = house.totals();
    assert_eq!((totals.records, totals.unreadable), (1, 1));
    let listed = house.list();
    assert!(listed[0].record.is_err() && listed.len() == 1, "{listed:?}");
    house.pass(UNSERVED_MS);
    assert_eq!(house.counted("unreadable"), "1", "said once");
    let name = listed[0].entry.origin.clone().unwrap();
    let engine = house.on().engine.clone();
    assert_eq!(house.ask(async move { engine.cancel(vec![name]).await }).unwrap(), [true]);
    assert_eq!(house.totals(), DelayedTotals::default());
}

#[test]
fn a_record_set_aside_enters_once_it_is_readable() {
    let mut house = House::new();
    let stream = house.stream("orders");
    house.delay(stream, 5, &[40]).unwrap();
    let id = house.list()[0].entry.id;
    let scan = house.on().driver.mover.scan(&crate::retry::delayed()).unwrap();
    scan.set_aside(id, MonoMs(UNSERVED_MS), "a disk error".to_owned());
    house.pass(UNSERVED_MS - 1);
    assert_eq!((house.arrived(stream), house.totals().unreadable), (0, 1));
    house.pass(1);
    assert_eq!((house.arrived(stream), house.totals().unreadable), (1, 0));
}

#[test]
fn an_overdue_backlog_is_sliced_and_requests_come_first() {
    let mut house = House::new();
    let stream = house.stream("orders");
    house.delay(stream, 5, &vec![10; 3 * SLICE_RECORDS]).unwrap();
    house.now = house.now.plus(5);
    house.on().hand.advance(5);
    let engine = house.on().engine.clone();
    let mut asked: Vec<_> = (0..40)
        .map(|_| {
            let engine = engine.clone();
            Box::pin(async move { engine.delayed_totals().await })
        })
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    for asked in &mut asked {
        assert!(asked.as_mut().poll(&mut context).is_pending());
    }
    house.step();
    assert_eq!(house.arrived(stream), SLICE_RECORDS, "one slice, however many have asked");
    for asked in &mut asked {
        let Poll::Ready(Ok(totals)) = asked.as_mut().poll(&mut context) else { panic!("waits") };
        let all = u64::try_from(3 * SLICE_RECORDS).unwrap();
        assert_eq!(totals.records, all, "it was answered before the first entered");
    }
    house.step();
    house.step();
    assert_eq!(house.arrived(stream), 3 * SLICE_RECORDS);
}

#[test]
fn large_records_go_by_their_bytes() {
    let mut house = House::new();
    let stream = house.stream("orders");
    let half = usize::try_from(SLICE_BYTES).unwrap() / 2;
    house.delay(stream, 5, &[half - 1_000, half - 1_000, half, 3 * half]).unwrap();
    let mut arrived = Vec::new();
    for ms in [5, 0, 0] {
        house.pass(ms);
        arrived.push(house.arrived(stream));
    }
    assert_eq!(arrived, [2, 3, 4]);
}

#[test]
fn due_records_wait_for_disk_room_and_then_enter() {
    let mut house = House::new();
    let stream = house.stream("orders");
    house.delay(stream, 5, &[100; 3]).unwrap();
    house.disk.set_capacity(Some(house.disk.used_bytes() + 1_000));
    house.on().journal.housekeeper().step().unwrap();
    house.pass(5);
    house.pass(FULL_MS);
    assert_eq!((house.arrived(stream), house.totals().records), (0, 3));
    let refused = house.delay(stream, 5, &[100]).unwrap_err();
    assert!(matches!(refused, EngineError::Append(_)), "{refused}");
    house.disk.set_capacity(None);
    house.pass(FULL_MS);
    assert_eq!((house.arrived(stream), house.totals().records), (3, 0));
    house.delay(stream, 0, &[100]).unwrap();
}

#[test]
fn delayed_bytes_are_bounded_also_over_a_restart() {
    let mut house = House::within(100_000);
    let stream = house.stream("orders");
    house.delay(stream, 1_000, &[30_000, 30_000]).unwrap();
    house.delay(stream, 2_000, &[30_000]).unwrap();
    for _ in 0..2 {
        let refused = house.delay(stream, 5, &[30_000]).unwrap_err();
        assert!(matches!(refused, EngineError::DelayedFull { .. }), "{refused}");
        assert_eq!(house.counted("refused"), "1");
        house.killed();
    }
    house.delay(stream, 5, &[5_000]).unwrap();
    house.pass(1_000);
    assert_eq!(house.totals().records, 1);
    house.delay(stream, 5, &[30_000]).unwrap();
    house.pass(1_000);
    assert_eq!(house.totals(), DelayedTotals::default(), "every byte is accounted for");
}
