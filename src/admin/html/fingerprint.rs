//! Dead letters that look alike: the same topic, cause and reason, where digits, hexadecimal
//! numbers and quoted texts of a reason are masked.

use std::collections::BTreeMap;

use crate::admin::view::{DeadLetter, GroupView};
use crate::engine::mask;

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

#[cfg(test)]
mod tests {
    use super::*;

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
