//! Records at a steady rate to one partition, consumed by a long poll. Each is produced by itself,
//! independent of the latency of the answers.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use reprise::clock::Clock;

use crate::batch::{Rec, plain, unpack};
use crate::wire::Wire;

/// One partition and the rate and size of its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) topic: &'static str,
    pub(crate) partition: i32,
    /// Interval between two records.
    pub(crate) every: Duration,
    /// Least size of a record's value.
    pub(crate) value_bytes: usize,
}

impl Flow {
    /// Milliseconds of each record, from its scheduled send until it was consumed.
    pub(crate) fn run(self, addr: SocketAddr, length: Duration) -> Vec<f64> {
        let clock = Clock::start();
        let mut consumer = Wire::connect(addr);
        let mut offset = consumer.fetch(self.topic, self.partition, 0, 0).high_watermark;
        let Wire { out: mut asking, back: mut answers } = Wire::connect(addr);
        let count = u32::try_from(length.as_micros() / self.every.as_micros()).unwrap();
        let end = offset + i64::from(count);
        thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..count {
                    thread::sleep((self.every * n).saturating_sub(clock.elapsed()));
                    let due = (self.every * n).as_micros();
                    let record = Rec::new(&format!("{due:<width$}", width = self.value_bytes));
                    asking.produce(self.topic, self.partition, plain(&[record]));
                }
            });
            scope.spawn(move || (0..count).for_each(|_| answers.produced()));
            let mut took = Vec::new();
            while offset < end {
                let data = consumer.fetch(self.topic, self.partition, offset, 500);
                let now = clock.elapsed().as_secs_f64() * 1e3;
                for got in unpack(&data.records.unwrap_or_default()) {
                    took.push(now - got.text().trim_end().parse::<f64>().unwrap() / 1e3);
                    offset = got.offset + 1;
                }
            }
            took
        })
    }
}
