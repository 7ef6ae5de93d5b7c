//! The overdue retries of `drain`, drained by one librdkafka consumer, as an application would.

use std::path::Path;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use reprise::clock::Clock;

use crate::drain::{OVERDUE, heap};
use crate::sheet::{Goal, median};
use crate::{GROUP, RETRY, number, start, tell};

const ROUNDS: usize = 3;
/// Records the application handles before it commits.
const COMMIT_EVERY: usize = 500;
const PATIENCE: Duration = Duration::from_mins(1);
/// Retries a second of tuned Spring Kafka retry topics: the upper end of the figures to compare
/// with. Not measured here.
const SPRING_PER_S: f64 = 1_900.0;

/// Measures and prints.
pub(crate) fn run(dir: &Path) {
    let server = start(dir, "librdkafka", 3);
    let rate = |_| {
        heap(server.addr);
        number(OVERDUE) / drain(&server.addr.to_string())
    };
    let rate = median((0..ROUNDS).map(rate).collect());
    let goal = Goal::Least(5.0 * SPRING_PER_S);
    tell("drain_librdkafka", rate, "1/s, taken and acknowledged", Some(SPRING_PER_S), goal);
}

/// Seconds from the first record to the last commit; joining is not counted.
fn drain(addr: &str) -> f64 {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", addr)
        .set("group.id", GROUP)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .create()
        .unwrap();
    consumer.subscribe(&[RETRY]).unwrap();
    let (clock, mut began, mut taken) = (Clock::start(), None, 0);
    while taken < OVERDUE {
        assert!(clock.elapsed() < PATIENCE, "{taken} of {OVERDUE} came");
        let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
        drop(record.unwrap());
        began.get_or_insert(clock.elapsed());
        taken += 1;
        if taken % COMMIT_EVERY == 0 {
            consumer.commit_consumer_state(CommitMode::Async).unwrap();
        }
    }
    consumer.commit_consumer_state(CommitMode::Sync).unwrap();
    clock.elapsed().saturating_sub(began.unwrap()).as_secs_f64()
}
