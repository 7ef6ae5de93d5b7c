//! The engine with a log on a disk in memory, stepped by the test; the group has
//! `order.mode: partition`.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::clock::Clock;
use crate::engine::detectors::window_entries::{self, Windows};
use crate::engine::{EngineParts, NackRequest, Replay, SettleRequest, kind};
use crate::journal::{Journal, JournalOptions, MemDisk, Writer};
use crate::model::{ClientId, MemberId, Origin, TopicPartition, WallMs};
use crate::observe::Metrics;
use crate::retry::detector::{
    DeliveredRange, Detector, FetchPosition, GroupObservation, MemberFetch,
};
use crate::retry::{
    BadNack, NackOutcome, NackTarget, OrderMode, Policies, Policy, Reporter, entries_of,
};
use crate::wire::batch::{Headers, RawRecord, TimestampType};

struct House {
    engine: Engine,
    driver: Driver,
    writer: Writer,
    metrics: Metrics,
}

fn shop() -> GroupId {
    GroupId::new("shop")
}

fn orders() -> TopicPartition {
    TopicPartition { topic: "orders".into(), partition: 0 }
}

fn ordered() -> Policies {
    Policies::new(Policy { order: OrderMode::Partition, ..Policy::default() }, Vec::new())
}

impl House {
    /// `None` when the power went meanwhile.
    fn open_with(disk: &MemDisk, policies: Policies) -> Option<Self> {
        let (journal, writer, recovery) =
            Journal::open(disk.disk(), JournalOptions::default()).ok()?;
        let parts =
            EngineParts { policies, ..EngineParts::plain(&journal, Clock::told(WallMs(1_000)).0) };
        let metrics = parts.metrics.clone();
        let mut replay = Replay::new(Some(Replay::tables(&journal).ok()?), &parts);
        let from = replay.from();
        recovery.replay(from, &mut |entry, at| replay.entry(entry, at)).ok()?;
        let (engine, driver) = replay.finish(parts);
        Some(Self { engine, driver, writer, metrics })
    }

    fn open(disk: &MemDisk) -> Option<Self> {
        Self::open_with(disk, ordered())
    }

    fn new() -> (Self, MemDisk) {
        let disk = MemDisk::new(5);
        (Self::open(&disk).unwrap(), disk)
    }

    fn killed(self, disk: &MemDisk) -> Self {
        drop(self);
        disk.process_crash();
        Self::open(disk).unwrap()
    }

    fn change<T>(&self, f: impl FnOnce(&mut Detector, Moment) -> T) -> T {
        let of = self.engine.detectors().of(&shop(), ordered().of(&shop()));
        self.engine.change(self.driver.clock, (&shop(), &of), f, |_| {})
    }

    /// The windows of the log.
    fn windows(&self) -> Windows {
        let mut windows = Windows::new();
        let journal = &self.driver.journal;
        journal
            .past(&[kind::WINDOW], &mut |entry| window_entries::replay(&mut windows, entry))
            .unwrap();
        windows
    }

    /// Offsets that a partition waits for, according to the log.
    fn awaited(&self) -> Vec<i64> {
        let windows = self.windows();
        let window = windows.get(&(shop(), orders())).map(|kept| &kept.window);
        window.into_iter().flat_map(|window| &window.suspects).map(|one| one.offset).collect()
    }

    fn step(&mut self) {
        self.driver.step();
        self.writer.step();
    }

    /// `None` without an answer, as after a power cut.
    fn answer_of<T>(&mut self, asked: impl Future<Output = T>) -> Option<T> {
        let mut asked = pin!(asked);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..4 {
            self.step();
            if let Poll::Ready(answer) = asked.as_mut().poll(&mut context) {
                return Some(answer);
            }
        }
        None
    }

    /// `None` without an answer.
    fn try_say(&mut self, batch: NackBatch) -> Option<Result<NackReply, EngineError>> {
        let said = self.engine.said(batch, Evidence::Nack);
        self.answer_of(said)
    }

    fn say(&mut self, batch: NackBatch) -> Result<NackReply, EngineError> {
        self.try_say(batch).unwrap()
    }

    fn knows(&self, offset: i64) -> bool {
        use crate::retry::Entries;
        self.driver.ledger.store().by_origin(&shop(), &origin(offset)).is_some()
    }

    fn counted(&self) -> bool {
        let counter = "reprise_records_failed_total{group=\"shop\"";
        self.metrics.render().unwrap().lines().any(|line| line.starts_with(counter))
    }
}

/// Delivers record 2 of the partition alone.
fn deliver_second(detector: &mut Detector, now: Moment) {
    let member = MemberId::new("m");
    let by = MemberFetch {
        member,
        came: now.mono,
        conn: 1,
        max_wait_ms: 500,
        retries: crate::retry::RetrySubscription::default(),
    };
    detector.handle(now, GroupObservation::Assigned { member: by.member.clone(), epoch: 1 });
    detector.asked(now, &by, &[FetchPosition { partition: orders(), offset: 2 }]);
    let left = DeliveredRange {
        partition: orders(),
        from: 2,
        end: 3,
        turn: Some(2),
        hidden: crate::model::OffsetRuns::default(),
        sparse: Vec::new(),
    };
    detector.handed(now, &by, &[left]);
}

