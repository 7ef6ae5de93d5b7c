//! Subscription patterns (KIP-848): RE2 syntax in linear time, matched against whole topic names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use regex::{Regex, RegexBuilder};

use crate::broker::Broker;
use crate::model::TopicName;

/// A pattern is at most this long: sixteen of the longest topic names.
const PATTERN_BYTES_MAX: usize = 4 << 10;
/// A compiled pattern is at most this large; it is dropped once its topics are found.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
const NEST_MAX: u32 = 100;
/// Patterns whose topics are remembered; at this many the memory begins anew.
const REMEMBERED_MAX: usize = 1_000;

/// A pattern that is not evaluated, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the subscription pattern is not a valid regular expression: {0}")]
pub struct PatternError(String);

/// The topics each pattern matches, as of one version of the list of topics.
#[derive(Debug, Default)]
pub(super) struct Patterns(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    version: u64,
    /// By pattern and the topic that is matched beside those of the list.
    topics: BTreeMap<(String, Option<TopicName>), Arc<BTreeSet<TopicName>>>,
}

impl Broker {
    /// The topics of this cluster whose whole name matches, and `besides` if that matches too. Dead
    /// letters are never matched: a consumer of everything would fail them anew.
    pub fn matching(
        &self,
        pattern: &str,
        besides: Option<&TopicName>,
    ) -> Result<Arc<BTreeSet<TopicName>>, PatternError> {
        let key = (pattern.to_owned(), besides.cloned());
        let version = self.topics.version();
        if let Some(known) = self.patterns.known(version, &key) {
            return Ok(known);
        }
        let matches = compiled(pattern)?;
        let topics = self.topics.list();
        let local = topics.iter().filter(|topic| !topic.dead_letters).map(|topic| &topic.name);
        let found = local.chain(besides).filter(|name| matches.is_match(name.as_str()));
        let found = Arc::new(found.cloned().collect());
        self.patterns.remember(version, key, Arc::clone(&found));
        Ok(found)
    }
}

impl Patterns {
    fn known(
        &self,
        version: u64,
        key: &(String, Option<TopicName>),
    ) -> Option<Arc<BTreeSet<TopicName>>> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.topics.get(key).filter(|_| remembered.version == version).cloned()
    }

    fn remember(
        &self,
        version: u64,
        key: (String, Option<TopicName>),
        found: Arc<BTreeSet<TopicName>>,
    ) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.version != version || REMEMBERED_MAX <= remembered.topics.len() {
            *remembered = Remembered { version, topics: BTreeMap::new() };
        }
        remembered.topics.insert(key, found);
    }
}

/// A pattern that matches whole names only.
fn compiled(pattern: &str) -> Result<Regex, PatternError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let why = format!("{} bytes; at most {PATTERN_BYTES_MAX} are read", pattern.len());
        return Err(PatternError(why));
    }
    let pattern = unquoted(pattern);
    // By itself first: the group around it would make sense of a parenthesis that closes nothing.
    build(&pattern)?;
    build(&format!(r"\A(?:{pattern})\z"))
}

fn build(pattern: &str) -> Result<Regex, PatternError> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(PROGRAM_BYTES_MAX).dfa_size_limit(PROGRAM_BYTES_MAX).nest_limit(NEST_MAX);
    builder.build().map_err(|error| PatternError(error.to_string()))
}

/// RE2's `\Q…\E`, which the crate does not read, as escaped text.
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
            // The escaped character belongs to its backslash, also when that is one.
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
            // librdkafka joins several patterns so.
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
    fn what_is_no_pattern_or_too_large_is_refused_with_the_reason() {
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
