//! The engine with a log on a disk in memory, driven by hand, and somebody who is asked what waits
//! in its own place and says what the test wants.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use super::*;
use crate::clock::Clock;
use crate::engine::delayed::AppendBatch;
use crate::engine::windows::{KeptWindow, Latest};
use crate::engine::{Ending, EntryView, Parts, Replay, Windows};
use crate::journal::{Config, Journal, MemDisk, Writer};
use crate::model::{ClientId, Origin, TopicPartition, WallMs};
use crate::observe::Metrics;
use crate::retry::watch::WindowRecord;
use crate::retry::{BadNack, NackOutcome, Reporter};
use crate::wire::batch::{Headers, RawRecord, TimestampType};

struct House {
    engine: Engine,
    driver: Driver,
    writer: Writer,
    metrics: Metrics,
    news: WindowNews,
    asked: Arc<AtomicU32>,
}

fn shop() -> GroupId {
    GroupId::new("shop")
}

fn orders() -> TopicPartition {
    orders_at(0)
}

fn orders_at(partition: i32) -> TopicPartition {
    TopicPartition { topic: "orders".into(), partition }
}

impl House {
    /// And what the log remembers of windows. `None`: the power went meanwhile.
    fn open(disk: &MemDisk) -> Option<(Self, Windows)> {
        let (journal, writer, recovery) = Journal::open(disk.disk(), Config::default()).ok()?;
        let parts = Parts::plain(&journal, Clock::told(WallMs(1_000)).0);
        let metrics = parts.metrics.clone();
        let mut replay = Replay::new(Some(Replay::tables(&journal).ok()?), &parts);
        let from = replay.from();
        recovery.replay(from, &mut |entry, at| replay.entry(entry, at)).ok()?;
        let windows = replay.windows();
        let (engine, driver) = replay.finish(parts);
        let (news, asked) = (WindowNews::default(), Arc::default());
        Some((Self { engine, driver, writer, metrics, news, asked }, windows))
    }

    fn new() -> (Self, MemDisk) {
        let disk = MemDisk::new(5);
        (Self::open(&disk).unwrap().0, disk)
    }

    fn killed(self, disk: &MemDisk) -> (Self, Windows) {
        drop(self);
        disk.process_crash();
        Self::open(disk).unwrap()
    }

