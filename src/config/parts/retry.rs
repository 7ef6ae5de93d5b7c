//! `retry`: the ladder, its end, and the failure detection of a group.

use std::time::Duration;

use serde::Serialize;

use super::backoff::ELAPSED;
use super::{Backoff, DAY, HOUR, MIB, MS, SECOND, TIB};
use crate::config::node::Value;
use crate::config::section::{Section, boolean, choice, duration, int, or_unlimited, size};
use crate::model::{ser_duration, ser_limit, ser_size_limit};
use crate::retry::{
    BreakerRules, CONSUME_TIMEOUT_MS, CRASH_LIMIT, DEFAULT_LEVELS, GIVE_UP_AFTER_MS,
    IN_PLACE_LIMIT, ISOLATION_TIMEOUT_MS, LevelTable, MAX_RECONSUME_TIMES, ORDER_INTERVAL_MS,
    OrderMode, Policy, RETRY_PARTITIONS, SignalRule, UNLIMITED,
};

/// The longest retention of dead letters: ten years.
const RETENTION_DAYS_MAX: u32 = 3_650;

/// The way in which retries are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryDelivery {
    /// Chosen by the subscriptions of the group's members.
    #[default]
    Auto,
    /// Through the group's retry topic. Only nacks count as failures.
    Topic,
    /// In place: the record's partition waits, then its fetches return the record again.
    InPlace,
    /// No retries, no retry topic and no failure detection.
    Off,
}

/// The breaker of a group: when most records fail, the cause is not the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BreakerConfig {
    /// Percentage of nacked first deliveries above which the breaker opens.
    #[serde(rename = "ratio", serialize_with = "ser_percent")]
    pub ratio_percent: u32,
    /// Number of latest first deliveries that the percentage refers to.
    pub window: u32,
    /// The least number of nacked deliveries among them at which the breaker opens.
    pub min: u32,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        let BreakerRules { ratio_percent, window, min } = BreakerRules::default();
        Self { ratio_percent, window, min }
    }
}

/// The treatment of records whose retries are used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetters {
    /// Whether they are kept; otherwise they are dropped, counted and logged with their origin.
    pub keep: bool,
    /// The quota of a group's dead letters in bytes; `None`: no bound. Beyond it, exhausted records
    /// are withheld.
    #[serde(serialize_with = "ser_size_limit")]
    pub max_bytes: Option<u64>,
    /// Age at which a dead letter is deleted; `None`: never.
    #[serde(serialize_with = "ser_limit")]
    pub retention: Option<Duration>,
}

/// The treatment of a member that does not seek back to the record that its partition waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rewind {
    /// The sidecar waits for the member.
    #[default]
    Off,
    /// The sidecar makes the member rejoin its group.
    Rebalance,
}

/// The order of records after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Order {
    /// The records that wait for a failed one.
    pub mode: OrderMode,
    /// Time that a partition waits before its failed record is delivered again.
    #[serde(serialize_with = "ser_duration")]
    pub interval: Duration,
    /// The treatment of a member that does not seek back to the record.
    pub rewind: Rewind,
}

/// The rules of retrying, for all groups or for one rule of `groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retry {
    /// The delay table, checked: delays with spaces between them.
    pub levels: String,
    /// Delays that grow by a factor, instead of the table.
    pub backoff: Backoff,
    /// Retries before the dead letters; [`UNLIMITED`]: never by themselves.
    #[serde(serialize_with = "limit_or_unlimited")]
    pub max_reconsume_times: u32,
    /// Time since the first failure after which the next failure is the last; `None`: only the
    /// count ends the retries.
    #[serde(serialize_with = "ser_limit")]
    pub max_elapsed: Option<Duration>,
    /// Retries delivered per second; `None`: no bound.
    #[serde(serialize_with = "rate_or_unlimited")]
    pub rate: Option<u32>,
    /// The way in which retries are delivered.
    pub delivery: RetryDelivery,
    /// Partitions of a retry topic that is made here.
    pub partitions: i32,
    /// Time after which a delivery times out.
    #[serde(serialize_with = "ser_duration")]
    pub consume_timeout: Duration,
    /// Lost deliveries of the same records before these suspects are tested.
    pub crash_limit: u32,
    /// Time that the sidecar waits for the outcome of a part of the suspects.
    #[serde(serialize_with = "ser_duration")]
    pub isolation_timeout: Duration,
    /// Failed deliveries in place that make a dead letter.
    #[serde(serialize_with = "limit_or_unlimited")]
    pub in_place_limit: u32,
    /// Time after which a record that ends every consumer is withheld; `None`: never.
    #[serde(serialize_with = "ser_limit")]
    pub give_up_after: Option<Duration>,
    /// Whether a seek-back of a member counts as a failure.
    pub on_seek_back: SignalRule,
    pub on_consume_timeout: SignalRule,
    /// The order of records after a failure.
    pub order: Order,
    /// The breaker; `None`: off.
    #[serde(serialize_with = "breaker_or_off")]
    pub breaker: Option<BreakerConfig>,
    /// The treatment of records whose retries are used up.
    pub dead_letters: DeadLetters,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            levels: DEFAULT_LEVELS.to_owned(),
            backoff: Backoff::default(),
            max_reconsume_times: MAX_RECONSUME_TIMES,
            max_elapsed: None,
            rate: None,
            delivery: RetryDelivery::Auto,
            partitions: RETRY_PARTITIONS,
            consume_timeout: Duration::from_millis(CONSUME_TIMEOUT_MS),
            crash_limit: CRASH_LIMIT,
            isolation_timeout: Duration::from_millis(ISOLATION_TIMEOUT_MS),
            in_place_limit: IN_PLACE_LIMIT,
            give_up_after: Some(Duration::from_millis(GIVE_UP_AFTER_MS)),
            on_seek_back: SignalRule::default(),
            on_consume_timeout: SignalRule::default(),
            order: Order {
                mode: OrderMode::Off,
                interval: Duration::from_millis(ORDER_INTERVAL_MS),
                rewind: Rewind::Off,
            },
            breaker: None,
            dead_letters: DeadLetters { keep: true, max_bytes: None, retention: None },
        }
    }
}

