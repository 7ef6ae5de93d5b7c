//! Durations (`250ms 10s 15m 2h 7d`) and sizes (`512KiB 64MiB 1GiB`; plain digits are bytes).

use std::time::Duration;

use serde::Serializer;

const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `<digits><unit>`; an error says what was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("{text:?} is no duration; such as 250ms, 10s, 15m, 2h or 7d");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let unit_ms = unit_of(&DURATION_UNITS, unit).ok_or_else(expected)?;
    number
        .checked_mul(unit_ms)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is longer than any clock"))
}

/// Reads `<digits>[<unit>]`; an error says what was expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let expected = || format!("{text:?} is no size; such as 4096, 512KiB, 64MiB or 1GiB");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let unit = if unit.is_empty() { "B" } else { unit };
    let unit_bytes = unit_of(&SIZE_UNITS, unit).ok_or_else(expected)?;
    number.checked_mul(unit_bytes).ok_or_else(|| format!("{text:?} is larger than any disk"))
}

/// A duration in milliseconds.
pub fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Writes a duration the way it is read, in the largest unit that divides it.
pub fn duration_text(duration: Duration) -> String {
    largest(&DURATION_UNITS, ms(duration), "0s")
}

/// Writes a size the way it is read, in the largest unit that divides it.
pub fn size_text(bytes: u64) -> String {
    largest(&SIZE_UNITS, bytes, "0B")
}

/// For `serialize_with`: a duration as text.
pub fn ser_duration<S: Serializer>(duration: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&duration_text(*duration))
}

/// For `serialize_with`: a size as text.
pub fn ser_size<S: Serializer>(bytes: &u64, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&size_text(*bytes))
}

/// For `serialize_with`: a duration, or `unlimited`.
pub fn ser_limit<S: Serializer>(limit: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&limit.map_or("unlimited".to_owned(), duration_text))
}

/// For `serialize_with`: a size, or `unlimited`.
pub fn ser_size_limit<S: Serializer>(limit: &Option<u64>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&limit.map_or("unlimited".to_owned(), size_text))
}

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, unit.trim_start()))
}

fn unit_of(units: &[(&str, u64)], name: &str) -> Option<u64> {
    units.iter().find(|(unit, _)| *unit == name).map(|(_, size)| *size)
}

fn largest(units: &[(&str, u64)], n: u64, zero: &str) -> String {
    units
        .iter()
        .find(|(_, size)| n > 0 && n.is_multiple_of(*size))
        .map_or(zero.to_owned(), |(unit, size)| format!("{}{unit}", n / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_parsed_back_from_their_text() {
        for text in ["250ms", "10s", "15m", "2h", "7d", "90s", "0s"] {
            assert_eq!(duration_text(parse_duration(text).unwrap()), text);
        }
        for text in ["512KiB", "64MiB", "3GiB", "1TiB", "1000001B"] {
            assert_eq!(size_text(parse_size(text).unwrap()), text);
        }
        assert_eq!(parse_size("4096"), Ok(4096));
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "10", "s", "-1s", "1.5s", "10 minutes", "1w", "99999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["", "MiB", "64MB", "1.5GiB", "-1", "99999999TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
