//! The application's own book of every record: acknowledged operations and sent ones.
//!
//! A request without an answer may or may not have taken effect, and both are right. An
//! acknowledged one must have taken effect.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sidecar::{DELAYS_MS, RETRIES};

/// Client and sidecar cut clocks to whole milliseconds, and a start does so once more.
const ROUNDING_MS: i64 = 3;

#[derive(Debug, Default)]
pub struct Item {
    /// Deliveries of the record that fail.
    pub fails: u32,
    pub produced: bool,
    offset: Option<i64>,
    /// Acknowledged failures and sent failures.
    charged: u32,
    charged_sent: u32,
    /// Time of the first send of each failure.
    sent_ms: Vec<i64>,
    settled: bool,
    /// The life of the last delivery, and the failures counted then.
    delivered: Option<(u32, u32)>,
    dead_letters: u32,
}

/// Violations found in a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub lost: u64,
    pub early: u64,
    pub fell: u64,
    pub duplicates: u64,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub items: Vec<Item>,
    by_offset: BTreeMap<i64, usize>,
    pub verdict: Verdict,
    pub life: u32,
    pub redelivered: u64,
}

pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// A redelivery, as the consumer got it.
#[derive(Clone, Copy, Debug)]
pub struct Redelivery {
    pub item: usize,
    pub count: u32,
    pub due_ms: i64,
    pub came_ms: i64,
}

impl Item {
    pub fn new(fails: u32) -> Self {
        Self { fails, ..Self::default() }
    }
}

impl Ledger {
    fn note(what: &str, item: usize, found: &dyn std::fmt::Debug) {
        println!("{what}: record {item}: {found:?}");
    }

    /// Notes the first delivery of a record, from its own topic.
    pub fn first_delivery(&mut self, item: usize, offset: i64) {
        let other = *self.by_offset.entry(offset).or_insert(item);
        let known = &mut self.items[item];
        let place = *known.offset.get_or_insert(offset);
        if place != offset || other != item {
            self.verdict.duplicates += 1;
            Self::note("duplicate", item, &(place, offset, other));
        }
    }

    /// Notes a failure that is about to be sent: the first one, or the one after `count`.
    pub fn failing(&mut self, item: usize, count: u32) {
        let known = &mut self.items[item];
        known.charged_sent = known.charged_sent.max(count + 1);
        if known.sent_ms.len() < known.charged_sent as usize {
            known.sent_ms.push(now_ms());
        }
    }

    pub fn failed(&mut self, item: usize, count: u32) {
        let known = &mut self.items[item];
        known.charged = known.charged.max(count + 1);
    }

    pub fn settled(&mut self, item: usize) {
        self.items[item].settled = true;
    }

    /// Checks a redelivery.
    pub fn redelivery(&mut self, came: Redelivery) {
        self.redelivered += 1;
        let known = &mut self.items[came.item];
        assert!(came.count <= known.charged_sent, "counted more than was sent: {came:?} {known:?}");
        let again = known.delivered == Some((self.life, came.count));
        if known.settled || again {
            self.verdict.duplicates += 1;
            Self::note("duplicate", came.item, &(came, &known));
        }
        if came.count < known.charged {
            self.verdict.fell += 1;
            Self::note("count fell", came.item, &(came, &known));
        }
        known.delivered = Some((self.life, came.count));
        let nth = came.count as usize - 1;
        let least = known.sent_ms[nth] + DELAYS_MS[nth];
        if came.due_ms + ROUNDING_MS < least || came.came_ms + ROUNDING_MS < least.max(came.due_ms)
        {
            self.verdict.early += 1;
            Self::note("early", came.item, &(came, &known));
        }
    }

    pub fn dead_letter(&mut self, item: usize, failures: u32) {
        let known = &mut self.items[item];
        known.dead_letters += 1;
        assert!(known.fails > RETRIES && failures == RETRIES + 1, "dead too early: {known:?}");
        if known.dead_letters > 1 {
            self.verdict.duplicates += 1;
            Self::note("duplicate dead letter", item, &known);
        }
    }

    /// Whether every produced record is final.
    pub fn is_done(&self) -> bool {
        self.items.iter().all(|item| !item.produced || item.settled || item.charged > RETRIES)
    }

    /// Checks all records, once the last record and the last dead letter were read.
    pub fn close(&mut self) {
        for (n, item) in self.items.iter().enumerate().filter(|(_, item)| item.produced) {
            let ends = if item.fails > RETRIES { item.dead_letters > 0 } else { item.settled };
            if !ends {
                self.verdict.lost += 1;
                Self::note("lost", n, item);
            }
        }
    }
}
