//! The librdkafka client of tests/clients: runs commands from stdin, one a line, and prints JSON
//! lines. Arguments, commands and lines: tests/clients/harness/rig/client.rs.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test client stops at a surprise and speaks on stdout"
)]

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use reprise::clock::Clock;
use serde_json::{Value, json};

/// Longest wait of one flush, and of one step of a transaction.
const FLUSH_MAX: Duration = Duration::from_secs(50);

struct Listener;

impl ClientContext for Listener {}

impl ConsumerContext for Listener {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let (event, partitions) = match rebalance {
            Rebalance::Assign(list) => ("assigned", list),
            Rebalance::Revoke(list) => ("revoked", list),
            Rebalance::Error(error) => return println!("{}", failed("rebalance", error)),
        };
        let elements = partitions.elements();
        let name = |at: &TopicPartitionListElem<'_>| format!("{}-{}", at.topic(), at.partition());
        let names: Vec<String> = elements.iter().map(name).collect();
        println!("{}", json!({ "event": event, "partitions": names }));
    }
}

struct Client {
    bootstrap: String,
    group: String,
    /// Settings `KEY=VALUE`; the prefix `consumer.` or `producer.` limits one to that side.
    settings: Vec<String>,
    clock: Clock,
    consumer: BaseConsumer<Listener>,
    /// One producer for each codec.
    producers: BTreeMap<String, FutureProducer>,
    /// Received records by topic-partition@offset, for nacks.
    received: BTreeMap<String, OwnedMessage>,
    sent: Vec<(String, DeliveryFuture)>,
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut client = Client::start((&args[1], &args[2]), &args[3], &args[4], &args[5..]);
    println!("{}", json!({ "event": "ready" }));
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match client.run(&words).await {
            Ok(()) => println!("{}", json!({ "event": "done", "command": words[0] })),
            Err(error) => println!("{}", failed(words[0], &error)),
        }
        if words[0] == "close" {
            return;
        }
    }
}

impl Client {
    fn start(
        (bootstrap, group): (&str, &str),
        session_ms: &str,
        protocol: &str,
        settings: &[String],
    ) -> Self {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", bootstrap)
            .set("group.id", group)
            .set("group.protocol", protocol)
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest");
        if protocol == "classic" {
            config.set("session.timeout.ms", session_ms).set("heartbeat.interval.ms", "500");
        }
        set(&mut config, settings, "consumer.", "producer.");
        let consumer = config.create_with_context(Listener).unwrap();
        Self {
            bootstrap: bootstrap.to_owned(),
            group: group.to_owned(),
            settings: settings.to_vec(),
            clock: Clock::start(),
            consumer,
            producers: BTreeMap::new(),
            received: BTreeMap::new(),
            sent: Vec::new(),
        }
    }

    async fn run(&mut self, words: &[&str]) -> Result<(), KafkaError> {
        match words[0] {
            "subscribe" => {
                self.consumer.subscribe(&words[1].split(',').collect::<Vec<&str>>())?;
            }
            "poll" => self.poll(Duration::from_millis(words[1].parse().unwrap())),
            "produce" => self.produce(words),
            "nack" => self.nack(words),
            "flush" => self.flush().await,
            "commit" if words.len() > 1 => {
                let mut offsets = TopicPartitionList::new();
                for at in words[1..].chunks(3) {
                    let offset = Offset::Offset(at[2].parse().unwrap());
                    offsets.add_partition_offset(at[0], at[1].parse().unwrap(), offset)?;
                }
                self.consumer.commit(&offsets, CommitMode::Sync)?;
            }
            "commit" => self.consumer.commit_consumer_state(CommitMode::Sync)?,
            "mark" => {
                let mut offsets = TopicPartitionList::new();
                let mut at = offsets.add_partition(words[1], words[2].parse().unwrap());
                at.set_offset(Offset::Offset(words[3].parse().unwrap()))?;
                let metadata = unhex(words.get(4).copied().unwrap_or_default());
                at.set_metadata(String::from_utf8(metadata).unwrap());
                self.consumer.commit(&offsets, CommitMode::Sync)?;
            }
            "seek" => {
                let offset = Offset::Offset(words[3].parse().unwrap());
                self.consumer.seek(words[1], words[2].parse().unwrap(), offset, FLUSH_MAX)?;
            }
            "begin" => self.producer("none").begin_transaction()?,
            "offsets" => {
                let (producer, consumer) = (self.producer("none"), &self.consumer);
                let group = consumer.group_metadata().unwrap();
                producer.send_offsets_to_transaction(&consumer.position()?, &group, FLUSH_MAX)?;
            }
            "end" if words[1] == "commit" => self.producer("none").commit_transaction(FLUSH_MAX)?,
            "end" => self.producer("none").abort_transaction(FLUSH_MAX)?,
            "close" => self.leave()?,
            other => panic!("no such command: {other}"),
        }
        Ok(())
    }