    /// Somebody who says this, and counts so many losses in the partition's window meanwhile.
    fn in_place(&self, goes: &[Goes], losses: u32) -> InPlace {
        let (engine, news, asked) =
            (self.engine.clone(), self.news.clone(), Arc::clone(&self.asked));
        let goes = goes.to_vec();
        let charge = move || {
            asked.fetch_add(1, Ordering::Relaxed);
            engine.windows(&shop(), &news, with_losses(losses));
            goes
        };
        InPlace { charge: Box::new(charge), windows: self.news.clone() }
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    /// `None`: there is none, as after a power cut.
    fn answer_of<T>(&mut self, asked: impl Future<Output = T>) -> Option<T> {
        let mut asked = pin!(asked);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..4 {
            self.driver.step();
            self.writer.step();
            if let Poll::Ready(answer) = asked.as_mut().poll(&mut context) {
                return Some(answer);
            }
        }
        None
    }

    /// `None`: no answer.
    fn try_say(
        &mut self,
        batch: NackBatch,
        in_place: InPlace,
    ) -> Option<Result<NackReply, EngineError>> {
        let said = self.engine.said(batch, Evidence::Nack, Some(in_place));
        self.answer_of(said)
    }

    /// Ends a transaction with these nacks, and says so in the log; `None`: no answer.
    fn try_end(
        &mut self,
        batch: NackBatch,
        goes: &[Goes],
        ended: &Arc<AtomicU32>,
    ) -> Option<Result<Vec<NackReply>, EngineError>> {
        let nacks = vec![(batch, Some(self.in_place(goes, 1)))];
        let ends = self.engine.ends(Ending { nacks, end: self.end(ended) });
        self.answer_of(ends)
    }

    /// The same of what changes so many windows, each of which fills a group of the log.
    fn try_end_many(
        &mut self,
        count: i32,
        ended: &Arc<AtomicU32>,
    ) -> Option<Result<Vec<NackReply>, EngineError>> {
        self.driver.group_bytes = 1;
        let (engine, news, mut all) = (self.engine.clone(), self.news.clone(), Latest::new());
        (0..count).for_each(|partition| all.extend(window(orders_at(partition), 2)));
        let charge = move || {
            engine.windows(&shop(), &news, all);
            vec![Goes::Waits]
        };
        let in_place = InPlace { charge: Box::new(charge), windows: self.news.clone() };
        let nacks = vec![(batch(0, &[1]), Some(in_place))];
        let ends = self.engine.ends(Ending { nacks, end: self.end(ended) });
        self.answer_of(ends)
    }

    /// Whoever ends it: once, with all that comes with it behind its own entry.
    fn end(&self, ended: &Arc<AtomicU32>) -> AppendBatch {
        let (journal, ended) = (self.driver.journal.clone(), Arc::clone(ended));
        Box::new(move |more| {
            if ended.load(Ordering::Relaxed) > 0 {
                return None;
            }
            let own = stored_all(&shop(), &window(the_end(), 9));
            let appended = journal.append([own, more()?].concat()).ok()?;
            ended.fetch_add(1, Ordering::Relaxed);
            Some(appended.refs.into_iter().skip(1).collect())
        })
    }

    fn say(&mut self, batch: NackBatch, goes: &[Goes]) -> Result<NackReply, EngineError> {
        let in_place = self.in_place(goes, 1);
        self.try_say(batch, in_place).unwrap()
    }

    /// Something was staged, whatever has become of it.
    fn has_staged(&self) -> bool {
        let mut has = false;
        self.driver.journal.past(&[crate::engine::kind::STAGED], &mut |_| has = true).unwrap();
        has
    }

    fn knows(&self, offset: i64) -> bool {
        use crate::retry::Entries;
        self.driver.machine.store().by_origin(&shop(), &origin(offset)).is_some()
    }

    fn page(&mut self) -> Vec<EntryView> {
        let group = shop();
        let mut asked = pin!(self.engine.page(&group, None, 10));
        let mut context = Context::from_waker(Waker::noop());
        assert!(asked.as_mut().poll(&mut context).is_pending());
        self.driver.step();
        let Poll::Ready(page) = asked.as_mut().poll(&mut context) else { panic!("no answer") };
        page.unwrap()
    }

    fn counted(&self) -> bool {
        let counter = "reprise_records_failed_total{group=\"shop\"";
        self.metrics.render().unwrap().lines().any(|line| line.starts_with(counter))
    }
}

fn with_losses(losses: u32) -> Latest {
    window(orders(), losses)
}

fn window(of: TopicPartition, losses: u32) -> Latest {
    let window = WindowRecord { losses, ..WindowRecord::default() };
    Latest::from([(of, Some(KeptWindow { window, ..KeptWindow::default() }))])
}

/// Stands for the end of a transaction in the log.
fn the_end() -> TopicPartition {
    TopicPartition { topic: "ended".into(), partition: 0 }
}

fn origin(offset: i64) -> Origin {
    Origin { topic: "orders".into(), partition: 0, offset }
}

fn nack(named: Named) -> NackRequest {
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

/// Of records of the partition, by a producer whose first sequence number this is.
fn batch(first: i32, offsets: &[i64]) -> NackBatch {
    let count = i32::try_from(offsets.len()).unwrap();
    let producer = Producer { id: 7, epoch: 3, first, last: first + count - 1 };
    NackBatch {
        group: shop(),
        by: Reporter { member: None, client: ClientId::new("test") },
        producer: Some(producer),
        nacks: offsets.iter().map(|offset| nack(Named::Origin(origin(*offset)))).collect(),
    }
}

#[test]
fn what_of_a_batch_is_refused_asks_nobody_and_bad_ones_have_their_place_in_it() {
    let (mut house, disk) = House::new();
    let mut bad = batch(0, &[1, 2, 3, 4]);
    bad.nacks[1] = nack(Named::Unreadable);
    bad.nacks[3].nack.want.delay_ms = Some(u64::MAX);
    let waits = [const { Goes::Waits }; 4];
    let Err(EngineError::BadNacks(named)) = house.say(bad, &waits) else { panic!("taken") };
    assert_eq!(named, [(1, BadNack::Unreadable), (3, BadNack::DelayTooLong)]);
    let mut large = batch(0, &[1; 225]);
    let record = Bytes::from(vec![0; 1 << 20]);
    large.nacks.iter_mut().for_each(|nack| nack.record = record.clone());
    let refused = house.say(large, &waits);
    assert!(matches!(refused, Err(EngineError::BatchTooLarge { .. })), "{refused:?}");
    assert_eq!((house.asked(), house.counted()), (0, false));
    let (mut house, windows) = house.killed(&disk);
    assert_eq!(windows, Windows::new());
    assert!(house.say(batch(0, &[1]), &waits).is_ok(), "nor was the producer's number taken");
}

#[test]
fn what_its_producer_repeats_or_sends_out_of_order_asks_nobody_also_where_all_of_it_waits() {
    let (mut house, disk) = House::new();
    let waits = [Goes::Waits, Goes::Waits];
    let taken = house.say(batch(0, &[1, 2]), &waits).unwrap();
    assert_eq!((taken, house.asked()), (NackReply::Taken(vec![None, None]), 1));
    for restarted in [false, true] {
        let repeated = house.say(batch(0, &[1, 2]), &waits).unwrap();
        assert_eq!(repeated, NackReply::Repeated, "{restarted}");
        let gap = house.say(batch(5, &[3, 4]), &waits);
        assert!(matches!(gap, Err(EngineError::OutOfOrderSequence)), "{gap:?}");
        let mut fenced = batch(2, &[3, 4]);
        fenced.producer = fenced.producer.map(|known| Producer { epoch: 2, ..known });
        let fenced = house.say(fenced, &waits);
        assert!(matches!(fenced, Err(EngineError::InvalidProducerEpoch)), "{fenced:?}");
        assert_eq!(house.asked(), u32::from(!restarted), "{restarted}");
        house = house.killed(&disk).0;
    }
}

#[test]
fn each_nack_of_a_batch_has_its_own_answer_and_what_leaves_takes_its_count_along() {
    let (mut house, _disk) = House::new();
    let carried = Carried { reconsume_times: 4, ..Carried::default() };
    let goes = [Goes::Waits, Goes::Leaves(Some(carried)), Goes::Known, Goes::Leaves(None)];
    let taken = house.say(batch(0, &[1, 2, 3, 4]), &goes).unwrap();
    let NackReply::Taken(outcomes) = taken else { panic!("{taken:?}") };
    let scheduled = |n: usize| matches!(outcomes[n], Some(NackOutcome::Scheduled { .. }));
    assert_eq!((outcomes[0], outcomes[2]), (None, None));
    assert!(scheduled(1) && scheduled(3), "{outcomes:?}");
    assert_eq!([1, 2, 3, 4].map(|offset| house.knows(offset)), [false, true, false, true]);
    let views = house.page();
    let counts: Vec<u32> = views.iter().map(|view| view.entry.reconsume_times).collect();
    assert_eq!(counts, [5, 1], "one failure more than each had");
}

#[test]
fn a_window_that_was_told_before_never_comes_behind_what_a_batch_has_charged() {
    let (mut house, disk) = House::new();
    let in_place = house.in_place(&[Goes::Waits], 2);
    let said = house.engine.said(batch(0, &[1]), Evidence::Nack, Some(in_place));
    // While the batch is in the queue.
    house.engine.windows(&shop(), &house.news, with_losses(1));
    house.driver.step();
    house.writer.step();
    drop(said);
    let (house, windows) = house.killed(&disk);
    assert_eq!(windows[&(shop(), orders())].window.losses, 2, "the latest");
    drop(house);
}

#[test]
fn a_power_cut_parts_no_charge_from_its_batch() {
    let (mut before, mut after) = (0, 0);
    for cut in (0..20).flat_map(|seed| [1, 2, 3, 4].map(|at| (seed, at))) {
        let disk = MemDisk::new(cut.0);
        let (mut house, _) = House::open(&disk).unwrap();
        disk.power_cut_at(cut.1);
        let in_place = house.in_place(&[Goes::Waits, Goes::Leaves(None)], 1);
        let answer = house.try_say(batch(0, &[1, 2]), in_place);
        drop(house);
        disk.power_cut_at(u64::MAX >> 1);
        disk.power_cut();
        let (mut house, windows) = House::open(&disk).unwrap();
        let is_charged = !windows.is_empty();
        assert_eq!(house.knows(2), is_charged, "{cut:?}: the entry of the other");
        let repeated = house.say(batch(0, &[1, 2]), &[Goes::Waits, Goes::Leaves(None)]).unwrap();
        assert_eq!(repeated == NackReply::Repeated, is_charged, "{cut:?}: the stamp");
        assert!(is_charged || !matches!(answer, Some(Ok(_))), "{cut:?}: it was answered");
        (before, after) = (before + u32::from(!is_charged), after + u32::from(is_charged));
    }
    assert!(before > 0 && after > 0, "{before} before it was written, {after} after");
}

#[test]
fn a_power_cut_parts_no_charge_of_a_transaction_from_its_end() {
    let (mut before, mut after) = (0, 0);
    let goes = [Goes::Waits, Goes::Leaves(None)];
    for cut in (0..20).flat_map(|seed| [1, 2, 3, 4].map(|at| (seed, at))) {
        let (disk, ended) = (MemDisk::new(cut.0), Arc::default());
        let (mut house, _) = House::open(&disk).unwrap();
        disk.power_cut_at(cut.1);
        let answer = house.try_end(batch(0, &[1, 2]), &goes, &ended);
        drop(house);
        disk.power_cut_at(u64::MAX >> 1);
        disk.power_cut();
        let (mut house, windows) = House::open(&disk).unwrap();
        let has_ended = windows.contains_key(&(shop(), the_end()));
        assert_eq!(windows.contains_key(&(shop(), orders())), has_ended, "{cut:?}: the window");
        assert_eq!(house.knows(2), has_ended, "{cut:?}: the entry of the other");
        assert!(has_ended || !matches!(answer, Some(Ok(_))), "{cut:?}: it was answered");
        (before, after) = (before + u32::from(!has_ended), after + u32::from(has_ended));
        // Whoever asks again is told; what has ended asks nobody any more.
        ended.store(u32::from(has_ended), Ordering::Relaxed);
        let told = house.try_end(batch(0, &[1, 2]), &goes, &ended).unwrap().unwrap();
        assert_eq!((told.len(), house.asked()), (usize::from(!has_ended), u32::from(!has_ended)));
        assert!(house.knows(2));
    }
    assert!(before > 0 && after > 0, "{before} before it was written, {after} after");
}

/// Losses in each of these windows; 0: it is not remembered.
fn losses(windows: &Windows, count: i32) -> Vec<u32> {
    let of = |partition| windows.get(&(shop(), orders_at(partition)));
    (0..count).map(|partition| of(partition).map_or(0, |kept| kept.window.losses)).collect()
}

#[test]
fn a_power_cut_parts_no_window_from_the_end_it_comes_with_however_many_there_are() {
    let (mut before, mut after, mut staged) = (0, 0, 0);
    for cut in (0..60).flat_map(|seed| [1, 2, 3, 4].map(|at| (seed, at))) {
        let (disk, ended) = (MemDisk::new(cut.0), Arc::default());
        let (mut house, _) = House::open(&disk).unwrap();
        // Of the first there is one already.
        house.engine.windows(&shop(), &house.news, with_losses(1));
        house.driver.step();
        house.writer.step();
        disk.power_cut_at(cut.1);
        let answer = house.try_end_many(9, &ended);
        drop(house);
        disk.power_cut_at(u64::MAX >> 1);
        disk.power_cut();
        let (house, windows) = House::open(&disk).unwrap();
        let has_ended = windows.contains_key(&(shop(), the_end()));
        let known = losses(&windows, 9);
        let old = [vec![known[0].min(1)], vec![0; 8]].concat();
        assert_eq!(known, if has_ended { vec![2; 9] } else { old }, "{cut:?}");
        assert!(has_ended || !matches!(answer, Some(Ok(_))), "{cut:?}: it was answered");
        (before, after) = (before + u32::from(!has_ended), after + u32::from(has_ended));
        staged += u32::from(!has_ended && house.has_staged());
        // What was left of it is in nobody's way, nor is a second start.
        let (mut house, again) =
            if cut.0 % 2 == 0 { (house, windows) } else { house.killed(&disk) };
        assert_eq!(losses(&again, 9), known);
        ended.store(u32::from(has_ended), Ordering::Relaxed);
        assert!(house.try_end_many(9, &ended).unwrap().is_ok());
        assert!(house.driver.unstaged.is_empty());
        assert_eq!(losses(&house.killed(&disk).1, 9), vec![2; 9]);
    }
    assert!(before > 0 && after > 0 && staged > 0, "{before}, {after}, {staged} in between");
}

#[test]
fn one_bad_nack_of_a_transaction_asks_nobody_and_it_goes_on() {
    let (mut house, disk) = House::new();
    let mut bad = batch(0, &[1, 2]);
    bad.nacks[1] = nack(Named::Unreadable);
    let ended = Arc::default();
    let waits = [Goes::Waits, Goes::Waits];
    let refused = house.try_end(bad, &waits, &ended).unwrap();
    assert!(matches!(refused, Err(EngineError::BadNacks(_))), "{refused:?}");
    assert_eq!((house.asked(), ended.load(Ordering::Relaxed)), (0, 0));
    let (mut house, windows) = house.killed(&disk);
    assert_eq!(windows, Windows::new());
    assert!(house.try_end(batch(0, &[1, 2]), &waits, &ended).unwrap().is_ok(), "it went on");
}