impl Retry {
    /// Reads the keys of one section over `self`; the caller calls `s.finish()`.
    pub(in crate::config) fn read_over(self, s: &mut Section<'_>) -> Self {
        let mut retry = self.read_ladder(s);
        let rate = or_unlimited(int(1..=1_000_000));
        s.take("rate", &mut retry.rate, rate);
        let ways = [
            ("auto", RetryDelivery::Auto),
            ("topic", RetryDelivery::Topic),
            ("in-place", RetryDelivery::InPlace),
            ("off", RetryDelivery::Off),
        ];
        s.take("delivery", &mut retry.delivery, choice(&ways));
        s.take("partitions", &mut retry.partitions, int(1..=1_000));
        s.take("consume_timeout", &mut retry.consume_timeout, duration(SECOND..=HOUR * 24));
        retry.read_inference(s);
        retry.read_order(s.section("order"));
        retry.read_dead_letters(s);
        retry.check_order(s);
        retry
    }

    /// `order.mode: partition` needs a delivery that may be in place. Unlimited retries need
    /// `delivery: in-place` or an order mode.
    fn check_order(&self, s: &mut Section<'_>) {
        let watched = matches!(self.delivery, RetryDelivery::Auto | RetryDelivery::InPlace);
        if self.order.mode == OrderMode::Partition && !watched {
            s.problem(
                if s.has("order") { "order" } else { "delivery" },
                "with order.mode: partition a record waits in its own place: delivery must be auto \
                 or in-place",
            );
        }
        if self.max_reconsume_times != UNLIMITED {
            return;
        }
        if self.delivery != RetryDelivery::InPlace && self.order.mode == OrderMode::Off {
            let keys = ["max_reconsume_times", "delivery", "order"];
            let key = keys.into_iter().find(|key| s.has(key)).unwrap_or("max_reconsume_times");
            s.problem(
                key,
                "max_reconsume_times: unlimited is for groups whose records wait in their own \
                 place (delivery: in-place, or order.mode); elsewhere give a number",
            );
        } else if s.has("max_reconsume_times") {
            s.warn(
                "max_reconsume_times",
                "unlimited: a record that always fails holds up what waits for it for ever, and \
                 never becomes a dead letter by itself",
            );
        }
    }

    /// Reads the delays and the limits of one record. `levels` in a rule switches an inherited
    /// back-off off.
    pub(super) fn read_ladder(mut self, s: &mut Section<'_>) -> Self {
        if s.has("levels") {
            self.backoff.initial = None;
        }
        self.backoff = self.backoff.read_over(s.section("backoff"));
        s.take("levels", &mut self.levels, levels);
        if s.has("levels") {
            for odd in LevelTable::parse(&self.levels).map(|(_, odd)| odd).unwrap_or_default() {
                s.warn("levels", &odd.to_string());
            }
        }
        s.take("max_reconsume_times", &mut self.max_reconsume_times, |value| {
            if matches!(value, Value::Text(word) if word == "unlimited") {
                return Ok(UNLIMITED);
            }
            let n: i64 = int(-1..=100_000)(value)?;
            Policy::limit(n).ok_or_else(|| "expected -1 or more".to_owned())
        });
        s.take("max_elapsed", &mut self.max_elapsed, or_unlimited(duration(ELAPSED)));
        self
    }

