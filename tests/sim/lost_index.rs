//! A lost look-up file: compaction still frees the space of records settled before.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use reprise::clock::{Clock, Hand};
use reprise::engine::{
    Driver, Engine, EngineError, EngineParts, NackBatch, NackRequest, ReleaseOutcome, Replay,
    RetryPartitionLog,
};
use reprise::journal::{Disk, Journal, JournalOptions, StreamId, Writer};
use reprise::model::{GroupId, MonoMs, Origin, RetryPair, WallMs};
use reprise::observe::Metrics;
use reprise::retry::{LevelTable, Nack, NackTarget, Policies, Policy, Reporter, RequestedDelay};
use reprise::wire::batch::{Header, Headers, RawRecord, TimestampType};
use reprise::wire::names::Templates;

use crate::mem_disk::MemDisk;

const SEGMENT_BYTES: u64 = 8 << 10;
const HOUR_MS: u64 = 3_600_000;
/// Records that are settled, and records that keep waiting.
const SETTLED: i64 = 300;
const WAITING: usize = 10;

struct House {
    engine: Engine,
    driver: Driver,
    writer: Writer,
    journal: Journal,
    hand: Hand,
    now: i64,
}

fn shop() -> GroupId {
    GroupId::new("shop")
}

impl House {
    /// Opens the engine; `None`: the power was cut.
    fn open(disk: &MemDisk, now: i64) -> Option<Self> {
        let (clock, hand) = Clock::told(WallMs(now));
        let files: Arc<dyn Disk> = disk.disk();
        let segment_bytes = u32::try_from(SEGMENT_BYTES).unwrap();
        let config = JournalOptions {
            segment_bytes,
            checkpoint_bytes: 16 << 10,
            ..JournalOptions::default()
        };
        let (journal, writer, recovery) = Journal::open(files, config).ok()?;
        let (levels, _) = LevelTable::parse("1ms 1h").unwrap();
        let policy = Policy { levels: Arc::new(levels), ..Policy::default() };
        let parts = EngineParts {
            journal: journal.clone(),
            templates: Templates::default(),
            policies: Policies::new(policy, Vec::new()),
            clock,
            metrics: Metrics::new(8).unwrap(),
            delayed_bytes_max: u64::MAX,
            producers_expire_ms: 86_400_000,
        };
        let mut replay = Replay::new(Some(Replay::tables(&journal).ok()?), &parts);
        let from = replay.from();
        recovery.replay(from, &mut |entry, at| replay.entry(entry, at)).ok()?;
        let (engine, driver) = replay.finish(parts);
        let mut house = Self { engine, driver, writer, journal, hand, now };
        house.pass(0);
        Some(house)
    }

