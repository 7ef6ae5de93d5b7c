//! Retries continue after failures of their tables, on a disk that fails on demand.

use std::io;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Waker};

use bytes::Bytes;

use super::*;
use crate::clock::{Clock, Hand};
use crate::engine::stepped::answered;
use crate::engine::store::ROWS_FILE;
use crate::engine::{
    Engine, EngineParts, Flusher, NackBatch, NackReply, NackRequest, ProducerSequence,
    ReleaseOutcome, Replay, RetryPartitionLog,
};
use crate::journal::{Disk, DiskFile, Journal, JournalOptions, MemDisk, StreamId, Writer};
use crate::model::{ClientId, GroupId, Origin, RetryPair, WallMs};
use crate::retry::{Entries, LedgerSnapshot, Nack, NackTarget, Reporter, StateKind, entries_of};
use crate::wire::batch::{Headers, RawRecord, TimestampType};

/// Slightly more than the delay of the first level.
const LEVEL_MS: u64 = 11_000;

/// A fault of writes to the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// One write fails.
    Once,
    /// Writes fail until there is free space.
    Full,
}

/// Fails the writes of one file from the n-th on.
#[derive(Debug, Default)]
struct Faults {
    writes: u64,
    fails_at: Option<u64>,
    fault: Option<Fault>,
    failed: u64,
}

#[derive(Clone, Debug)]
struct Failing {
    disk: Arc<dyn Disk>,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Debug)]
struct FailingFile {
    file: Arc<dyn DiskFile>,
    faults: Arc<Mutex<Faults>>,
}

impl Faults {
    fn write(&mut self) -> io::Result<()> {
        self.writes += 1;
        let Some(at) = self.fails_at.filter(|at| *at <= self.writes) else { return Ok(()) };
        let failure = match self.fault {
            Some(Fault::Full) => io::ErrorKind::StorageFull.into(),
            Some(Fault::Once) if at == self.writes => io::Error::other("simulated failure"),
            _ => return Ok(()),
        };
        self.failed += 1;
        Err(failure)
    }
}

impl Failing {
    fn opened(&self, name: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        if name != ROWS_FILE {
            return file;
        }
        Arc::new(FailingFile { file, faults: Arc::clone(&self.faults) })
    }
}