    /// Reads the keys of failure detection.
    fn read_inference(&mut self, s: &mut Section<'_>) {
        s.take("crash_limit", &mut self.crash_limit, int(1..=100));
        let patience = duration(MS * 10..=SECOND * 600);
        s.take("isolation_timeout", &mut self.isolation_timeout, patience);
        let limit = or_unlimited(int(1..=100_000));
        s.take("in_place_limit", &mut self.in_place_limit, |value| {
            limit(value).map(|limit| limit.unwrap_or(UNLIMITED))
        });
        let give_up_after = or_unlimited(duration(MS * 10..=HOUR * 24));
        s.take("give_up_after", &mut self.give_up_after, give_up_after);
        let ways = [("observe", SignalRule::Observe), ("retry", SignalRule::Retry)];
        s.take("on_seek_back", &mut self.on_seek_back, choice(&ways));
        s.take("on_consume_timeout", &mut self.on_consume_timeout, choice(&ways));
        self.read_breaker(s);
    }

    fn read_order(&mut self, mut order: Section<'_>) {
        let modes = [("off", OrderMode::Off), ("partition", OrderMode::Partition)];
        order.take("mode", &mut self.order.mode, choice(&modes));
        order.take("interval", &mut self.order.interval, duration(MS * 10..=SECOND * 30));
        let rewinds = [("off", Rewind::Off), ("rebalance", Rewind::Rebalance)];
        order.take("rewind", &mut self.order.rewind, choice(&rewinds));
        order.finish();
    }

    fn read_breaker(&mut self, s: &mut Section<'_>) {
        let mut is_on = true;
        s.take("breaker", &mut is_on, |value| match value {
            Value::Map(_) => Ok(true),
            Value::Bool(false) => Ok(false),
            Value::Text(word) if word == "off" => Ok(false),
            other => Err(format!("expected ratio, window and min, or off; found {}", other.kind())),
        });
        if !s.has("breaker") {
            return;
        }
        if !is_on {
            self.breaker = None;
            return;
        }
        let mut ours = self.breaker.unwrap_or_default();
        let mut breaker = s.section("breaker");
        breaker.take("ratio", &mut ours.ratio_percent, percent);
        breaker.take("window", &mut ours.window, int(2..=10_000));
        breaker.take("min", &mut ours.min, int(2..=10_000));
        if ours.min > ours.window {
            breaker.problem("min", "must be at most window: more never fail among the last");
        }
        breaker.finish();
        self.breaker = Some(ours);
    }

    fn read_dead_letters(&mut self, s: &mut Section<'_>) {
        let mut dead = s.section("dead_letters");
        let ours = &mut self.dead_letters;
        dead.take("keep", &mut ours.keep, boolean);
        dead.take("max_bytes", &mut ours.max_bytes, or_unlimited(size(MIB..=1024 * TIB)));
        let age = duration(HOUR..=DAY * RETENTION_DAYS_MAX);
        dead.take("retention", &mut ours.retention, or_unlimited(age));
        dead.finish();
    }
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn rate_or_unlimited<S: serde::Serializer>(rate: &Option<u32>, s: S) -> Result<S::Ok, S::Error> {
    match rate {
        Some(rate) => s.serialize_u32(*rate),
        None => s.serialize_str("unlimited"),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn limit_or_unlimited<S: serde::Serializer>(limit: &u32, s: S) -> Result<S::Ok, S::Error> {
    if *limit == UNLIMITED { s.serialize_str("unlimited") } else { s.serialize_u32(*limit) }
}

#[expect(clippy::ref_option, reason = "the shape serde asks for")]
fn breaker_or_off<S: serde::Serializer>(
    breaker: &Option<BreakerConfig>,
    s: S,
) -> Result<S::Ok, S::Error> {
    match breaker {
        Some(breaker) => breaker.serialize(s),
        None => s.serialize_str("off"),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn ser_percent<S: serde::Serializer>(percent: &u32, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_f64(f64::from(*percent) / 100.0)
}

/// A fraction of 1, in whole percent.
fn percent(value: &Value) -> Result<u32, String> {
    let ratio = match value {
        Value::Float(ratio) => Some(*ratio),
        Value::Int(1) => Some(1.0),
        _ => None,
    };
    let percent = ratio.and_then(|ratio| format!("{:.0}", ratio * 100.0).parse::<u32>().ok());
    percent
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| "expected a part of 1 from 0.01 to 1, such as 0.5".to_owned())
}

/// Reads RocketMQ's text form, or a list of delays.
fn levels(value: &Value) -> Result<String, String> {
    let text = match value {
        Value::Text(text) => text.clone(),
        Value::List(items) => {
            let words: Result<Vec<&str>, String> = items
                .iter()
                .map(|item| match &item.value {
                    Value::Text(word) => Ok(word.as_str()),
                    other => Err(format!("expected delays such as 10s, found {}", other.kind())),
                })
                .collect();
            words?.join(" ")
        }
        other => {
            let found = other.kind();
            return Err(format!("expected delays such as \"10s 30s 1m\", found {found}"));
        }
    };
    LevelTable::parse(&text).map_err(|e| e.to_string())?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
