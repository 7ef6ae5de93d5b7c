//! Engine, journal and detector of one group. Any disk operation may be the last one before a power
//! cut. One record crashes its consumers, or is nacked in an ordered partition.
//!
//! ```text
//! Fetch ─▶ plan ─▶ records ─▶ a commit, a nack or the end of the member
//! crash ─▶ a record with an entry is cut from its partition; no other record is
//! stop  ─▶ the next start has the same windows and suspects
//! ```

mod consumer;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fastrand::Rng;
use reprise::clock::{Clock, Hand};
use reprise::engine::{Driver, Engine, EngineError, EngineParts, GroupDetector, Replay};
use reprise::journal::{Journal, JournalOptions, StepResult, Writer};
use reprise::model::{GroupId, Moment, MonoMs, Origin, TopicPartition, WallMs};
use reprise::observe::Metrics;
use reprise::retry::detector::{Detector, DetectorView, MemberFetch};
use reprise::retry::{OrderMode, Policies, Policy};
use reprise::wire::batch::{Headers, RawRecord, TimestampType};
use reprise::wire::names::Templates;

use crate::mem_disk::MemDisk;

const PARTITIONS: i32 = 2;
const RECORDS: i64 = 24;
/// Records of one Fetch and partition.
const BATCH: usize = 8;
/// Events after which every record must be handled or dead, without power cuts.
const EVENTS_MAX: usize = 3_000;

/// The power is off.
struct Off;

/// The end of the power.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// At random operations of the disk.
    Disk,
    /// At one await of the edge.
    Await(u64),
}

/// A run of one seed.
#[derive(Debug, Default)]
pub struct Ran {
    pub crashes: usize,
    pub stops: usize,
    /// Number of awaits of the edge.
    pub awaits: u64,
}

struct Shop {
    disk: MemDisk,
    rng: Rng,
    mode: OrderMode,
    running: Option<Running>,
    wall: i64,
    mono: u64,
    /// Committed offsets in the cluster.
    committed: BTreeMap<TopicPartition, i64>,
    /// The record that crashes its consumer, or fails each time in an ordered partition.
    poison: Origin,
    /// Records whose dead letter is acknowledged.
    dead: BTreeSet<Origin>,
    members: u64,
    member: Option<Member>,
    /// The cluster stores a commit before the engine learns of it.
    is_relayed: bool,
    awaits: u64,
    off_at: Option<u64>,
}

struct Running {
    engine: Engine,
    driver: Driver,
    writer: Writer,
    clock: Clock,
    hand: Hand,
    of: Arc<GroupDetector>,
}

struct Member {
    by: MemberFetch,
    positions: BTreeMap<TopicPartition, i64>,
}

fn shop() -> GroupId {
    GroupId::new("shop")
}

fn place(partition: i32) -> TopicPartition {
    TopicPartition { topic: "orders".into(), partition }
}

fn record_at(origin: &Origin) -> RawRecord {
    RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(origin.to_string().into()),
        headers: Headers::NONE,
    }
}

pub fn run(seed: u64, cut: Cut) -> Ran {
    let mut rng = Rng::with_seed(seed);
    let mode = if rng.bool() { OrderMode::Off } else { OrderMode::Partition };
    let (partition, offset) = (rng.i32(0..PARTITIONS), rng.i64(0..RECORDS - 1));
    let mut shop = Shop {
        disk: MemDisk::new(seed),
        rng,
        mode,
        running: None,
        wall: 1_700_000_000_000,
        mono: 0,
        committed: (0..PARTITIONS).map(|partition| (place(partition), 0)).collect(),
        poison: Origin { topic: "orders".into(), partition, offset },
        dead: BTreeSet::new(),
        members: 0,
        member: None,
        is_relayed: seed.is_multiple_of(2),
        awaits: 0,
        off_at: None,
    };
    let mut ran = Ran::default();
    let cuts = shop.rng.u64(0..12);
    let _ = shop.start();
    match cut {
        Cut::Disk => shop.cut_at_operations(cuts, &mut ran),
        Cut::Await(at) => {
            shop.off_at = Some(at);
            let mut events = (0..EVENTS_MAX).map(|_| (shop.event().is_err(), shop.is_done()));
            if events.find(|(is_off, is_done)| *is_off || *is_done).is_some_and(|(off, _)| off) {
                shop.off_at = None;
                shop.disk.power_cut();
                ran.crashes += 1;
                assert!(shop.start().is_ok(), "a start without a power cut");
            }
        }
    }
    shop.finish();
    ran.awaits = shop.awaits;
    ran
}

