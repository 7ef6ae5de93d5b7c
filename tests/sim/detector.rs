//! Engine, journal and detector of a group. The disk loses power at any of its operations.
//! One record ends its consumers, or is nacked in an ordered partition.
//!
//! ```text
//! Fetch ─▶ plan ─▶ records ─▶ a commit, a nack or the end of the member
//! crash ─▶ a record with an entry is delivered in its place no more; no other record is cut
//! stop  ─▶ the next start has the same windows and suspects
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fastrand::Rng;
use reprise::clock::{Clock, Hand};
use reprise::engine::{
    Destinations, Driver, Engine, EngineError, GroupDetector, NackBatch, NackRequest, Parts,
    Replay, SettleRequest,
};
use reprise::journal::{Config, Journal, MemDisk, Stepped, Writer};
use reprise::model::{
    ClientId, GroupId, MemberId, MonoMs, Now, Origin, Runs, TopicPartition, WallMs,
};
use reprise::observe::Metrics;
use reprise::retry::detector::{
    Asked, Detector, DetectorView, Fetching, Handed, MemberStanding, Seen, Serve, Settling, Step,
};
use reprise::retry::{Evidence, Nack, Named, OrderMode, Policies, Policy, Reporter};
use reprise::wire::batch::{Headers, RawRecord, TimestampType};
use reprise::wire::names::{LetterStreams, Templates};

use crate::turn::by_turn;

const PARTITIONS: i32 = 2;
const RECORDS: i64 = 24;
/// Records of one Fetch and partition.
const BATCH: usize = 8;
/// Events after which every record must be handled or dead, without power cuts.
const EVENTS_MAX: usize = 3_000;

/// The power is off.
struct Off;

/// Where the power goes.
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
    /// Awaits of the edge.
    pub awaits: u64,
}

struct Shop {
    disk: MemDisk,
    rng: Rng,
    mode: OrderMode,
    running: Option<Running>,
    wall: i64,
    mono: u64,
    /// Committed offsets, as the cluster keeps them.
    committed: BTreeMap<TopicPartition, i64>,
    /// The record that ends its consumer, or fails each time in an ordered partition.
    poison: Origin,
    /// Records whose dead letter was acknowledged.
    dead: BTreeSet<Origin>,
    members: u64,
    member: Option<Member>,
    /// The cluster stores a commit before the engine hears of it.
    is_relayed: bool,
    awaits: u64,
    off_at: Option<u64>,
}

struct Running {
    engine: Engine,
    driver: Driver,
    writer: Writer,
    hand: Hand,
    of: Arc<GroupDetector>,
}

struct Member {
    by: Fetching,
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

    fn now(&self) -> Now {
        Now { wall: WallMs(self.wall), mono: MonoMs(self.mono) }
    }

    fn change<T>(&self, f: impl FnOnce(&mut Detector, Now) -> T) -> T {
        let running = self.running.as_ref().unwrap();
        running.engine.change(self.now(), (&shop(), &running.of), f, |_| {})
    }

    fn view(&self) -> DetectorView {
        self.running.as_ref().unwrap().of.lock().detector.view(self.now())
    }

