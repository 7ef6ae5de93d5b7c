//! Counts of a run, from the events of the application only.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::demo::ladder::DemoLadder;
use crate::demo::shop::ORDERS;

/// An event of the application.
#[derive(Debug)]
pub enum DemoEvent {
    /// An order was acknowledged.
    Produced {
        /// Number of the order.
        order: u32,
    },
    /// A delivery was handled and committed.
    Delivered(Delivery),
    /// A record was read from `reprise.dlq.shop`.
    DeadLetter(ShopDeadLetter),
}

/// One delivery to the shop.
#[derive(Debug)]
pub struct Delivery {
    /// The order's number.
    pub order: u32,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Time of receipt, Unix ms.
    pub at_ms: i64,
    /// Due time of the retry, Unix ms; `None` for a first delivery.
    pub due_ms: Option<i64>,
    /// The reason of a failure.
    pub failed: Option<&'static str>,
}

/// One record of `reprise.dlq.shop`.
#[derive(Debug)]
pub struct ShopDeadLetter {
    /// The order's number.
    pub order: u32,
    /// The record's value as text.
    pub value: String,
    /// Names and values, in the record's order.
    pub headers: Vec<(String, String)>,
}

/// Counts of one run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    produced: BTreeSet<u32>,
    done: BTreeSet<u32>,
    recovered: BTreeSet<u32>,
    /// Deliveries of each order.
    tries: BTreeMap<u32, u32>,
    /// Received minus due of each retry, by its number (1-based).
    lateness_ms: BTreeMap<u32, Vec<i64>>,
    pub(super) dead_letters: Vec<ShopDeadLetter>,
}

/// The line of `--json`, in this order.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    produced: u32,
    delivered: u32,
    retried: u32,
    recovered: u32,
    dead_lettered: usize,
    lost: u32,
    early: u32,
    lateness_ms_p99: i64,
    levels: Vec<LevelReport>,
}

/// One level of the delay table.
#[derive(Debug, Serialize)]
struct LevelReport {
    #[serde(rename = "level")]
    number: usize,
    delay_ms: u64,
    retried: usize,
    lateness_ms_p99: i64,
}

impl Delivery {
    /// Received minus due; negative = early.
    pub(super) fn lateness_ms(&self) -> Option<i64> {
        self.due_ms.map(|due_ms| self.at_ms.saturating_sub(due_ms))
    }
}

impl ShopDeadLetter {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

impl Tally {
    pub(super) fn count(&mut self, event: DemoEvent) {
        match event {
            DemoEvent::Produced { order } => drop(self.produced.insert(order)),
            DemoEvent::Delivered(delivery) => self.deliver(&delivery),
            DemoEvent::DeadLetter(letter) => self.dead_letters.push(letter),
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

    /// Whether each order is done or a dead letter, and each delivery is counted. A dead letter may
    /// be read before the shop reports its last attempt.
    pub(super) fn is_over(&self) -> bool {
        let is_counted = |letter: &ShopDeadLetter| {
            let tries = self.tries.get(&letter.order).copied().unwrap_or(0);
            letter.header("x-retry-attempt").parse() == Ok(tries)
        };
        self.produced() == ORDERS && self.lost() == 0 && self.dead_letters.iter().all(is_counted)
    }

    /// True if no order was lost and no retry came early.
    pub(super) fn is_good(&self) -> bool {
        self.produced() == ORDERS && self.lost() == 0 && self.early() == 0
    }

    pub(super) fn produced(&self) -> u32 {
        len(self.produced.len())
    }

    pub(super) fn delivered(&self) -> u32 {
        self.tries.values().sum()
    }

    pub(super) fn retried(&self) -> u32 {
        len(self.all_lateness().len())
    }

    pub(super) fn recovered(&self) -> u32 {
        len(self.recovered.len())
    }

    /// Orders placed that are neither done nor a dead letter.
    pub(super) fn lost(&self) -> u32 {
        let dead: BTreeSet<u32> = self.dead_letters.iter().map(|letter| letter.order).collect();
        let unsettled = |order: &&u32| !self.done.contains(order) && !dead.contains(order);
        len(self.produced.iter().filter(unsettled).count())
    }

    /// Retries received before they were due.
    pub(super) fn early(&self) -> u32 {
        len(self.all_lateness().iter().filter(|lateness_ms| **lateness_ms < 0).count())
    }

    /// Number of each retry (1-based) and its latenesses, sorted.
    pub(super) fn by_retry(&self) -> Vec<(u32, Vec<i64>)> {
        let sorted = |(retry, all): (&u32, &Vec<i64>)| {
            let mut all = all.clone();
            all.sort_unstable();
            (*retry, all)
        };
        self.lateness_ms.iter().map(sorted).collect()
    }

    /// The lateness of every retry, sorted.
    pub(super) fn all_lateness(&self) -> Vec<i64> {
        let mut all: Vec<i64> = self.lateness_ms.values().flatten().copied().collect();
        all.sort_unstable();
        all
    }

    /// The summary of `--json`.
    pub(super) fn summary(&self, ladder: &DemoLadder) -> Summary {
        let level = |(retry, late): &(u32, Vec<i64>)| {
            let (number, delay_ms) = ladder.step(*retry);
            let lateness_ms_p99 = percentile(late, 99);
            LevelReport { number, delay_ms, retried: late.len(), lateness_ms_p99 }
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
pub(super) fn percentile(sorted: &[i64], percent: usize) -> i64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

fn len(count: usize) -> u32 {
    // Each order has at most six deliveries, so the count fits.
    u32::try_from(count).unwrap_or(u32::MAX)
}
