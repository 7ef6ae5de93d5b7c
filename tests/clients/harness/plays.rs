//! Healthy consumers that failure detection could harm, with librdkafka. Detection once slowed each
//! of these applications to a record a second, or made a dead letter.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, Timestamp, TopicPartitionList};
use reprise::clock::Clock;

use crate::rig::cluster::Admin;
use crate::rig::scene::Scene;
use crate::rig::sidecar::{CONSUMER_SESSION, PARTITIONS, Sidecar};
use crate::rig::stage::empty_dir;
use crate::rig::wait::until;

const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(100);
/// `isolation_timeout` exceeds the duration of every test, so that none depends on it.
const RULES: &str = "retry: {isolation_timeout: 2m}\n";

struct Play {
    sidecar: Sidecar,
    scene: Scene,
}

/// Position and time of a received record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delivery {
    partition: i32,
    offset: i64,
    produced_ms: i64,
}

impl Play {
    fn new(name: &str) -> Self {
        Self::by_rules(name, RULES)
    }

    fn by_rules(name: &str, rules: &str) -> Self {
        let sidecar = Sidecar::by_rules(&empty_dir("plays", name), None, CONSUMER_SESSION, rules);
        let scene = Scene::new();
        Admin::at(&sidecar.address()).make_topic(&scene.topic, PARTITIONS);
        Self { sidecar, scene }
    }

    fn config(&self, group: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.sidecar.address())
            .set("group.id", group)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false");
        config
    }

    fn consumer(&self, group: &str) -> BaseConsumer {
        let consumer: BaseConsumer = self.config(group).create().unwrap();
        consumer.subscribe(&[&self.scene.topic]).unwrap();
        consumer
    }

    /// Produces `each` records in each of the first `partitions` partitions.
    fn produce(&self, each: usize, partitions: i32) {
        let producer: BaseProducer = self.config("none").create().unwrap();
        for n in 0..each {
            for partition in 0..partitions {
                let record = BaseRecord::<str, str>::to(&self.scene.topic).payload("order");
                producer.send(record.partition(partition)).unwrap();
            }
            if n % 1_000 == 999 {
                producer.flush(PATIENCE).unwrap();
            }
        }
        producer.flush(PATIENCE).unwrap();
    }

    fn explained(&self, group: &str) -> serde_json::Value {
        self.sidecar.json(&format!("/api/v1/explain?group={group}"))
    }

    fn seek_backs(&self) -> u64 {
        let group = &self.scene.group;
        self.sidecar.metric(&format!("reprise_seek_backs_total{{group=\"{group}\"}}"))
    }

    fn assert_no_dead_letter(&self) {
        let letters = self.sidecar.letters(&self.scene.group);
        assert!(letters.is_empty(), "{letters:?}");
    }
}

/// Returns the next record; fails if none comes.
fn next_record(consumer: &BaseConsumer) -> Delivery {
    let mut next = None;
    until(PATIENCE, "a record comes", || {
        let Some(record) = consumer.poll(POLL) else { return false };
        let record = record.unwrap();
        let (partition, offset) = (record.partition(), record.offset());
        let produced_ms = match record.timestamp() {
            Timestamp::CreateTime(at) | Timestamp::LogAppendTime(at) => at,
            Timestamp::NotAvailable => 0,
        };
        next = Some(Delivery { partition, offset, produced_ms });
        true
    });
    next.unwrap()
}

fn seek(play: &Play, consumer: &BaseConsumer, to: Delivery) {
    let (topic, offset) = (&play.scene.topic, Offset::Offset(to.offset));
    consumer.seek(topic, to.partition, offset, PATIENCE).unwrap();
}

fn commit(play: &Play, consumer: &BaseConsumer, done: Delivery) {
    let (topic, next) = (&play.scene.topic, Offset::Offset(done.offset + 1));
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic, done.partition, next).unwrap();
    consumer.commit(&offsets, CommitMode::Sync).unwrap();
}

/// Reads that many records without commits of its own; returns the time from the first record on.
fn read(consumer: &BaseConsumer, records: usize) -> Duration {
    next_record(consumer);
    let clock = Clock::start();
    for _ in 1..records {
        next_record(consumer);
    }
    clock.elapsed()
}

/// Reads that many records in batches with a commit after each; returns the time from the first
/// record on.
fn read_all(consumer: &BaseConsumer, records: usize) -> Duration {
    const BATCH: usize = 500;
    next_record(consumer);
    let (clock, mut read) = (Clock::start(), 1);
    while read < records {
        assert!(clock.elapsed() < PATIENCE, "{read} of {records} after {PATIENCE:?}");
        let batch = std::iter::from_fn(|| consumer.poll(POLL)).take(BATCH).map(Result::unwrap);
        let count = batch.count();
        read += count;
        if count > 0 {
            consumer.commit_consumer_state(CommitMode::Sync).unwrap();
        }
    }
    clock.elapsed()
}

