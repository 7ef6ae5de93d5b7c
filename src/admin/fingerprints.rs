//! Dead letters that look alike: the same topic, cause and masked reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Admin;
use super::answer::{Refusal, json_answer};
use super::source::Source;
use super::view::{DeadLetter, GroupView};
use crate::engine::mask;

/// Letters asked of the source at once.
const PIECE: usize = 1_000;
/// Kinds that are told apart; further ones are counted with the rest.
const KINDS_MAX: usize = 10_000;

/// Dead letters that look alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Fingerprint {
    pub(super) topic: String,
    pub(super) cause: String,
    /// The masked reason; absent where payloads are hidden.
    #[serde(rename = "fingerprint")]
    pub(super) reason: Option<String>,
    pub(super) letters: u64,
    /// The first of them: an offset in the dead-letter topic.
    pub(super) example: i64,
    /// Times at which the first and the last died, Unix ms.
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
    /// Offsets of the first letters, as many as [`Fingerprints::with_offsets`] says.
    #[serde(skip)]
    pub(super) offsets: Vec<i64>,
}

/// The kinds of letters seen so far.
#[derive(Debug, Default)]
pub(super) struct Fingerprints {
    kinds: BTreeMap<(String, String, String), Fingerprint>,
    /// Letters beyond [`KINDS_MAX`] kinds.
    rest: u64,
    /// Offsets that are kept of each kind.
    offsets_max: usize,
}

impl Fingerprints {
    /// Kinds with the offsets of so many of their letters.
    pub(super) fn with_offsets(offsets_max: usize) -> Self {
        Self { offsets_max, ..Self::default() }
    }

    pub(super) fn add(&mut self, letter: &DeadLetter) {
        let topic = letter.origin.as_deref().map_or("", GroupView::topic_of).to_owned();
        let reason = mask(letter.reason.as_deref().unwrap_or_default());
        let key = (topic.clone(), letter.disposition.clone(), reason.clone());
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&key) {
            self.rest += 1;
            return;
        }
        let kind = self.kinds.entry(key).or_insert_with(|| Fingerprint {
            topic,
            cause: letter.disposition.clone(),
            reason: Some(reason),
            letters: 0,
            example: letter.offset,
            first_ms: letter.at_ms,
            last_ms: letter.at_ms,
            offsets: Vec::new(),
        });
        kind.letters += 1;
        if kind.offsets.len() < self.offsets_max {
            kind.offsets.push(letter.offset);
        }
        kind.first_ms = kind.first_ms.min(letter.at_ms);
        kind.last_ms = kind.last_ms.max(letter.at_ms);
    }

    /// The kinds, the largest first.
    pub(super) fn sorted(self) -> Vec<Fingerprint> {
        let mut kinds: Vec<Fingerprint> = self.kinds.into_values().collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.letters));
        kinds
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupQuery {
    group: String,
}

/// `GET /api/v1/dead-letters/fingerprints?group=`: reads all dead letters of the group.
pub(super) async fn list<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<FromQuery<GroupQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let FromQuery(GroupQuery { group }) = asked.map_err(|e| Refusal::bad(e.body_text()))?;
    if admin.source.group(&group).await?.is_none() {
        return Err(Refusal::unknown_group(&group));
    }
    let (mut found, mut after) = (Fingerprints::default(), None);
    loop {
        let letters = admin.source.dead_letters(&group, after, PIECE).await?;
        let Some(last) = letters.last() else { break };
        after = Some(last.offset);
        for letter in letters.iter().filter(|letter| letter.state == "dead") {
            found.add(letter);
        }
    }
    let rest = found.rest;
    let mut items = found.sorted();
    if !admin.options.show_payloads {
        for kind in &mut items {
            kind.reason = None;
        }
    }
    Ok(json_answer(StatusCode::OK, &json!({ "items": items, "rest": rest })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(offset: i64, reason: &str) -> DeadLetter {
        DeadLetter {
            offset,
            origin: Some(format!("orders-0@{offset}")),
            reason: Some(reason.to_owned()),
            at_ms: offset * 10,
            ..DeadLetter::default()
        }
    }

    #[test]
    fn the_largest_kind_comes_first() {
        let mut found = Fingerprints::with_offsets(1);
        for one in [letter(1, "late 5"), letter(2, "no stock 7"), letter(3, "no stock 8")] {
            found.add(&one);
        }
        let kinds = found.sorted();
        let first = Fingerprint {
            topic: "orders".into(),
            cause: String::new(),
            reason: Some("no stock #".into()),
            letters: 2,
            example: 2,
            first_ms: 20,
            last_ms: 30,
            offsets: vec![2],
        };
        assert_eq!((kinds.len(), &kinds[0]), (2, &first));
    }

    #[test]
    fn the_memory_for_kinds_is_bounded() {
        let mut found = Fingerprints::default();
        let words = (0..i64::try_from(KINDS_MAX).unwrap() + 5).map(|n| {
            let letters =
                (0..4).map(|digit| char::from(b'a' + u8::try_from(n >> (4 * digit) & 15).unwrap()));
            letter(n, &letters.collect::<String>())
        });
        for one in words {
            found.add(&one);
        }
        assert_eq!((found.kinds.len(), found.rest), (KINDS_MAX, 5));
    }
}