    fn start(&mut self) -> Result<(), Off> {
        self.running = None;
        self.member = None;
        self.mono = 0;
        let (clock, hand) = Clock::told(WallMs(self.wall));
        let config =
            Config { segment_bytes: 8 << 10, checkpoint_bytes: 24 << 10, ..Config::default() };
        let (journal, writer, recovery) =
            Journal::open(self.disk.disk(), config).map_err(|_| Off)?;
        let policy = Policy {
            order: self.mode,
            give_up_after_ms: Some(60_000),
            max_reconsume_times: 3,
            ..Policy::default()
        };
        let parts = Parts {
            journal: journal.clone(),
            templates: Templates::default(),
            letter_streams: LetterStreams::default(),
            policies: Policies::new(policy.clone(), Vec::new()),
            clock,
            metrics: Metrics::new(8).unwrap(),
            destinations: Destinations::default(),
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
        self.running = Some(Running { engine, driver, writer, hand, of });
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

    /// False: the power is off.
    fn step(&mut self) -> bool {
        let running = self.running.as_mut().unwrap();
        running.driver.step();
        matches!(running.writer.step(), Stepped::Flushed | Stepped::Idle)
    }

    /// The answer, once it is durable.
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

    /// An await of the edge.
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

    /// The sidecar stops with its clients connected, and starts again.
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

    fn join(&mut self) {
        self.members += 1;
        let id = MemberId::new(&format!("m{}", self.members));
        let epoch = i32::try_from(self.members).unwrap();
        let standing =
            MemberStanding { member_id: id.clone(), epoch, step: Step::Assigned, conn: 1 };
        let committed = self.committed.clone();
        self.change(|detector, now| {
            detector.assign(now, &id, standing);
            for (partition, offset) in &committed {
                let (partition, offset) = (partition.clone(), *offset);
                detector.handle(now, Seen::Read { partition, offset, done: Vec::new() });
            }
        });
        let by = Fetching {
            member: id,
            came: MonoMs(self.mono),
            conn: self.members,
            max_wait_ms: 500,
            has_lane: false,
        };
        self.member = Some(Member { by, positions: committed });
    }

    fn lose(&mut self, member: &Member) {
        let left = self.rng.bool();
        self.change(|detector, now| detector.remove(now, &member.by.member, None, left));
        self.step();
    }

    /// The records of one Fetch.
    fn fetch(&mut self, member: &mut Member) -> Result<Vec<Origin>, Off> {
        member.by.came = MonoMs(self.mono);
        let asked: Vec<Asked> = member
            .positions
            .iter()
            .map(|(partition, offset)| Asked { partition: partition.clone(), offset: *offset })
            .collect();
        let by = member.by.clone();
        let mut plan = self.change(|detector, now| detector.asked(now, &by, &asked));
        for settling in plan.settlings() {
            self.settle(settling)?;
            plan = self.change(|detector, now| detector.asked(now, &by, &asked));
        }
        let turn = by_turn(&asked, &plan.serve, |_| RECORDS).cloned();
        let mut given = Vec::new();
        for (ask, serve) in asked.iter().zip(&plan.serve) {
            let is_turn = turn.as_ref() == Some(&ask.partition);
            let offsets = offsets(serve, ask.offset, is_turn);
            let end = match (serve, offsets.last()) {
                (Serve::Below { below, .. }, None) if ask.offset < *below => {
                    let nothing = ask.offset..(*below).min(RECORDS);
                    self.change(|detector, now| {
                        detector.passed_over(now, &by, &ask.partition, nothing.clone());
                    });
                    continue;
                }
                (_, None) => continue,
                (_, Some(last)) => last + 1,
            };
            let handed = Handed {
                partition: ask.partition.clone(),
                from: ask.offset,
                end,
                turn: matches!(serve, Serve::Turn { .. }).then(|| offsets[0]),
                hidden: Runs::default(),
                sparse: Vec::new(),
            };
            self.change(|detector, now| detector.handed(now, &by, &[handed]));
            member.positions.insert(ask.partition.clone(), end);
            let TopicPartition { topic, partition } = &ask.partition;
            given.extend(offsets.into_iter().map(|offset| Origin {
                topic: topic.clone(),
                partition: *partition,
                offset,
            }));
        }
        Ok(given)
    }

    fn settle(&mut self, settling: Settling) -> Result<(), Off> {
        let TopicPartition { topic, partition } = settling.partition.clone();
        let origin = Origin { topic, partition, offset: settling.offset };
        assert_eq!(origin, self.poison, "an innocent record is at its end");
        let record = record_at(&origin).to_bytes();
        let request = SettleRequest { group: shop(), settling, undecodable: None, record };
        let engine = self.running.as_ref().unwrap().engine.clone();
        self.ask(engine.settle(request))?.ok();
        self.dead.insert(origin);
        Ok(())
    }

    /// The poisonous record is nacked; where its partition waits, the member goes back to it.
    fn nack(&mut self, member: &mut Member) -> Result<(), Off> {
        let record = record_at(&self.poison).to_bytes();
        let nack = Nack {
            record_bytes: u64::try_from(record.len()).unwrap(),
            ..Nack::of(Named::Origin(self.poison.clone()))
        };
        let batch = NackBatch {
            group: shop(),
            by: Reporter { member: None, client: ClientId::new("sim") },
            producer: None,
            nacks: vec![NackRequest { nack, record }],
        };
        let engine = self.running.as_ref().unwrap().engine.clone();
        let reply = self.ask(engine.said(batch, Evidence::Nack))?;
        let of = TopicPartition::from(&self.poison);
        let awaited = self.change(|detector, _| detector.awaited(&of));
        if awaited == Some(self.poison.offset) {
            member.positions.insert(of, self.poison.offset);
        } else if reply.is_ok() {
            self.dead.insert(self.poison.clone());
        }
        Ok(())
    }

    /// Commits each partition up to its position, as far as a record allows.
    fn commit(&mut self, member: &Member) -> Result<(), Off> {
        for (of, position) in &member.positions {
            let withheld = self.change(|detector, _| detector.settling_before(of, *position));
            if let Some(settling) = withheld {
                self.settle(settling)?;
            }
            let bound = self.change(|detector, _| detector.commit_bound(of));
            let offset = bound.map_or(*position, |bound| bound.min(*position));
            if offset <= self.committed[of] {
                continue;
            }
            if self.is_relayed {
                self.store(of, offset)?;
            }
            let engine = self.running.as_ref().unwrap().engine.clone();
            let named = vec![(of.topic.clone(), of.partition, offset)];
            self.ask(engine.origin_commits(&shop(), named))?.ok();
            if !self.is_relayed {
                self.store(of, offset)?;
            }
            let partition = of.clone();
            self.change(|detector, now| {
                detector.handle(now, Seen::Committed { partition, offset });
            });
        }
        Ok(())
    }

    /// The cluster stores a commit and answers.
    fn store(&mut self, of: &TopicPartition, offset: i64) -> Result<(), Off> {
        self.rest()?;
        self.committed.insert(of.clone(), offset);
        self.rest()
    }
}

/// The offsets that an answer brings.
fn offsets(serve: &Serve, from: i64, is_turn: bool) -> Vec<i64> {
    let (without, end, most) = match serve {
        Serve::Open => (&[][..], RECORDS, BATCH),
        Serve::Without(without) => (&without[..], RECORDS, BATCH),
        Serve::Below { without, below } => (&without[..], (*below).min(RECORDS), BATCH),
        Serve::Turn { without, .. } if is_turn => (&without[..], RECORDS, 1),
        Serve::Turn { .. } | Serve::Nothing | Serve::Again | Serve::Settle(_) => return Vec::new(),
    };
    (from..end).filter(|offset| !without.contains(offset)).take(most).collect()
}

/// The state that outlives a stop: suspects with their counts, and cut records. The journal has no
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
