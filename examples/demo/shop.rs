//! The application: an ordinary Kafka consumer with one topic more in its subscription.
//!
//! A failed record is produced to `reprise.retry.shop` and comes back later through the same consumer.

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use reprise::clock::Clock;
use tokio::sync::mpsc::UnboundedSender;

use crate::tally::{DeadLetter, Delivery, Event};

/// Orders placed.
pub(crate) const ORDERS: u32 = 20;
/// What the handler never manages.
const NEVER: [(u32, &str); 3] =
    [(4, "card declined"), (11, "address unknown"), (17, "out of stock")];
/// What it manages at the third try.
const THIRD_TRY: [u32; 2] = [7, 14];
const CUSTOMERS: [&str; 4] = ["ann", "bob", "cleo", "dan"];

/// Places the orders.
pub(crate) async fn order(kafka: String, events: UnboundedSender<Event>) -> Result<(), KafkaError> {
    let producer: FutureProducer = client(&kafka).create()?;
    for (number, customer) in (1..=ORDERS).zip(CUSTOMERS.iter().cycle()) {
        let key = format!("order-{number}");
        let value = format!("{{\"order\":{number},\"for\":\"{customer}\"}}");
        let record = FutureRecord::to("orders").key(&key).payload(&value);
        producer.send(record, Timeout::Never).await.map_err(|(error, _)| error)?;
        let _ = events.send(Event::Produced { order: number });
    }
    Ok(())
}

/// Works them off, failed ones again and again.
pub(crate) async fn work(
    kafka: String,
    events: UnboundedSender<Event>,
    clock: Clock,
) -> Result<(), KafkaError> {
    let producer: FutureProducer = client(&kafka).create()?;
    let consumer: StreamConsumer = group(&kafka, "shop").create()?;
    consumer.subscribe(&["orders", "reprise.retry.shop"])?;
    loop {
        let record = consumer.recv().await?;
        let at_ms = clock.now().wall.0;
        let attempt = header(&record, "x-retry-attempt").map_or(1, |text| number(&text));
        let failed = handle(order_of(&record), attempt).err();
        if let Some(reason) = failed {
            retry_later(&producer, &record, reason).await?;
        }
        consumer.commit_message(&record, CommitMode::Sync)?;
        let due_ms = header(&record, "x-retry-due-ms").and_then(|text| text.parse().ok());
        let order = order_of(&record);
        let _ = events.send(Event::Delivered(Delivery { order, attempt, at_ms, due_ms, failed }));
    }
}

/// The business of the shop.
fn handle(order: u32, attempt: u32) -> Result<(), &'static str> {
    if let Some((_, reason)) = NEVER.iter().find(|(never, _)| *never == order) {
        return Err(reason);
    }
    if THIRD_TRY.contains(&order) && attempt < 3 {
        return Err("warehouse busy");
    }
    Ok(())
}

/// Says that this record failed. Once it returns, the record is safe and may be committed.
async fn retry_later(
    producer: &FutureProducer,
    record: &BorrowedMessage<'_>,
    reason: &str,
) -> Result<(), KafkaError> {
    let origin = format!("{}-{}@{}", record.topic(), record.partition(), record.offset());
    let headers = record.headers().map_or_else(OwnedHeaders::new, BorrowedHeaders::detach);
    let headers = headers
        .insert(Header { key: "x-retry-origin", value: Some(&origin) })
        .insert(Header { key: "x-retry-reason", value: Some(reason) });
    let mut failed = FutureRecord::<[u8], [u8]>::to("reprise.retry.shop").headers(headers);
    failed.key = record.key();
    failed.payload = record.payload();
    producer.send(failed, Timeout::Never).await.map_err(|(error, _)| error)?;
    Ok(())
}

/// Someone else looks after the dead letters: any Kafka client can.
pub(crate) async fn read_dead_letters(
    kafka: String,
    events: UnboundedSender<Event>,
) -> Result<(), KafkaError> {
    let consumer: StreamConsumer = group(&kafka, "support").create()?;
    consumer.subscribe(&["reprise.dlq.shop"])?;
    loop {
        let record = consumer.recv().await?;
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let headers = record.headers().into_iter().flat_map(Headers::iter);
        let _ = events.send(Event::DeadLetter(DeadLetter {
            order: order_of(&record),
            value: text(record.payload()),
            headers: headers.map(|h| (h.key.to_owned(), text(h.value))).collect(),
        }));
    }
}

fn client(kafka: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka).set("linger.ms", "0");
    config
}

fn group(kafka: &str, group: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", kafka)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest");
    config
}

/// The order a record is about: the number in its key.
fn order_of(record: &BorrowedMessage<'_>) -> u32 {
    let key = String::from_utf8_lossy(record.key().unwrap_or_default());
    key.strip_prefix("order-").map_or(0, number)
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or(0)
}

fn header(record: &BorrowedMessage<'_>, name: &str) -> Option<String> {
    let found = record.headers()?.iter().find(|header| header.key == name)?;
    Some(String::from_utf8_lossy(found.value?).into_owned())
}