#[test]
fn a_consumer_that_recovers_gets_everything_at_once() {
    const EACH: usize = 5_000;
    let play = Play::new("recovers");
    play.produce(EACH, PARTITIONS);
    let records = EACH * usize::try_from(PARTITIONS).unwrap();
    let group = play.scene.group.as_str();
    // The group has committed before.
    let before = play.consumer(group);
    for _ in 0..PARTITIONS {
        next_record(&before);
    }
    before.commit_consumer_state(CommitMode::Sync).unwrap();
    drop(before);
    for losses in 1..=4 {
        let ends = play.consumer(group);
        next_record(&ends);
        drop(ends);
        until(PATIENCE, "its end is counted", || {
            let told = play.explained(group);
            let sets = told["suspects"].as_array().cloned().unwrap_or_default();
            sets.iter().any(|set| set["losses"].as_u64() >= Some(losses))
        });
    }
    let committed = usize::try_from(PARTITIONS).unwrap();
    let took = read_all(&play.consumer(group), records - committed);
    let other = play.scene.other_group("undisturbed");
    let undisturbed = read_all(&play.consumer(&other), records);
    let (took_s, undisturbed_s) = (took.as_secs_f64(), undisturbed.as_secs_f64());
    eprintln!(
        "measured: {records} records after four lost deliveries in {took_s:.2} s, {:.2} times as \
         long as without",
        took_s / undisturbed_s
    );
    play.assert_no_dead_letter();
}

#[test]
fn an_outage_of_everything_makes_no_dead_letter() {
    const EACH: usize = 5_000;
    let rules = "retry: {isolation_timeout: 1s}\n";
    let play = Play::by_rules("outage", rules);
    play.produce(EACH, PARTITIONS);
    let records = EACH * usize::try_from(PARTITIONS).unwrap();
    let group = play.scene.group.as_str();
    let auto = |group: &str| {
        let mut config = play.config(group);
        config.set("enable.auto.commit", "true").set("auto.commit.interval.ms", "1000");
        let consumer: BaseConsumer = config.create().unwrap();
        consumer.subscribe(&[&play.scene.topic]).unwrap();
        consumer
    };
    let before = play.consumer(group);
    let done = next_record(&before);
    commit(&play, &before, done);
    drop(before);
    // Every record ends its consumer before the client commits.
    for _ in 0..10 {
        next_record(&play.consumer(group));
    }
    let recovered = auto(group);
    let after = read(&recovered, records - 1).as_secs_f64();
    until(PATIENCE, "nothing is suspected any more", || {
        recovered.poll(POLL);
        play.explained(group)["suspects"] == serde_json::json!([])
    });
    let other = auto(&play.scene.other_group("undisturbed"));
    read(&other, records);
    play.produce(EACH, PARTITIONS);
    let ratio = read(&other, records).as_secs_f64() / read(&recovered, records).as_secs_f64();
    eprintln!(
        "measured: {records} records in {after:.1} s after an outage of ten restarts, then \
         {ratio:.2} of undisturbed throughput"
    );
    play.assert_no_dead_letter();
}

#[test]
fn a_loader_that_never_commits_gets_everything_at_each_start() {
    let play = Play::new("loader");
    play.produce(50, PARTITIONS);
    let records = 50 * usize::try_from(PARTITIONS).unwrap();
    for _ in 0..12 {
        let loader = play.consumer(&play.scene.group);
        for _ in 0..records {
            next_record(&loader);
        }
    }
    play.assert_no_dead_letter();
}

#[test]
fn a_delay_queue_handles_each_record_when_it_is_due() {
    const DELAY_MS: i64 = 10_000;
    let play = Play::new("delay-queue");
    play.produce(3, 1);
    let consumer = play.consumer(&play.scene.group);
    let now_ms = || Clock::start().now().wall.0;
    // The group has committed before.
    next_record(&consumer);
    let nothing = Delivery { partition: 0, offset: -1, produced_ms: 0 };
    commit(&play, &consumer, nothing);
    drop(consumer);
    let consumer = play.consumer(&play.scene.group);
    let mut handled = Vec::new();
    while handled.len() < 3 {
        let record = next_record(&consumer);
        if now_ms() < record.produced_ms + DELAY_MS {
            seek(&play, &consumer, record);
            // Pause of the delay queue between two attempts.
            std::thread::sleep(Duration::from_millis(300));
            continue;
        }
        handled.push(record.offset);
        commit(&play, &consumer, record);
    }
    assert_eq!(handled, [0, 1, 2], "each of them once");
    assert!(play.seek_backs() > 3, "{}", play.seek_backs());
    play.assert_no_dead_letter();
}

#[test]
fn a_first_record_that_is_sought_back_stays_first() {
    let play = Play::new("first-record");
    play.produce(2, PARTITIONS);
    let consumer = play.consumer(&play.scene.group);
    let first = next_record(&consumer);
    assert_eq!(first.offset, 0);
    for _ in 0..12 {
        seek(&play, &consumer, first);
        let mut again = next_record(&consumer);
        while again.partition != first.partition {
            again = next_record(&consumer);
        }
        assert_eq!(again, first, "as on Kafka");
    }
    until(PATIENCE, "its returns are counted", || play.seek_backs() >= 3);
    assert_eq!(play.explained(&play.scene.group)["suspects"], serde_json::json!([]));
    play.assert_no_dead_letter();
}
