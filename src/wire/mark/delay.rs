//! Headers of a produced record that delay its entry into the topic.

use crate::wire::batch::Headers;
use crate::wire::mark::cut;

const AFTER_MS: &str = "x-deliver-after-ms";
const AT_MS: &str = "x-deliver-at-ms";
/// `RocketMQ`'s delay level (`MessageConst.PROPERTY_DELAY_TIME_LEVEL`).
const LEVEL: &str = "DELAY";
/// `RocketMQ`'s delivery time (`MessageConst.PROPERTY_TIMER_DELIVER_MS`).
const TIMER_AT_MS: &str = "TIMER_DELIVER_MS";
const NAMES: [&str; 4] = [AFTER_MS, AT_MS, LEVEL, TIMER_AT_MS];

/// Delivery time that a producer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deliver {
    /// Milliseconds from now.
    After(u64),
    /// Unix time in milliseconds.
    At(i64),
    /// After the delay of this level, from 1.
    Level(i32),
}

/// Reason why a requested delay is refused; the answer is `INVALID_RECORD` with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDelay {
    /// The value is no number, or out of range.
    #[error("{name} {text:?} is no {what}")]
    Unreadable {
        name: &'static str,
        /// At most 100 bytes of the header's value.
        text: String,
        /// Expected form, for the message.
        what: &'static str,
    },
    /// Two headers request a delay.
    #[error("{0} and {1} both say when the record is to be delivered; send one of them")]
    Twice(&'static str, &'static str),
    /// The delay exceeds the configured maximum.
    #[error("the record is to be delivered in {ms} ms; the most is {most} (produce_delay_max)")]
    TooFar {
        ms: u64,
        /// `topics.produce_delay_max`, in milliseconds.
        most: u64,
    },
}

/// The requested delivery time; the last header of a name counts. `None`: deliver now.
pub fn read_delay(headers: &Headers) -> Result<Option<Deliver>, BadDelay> {
    let mut found: Option<(&'static str, Deliver)> = None;
    for name in NAMES {
        let Some(value) = headers.last(name) else { continue };
        let text = String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        let deliver = read(name, text.trim())?;
        if let Some((other, _)) = found {
            return Err(BadDelay::Twice(other, name));
        }
        found = Some((name, deliver));
    }
    // RocketMQ's level 0 means no delay.
    Ok(found.map(|(_, deliver)| deliver).filter(|deliver| *deliver != Deliver::Level(0)))
}

/// Removes the headers that request a delay.
pub fn without_delay(headers: &Headers) -> Headers {
    headers.without(|name| NAMES.iter().any(|own| own.as_bytes() == name))
}

fn read(name: &'static str, text: &str) -> Result<Deliver, BadDelay> {
    let bad = |what| BadDelay::Unreadable { name, text: cut(text, 100).to_owned(), what };
    match name {
        AFTER_MS => {
            let ms = text.parse().map_err(|_| bad("delay: whole milliseconds, such as 30000"))?;
            Ok(Deliver::After(ms))
        }
        LEVEL => {
            let level = text.parse().ok().filter(|level: &i32| *level >= 0);
            Ok(Deliver::Level(level.ok_or_else(|| bad("level: a number from 0, such as 3"))?))
        }
        _ => {
            let at = text.parse().ok().filter(|at: &i64| *at >= 0);
            let what = "time: Unix milliseconds, such as 1767225600000";
            Ok(Deliver::At(at.ok_or_else(|| bad(what))?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        Headers::NONE.with(pairs)
    }

    #[test]
    fn each_delay_header_is_read_and_removed() {
        for (name, value, when) in [
            ("x-deliver-after-ms", "1500", Some(Deliver::After(1_500))),
            ("x-deliver-after-ms", " 0 ", Some(Deliver::After(0))),
            ("x-deliver-at-ms", "1767225600000", Some(Deliver::At(1_767_225_600_000))),
            ("TIMER_DELIVER_MS", "7", Some(Deliver::At(7))),
            ("DELAY", "3", Some(Deliver::Level(3))),
            ("DELAY", "0", None),
            ("delay", "3", None),
        ] {
            let asked = headers(&[("trace", "1"), (name, value)]);
            assert_eq!(read_delay(&asked), Ok(when), "{name}");
            let left = without_delay(&asked);
            assert_eq!(left.len(), if name == "delay" { 2 } else { 1 }, "{name}");
        }
        assert_eq!(read_delay(&headers(&[("trace", "1")])), Ok(None));
        let last = headers(&[("DELAY", "x"), ("DELAY", "2")]);
        assert_eq!(read_delay(&last), Ok(Some(Deliver::Level(2))));
    }

    #[test]
    fn invalid_and_contradictory_delays_are_named() {
        for (name, value) in [
            ("x-deliver-after-ms", "-1"),
            ("x-deliver-after-ms", "10s"),
            ("x-deliver-after-ms", "99999999999999999999"),
            ("x-deliver-at-ms", "-5"),
            ("x-deliver-at-ms", ""),
            ("TIMER_DELIVER_MS", "soon"),
            ("DELAY", "-1"),
            ("DELAY", "1.5"),
        ] {
            let sentence = read_delay(&headers(&[(name, value)])).unwrap_err().to_string();
            assert!(sentence.starts_with(name), "{sentence}");
        }
        let both = headers(&[("DELAY", "1"), ("x-deliver-after-ms", "5")]);
        assert_eq!(read_delay(&both), Err(BadDelay::Twice("x-deliver-after-ms", "DELAY")));
    }
}
