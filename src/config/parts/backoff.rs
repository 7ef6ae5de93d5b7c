//! `retry.backoff`: delays that grow by a factor, instead of a table.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{DAY, HOUR, MS};
use crate::config::node::Value;
use crate::config::section::{Section, duration};
use crate::model::{duration_text, ms, ser_duration};
use crate::retry::{LevelTable, THOUSAND};

/// The longest delay that can be configured.
const DELAY_MAX: Duration = Duration::from_hours(24 * 366);

/// Delays that grow by a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Backoff {
    /// The delay of the first retry; `None`: off, the table has the delays.
    #[serde(serialize_with = "ser_or_off")]
    pub initial: Option<Duration>,
    /// Growth of each delay over the one before, in thousandths.
    #[serde(serialize_with = "ser_thousandths")]
    pub factor: u32,
    /// The longest delay.
    #[serde(serialize_with = "ser_duration")]
    pub max: Duration,
    /// The longest random extension of a delay, in thousandths of the delay.
    #[serde(serialize_with = "ser_thousandths")]
    pub jitter: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: None, factor: 2 * THOUSAND, max: HOUR * 2, jitter: 0 }
    }
}

impl Backoff {
    /// Reads its keys over `self`.
    pub(in crate::config) fn read_over(mut self, mut s: Section<'_>) -> Self {
        s.take("initial", &mut self.initial, |value| match value {
            Value::Bool(false) => Ok(None),
            Value::Text(word) if word == "off" => Ok(None),
            other => {
                duration(MS..=DELAY_MAX)(other).map(Some).map_err(|says| format!("{says}, or off"))
            }
        });
        s.take("factor", &mut self.factor, |value| match thousandths(value) {
            Some(factor) if factor == THOUSAND || (1_100..=100_000).contains(&factor) => Ok(factor),
            _ => Err("expected 1, or a factor from 1.1 to 100, such as 2 or 1.5".to_owned()),
        });
        s.take("max", &mut self.max, duration(MS..=DELAY_MAX));
        s.take("jitter", &mut self.jitter, |value| match thousandths(value) {
            Some(share) if share <= THOUSAND => Ok(share),
            _ => Err("expected a share from 0 to 1, such as 0.2".to_owned()),
        });
        if self.initial.is_some_and(|initial| initial > self.max) {
            let key = if s.has("max") { "max" } else { "initial" };
            s.problem(key, "backoff.max is shorter than backoff.initial");
        }
        s.finish();
        self
    }

    /// The ladder of the back-off; `None`: the back-off is off.
    pub(in crate::config) fn levels(&self) -> Option<LevelTable> {
        Some(LevelTable::backoff(ms(self.initial?), self.factor, ms(self.max)))
    }
}

/// A number with at most three decimals, in thousandths.
fn thousandths(value: &Value) -> Option<u32> {
    let text = match value {
        Value::Int(n) => n.to_string(),
        Value::Float(n) => n.to_string(),
        _ => return None,
    };
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    if part.len() > 3 || !part.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let part: u32 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(THOUSAND)?.checked_add(part)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn ser_thousandths<S: Serializer>(n: &u32, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_f64(f64::from(*n) / f64::from(THOUSAND))
}

#[expect(clippy::ref_option, reason = "the shape serde asks for")]
fn ser_or_off<S: Serializer>(delay: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&delay.map_or("off".to_owned(), duration_text))
}

/// The range of `retry.max_elapsed`, besides `unlimited`.
pub(super) const ELAPSED: std::ops::RangeInclusive<Duration> =
    MS..=Duration::from_secs(DAY.as_secs() * 3650);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_up_to_three_decimals_are_thousandths() {
        for (value, read) in [
            (Value::Int(2), Some(2_000)),
            (Value::Float(1.5), Some(1_500)),
            (Value::Float(0.125), Some(125)),
            (Value::Float(2.0), Some(2_000)),
            (Value::Float(0.0001), None),
            (Value::Int(-1), None),
            (Value::Float(f64::NAN), None),
            (Value::Float(1e300), None),
            (Value::Text("2".into()), None),
        ] {
            assert_eq!(thousandths(&value), read, "{value:?}");
        }
    }
}