impl Shop {
    fn cut_at_operations(&mut self, cuts: u64, ran: &mut Ran) {
        for _ in 0..cuts {
            let operations = self.rng.u64(1..60);
            self.disk.power_cut_at(operations);
            let mut is_on = true;
            for _ in 0..200 {
                if self.rng.u8(..40) == 0 {
                    is_on = self.stop().is_ok();
                    ran.stops += usize::from(is_on);
                } else {
                    is_on = self.event().is_ok();
                }
                if !is_on {
                    break;
                }
            }
            self.disk.power_cut_at(u64::MAX >> 1);
            if is_on && self.rng.bool() {
                self.disk.process_crash();
            } else {
                self.disk.power_cut();
            }
            ran.crashes += 1;
            assert!(self.start().is_ok(), "a start without a power cut");
        }
    }

    fn finish(&mut self) {
        for _ in 0..EVENTS_MAX {
            if self.is_done() {
                break;
            }
            assert!(self.event().is_ok(), "an event without a power cut");
        }
        assert!(self.is_done(), "{:?} {:?}: {:#?}", self.committed, self.poison, self.view());
        let state = self.running.as_ref().unwrap().driver.fingerprint();
        let entries = state.entries.values().filter_map(|entry| entry.origin.clone());
        assert!(entries.eq([self.poison.clone()]), "{:?}", self.mode);
    }

    fn is_done(&self) -> bool {
        self.committed.values().all(|offset| *offset == RECORDS)
    }

    fn now(&self) -> Moment {
        Moment { wall: WallMs(self.wall), mono: MonoMs(self.mono) }
    }

    fn change<T>(&self, f: impl FnOnce(&mut Detector, Moment) -> T) -> T {
        let running = self.running.as_ref().unwrap();
        running.engine.change(running.clock, (&shop(), &running.of), f, |_| {})
    }

    fn view(&self) -> DetectorView {
        self.running.as_ref().unwrap().of.lock().detector.view(self.now())
    }

    fn start(&mut self) -> Result<(), Off> {
        self.running = None;
        self.member = None;
        self.mono = 0;
        let (clock, hand) = Clock::told(WallMs(self.wall));
        let config = JournalOptions {
            segment_bytes: 8 << 10,
            checkpoint_bytes: 24 << 10,
            ..JournalOptions::default()
        };
        let (journal, writer, recovery) =
            Journal::open(self.disk.disk(), config).map_err(|_| Off)?;
        let policy = Policy {
            order: self.mode,
            give_up_after_ms: Some(60_000),
            max_reconsume_times: 3,
            ..Policy::default()
        };
        let parts = EngineParts {
            journal: journal.clone(),
            templates: Templates::default(),
            policies: Policies::new(policy.clone(), Vec::new()),
            clock,
            metrics: Metrics::new(8).unwrap(),
            delayed_bytes_max: u64::MAX,
            producers_expire_ms: 86_400_000,
        };
        let tables = Replay::tables(&journal).map_err(|_| Off)?;
        let mut replay = Replay::new(Some(tables), &parts);
        let from = replay.from();
        let replayed = recovery.replay(from, &mut |entry, at| replay.entry(entry, at));
        replayed.map_err(|_| Off)?;
        for (of, offset) in &self.committed {
            replay.committed(shop(), of.clone(), *offset, String::new());
        }
        let (engine, driver) = replay.finish(parts);
        let of = engine.detectors().of(&shop(), &policy);
        self.running = Some(Running { engine, driver, writer, clock, hand, of });
        self.step();
        self.judge();
        Ok(())
    }

