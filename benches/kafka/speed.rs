//! Throughput of 1 KiB records through librdkafka: produced with acks all, then consumed.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use reprise::clock::Clock;

use crate::broker::{Broker, PARTITIONS};
use crate::sheet::{Goal, median};
use crate::tell;

const ROUNDS: usize = 5;
const RECORDS: usize = 200_000;
const VALUE: [u8; 1 << 10] = [b'x'; 1 << 10];
const PATIENCE: Duration = Duration::from_mins(1);

/// MB/s of one window, and the broker's CPU seconds per GB.
#[derive(Clone, Copy)]
struct Window {
    megabytes_per_s: f64,
    cpu_per_gb: f64,
}

/// Measures and prints.
pub(crate) fn run(brokers: &[Broker; 3]) {
    let (mut produced, mut consumed) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let topic = format!("speed-{round}");
        let windows = [0, 1, 2].map(|broker: usize| {
            let broker = &brokers[broker];
            (
                window(broker, || produce(broker, &topic, RECORDS)),
                window(broker, || consume(broker, &topic)),
            )
        });
        // The first round warms up.
        if round > 0 {
            produced.push(windows.map(|(window, _)| window));
            consumed.push(windows.map(|(_, window)| window));
        }
    }
    for (metrics, windows) in [
        (["kafka_produce", "kafka_produce_fsync", "kafka_produce_cpu"], produced),
        (["kafka_consume", "kafka_consume_fsync", "kafka_consume_cpu"], consumed),
    ] {
        let of = |n: usize, what: fn(&Window) -> f64| {
            median(windows.iter().map(|window| what(&window[n])).collect())
        };
        let speed = |n| of(n, |window| window.megabytes_per_s);
        let cost = |n| of(n, |window| window.cpu_per_gb);
        tell(metrics[0], speed(1), "MB/s", Some(speed(0)), Goal::Least(speed(0)));
        tell(metrics[1], speed(2), "MB/s", Some(speed(0)), Goal::None);
        tell(metrics[2], cost(1), "CPU s/GB", Some(cost(0)), Goal::None);
    }
}

fn window(broker: &Broker, work: impl FnOnce()) -> Window {
    let (clock, before) = (Clock::start(), broker.cpu_s());
    work();
    let (seconds, cpu_s) = (clock.elapsed().as_secs_f64(), broker.cpu_s() - before);
    let records = u32::try_from(RECORDS).unwrap();
    let bytes = f64::from(records) * 1024.0;
    Window { megabytes_per_s: bytes / 1e6 / seconds, cpu_per_gb: cpu_s / (bytes / 1e9) }
}

fn client(broker: &Broker) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.addr.to_string());
    config
}

/// Produces `records` records; the broker creates a missing topic.
pub(crate) fn produce(broker: &Broker, topic: &str, records: usize) {
    let producer: BaseProducer = client(broker).set("acks", "all").create().unwrap();
    for _ in 0..records {
        let mut record = BaseRecord::<(), _>::to(topic).payload(&VALUE[..]);
        while let Err((error, again)) = producer.send(record) {
            let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            assert_eq!(error, full);
            producer.poll(Duration::from_millis(1));
            record = again;
        }
    }
    producer.flush(PATIENCE).unwrap();
}

fn consume(broker: &Broker, topic: &str) {
    let consumer: BaseConsumer = client(broker)
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    let mut all = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        all.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&all).unwrap();
    for _ in 0..RECORDS {
        consumer.poll(PATIENCE).unwrap().unwrap();
    }
}
