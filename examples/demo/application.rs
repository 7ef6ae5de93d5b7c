//! The demo's application: an ordinary Kafka consumer with one more topic in its subscription.
//!
//! A failed record is produced to `reprise.retry.shop--orders` and comes back later through the
//! same consumer.

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use reprise::clock::Clock;
use reprise::demo::shop::{
    DEAD_LETTERS, GROUP, RETRY_TOPIC, TOPIC, handle, order_of as order_in, orders,
};
use reprise::demo::{Delivery, DemoError, DemoEvent, DemoTasks, ShopDeadLetter};
use tokio::sync::mpsc::UnboundedSender;

/// Spawns the producer, the shop and the reader of dead letters.
pub(crate) fn begin(
    parts: &mut DemoTasks,
    kafka: String,
    events: UnboundedSender<DemoEvent>,
    clock: Clock,
) {
    let failed = |error: KafkaError| DemoError::Application(error.to_string());
    let (work, letters) = (work(kafka.clone(), events.clone(), clock), events.clone());
    let letters = read_dead_letters(kafka.clone(), letters);
    parts.spawn(async move { work.await.map_err(failed) });
    parts.spawn(async move { letters.await.map_err(failed) });
    parts.spawn(async move { order(kafka, events).await.map_err(failed) });
}

/// Produces the orders.
pub(crate) async fn order(
    kafka: String,
    events: UnboundedSender<DemoEvent>,
) -> Result<(), KafkaError> {
    let producer: FutureProducer = client(&kafka).create()?;
    for (number, key, value) in orders() {
        let record = FutureRecord::to(TOPIC).key(&key).payload(&value);
        producer.send(record, Timeout::Never).await.map_err(|(error, _)| error)?;
        let _ = events.send(DemoEvent::Produced { order: number });
    }
    Ok(())
}

/// Handles orders and failed orders until the demo ends.
pub(crate) async fn work(
    kafka: String,
    events: UnboundedSender<DemoEvent>,
    clock: Clock,
) -> Result<(), KafkaError> {
    let producer: FutureProducer = client(&kafka).create()?;
    let consumer: StreamConsumer = group(&kafka, GROUP).create()?;
    consumer.subscribe(&[TOPIC, RETRY_TOPIC])?;
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
        let _ =
            events.send(DemoEvent::Delivered(Delivery { order, attempt, at_ms, due_ms, failed }));
    }
}

/// Produces a failed record to the retry topic; afterwards it may be committed.
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
    let mut failed = FutureRecord::<[u8], [u8]>::to(RETRY_TOPIC).headers(headers);
    failed.key = record.key();
    failed.payload = record.payload();
    producer.send(failed, Timeout::Never).await.map_err(|(error, _)| error)?;
    Ok(())
}

/// Reads the dead letters, as any Kafka client can.
pub(crate) async fn read_dead_letters(
    kafka: String,
    events: UnboundedSender<DemoEvent>,
) -> Result<(), KafkaError> {
    let consumer: StreamConsumer = group(&kafka, "support").create()?;
    consumer.subscribe(&[DEAD_LETTERS])?;
    loop {
        let record = consumer.recv().await?;
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let headers = record.headers().into_iter().flat_map(Headers::iter);
        let _ = events.send(DemoEvent::DeadLetter(ShopDeadLetter {
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

/// The order that the record's key names.
fn order_of(record: &BorrowedMessage<'_>) -> u32 {
    order_in(record.key().unwrap_or_default())
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or(0)
}

fn header(record: &BorrowedMessage<'_>, name: &str) -> Option<String> {
    let found = record.headers()?.iter().find(|header| header.key == name)?;
    Some(String::from_utf8_lossy(found.value?).into_owned())
}