    /// Every cut record has an entry, and every acknowledged dead letter is cut or committed past.
    fn judge(&self) {
        let state = self.running.as_ref().unwrap().driver.fingerprint();
        let entries: BTreeSet<Origin> =
            state.entries.values().filter_map(|entry| entry.origin.clone()).collect();
        let view = self.view();
        for window in &view.partitions {
            for offset in &window.skipped {
                let TopicPartition { topic, partition } = window.partition.clone();
                let origin = Origin { topic, partition, offset: *offset };
                assert!(entries.contains(&origin), "{origin} is cut and has no entry");
            }
        }
        for origin in &self.dead {
            let is_passed = self.committed[&TopicPartition::from(origin)] > origin.offset;
            let cut = |window: &&reprise::retry::detector::WindowView| {
                window.partition == TopicPartition::from(origin)
                    && window.skipped.contains(&origin.offset)
            };
            let is_cut = view.partitions.iter().any(|window| cut(&window));
            assert!(is_passed || is_cut, "{origin} is dead, and delivered again: {view:#?}");
        }
    }

    /// Steps the engine and its writer; false: the power is off.
    fn step(&mut self) -> bool {
        let running = self.running.as_mut().unwrap();
        running.driver.step();
        matches!(running.writer.step(), StepResult::Flushed | StepResult::Idle)
    }

    /// The durable answer to a request.
    fn ask<T>(
        &mut self,
        asked: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<Result<T, EngineError>, Off> {
        let mut asked = pin!(asked);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..4 {
            match asked.as_mut().poll(&mut context) {
                Poll::Ready(Err(EngineError::BadNacks(bad))) => {
                    return Ok(Err(EngineError::BadNacks(bad)));
                }
                Poll::Ready(answer) => return answer.map(Ok).map_err(|_| Off),
                Poll::Pending => {
                    self.rest()?;
                    let running = self.running.as_mut().unwrap();
                    running.driver.step();
                    self.rest()?;
                    self.running.as_mut().unwrap().writer.step();
                    self.rest()?;
                }
            }
        }
        Err(Off)
    }

    /// An await of the edge, at which the power may go off.
    fn rest(&mut self) -> Result<(), Off> {
        self.awaits += 1;
        if self.off_at == Some(self.awaits) { Err(Off) } else { Ok(()) }
    }

    fn pass(&mut self, ms: u64) {
        self.mono += ms;
        self.wall += i64::try_from(ms).unwrap();
        self.running.as_ref().unwrap().hand.advance(ms);
        self.change(Detector::handle_timeout);
        self.step();
    }

    /// Stops the sidecar with its clients connected, and starts it again.
    fn stop(&mut self) -> Result<(), Off> {
        self.change(|detector, _| detector.close());
        if !self.step() {
            return Err(Off);
        }
        let before = remembered(self.view());
        self.running = None;
        self.disk.process_crash();
        self.start()?;
        assert_eq!(remembered(self.view()), before, "after a stop");
        Ok(())
    }

    fn event(&mut self) -> Result<(), Off> {
        let ms = [1, 50, 500, 3_000][self.rng.usize(..4)];
        self.pass(ms);
        let Some(mut member) = self.member.take() else {
            self.join();
            return Ok(());
        };
        let records = self.fetch(&mut member)?;
        for origin in records {
            assert!(!self.dead.contains(&origin), "{origin} is dead, and delivered");
            if origin != self.poison {
                continue;
            }
            if self.mode == OrderMode::Off {
                self.lose(&member);
                return Ok(());
            }
            self.nack(&mut member)?;
        }
        self.commit(&member)?;
        if self.rng.u8(..30) == 0 {
            self.lose(&member);
        } else {
            self.member = Some(member);
        }
        Ok(())
    }
}

/// The state that survives a stop: suspects with their counts, and cut records. The journal has no
/// set with a single loss.
fn remembered(view: DetectorView) -> Vec<String> {
    let sets = view.suspects.into_iter().filter(|set| set.losses > 1);
    let sets = sets.map(|set| format!("{:?}: {} {}", set.suspects, set.losses, set.failures));
    let windows = view.partitions.into_iter().filter_map(|window| {
        let suspects = window.suspects.into_iter();
        let suspects: Vec<_> =
            suspects.map(|one| (one.offset, one.reconsume_times, one.history)).collect();
        let is_idle = suspects.is_empty() && window.skipped.is_empty();
        (!is_idle).then(|| format!("{}: {suspects:?}, cut {:?}", window.partition, window.skipped))
    });
    sets.chain(windows).collect()
}
