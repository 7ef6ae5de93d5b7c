//! Latency of partitions without failures.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::flow::Flow;

pub(crate) const TOPIC: &str = "healthy";
pub(crate) const PARTITIONS: i32 = 3;
/// Interval between two records of one partition.
const EVERY: Duration = Duration::from_millis(6);

/// Milliseconds of each record, from its scheduled send until it was consumed.
pub(crate) fn run(addr: SocketAddr, length: Duration) -> Vec<f64> {
    thread::scope(|scope| {
        let flow = |partition| Flow { topic: TOPIC, partition, every: EVERY, value_bytes: 0 };
        let of = |partition| scope.spawn(move || flow(partition).run(addr, length));
        let threads: Vec<_> = (0..PARTITIONS).map(of).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}