fn origin(offset: i64) -> Origin {
    Origin { topic: "orders".into(), partition: 0, offset }
}

fn nack(named: NackTarget) -> NackRequest {
    let record = RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some("as it was produced".into()),
        headers: Headers::NONE,
    };
    let nack = Nack { record_bytes: 30, ..Nack::of(named) };
    NackRequest { nack, record: record.to_bytes() }
}

/// Nacks of the partition's records, by a producer whose first sequence number is `first`.
fn batch(first: i32, offsets: &[i64]) -> NackBatch {
    let count = i32::try_from(offsets.len()).unwrap();
    let producer =
        ProducerSequence { id: 7, partition: 0, epoch: 3, first, last: first + count - 1 };
    NackBatch {
        group: shop(),
        by: Reporter { member: None, client: ClientId::new("test") },
        producer: Some(producer),
        nacks: offsets.iter().map(|offset| nack(NackTarget::Origin(origin(*offset)))).collect(),
    }
}

/// Changes the nack of record 2, so that the record leaves its partition.
fn second_leaves(mut batch: NackBatch) -> NackBatch {
    for request in &mut batch.nacks {
        if request.nack.named == NackTarget::Origin(origin(2)) {
            request.nack.want.level = Some(-1);
        }
    }
    batch
}

#[test]
fn a_refused_batch_changes_nothing_and_names_bad_nacks() {
    let (mut house, disk) = House::new();
    let mut bad = batch(0, &[1, 2, 3, 4]);
    bad.nacks[1] = nack(NackTarget::Unreadable);
    bad.nacks[3].nack.want.delay_ms = Some(u64::MAX);
    let Err(EngineError::BadNacks(named)) = house.say(bad) else { panic!("taken") };
    assert_eq!(named, [(1, BadNack::Unreadable), (3, BadNack::DelayTooLong)]);
    let mut large = batch(0, &[1; 225]);
    let record = Bytes::from(vec![0; 1 << 20]);
    large.nacks.iter_mut().for_each(|nack| nack.record = record.clone());
    let refused = house.say(large);
    assert!(matches!(refused, Err(EngineError::BatchTooLarge { .. })), "{refused:?}");
    assert_eq!(house.change(|detector, _| detector.awaited(&orders())), None);
    assert!(!house.counted());
    let mut house = house.killed(&disk);
    assert_eq!(house.windows(), Windows::new());
    assert!(house.say(batch(0, &[1])).is_ok(), "nor was the producer's number taken");
}

#[test]
fn a_repeated_or_fenced_batch_counts_no_failure() {
    let (mut house, disk) = House::new();
    let taken = house.say(batch(0, &[1, 2])).unwrap();
    assert_eq!(taken, NackReply::Taken(vec![None, None]));
    for restarted in [false, true] {
        let repeated = house.say(batch(0, &[1, 2])).unwrap();
        assert_eq!(repeated, NackReply::Repeated, "{restarted}");
        let mut fenced = batch(2, &[3, 4]);
        fenced.producer = fenced.producer.map(|known| ProducerSequence { epoch: 2, ..known });
        let fenced = house.say(fenced);
        assert!(matches!(fenced, Err(EngineError::InvalidProducerEpoch)), "{fenced:?}");
        assert_eq!(house.awaited(), [1, 2], "{restarted}");
        house = house.killed(&disk);
    }
}

#[test]
fn each_nack_of_a_batch_is_answered() {
    let (mut house, _disk) = House::new();
    house.say(batch(0, &[2])).unwrap();
    house.change(deliver_second);
    house.say(batch(1, &[1])).unwrap();
    let taken = house.say(second_leaves(batch(2, &[0, 2, 1]))).unwrap();
    let NackReply::Taken(outcomes) = taken else { panic!("{taken:?}") };
    let [None, Some(NackOutcome::Dead { .. }), None] = outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!([0, 1, 2].map(|offset| house.knows(offset)), [false, false, true]);
    let entries = entries_of(&house.driver.ledger, &shop());
    let counts: Vec<u32> = entries.iter().map(|entry| entry.reconsume_times).collect();
    assert_eq!(counts, [2], "with the failure before");
    assert_eq!(house.awaited(), [0, 1]);
}

#[test]
fn no_older_window_is_journalled_behind_a_newer() {
    let (mut house, disk) = House::new();
    // While the batch is in the queue.
    let said = house.engine.said(batch(0, &[1]), Evidence::Nack);
    let ladder = ordered().ladder_of(&shop(), &"orders".into());
    house.change(|detector, now| {
        detector.failed_in_order(now, &orders(), 3, &ladder);
        detector.said(&orders());
    });
    house.step();
    drop(said);
    let house = house.killed(&disk);
    assert_eq!(house.awaited(), [1, 3]);
}

