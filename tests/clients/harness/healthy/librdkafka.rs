//! A consumer of librdkafka, in a thread: `reprise.Healthy` in Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use fastrand::Rng;
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::TopicPartitionListElem as Elem;
use rdkafka::{Offset, TopicPartitionList};
use reprise::clock::Clock;

use super::consumer::{ClientEvent, Habits, Membership, Orders, Style};

/// Most tries of the commit with which a consumer leaves.
const LAST_COMMITS_MAX: u32 = 20;
const POLL: Duration = Duration::from_millis(100);
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Number of workers, each of which has one record at a time.
const WORKERS: usize = 4;

type Handled = BTreeMap<i32, i64>;

/// State that the rebalance callback shares with the loop.
struct Ledger {
    topic: String,
    style: Style,
    /// Position by partition. Every record below it is handled, since the assignment or the last
    /// seek.
    next: Mutex<Handled>,
    /// Partitions revoked since the current batch began.
    revoked: Mutex<BTreeSet<i32>>,
}

impl ClientContext for Ledger {}

impl ConsumerContext for Ledger {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let (Rebalance::Assign(list) | Rebalance::Revoke(list)) = rebalance else { return };
        let mut next = self.next.lock().unwrap();
        let of: BTreeSet<i32> = list.elements().iter().map(Elem::partition).collect();
        let (theirs, others) = next.iter().partition(|(partition, _)| of.contains(partition));
        *next = others;
        let mut revoked = self.revoked.lock().unwrap();
        if matches!(rebalance, Rebalance::Revoke(_)) {
            self.commit(consumer, &theirs, CommitMode::Sync);
            revoked.extend(of);
        } else {
            revoked.retain(|partition| !of.contains(partition));
        }
    }
}

impl Ledger {
    /// Returns false where the commit was refused. A later commit includes the records, or the next
    /// owner of the partition reads them again.
    fn commit(&self, consumer: &BaseConsumer<Self>, handled: &Handled, mode: CommitMode) -> bool {
        if self.style == Style::Auto || handled.is_empty() {
            return true;
        }
        let mut offsets = TopicPartitionList::new();
        for (partition, next) in handled {
            let next = Offset::Offset(*next);
            offsets.add_partition_offset(&self.topic, *partition, next).unwrap();
        }
        let done = consumer.commit(&offsets, mode);
        if let Err(error) = &done {
            eprintln!("{}: commit: {error}", self.topic);
        }
        done.is_ok()
    }
}

struct Healthy<'a> {
    id: u64,
    habits: Habits,
    orders: &'a Orders,
    said: &'a Sender<ClientEvent>,
    rng: Rng,
    consumer: BaseConsumer<Ledger>,
    /// Time since the last commit.
    clock: Clock,
    paused: BTreeSet<i32>,
    /// Records polled while others were handled.
    waiting: Vec<(i32, i64)>,
}

pub(super) fn live(
    id: u64,
    of: &Membership,
    habits: Habits,
    orders: &Orders,
    said: &Sender<ClientEvent>,
) {
    let ledger = Ledger {
        topic: of.topic.clone(),
        style: habits.style,
        next: Mutex::default(),
        revoked: Mutex::default(),
    };
    let consumer: BaseConsumer<Ledger> =
        config(of, habits.style).create_with_context(ledger).unwrap();
    consumer.subscribe(&[&of.topic]).unwrap();
    let (rng, clock) = (Rng::with_seed(habits.seed), Clock::start());
    let (paused, waiting) = (BTreeSet::new(), Vec::new());
    Healthy { id, habits, orders, said, rng, consumer, clock, paused, waiting }.live();
}

fn config(of: &Membership, style: Style) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &of.bootstrap)
        .set("group.id", &of.group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", (style == Style::Auto).to_string())
        .set("auto.commit.interval.ms", "700");
    if of.protocol == "consumer" {
        config.set("group.protocol", "consumer");
    } else {
        config.set("session.timeout.ms", "30000").set("heartbeat.interval.ms", "500");
        let assignor = if of.protocol == "cooperative" { "cooperative-sticky" } else { "range" };
        config.set("partition.assignment.strategy", assignor);
    }
    if let Some(instance) = &of.instance {
        config.set("group.instance.id", instance);
    }
    config
}

