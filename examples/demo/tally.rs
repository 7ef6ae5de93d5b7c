//! What happened, counted from what the Kafka clients received and from nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::ladder::Ladder;
use crate::shop::ORDERS;

/// Something the application saw.
#[derive(Debug)]
pub(crate) enum Event {
    /// An order was acknowledged.
    Produced { order: u32 },
    /// A record was received, handled and committed.
    Delivered(Delivery),
    /// A record was read from `reprise.dlq.shop`.
    DeadLetter(DeadLetter),
}

/// One delivery to the shop.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) order: u32,
    /// 1-based.
    pub(crate) attempt: u32,
    /// When it was received, Unix ms.
    pub(crate) at_ms: i64,
    /// When the retry was due, Unix ms; absent on a first delivery.
    pub(crate) due_ms: Option<i64>,
    /// Why the handler failed.
    pub(crate) failed: Option<&'static str>,
}

/// One record of `reprise.dlq.shop`.
#[derive(Debug)]
pub(crate) struct DeadLetter {
    pub(crate) order: u32,
    pub(crate) value: String,
    /// In the order they came.
    pub(crate) headers: Vec<(String, String)>,
}

/// Counts of one run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    produced: BTreeSet<u32>,
    done: BTreeSet<u32>,
    recovered: BTreeSet<u32>,
    /// Deliveries of each order.
    tries: BTreeMap<u32, u32>,
    /// Received minus due of each retry, by which retry it was (1-based).
    lateness_ms: BTreeMap<u32, Vec<i64>>,
    pub(crate) dead_letters: Vec<DeadLetter>,
}

/// What `--json` prints, in this order.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    produced: u32,
    delivered: u32,
    retried: u32,
    recovered: u32,
    dead_lettered: usize,
    lost: u32,
    early: u32,
    lateness_ms_p99: i64,
    levels: Vec<Level>,
}

/// One level of the delay table.
#[derive(Debug, Serialize)]
struct Level {
    #[serde(rename = "level")]
    number: usize,
    delay_ms: u64,
    retried: usize,
    lateness_ms_p99: i64,
}

impl Delivery {
    /// Received minus due; negative = early.
    pub(crate) fn lateness_ms(&self) -> Option<i64> {
        self.due_ms.map(|due_ms| self.at_ms - due_ms)
    }
}

impl DeadLetter {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

impl Tally {
    pub(crate) fn count(&mut self, event: Event) {
        match event {
            Event::Produced { order } => drop(self.produced.insert(order)),
            Event::Delivered(delivery) => self.deliver(&delivery),
            Event::DeadLetter(letter) => self.dead_letters.push(letter),
        }
    }

    fn deliver(&mut self, delivery: &Delivery) {
        *self.tries.entry(delivery.order).or_default() += 1;
        if let Some(lateness_ms) = delivery.lateness_ms() {
            let retry = delivery.attempt.saturating_sub(1);
            self.lateness_ms.entry(retry).or_default().push(lateness_ms);
        }
        if delivery.failed.is_none() {
            self.done.insert(delivery.order);
            if delivery.due_ms.is_some() {
                self.recovered.insert(delivery.order);
            }
        }
    }

    /// Whether each order placed is done or a dead letter, and each delivery was told: a dead
    /// letter may be read before the shop says that its last try failed.
    pub(crate) fn is_settled(&self) -> bool {
        let told = |letter: &DeadLetter| {
            let tries = self.tries.get(&letter.order).copied().unwrap_or(0);
            letter.header("x-retry-attempt").parse() == Ok(tries)
        };
        self.produced() == ORDERS && self.lost() == 0 && self.dead_letters.iter().all(told)
    }

    /// Whether the story went as it should.
    pub(crate) fn is_good(&self) -> bool {
        self.produced() == ORDERS && self.lost() == 0 && self.early() == 0
    }

    pub(crate) fn produced(&self) -> u32 {
        len(self.produced.len())
    }

    pub(crate) fn delivered(&self) -> u32 {
        self.tries.values().sum()
    }

    pub(crate) fn retried(&self) -> u32 {
        len(self.all_lateness().len())
    }

    pub(crate) fn recovered(&self) -> u32 {
        len(self.recovered.len())
    }

    /// Orders placed that are neither done nor a dead letter.
    pub(crate) fn lost(&self) -> u32 {
        let dead: BTreeSet<u32> = self.dead_letters.iter().map(|letter| letter.order).collect();
        let unsettled = |order: &&u32| !self.done.contains(order) && !dead.contains(order);
        len(self.produced.iter().filter(unsettled).count())
    }

    /// Retries received before they were due.
    pub(crate) fn early(&self) -> u32 {
        len(self.all_lateness().iter().filter(|lateness_ms| **lateness_ms < 0).count())
    }

    /// Which retry (1-based), and the lateness of each, sorted.
    pub(crate) fn by_retry(&self) -> Vec<(u32, Vec<i64>)> {
        let sorted = |(retry, all): (&u32, &Vec<i64>)| {
            let mut all = all.clone();
            all.sort_unstable();
            (*retry, all)
        };
        self.lateness_ms.iter().map(sorted).collect()
    }

    /// Sorted.
    pub(crate) fn all_lateness(&self) -> Vec<i64> {
        let mut all: Vec<i64> = self.lateness_ms.values().flatten().copied().collect();
        all.sort_unstable();
        all
    }

    /// The summary of `--json`.
    pub(crate) fn summary(&self, ladder: &Ladder) -> Summary {
        let level = |(retry, late): &(u32, Vec<i64>)| {
            let (number, delay_ms) = ladder.step(*retry);
            let lateness_ms_p99 = percentile(late, 99);
            Level { number, delay_ms, retried: late.len(), lateness_ms_p99 }
        };
        Summary {
            produced: self.produced(),
            delivered: self.delivered(),
            retried: self.retried(),
            recovered: self.recovered(),
            dead_lettered: self.dead_letters.len(),
            lost: self.lost(),
            early: self.early(),
            lateness_ms_p99: percentile(&self.all_lateness(), 99),
            levels: self.by_retry().iter().map(level).collect(),
        }
    }
}

/// The smallest value that `percent` of the sorted values do not exceed; 0 of none.
pub(crate) fn percentile(sorted: &[i64], percent: usize) -> i64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

fn len(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