impl Disk for Failing {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        if name == ROWS_FILE {
            self.faults.lock().unwrap().write()?;
        }
        Ok(self.opened(name, self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.opened(name, self.disk.open(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn fresh_epoch(&self) -> u64 {
        self.disk.fresh_epoch()
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

impl DiskFile for FailingFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.lock().unwrap().write()?;
        self.file.write_at(offset, data)
    }

    fn write_durable_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.lock().unwrap().write()?;
        self.file.write_durable_at(offset, data)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.lock().unwrap().write()?;
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.lock().unwrap().write()?;
        self.file.set_len(len)
    }
}

struct House {
    mem: MemDisk,
    faults: Arc<Mutex<Faults>>,
    engine: Engine,
    driver: Driver,
    writer: Writer,
    flusher: Flusher,
    hand: Hand,
    /// The flusher runs.
    flushes: bool,
    /// Offsets whose nacks were acknowledged.
    kept: Vec<i64>,
    /// The next offset of the retry topic.
    released: i64,
}

fn shop() -> GroupId {
    GroupId::new("shop")
}

fn nack(offset: i64) -> NackRequest {
    let origin = Origin { topic: "orders".into(), partition: 0, offset };
    let record = RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(Bytes::from(format!("produced at {offset}"))),
        headers: Headers::NONE,
    };
    let nack = Nack { record_bytes: 40, ..Nack::of(NackTarget::Origin(origin)) };
    NackRequest { nack, record: record.to_bytes() }
}

/// The state after a replay of the whole log, with the present rows.
fn replayed(mem: &MemDisk) -> LedgerSnapshot {
    let (journal, _writer, recovery) =
        Journal::open(mem.disk(), JournalOptions::default()).unwrap();
    let (clock, _) = Clock::told(WallMs(1_000));
    let parts = EngineParts::plain(&journal, clock);
    let mut replay = Replay::new(None, &parts);
    recovery.replay(0, &mut |entry, at| replay.entry(entry, at)).unwrap();
    replay.finish(parts).1.fingerprint()
}

impl House {
    fn new() -> Self {
        let mem = MemDisk::new(5);
        let faults = Arc::new(Mutex::new(Faults::default()));
        let disk = Arc::new(Failing { disk: mem.disk(), faults: Arc::clone(&faults) });
        let (journal, writer, recovery) = Journal::open(disk, JournalOptions::default()).unwrap();
        let (clock, hand) = Clock::told(WallMs(1_000));
        let parts = EngineParts::plain(&journal, clock);
        let mut replay = Replay::new(Some(Replay::tables(&journal).unwrap()), &parts);
        let flusher = replay.flusher();
        recovery.replay(replay.from(), &mut |entry, at| replay.entry(entry, at)).unwrap();
        let (engine, driver) = replay.finish(parts);
        let of = RetryPartitionLog { stream: StreamId(0), committed: 0 };
        engine.serve_topic_behind(&RetryPair::of_group(&shop()), vec![of]);
        let (kept, released) = (Vec::new(), 0);
        Self { mem, faults, engine, driver, writer, flusher, hand, flushes: true, kept, released }
    }

    fn step(&mut self) {
        self.driver.step();
        self.writer.step();
        if self.flushes {
            self.flusher.step();
        }
    }

    fn ask<T>(
        &mut self,
        asked: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        answered(asked, || self.step()).expect("an answer")
    }

    fn fail(&mut self, offsets: &[i64]) -> Result<NackReply, EngineError> {
        self.fail_by(None, offsets)
    }

    fn fail_by(
        &mut self,
        producer: Option<ProducerSequence>,
        offsets: &[i64],
    ) -> Result<NackReply, EngineError> {
        let batch = NackBatch {
            group: shop(),
            by: Reporter { member: None, client: ClientId::new("test") },
            producer,
            nacks: offsets.iter().map(|offset| nack(*offset)).collect(),
        };
        let engine = self.engine.clone();
        let answer = self.ask(engine.nacks(batch));
        if answer.is_ok() {
            self.kept.extend(offsets);
        }
        answer
    }

    fn keep(&mut self) -> Result<(), EngineError> {
        let engine = self.engine.clone();
        // A journal checkpoint waits for the writer, which the test steps.
        self.settle();
        self.ask(engine.keep())
    }

    fn settle(&mut self) {
        for _ in 0..8 {
            self.step();
        }
    }

    /// Releases due entries. Returns false when a release did not come.
    fn release(&mut self) -> bool {
        self.hand.advance(LEVEL_MS);
        self.engine.reads_retries(&RetryPair::of_group(&shop()), self.driver.clock.now().mono);
        let engine = self.engine.clone();
        let Some(batch) = answered(engine.next_release(), || self.step()) else { return false };
        let base = self.released;
        self.released += i64::try_from(batch.records.len()).unwrap();
        engine.release_ended(batch, ReleaseOutcome::Written { base });
        self.step();
        true
    }

    /// Releases due entries and commits them.
    fn deliver(&mut self) -> Result<(), EngineError> {
        self.release();
        let (engine, offset) = (self.engine.clone(), self.released);
        let offsets = vec![("reprise.retry.shop".into(), 0, offset)];
        self.ask(engine.origin_commits(&shop(), offsets))
    }

    fn arm(&self, fault: Fault, n: u64) {
        let mut faults = self.faults.lock().unwrap();
        faults.fails_at = Some(faults.writes + n);
        faults.fault = Some(fault);
    }

    fn heal(&self) {
        self.faults.lock().unwrap().fault = None;
    }

    fn entries(&self) -> usize {
        entries_of(&self.driver.ledger, &shop()).len()
    }

    /// Runs failures, deliveries and checkpoints; returns whether all of them succeeded.
    fn work(&mut self, from: i64) -> bool {
        let mut is_well = true;
        for round in 0..2 {
            let first = from + round * 10;
            is_well &= self.fail(&[first, first + 1, first + 2]).is_ok();
            self.driver.ledger.store_mut().flush();
            is_well &= self.deliver().is_ok();
            is_well &= self.keep().is_ok();
        }
        is_well
    }

    /// Advances the clock until the store is renewed.
    fn recover(&mut self) {
        for _ in 0..8 {
            self.hand.advance(PAUSE_MS_MAX);
            self.settle();
            if self.engine.trouble().is_none() {
                return;
            }
        }
        panic!("still in trouble: {:?}", self.engine.trouble());
    }
}

#[test]
fn a_flush_makes_no_retry_late() {
    let mut house = House::new();
    house.flushes = false;
    house.fail(&[0]).unwrap();
    house.driver.ledger.store_mut().flush();
    assert!(house.driver.ledger.store_mut().is_leaving());
    let due = house.driver.ledger.store().next_due(&shop(), None).unwrap();
    let left_ms = due.0 - house.driver.clock.now().wall.0;
    assert_eq!(house.driver.sleep(), LOOK, "the flush is looked at");
    house.hand.advance(u64::try_from(left_ms).unwrap() - 7);
    assert_eq!(house.driver.sleep(), Duration::from_millis(7));
    // A store that has failed is looked at, whatever is due.
    house.arm(Fault::Full, 1);
    house.flushes = true;
    assert!(!house.work(10));
    assert_eq!((house.driver.is_renewing(), house.driver.sleep()), (true, LOOK));
}

fn survives(fault: Fault) {
    let (mut refusals, mut n) = (0, 0);
    loop {
        n += 1;
        let mut house = House::new();
        assert!(house.work(0));
        house.arm(fault, n);
        refusals += u64::from(!house.work(100));
        if house.faults.lock().unwrap().failed == 0 {
            break;
        }
        if fault == Fault::Full {
            // The database may write a page early to save memory. A failure of that is no loss,
            // because the page is written again here.
            house.keep().unwrap_err();
            assert!(house.engine.trouble().is_some(), "{n}");
            for offset in 300..303 {
                house.fail(&[offset]).unwrap_err();
                house.hand.advance(PAUSE_MS);
            }
        }
        assert_eq!(house.engine.restart_reason(), None, "a restart is not needed");
        house.heal();
        house.recover();
        assert!(house.work(200), "{fault:?} {n}");
        assert_eq!(house.entries(), house.kept.len(), "{fault:?} {n}");
        assert_eq!(house.driver.fingerprint(), replayed(&house.mem), "{fault:?} {n}");
    }
    assert!(n > 20 && refusals > 10, "{fault:?}: {refusals} of {n}");
}

#[test]
fn retries_continue_after_one_failed_table_write() {
    survives(Fault::Once);
}

#[test]
fn retries_continue_once_the_disk_has_room() {
    survives(Fault::Full);
}

#[test]
fn a_release_during_a_failure_counts_after_the_renewal() {
    let mut house = House::new();
    house.fail(&[1, 2]).unwrap();
    house.hand.advance(LEVEL_MS);
    house.engine.reads_retries(&RetryPair::of_group(&shop()), house.driver.clock.now().mono);
    let engine = house.engine.clone();
    let batch = answered(engine.next_release(), || house.step()).unwrap();
    house.arm(Fault::Full, 1);
    house.keep().unwrap_err();
    engine.release_ended(batch, ReleaseOutcome::Written { base: 0 });
    house.settle();
    house.heal();
    house.recover();
    let entries = entries_of(&house.driver.ledger, &shop());
    let kinds: Vec<StateKind> = entries.iter().map(|entry| entry.state.kind()).collect();
    assert_eq!(kinds, [StateKind::Unread, StateKind::Unread]);
}

#[test]
fn a_refused_batch_is_taken_when_its_producer_repeats_it() {
    let mut house = House::new();
    let producer =
        |first| Some(ProducerSequence { id: 7, partition: 0, epoch: 0, first, last: first });
    house.fail_by(producer(0), &[1]).unwrap();
    house.arm(Fault::Full, 1);
    house.keep().unwrap_err();
    house.fail_by(producer(1), &[2]).unwrap_err();
    house.heal();
    house.recover();
    let repeated = house.fail_by(producer(1), &[2]).unwrap();
    assert!(matches!(repeated, NackReply::Taken(_)), "{repeated:?}");
    assert_eq!(house.fail_by(producer(1), &[2]).unwrap(), NackReply::Repeated);
}

#[test]
fn a_full_disk_bounds_waiting_changes_by_refusals() {
    let mut house = House::new();
    house.flushes = false;
    let mut from = 0;
    while !house.driver.ledger.store_mut().is_crowded() {
        let offsets: Vec<i64> = (from..from + 1_000).collect();
        house.fail(&offsets).unwrap();
        from += 1_000;
        assert!(from < 100_000, "never crowded");
    }
    let engine = house.engine.clone();
    let commit = |offset| {
        let (engine, offsets) = (engine.clone(), vec![("orders".into(), 0, offset)]);
        async move { engine.origin_commits(&shop(), offsets).await }
    };
    house.ask(commit(1)).unwrap();
    house.mem.set_capacity(Some(house.mem.used_bytes()));
    // The reserve takes one more, then the writer finds the disk full and the caller waits.
    let mut waits = pin!(commit(2));
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    house.settle();
    let refused = house.ask(commit(3)).unwrap_err();
    assert!(matches!(refused, EngineError::Crowded), "{refused}");
    let gone = engine.topic_gone(&"orders".into());
    house.settle();
    assert!(house.driver.has_queued_inputs(), "it waits for room");
    house.mem.set_capacity(None);
    house.flushes = true;
    house.settle();
    assert!(!house.driver.has_queued_inputs());
    house.ask(waits).unwrap();
    house.ask(gone).unwrap();
    let before = house.entries();
    house.fail(&[0]).unwrap();
    assert_eq!(house.entries(), before + 1, "it is a record of another topic");
}