impl Healthy<'_> {
    fn live(mut self) {
        while !self.is_over() {
            let batch = self.batch();
            self.handle(&batch);
            if self.is_calm() {
                // Only paused partitions are resumed, because a resume drops fetches in flight.
                for partition in std::mem::take(&mut self.paused) {
                    let _ = self.consumer.resume(&self.partition(partition));
                }
            } else {
                self.fidget();
            }
        }
        // By KIP-848 a commit races with the heartbeat that brings a new epoch. No later consumer
        // may be there to read refused records again.
        let mut tries = 0;
        while !self.commit_all() && tries < LAST_COMMITS_MAX {
            tries += 1;
            let one = self.one(POLL);
            self.waiting.extend(one);
        }
        self.consumer.unsubscribe();
        // Auto-commit passes these records, so they count as handled.
        while self.consumer.assignment().is_ok_and(|assigned| assigned.count() > 0) {
            if let Some((partition, offset)) = self.one(POLL) {
                self.done(partition, offset);
            }
        }
        let (id, said) = (self.id, self.said);
        drop(self.consumer);
        let _ = said.send(ClientEvent::Ended { id });
    }

    /// Partition and offset of the next record.
    fn one(&self, wait: Duration) -> Option<(i32, i64)> {
        match self.consumer.poll(wait)? {
            Ok(record) => Some((record.partition(), record.offset())),
            Err(error) => {
                eprintln!("{}: poll: {error}", self.context().topic);
                None
            }
        }
    }

    fn batch(&mut self) -> Vec<(i32, i64)> {
        let mut batch = std::mem::take(&mut self.waiting);
        if batch.is_empty() {
            self.context().revoked.lock().unwrap().clear();
        }
        while batch.len() < self.habits.batch
            && let Some(one) = self.one(if batch.is_empty() { POLL } else { Duration::ZERO })
        {
            batch.push(one);
        }
        batch
    }

    fn handle(&mut self, batch: &[(i32, i64)]) {
        let mut of: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
        for (partition, offset) in batch {
            of.entry(*partition).or_default().push(*offset);
        }
        for (partition, offsets) in of {
            let several = if self.habits.style == Style::Pool { WORKERS } else { 1 };
            for some in offsets.chunks(several) {
                if self.is_mine(partition) && (!self.is_over() || !self.commits()) {
                    self.work(partition, some);
                }
            }
        }
        let is_calm = self.is_calm();
        let after = Duration::from_millis(if is_calm { 400 } else { 1_500 });
        let is_time = self.clock.elapsed() > after;
        match self.habits.style {
            _ if is_calm && (is_time || !batch.is_empty()) => self.commit_all(),
            Style::Batch if !batch.is_empty() => self.commit_all(),
            Style::Time if is_time => self.commit_all(),
            Style::Async if !batch.is_empty() => {
                let next = self.context().next.lock().unwrap().clone();
                self.context().commit(&self.consumer, &next, CommitMode::Async)
            }
            _ => true,
        };
    }

    /// Whether records of the partition may be handled: not after a revocation, unless auto-commit
    /// has passed them.
    fn is_mine(&self, partition: i32) -> bool {
        !self.commits() || !self.context().revoked.lock().unwrap().contains(&partition)
    }

    /// Handles records in random order, as workers finish.
    fn work(&mut self, partition: i32, offsets: &[i64]) {
        let mut done = offsets.to_vec();
        self.rng.shuffle(&mut done);
        for offset in &done {
            if !self.is_calm() {
                let ms = self.rng.u64(0..=self.habits.slow_ms);
                self.pass(Duration::from_millis(ms));
            }
            self.done(partition, *offset);
            let own = Handled::from([(partition, offset + 1)]);
            match self.habits.style {
                Style::Pool => self.context().commit(&self.consumer, &own, CommitMode::Async),
                Style::Record => self.context().commit(&self.consumer, &own, CommitMode::Sync),
                _ => true,
            };
        }
        let end = offsets.iter().max().map_or(0, |last| last + 1);
        if self.is_mine(partition) {
            self.context().next.lock().unwrap().insert(partition, end);
        }
    }

    fn pass(&mut self, time: Duration) {
        if !self.habits.is_polling {
            return std::thread::sleep(time);
        }
        let Ok(assigned) = self.consumer.assignment() else { return };
        let _ = self.consumer.pause(&assigned);
        let clock = Clock::start();
        while clock.elapsed() < time && !self.is_over() {
            let one = self.one(Duration::from_millis(20));
            self.waiting.extend(one);
        }
        let _ = self.consumer.resume(&assigned);
    }

    fn done(&self, partition: i32, offset: i64) {
        // The script of this consumer may be over.
        let _ = self.said.send(ClientEvent::Done { partition, offset });
    }

    fn commit_all(&mut self) -> bool {
        self.clock = Clock::start();
        let next = self.context().next.lock().unwrap().clone();
        self.context().commit(&self.consumer, &next, CommitMode::Sync)
    }

    fn fidget(&mut self) {
        let Ok(assigned) = self.consumer.assignment() else { return };
        let assigned: Vec<i32> = assigned.elements().iter().map(Elem::partition).collect();
        if self.rng.u32(0..1_000) < self.habits.pauses {
            self.pause(&assigned);
        }
        if self.rng.u32(0..1_000) < self.habits.seeks && !assigned.is_empty() {
            let partition = assigned[self.rng.usize(0..assigned.len())];
            self.replay(partition);
        }
    }

    /// Resumes paused partitions and pauses others, some only for a moment.
    fn pause(&mut self, assigned: &[i32]) {
        let is_for_a_moment = self.rng.bool();
        for partition in assigned {
            let one = self.partition(*partition);
            let mut resumes = self.paused.remove(partition);
            if !resumes && self.rng.bool() && self.consumer.pause(&one).is_ok() {
                self.paused.insert(*partition);
                resumes = is_for_a_moment;
            }
            if resumes && self.consumer.resume(&one).is_ok() {
                self.paused.remove(partition);
            }
        }
    }

    /// Seeks back to the committed offset, or before it.
    fn replay(&mut self, partition: i32) {
        let known = self.consumer.committed_offsets(self.partition(partition), ANSWER_MAX);
        let known = known.ok().and_then(|known| known.elements().first().map(Elem::offset));
        let back = self.rng.i64(0..20) + i64::from(self.habits.style == Style::Close);
        if let Some(Offset::Offset(committed)) = known
            && committed >= back
        {
            let (topic, to) = (&self.context().topic, Offset::Offset(committed - back));
            // The seek fails while the partition is being revoked.
            if self.consumer.seek(topic, partition, to, ANSWER_MAX).is_ok() {
                self.context().next.lock().unwrap().remove(&partition);
            }
        }
    }

    fn partition(&self, partition: i32) -> TopicPartitionList {
        let mut one = TopicPartitionList::new();
        one.add_partition(&self.context().topic, partition);
        one
    }

    fn context(&self) -> &Ledger {
        self.consumer.context()
    }

    /// Whether the application commits; otherwise the client does.
    fn commits(&self) -> bool {
        self.habits.style != Style::Auto
    }

    fn is_calm(&self) -> bool {
        self.orders.is_calm.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.orders.is_over.load(Ordering::Relaxed)
    }
}
