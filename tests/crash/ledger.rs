//! What the application knows of every record: what was acknowledged to it and what it only sent.
//!
//! An answer that never came may mean done or not done; both are right. What was acknowledged is
//! right in one way only.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sidecar::{DELAYS_MS, RETRIES};

/// Clocks are cut to whole milliseconds on both sides of the wire, and once more at a start.
const ROUNDING_MS: i64 = 3;

/// One record.
#[derive(Debug, Default)]
pub struct Item {
    /// How many of its deliveries fail.
    pub fails: u32,
    pub produced: bool,
    offset: Option<i64>,
    /// Failures acknowledged, failures sent.
    charged: u32,
    charged_sent: u32,
    /// When each failure was sent first.
    sent_ms: Vec<i64>,
    settled: bool,
    /// The life in which its last delivery came, and the failures counted then.
    delivered: Option<(u32, u32)>,
    dead_letters: u32,
}

/// What went wrong.
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

/// A redelivery as it came.
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

    /// A record came from the topic it was produced to.
    pub fn first_delivery(&mut self, item: usize, offset: i64) {
        let other = *self.by_offset.entry(offset).or_insert(item);
        let known = &mut self.items[item];
        let place = *known.offset.get_or_insert(offset);
        if place != offset || other != item {
            self.verdict.duplicates += 1;
            Self::note("duplicate", item, &(place, offset, other));
        }
    }

    /// A failure is about to be sent: the first, or the one after `count`.
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

    /// A retry came.
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

    /// Everything produced has come to its end.
    pub fn is_done(&self) -> bool {
        self.items.iter().all(|item| !item.produced || item.settled || item.charged > RETRIES)
    }

    /// After the last record and the last dead letter were read.
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