#[test]
fn a_record_that_could_not_be_journalled_is_so_later() {
    let (mut house, disk) = House::new();
    let ladder = ordered().ladder_of(&shop(), &"orders".into());
    house.driver.ahead = Some("as if".to_owned());
    for offset in [3, 4] {
        house.change(|detector, now| {
            detector.failed_in_order(now, &orders(), offset, &ladder);
            detector.said(&orders());
        });
        house.driver.step();
    }
    house.driver.ahead = None;
    drop(house.say(batch(0, &[1])).unwrap());
    assert_eq!(house.killed(&disk).awaited(), [1, 3, 4]);
}

#[test]
fn a_power_cut_parts_no_failure_from_its_batch() {
    let (mut before, mut after) = (0, 0);
    for cut in (0..20).flat_map(|seed| [1, 2, 3, 4].map(|at| (seed, at))) {
        let disk = MemDisk::new(cut.0);
        let mut house = House::open(&disk).unwrap();
        disk.power_cut_at(cut.1);
        let answer = house.try_say(second_leaves(batch(0, &[1, 2])));
        drop(house);
        disk.power_cut_at(u64::MAX >> 1);
        disk.power_cut();
        let mut house = House::open(&disk).unwrap();
        let is_charged = !house.windows().is_empty();
        assert_eq!(house.knows(2), is_charged, "{cut:?}: the entry of the other");
        let repeated = house.say(second_leaves(batch(0, &[1, 2]))).unwrap();
        assert_eq!(repeated == NackReply::Repeated, is_charged, "{cut:?}: the stamp");
        assert!(is_charged || !matches!(answer, Some(Ok(_))), "{cut:?}: it was answered");
        (before, after) = (before + u32::from(!is_charged), after + u32::from(is_charged));
    }
    assert!(before > 0 && after > 0, "{before} before it was written, {after} after");
}

#[test]
fn nacks_with_oversize_windows_are_refused() {
    let (mut house, _disk) = House::new();
    let ladder = ordered().ladder_of(&shop(), &"orders".into());
    let mut large = batch(0, &[1]);
    for partition in 0..600 {
        let of = TopicPartition { partition, ..orders() };
        large.nacks.push(nack(NackTarget::Origin(Origin { partition, ..origin(1_001) })));
        house.change(|detector, now| {
            for offset in 0..1_000 {
                detector.failed_in_order(now, &of, offset, &ladder);
            }
        });
    }
    let refused = house.say(large);
    assert!(matches!(refused, Err(EngineError::BatchTooLarge { .. })), "{refused:?}");
}

/// A record that its partition waited for, before the group's order was switched off.
fn let_go(house: &House) -> SettleRequest {
    let settlings = house.change(|detector, _| detector.settlings_let_go());
    let record = nack(NackTarget::Nothing).record;
    SettleRequest { group: shop(), settling: settlings[0].clone(), undecodable: None, record }
}

#[test]
fn a_settled_record_leaves_its_window_and_is_settled_once() {
    let (mut house, disk) = House::new();
    house.say(batch(0, &[1, 2])).unwrap();
    drop(house);
    disk.process_crash();
    let mut house = House::open_with(&disk, Policies::default()).unwrap();
    let request = let_go(&house);
    let engine = house.engine.clone();
    let (first, second) = (engine.settle(request.clone()), engine.settle(request));
    let first = house.answer_of(first).unwrap().unwrap();
    assert!(matches!(first, Some(NackOutcome::Scheduled { .. })), "{first:?}");
    assert_eq!(house.answer_of(second).unwrap().unwrap(), None, "it is settled");
    // A stop with connected clients journals the windows as they are.
    house.change(|detector, _| detector.close());
    house.step();
    let windows = house.windows();
    let window = &windows[&(shop(), orders())].window;
    assert_eq!((window.skipped.clone(), window.suspects.len()), (vec![1], 1));
    drop(house);
    disk.process_crash();
    let house = House::open_with(&disk, Policies::default()).unwrap();
    assert_eq!(house.windows(), windows);
    assert!(house.knows(1) && !house.knows(2));
}

#[test]
fn a_commit_elsewhere_waits_for_a_durable_dead_letter() {
    let (mut house, disk) = House::new();
    house.say(batch(0, &[1])).unwrap();
    drop(house);
    disk.process_crash();
    let mut house = House::open_with(&disk, Policies::default()).unwrap();
    let engine = house.engine.clone();
    let mut context = Context::from_waker(Waker::noop());
    let mut settle = pin!(engine.settle(let_go(&house)));
    assert!(settle.as_mut().poll(&mut context).is_pending());
    house.driver.step();
    assert_eq!(house.change(|detector, _| detector.awaited(&orders())), None, "the detector knows");
    let group = shop();
    let mut settled = pin!(engine.settled(&group));
    assert!(settled.as_mut().poll(&mut context).is_pending(), "it is not durable yet");
    house.writer.step();
    assert!(matches!(settled.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
}
