//! Subscription patterns (KIP-848): RE2 syntax in linear time, matched against whole topic names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use regex::{Regex, RegexBuilder};

use crate::broker::topics::Topics;
use crate::model::TopicName;

/// Limit on a pattern: the bytes of about sixteen of the longest topic names.
const PATTERN_BYTES_MAX: usize = 4 << 10;
/// Limit on a compiled pattern, which is dropped once its topics are found.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
const NEST_MAX: u32 = 100;
/// Limit on cached patterns; the cache is cleared when it is full.
const REMEMBERED_MAX: usize = 1_000;

/// A pattern that cannot be evaluated, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the subscription pattern is not a valid regular expression: {0}")]
pub struct PatternError(String);

/// The topics of each pattern, cached for one version of the topic list.
#[derive(Debug, Default)]
pub(super) struct Patterns(Mutex<PatternCache>);

#[derive(Debug, Default)]
struct PatternCache {
    version: u64,
    topics: BTreeMap<String, Arc<BTreeSet<TopicName>>>,
}

impl Patterns {
    /// Dead-letter topics never match: a consumer of all topics would fail the dead letters again.
    pub(super) fn matching(
        &self,
        topics: &Topics,
        pattern: &str,
    ) -> Result<Arc<BTreeSet<TopicName>>, PatternError> {
        let version = topics.version();
        if let Some(known) = self.known(version, pattern) {
            return Ok(known);
        }
        let matches = compiled(pattern)?;
        let topics = topics.list();
        let local = topics.iter().filter(|topic| !topic.dead_letters).map(|topic| &topic.name);
        let found = local.filter(|name| matches.is_match(name.as_str()));
        let found = Arc::new(found.cloned().collect());
        self.remember(version, pattern, Arc::clone(&found));
        Ok(found)
    }

    fn known(&self, version: u64, pattern: &str) -> Option<Arc<BTreeSet<TopicName>>> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.topics.get(pattern).filter(|_| remembered.version == version).cloned()
    }

    fn remember(&self, version: u64, pattern: &str, found: Arc<BTreeSet<TopicName>>) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.version != version || REMEMBERED_MAX <= remembered.topics.len() {
            *remembered = PatternCache { version, topics: BTreeMap::new() };
        }
        remembered.topics.insert(pattern.to_owned(), found);
    }
}

/// Compiles a pattern that matches whole names only.
fn compiled(pattern: &str) -> Result<Regex, PatternError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let why = format!("{} bytes; at most {PATTERN_BYTES_MAX} are read", pattern.len());
        return Err(PatternError(why));
    }
    let pattern = unquoted(pattern);
    // The pattern is compiled alone first: inside the group below, an unbalanced `)` would be
    // valid.
    build(&pattern)?;
    build(&format!(r"\A(?:{pattern})\z"))
}

fn build(pattern: &str) -> Result<Regex, PatternError> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(PROGRAM_BYTES_MAX).dfa_size_limit(PROGRAM_BYTES_MAX).nest_limit(NEST_MAX);
    builder.build().map_err(|error| PatternError(error.to_string()))
}

/// Replaces RE2's `\Q…\E`, which the regex crate does not support, by escaped text.
fn unquoted(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains(r"\Q") {
        return Cow::Borrowed(pattern);
    }
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        if let Some(quoted) = escape.strip_prefix(r"\Q") {
            let (text, behind) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
            out.push_str(&regex::escape(text));
            rest = behind;
        } else {
            // The backslash and the next character are one escape, also when that character is a
            // backslash.
            let escaped = escape.chars().take(2).map(char::len_utf8).sum();
            let (pair, behind) = escape.split_at(escaped);
            out.push_str(pair);
            rest = behind;
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, name: &str) -> bool {
        compiled(pattern).unwrap().is_match(name)
    }

    #[test]
    fn a_pattern_matches_whole_names() {
        for (pattern, matched, others) in [
            ("orders", vec!["orders"], vec!["orders2", "my-orders", "Orders"]),
            ("ord.*", vec!["orders", "ord"], vec!["my-orders"]),
            // librdkafka joins several patterns with `|`.
            ("^orders$|^pay.*", vec!["orders", "pay", "payments"], vec!["orders2", "repay"]),
            ("a|ab", vec!["a", "ab"], vec!["abc", "b"]),
            (r"(?i)orders-\d+", vec!["ORDERS-12"], vec!["orders-", "orders-x"]),
            (r"\Qa.b\E.*", vec!["a.b", "a.bc"], vec!["axb", "a.c"]),
            (r"\Qa.b", vec!["a.b"], vec!["axb"]),
            (r"a\\Qb", vec![], vec!["aQb", "ab"]),
            (r"\pL+", vec!["orders"], vec!["orders1"]),
            ("[[:alpha:]]+", vec!["orders"], vec!["orders1"]),
            ("(?P<name>o.*)", vec!["orders"], vec!["x"]),
        ] {
            assert!(matched.iter().all(|name| is_match(pattern, name)), "{pattern}");
            assert!(others.iter().all(|name| !is_match(pattern, name)), "{pattern}");
        }
    }

    #[test]
    fn invalid_and_oversize_patterns_are_refused_with_the_reason() {
        let nested = format!("{}a{}", "(".repeat(200), ")".repeat(200));
        let bad = ["(", "a)(b", "*", "[z-a]", r"(a)\1", "(?=a)", "((a{100}){100}){100}"];
        for pattern in bad.into_iter().chain([nested.as_str()]) {
            let error = compiled(pattern).unwrap_err().to_string();
            assert!(error.contains("not a valid regular expression: "), "{pattern}: {error}");
        }
        let long = "a".repeat(PATTERN_BYTES_MAX + 1);
        assert!(compiled(&long).unwrap_err().to_string().contains("at most 4096"));
        assert!(compiled(&long[1..]).is_ok());
    }
}
