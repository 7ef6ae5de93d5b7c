//! Dead letters that look alike: the same topic, cause and reason, where digits, hexadecimal
//! numbers and quoted texts of a reason are masked.

use std::collections::BTreeMap;

use crate::admin::view::{DeadLetter, GroupView};

/// Characters of a masked reason.
const REASON_CHARS: usize = 120;

/// Dead letters that look alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alike {
    pub(super) topic: String,
    pub(super) cause: String,
    pub(super) reason: String,
    /// Offsets in the dead-letter topic.
    pub(super) offsets: Vec<i64>,
    /// When the first and the last became one, Unix ms.
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
}

/// Groups of letters, the largest first.
pub(super) fn alike(letters: &[DeadLetter]) -> Vec<Alike> {
    let mut found = BTreeMap::<(String, String, String), Alike>::new();
    for letter in letters {
        let topic = letter.origin.as_deref().map_or("", GroupView::topic_of).to_owned();
        let reason = mask(letter.reason.as_deref().unwrap_or_default());
        let key = (topic.clone(), letter.disposition.clone(), reason.clone());
        let known = found.entry(key).or_insert_with(|| Alike {
            topic,
            cause: letter.disposition.clone(),
            reason,
            offsets: Vec::new(),
            first_ms: letter.at_ms,
            last_ms: letter.at_ms,
        });
        known.offsets.push(letter.offset);
        known.first_ms = known.first_ms.min(letter.at_ms);
        known.last_ms = known.last_ms.max(letter.at_ms);
    }
    let mut all: Vec<Alike> = found.into_values().collect();
    all.sort_by_key(|alike| std::cmp::Reverse(alike.offsets.len()));
    all
}

/// A reason without what differs from record to record.
fn mask(reason: &str) -> String {
    let mut out = String::new();
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
            out.push_str(if is_number(&word) { "#" } else { &word });
        } else {
            out.push(if first.is_control() { ' ' } else { first });
        }
    }
    out
}

/// Digits, a hexadecimal number, a UUID, or a word with as many digits as letters.
fn is_number(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_hex = word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    digits > 0 && (is_hex || 2 * digits >= word.chars().count())
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
            ("can't connect to db-1", "can't connect to db-1"),
            ("HTTP 503 at 10.0.0.7:8080", "HTTP # at #.#.#.#:#"),
            ("utf8", "utf8"),
            ("", ""),
        ] {
            assert_eq!(mask(reason), masked);
        }
        assert_eq!(mask(&"word ".repeat(100)).chars().count(), REASON_CHARS + 1);
    }

    #[test]
    fn the_largest_group_comes_first() {
        let letter = |offset, reason: &str| DeadLetter {
            offset,
            origin: Some(format!("orders-0@{offset}")),
            reason: Some(reason.to_owned()),
            at_ms: offset * 10,
            ..DeadLetter::default()
        };
        let all = [letter(1, "late 5"), letter(2, "no stock 7"), letter(3, "no stock 8")];
        let alike = alike(&all);
        let first = &alike[0];
        assert_eq!((first.reason.as_str(), &first.offsets), ("no stock #", &vec![2, 3]));
        assert_eq!((first.topic.as_str(), first.first_ms, first.last_ms), ("orders", 20, 30));
        assert_eq!(alike.len(), 2);
    }
}