    /// The durable answer; `None`: the power was cut.
    fn ask<T>(&mut self, asked: impl Future<Output = Result<T, EngineError>>) -> Option<T> {
        let mut asked = pin!(asked);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            match asked.as_mut().poll(&mut context) {
                Poll::Ready(answer) => return answer.ok(),
                Poll::Pending => {
                    self.driver.step();
                    self.writer.step();
                }
            }
        }
        None
    }

    fn pass(&mut self, ms: u64) {
        self.now += i64::try_from(ms).unwrap();
        self.hand.advance(ms);
        self.driver.step();
        self.writer.step();
    }

    fn nack(&mut self, offset: i64, level: i32) {
        let origin = Origin { topic: "orders".into(), partition: 0, offset };
        let record = RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some("v".repeat(200).into()),
            headers: std::iter::empty::<Header>().collect::<Headers>(),
        };
        let record = record.to_bytes();
        let nack = Nack {
            want: RequestedDelay { level: Some(level), delay_ms: None },
            record_bytes: u64::try_from(record.len()).unwrap(),
            ..Nack::of(NackTarget::Origin(origin))
        };
        let batch = NackBatch {
            group: shop(),
            by: Reporter { member: None, client: "sim".into() },
            producer: None,
            nacks: vec![NackRequest { nack, record }],
        };
        let engine = self.engine.clone();
        self.ask(engine.nacks(batch)).unwrap();
    }

    /// Nacks, redelivers, acknowledges and finally forgets records; some keep waiting.
    fn work(&mut self) {
        let engine = self.engine.clone();
        let topic = RetryPartitionLog { stream: StreamId(1), committed: 0 };
        engine.serve_topic_behind(&RetryPair::of_group(&shop()), vec![topic]);
        engine.reads_retries(&RetryPair::of_group(&shop()), MonoMs(0));
        for offset in 0..SETTLED {
            self.nack(offset, 1);
            self.pass(1);
            let batch = self.ask(async { Ok(engine.next_release().await) }).unwrap();
            assert_eq!(batch.records.len(), 1);
            let topic = batch.topic.clone();
            engine.release_ended(batch, ReleaseOutcome::Written { base: offset });
            self.ask(engine.origin_commits(&shop(), vec![(topic, 0, offset + 1)])).unwrap();
        }
        for offset in 0..WAITING {
            self.nack(SETTLED + i64::try_from(offset).unwrap(), 2);
        }
        let passed = vec![("orders".into(), 0, SETTLED)];
        self.ask(engine.origin_commits(&shop(), passed)).unwrap();
        self.pass(HOUR_MS / 2);
    }

    /// Runs all housekeeping; `None`: the power was cut.
    fn keep(&mut self) -> Option<()> {
        for _ in 0..12 {
            let mut keeper = self.journal.housekeeper();
            keeper.request_checkpoint();
            loop {
                self.writer.step();
                if !keeper.step().ok()?.more {
                    break;
                }
            }
            let engine = self.engine.clone();
            self.writer.step();
            self.ask(engine.keep())?;
        }
        Some(())
    }

    fn judge(&mut self, what: &str) {
        let stats = self.journal.stats();
        // Ten waiting records of 200 bytes, and the last tombstone.
        let live = 8 << 10;
        assert!(stats.bytes <= 2 * live + 2 * SEGMENT_BYTES, "{what}: {stats:?}");
        let engine = self.engine.clone();
        let waiting = self.ask(engine.due_page(&shop(), None, usize::MAX)).unwrap();
        assert_eq!(waiting.len(), WAITING, "{what}");
        for entry in waiting {
            let record = self.ask(engine.entry_record(&shop(), entry.id)).unwrap();
            assert!(record.is_some(), "{what}");
        }
    }
}

/// A log full of settled records, not yet compacted, all of them in the look-up files.
fn worked() -> (MemDisk, i64) {
    let disk = MemDisk::new(5);
    let mut house = House::open(&disk, 1_700_000_000_000).unwrap();
    house.work();
    let engine = house.engine.clone();
    house.journal.housekeeper().request_checkpoint();
    house.ask(engine.keep()).unwrap();
    assert!(house.journal.stats().bytes > 20 * SEGMENT_BYTES, "{:?}", house.journal.stats());
    (disk, house.now)
}

const LOSSES: [&[&str]; 4] =
    [&[], &["index.redb"], &["retries.redb"], &["index.redb", "retries.redb"]];

pub fn what_was_settled_leaves_the_disk_whatever_look_up_file_is_lost() {
    for gone in LOSSES {
        let (disk, now) = worked();
        disk.process_crash();
        for file in gone {
            disk.disk().remove(file).unwrap();
        }
        let mut house = House::open(&disk, now).unwrap();
        house.keep().unwrap();
        house.judge(&format!("without {gone:?}"));
    }
}

pub fn power_lost_again_and_again_after_that_changes_nothing() {
    let stride = if std::env::var_os("SIM_SEEDS").is_some() { 3 } else { 19 };
    for gone in LOSSES {
        let (disk, now) = worked();
        disk.process_crash();
        for file in gone {
            disk.disk().remove(file).unwrap();
        }
        disk.disk().sync_dir().unwrap();
        let mut cuts = 0;
        for n in 1.. {
            disk.power_cut_at(n * stride);
            let done = House::open(&disk, now).and_then(|mut house| house.keep());
            if done.is_some() {
                break;
            }
            cuts += 1;
            assert!(cuts < 5_000, "it never ends");
            disk.power_cut();
        }
        assert!(cuts > 3, "{cuts}");
        disk.power_cut_at(1 << 40);
        let mut house = House::open(&disk, now).unwrap();
        house.keep().unwrap();
        house.judge(&format!("without {gone:?}, {cuts} power cuts"));
    }
}
