//! Partitions nobody fails on: records are produced at a steady rate, each by itself, and consumed
//! by a long poll; each takes so long from when it was to be sent.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use reprise::clock::Clock;

use crate::batch::{Rec, plain, unpack};
use crate::wire::Wire;

pub(crate) const TOPIC: &str = "healthy";
pub(crate) const PARTITIONS: u32 = 3;
/// Between two records of one partition.
const EVERY: Duration = Duration::from_millis(6);

/// Milliseconds of each record, from when it was to be sent until it was there.
pub(crate) fn run(addr: SocketAddr, length: Duration) -> Vec<f64> {
    thread::scope(|scope| {
        let of = |partition| scope.spawn(move || partition_took(addr, partition, length));
        let threads: Vec<_> = (0..PARTITIONS).map(of).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

fn partition_took(addr: SocketAddr, partition: u32, length: Duration) -> Vec<f64> {
    let partition = i32::try_from(partition).unwrap();
    let clock = Clock::start();
    let mut consumer = Wire::connect(addr);
    let mut offset = consumer.fetch(TOPIC, partition, 0, 0).high_watermark;
    let first = offset;
    let Wire { out: mut asking, back: mut answers } = Wire::connect(addr);
    let count = u32::try_from(length.as_micros() / EVERY.as_micros()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..count {
                thread::sleep((EVERY * n).saturating_sub(clock.elapsed()));
                let record = Rec::new(&(EVERY * n).as_micros().to_string());
                asking.produce(TOPIC, partition, plain(&[record]));
            }
        });
        scope.spawn(|| (0..count).for_each(|_| answers.produced()));
        let mut took = Vec::new();
        while offset < first + i64::from(count) {
            let data = consumer.fetch(TOPIC, partition, offset, 500);
            let now = clock.elapsed().as_secs_f64() * 1e3;
            for got in unpack(&data.records.unwrap_or_default()) {
                took.push(now - got.text().parse::<f64>().unwrap() / 1e3);
                offset = got.offset + 1;
            }
        }
        took
    })
}
