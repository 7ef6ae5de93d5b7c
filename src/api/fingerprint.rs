//! Records that look alike: the same topic, cause, masked error, key pattern and size class. In an
//! error, digits, hexadecimal numbers and quoted texts are masked. A status code stays, because it
//! tells errors apart.

use serde::{Deserialize, Serialize};

use super::selector::Selector;

/// Most characters of a masked reason.
const REASON_CHARS: usize = 120;

/// A reason with its values masked.
pub fn mask(reason: &str) -> String {
    let (mut out, mut before) = (String::new(), String::new());
    let mut chars = reason.chars().peekable();
    while let Some(first) = chars.next() {
        if out.chars().count() >= REASON_CHARS {
            out.push('…');
            break;
        }
        if first == '"' || first == '\'' {
            let closes = chars.clone().any(|c| c == first);
            if closes && !out.ends_with(char::is_alphanumeric) {
                while chars.next().is_some_and(|c| c != first) {}
                out.push('«');
                out.push('…');
                out.push('»');
                continue;
            }
            out.push(first);
        } else if first.is_alphanumeric() {
            let mut word = String::from(first);
            while let Some(next) = chars.next_if(|c| c.is_alphanumeric() || *c == '-' || *c == '_')
            {
                word.push(next);
            }
            if is_status(&before, &word) {
                out.push_str(&word);
            } else if is_number(&word) {
                out.push('#');
            } else {
                out.push_str(&without_ordinal(&word));
            }
            before = word;
        } else {
            out.push(if first.is_control() { ' ' } else { first });
        }
    }
    out
}

/// True for digits, a hexadecimal number, a UUID, or a word with as many digits as letters.
fn is_number(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_hex = word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    digits > 0 && (is_hex || 2 * digits >= word.chars().count())
}

/// True for a status code of HTTP behind a word that announces one.
fn is_status(before: &str, word: &str) -> bool {
    let is_announced =
        ["http", "status", "code"].iter().any(|known| before.eq_ignore_ascii_case(known));
    is_announced && word.len() == 3 && word.parse().is_ok_and(|code| (100..600).contains(&code))
}

/// A word without the number at its end, as a host of a set or the id of an order has one.
fn without_ordinal(word: &str) -> String {
    match word.rsplit_once('-') {
        Some((name, ordinal))
            if !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            format!("{name}-#")
        }
        _ => word.to_owned(),
    }
}

/// The parts that records which look alike have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FingerprintKey {
    /// The topic of their origins; empty without one.
    pub topic: String,
    pub cause: String,
    /// The masked reason; absent where payloads are hidden.
    #[serde(rename = "fingerprint")]
    pub error: Option<String>,
    /// The pattern of their keys; absent where payloads are hidden.
    pub key_shape: Option<String>,
    /// The size class of their records.
    pub size: String,
}

impl FingerprintKey {
    /// The conditions that admit the records with these parts.
    pub fn selector(&self) -> Selector {
        Selector {
            topic: Some(self.topic.clone()),
            cause: Some(self.cause.clone()),
            fingerprint: self.error.clone(),
            key_shape: self.key_shape.clone(),
            size: Some(self.size.clone()),
            ..Selector::default()
        }
    }
}

/// Dead letters, or retries that wait, which look alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    #[serde(flatten)]
    pub key: FingerprintKey,
    pub records: u64,
    /// The offset of the latest letter, absent until the log has it; or the id of the retry that is
    /// due last.
    pub example: Option<i64>,
    /// Times of the first and the last death, or of the earliest and the latest last failure, Unix
    /// ms; absent before the first.
    pub first_ms: Option<i64>,
    pub last_ms: Option<i64>,
    /// Records by the hour of that time, the present hour last.
    pub hours: Vec<u32>,
}

/// Waiting retries that the count of a group reads.
pub const COUNTED_MAX: usize = 1_000_000;

/// Fingerprints of a group, those with most records first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FingerprintList {
    pub items: Vec<Fingerprint>,
    /// Records of fingerprints that are not listed.
    pub rest: u64,
    /// Only the first [`COUNTED_MAX`] retries were counted.
    #[serde(rename = "cut")]
    pub is_cut: bool,
    /// The first count of the group still runs, so the list is empty.
    #[serde(rename = "counting")]
    pub is_counting: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_values_alone_are_alike() {
        for (reason, masked) in [
            ("no stock for item 4711", "no stock for item #"),
            ("order 'A-17' is unknown", "order «…» is unknown"),
            ("key \"x\" of 9f8e7d6c5b4a", "key «…» of #"),
            ("id 123e4567-e89b-12d3-a456-426614174000 gone", "id # gone"),
            ("can't connect to db-1", "can't connect to db-#"),
            ("ledger-0.ledger.svc refuses order-17", "ledger-#.ledger.svc refuses order-#"),
            ("HTTP 503 at 10.0.0.7:8080", "HTTP 503 at #.#.#.#:#"),
            ("status code: 404 of 404", "status code: 404 of #"),
            ("code 7001, status 99", "code #, status #"),
            ("utf8", "utf8"),
            ("", ""),
        ] {
            assert_eq!(mask(reason), masked);
        }
        assert_eq!(mask(&"word ".repeat(100)).chars().count(), REASON_CHARS + 1);
    }
}