    /// Subscribes anew after an OffsetFetch that `NOT_COORDINATOR` refused: librdkafka does not ask
    /// again, and never fetches the partitions (confluentinc/librdkafka#5586).
    fn recover(&self, error: &KafkaError) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::NotCoordinator) {
            let subscription = self.consumer.subscription().unwrap();
            let topics = subscription.elements();
            let topics: Vec<&str> = topics.iter().map(TopicPartitionListElem::topic).collect();
            self.consumer.unsubscribe();
            self.consumer.subscribe(&topics).unwrap();
        }
    }

    /// Prints the first record within `wait`, and all records that are ready after it.
    fn poll(&mut self, mut wait: Duration) {
        while let Some(polled) = self.consumer.poll(wait) {
            match polled {
                Ok(record) => {
                    let record = record.detach();
                    println!("{}", shown(&record, self.clock.now().wall.0));
                    self.received.insert(place(&record), record);
                    wait = Duration::ZERO;
                }
                Err(error) => {
                    println!("{}", failed("poll", &error));
                    self.recover(&error);
                }
            }
        }
    }

    /// produce TAG CODEC TOPIC PARTITION KEY VALUE [HEADER=VALUE]…
    fn produce(&mut self, words: &[&str]) {
        let headers = with_headers(OwnedHeaders::new(), &words[7..]);
        let (key, value) = (unhex(words[5]), unhex(words[6]));
        let record = FutureRecord::to(words[3]).partition(words[4].parse().unwrap());
        let record = record.key(&key).payload(&value).headers(headers);
        let delivery = self.producer(words[2]).send_result(record).map_err(|(e, _)| e).unwrap();
        self.sent.push((words[1].to_owned(), delivery));
    }

    /// nack TAG CODEC ORIGIN value|reference [HEADER=VALUE]…
    fn nack(&mut self, words: &[&str]) {
        let failed = self.received[words[3]].clone();
        let reason = format!("because {}", words[1]);
        let by_value = words[4] == "value";
        let copied = failed.headers().filter(|_| by_value).cloned();
        let mut headers = copied.unwrap_or_else(OwnedHeaders::new);
        if !by_value {
            headers = headers.insert(Header { key: "x-retry-by-reference", value: Some("true") });
        }
        headers = headers
            .insert(Header { key: "x-retry-origin", value: Some(words[3]) })
            .insert(Header { key: "x-retry-reason", value: Some(&reason) });
        headers = with_headers(headers, &words[5..]);
        // A retry stays in its own topic.
        let topic = match words[3].rsplit_once('-').unwrap().0 {
            retry if retry.starts_with("reprise.retry.") => retry.to_owned(),
            topic => format!("reprise.retry.{}--{topic}", self.group),
        };
        let mut record = FutureRecord::<[u8], [u8]>::to(&topic).headers(headers);
        if by_value {
            record.key = failed.key();
            record.payload = failed.payload();
            record.timestamp = failed.timestamp().to_millis();
        }
        let delivery = self.producer(words[2]).send_result(record).map_err(|(e, _)| e).unwrap();
        self.sent.push((words[1].to_owned(), delivery));
    }

    /// Leaves the group before the consumer closes. A rebalance during the close may wait for ever
    /// for a callback that has ended (confluentinc/librdkafka#4884). A static member just closes,
    /// which is no leave: its assignment does not change.
    fn leave(&self) -> Result<(), KafkaError> {
        if self.settings.iter().any(|setting| setting.starts_with("consumer.group.instance.id=")) {
            return Ok(());
        }
        self.consumer.unsubscribe();
        let clock = Clock::start();
        while self.consumer.assignment()?.count() > 0 {
            assert!(clock.elapsed() < FLUSH_MAX, "what it has is not taken back");
            let _ = self.consumer.poll(Duration::from_millis(50));
        }
        Ok(())
    }

    async fn flush(&mut self) {
        for producer in self.producers.values() {
            producer.flush(FLUSH_MAX).unwrap();
        }
        for (tag, delivery) in std::mem::take(&mut self.sent) {
            let line = match delivery.await.unwrap() {
                Ok(at) => json!({
                    "event": "sent",
                    "tag": tag,
                    "partition": at.partition,
                    "offset": at.offset,
                    "timestamp": at.timestamp.to_millis(),
                }),
                Err((error, _)) => {
                    json!({ "event": "refused", "tag": tag, "error": error.to_string() })
                }
            };
            println!("{line}");
        }
    }

    fn producer(&mut self, codec: &str) -> FutureProducer {
        let make = || {
            let mut config = ClientConfig::new();
            config
                .set("bootstrap.servers", &self.bootstrap)
                .set("compression.type", codec)
                .set("enable.idempotence", "true")
                .set("linger.ms", "50");
            set(&mut config, &self.settings, "producer.", "consumer.");
            let producer: FutureProducer = config.create().unwrap();
            if config.get("transactional.id").is_some() {
                producer.init_transactions(FLUSH_MAX).unwrap();
            }
            producer
        };
        self.producers.entry(codec.to_owned()).or_insert_with(make).clone()
    }
}

/// Applies the settings of one side, and those of both.
fn set(config: &mut ClientConfig, settings: &[String], own: &str, others: &str) {
    for setting in settings.iter().filter(|setting| !setting.starts_with(others)) {
        let (key, value) = setting.split_once('=').unwrap();
        config.set(key.strip_prefix(own).unwrap_or(key), value);
    }
}

fn with_headers(headers: OwnedHeaders, words: &[&str]) -> OwnedHeaders {
    words.iter().fold(headers, |headers, word| {
        let (key, value) = word.split_once('=').unwrap();
        headers.insert(Header { key, value: Some(&unhex(value)) })
    })
}

fn shown(record: &OwnedMessage, at_ms: i64) -> Value {
    let headers = record.headers().map(Headers::iter).into_iter().flatten();
    let headers: Vec<Value> =
        headers.map(|header| json!([header.key, header.value.map(hex)])).collect();
    json!({
        "event": "record",
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "key": record.key().map(hex),
        "value": record.payload().map(hex),
        "timestamp": record.timestamp().to_millis(),
        "at": at_ms,
        "headers": headers,
    })
}

fn place(record: &OwnedMessage) -> String {
    format!("{}-{}@{}", record.topic(), record.partition(), record.offset())
}

fn failed(command: &str, error: &KafkaError) -> Value {
    json!({ "event": "failed", "command": command, "error": error.to_string() })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}
