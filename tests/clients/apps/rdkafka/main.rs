//! The recipe of docs/clients.md for Rust: BOOTSTRAP GROUP TOPIC WAY. Its handler fails on a record
//! called poison. A record's line goes to stdout.

use std::error::Error;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedHeaders, Header, Headers, Message};
use rdkafka::producer::{FutureProducer, FutureRecord};
use tokio::signal::unix::{SignalKind, signal};

/// Handles an order, or says why not.
#[expect(clippy::print_stdout, reason = "the harness reads the lines")]
fn handle(order: &impl Message) -> Result<(), String> {
    // The record's own place, where it comes from the retry topic.
    let mut headers = order.headers().into_iter().flat_map(Headers::iter);
    let origin = headers.find(|header| header.key == "ORIGIN_MESSAGE_ID");
    let origin = origin.and_then(|header| std::str::from_utf8(header.value?).ok());
    let place = origin.and_then(|origin| Some(origin.rsplit_once('-')?.1.replace('@', " ")));
    let place = place.unwrap_or_else(|| format!("{} {}", order.partition(), order.offset()));
    let key = String::from_utf8_lossy(order.key().unwrap_or_default());
    if order.payload() == Some(b"poison") {
        println!("failed {place} {key}");
        return Err("this order cannot be handled".to_owned());
    }
    println!("done {place} {key}");
    Ok(())
}

async fn run(bootstrap: &str) -> Result<(), Box<dyn Error>> {
    // begin recipe
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "shop")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("topic.metadata.refresh.interval.ms", "10000")
        .create()?;
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", bootstrap).create()?;
    consumer.subscribe(&["orders", "reprise.retry.shop--orders"])?;
    loop {
        let record = match consumer.recv().await {
            Err(KafkaError::MessageConsumption(RDKafkaErrorCode::UnknownTopicOrPartition)) => {
                continue; // nobody has made the topic yet
            }
            record => record?,
        };
        if let Err(why) = handle(&record) {
            let origin = format!("{}-{}@{}", record.topic(), record.partition(), record.offset());
            let headers = record.headers().map(BorrowedHeaders::detach).unwrap_or_default();
            let headers = headers
                .insert(Header { key: "x-retry-origin", value: Some(&origin) })
                .insert(Header { key: "x-retry-reason", value: Some(&why) });
            let to = "reprise.retry.shop--orders";
            let mut nack = FutureRecord::<[u8], [u8]>::to(to).headers(headers);
            (nack.key, nack.payload) = (record.key(), record.payload());
            nack.timestamp = record.timestamp().to_millis();
            let sent = producer.send(nack, Duration::from_secs(30)).await;
            sent.map_err(|(error, _)| error)?; // nothing is committed
        }
        consumer.commit_message(&record, CommitMode::Async)?;
    }
    // end recipe
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, ..] = &arguments[..] else {
        return Err("no bootstrap".into());
    };
    let mut ends = signal(SignalKind::terminate())?;
    tokio::select! {
        done = run(bootstrap) => done,
        _ = ends.recv() => Ok(()),
    }
}
