//! Index of all configuration keys, for hints where a misplaced or misspelt key belongs.

use std::collections::BTreeSet;

use super::node::{ConfigPosition, MappingEntry, Value};
use super::problem::nearest;

/// The prefix of all environment variables of reprise.
pub(super) const PREFIX: &str = "REPRISE_";
/// The variable of the command line that names sidecars; no key has this name.
pub const ADMIN_VARIABLE: &str = "REPRISE_ADMIN";
const HINTS_MAX: usize = 3;
/// A shorter name resembles some unrelated key by chance.
const NEAR_BYTES_LEAST: usize = 5;

/// Names from Kafka and RocketMQ, with the key that each one has here.
const FOREIGN: [(&str, &str); 12] = [
    ("advertised_listeners", "listen[].advertised"),
    ("bootstrap_servers", "upstream.bootstrap"),
    ("delay_levels", "retry.levels"),
    ("dlq", "retry.dead_letters"),
    ("listeners", "listen"),
    ("log_dir", "data_dir"),
    ("log_dirs", "data_dir"),
    ("log_level", "log.filter"),
    ("max_retries", "retry.max_reconsume_times"),
    ("message_delay_level", "retry.levels"),
    ("message_max_bytes", "topics.max_message_bytes"),
    ("num_partitions", "topics.default_partitions"),
];

/// The dotted keys; an item of a list is `[]`.
#[derive(Debug)]
pub(super) struct KeyIndex(BTreeSet<String>);

impl KeyIndex {
    pub(super) fn new(keys: BTreeSet<String>) -> Self {
        Self(keys)
    }

    /// Whether a variable without `__` may be meant as a key. It is one if it is a top-level key or
    /// nearly one, or a whole key with other signs between its words. The last part of a key counts
    /// as well, unless it is an everyday word.
    pub(super) fn is_like_a_key(&self, name: &str) -> bool {
        let top: Vec<&str> =
            self.0.iter().map(String::as_str).filter(|key| !key.contains('.')).collect();
        let is_distinct = || name.contains('_') && !self.ending_in(name).is_empty();
        nearest(name, &top).is_some() || self.spelled_as(name).next().is_some() || is_distinct()
    }

    /// The places where an unknown key may belong, most likely first, each as it is written there.
    /// `path` is the whole key at its place.
    pub(super) fn hints(&self, path: &str, entry: &MappingEntry) -> Vec<String> {
        let mut found: Vec<&str> = self.spelled_as(path).collect();
        if found.is_empty() {
            found = self.ending_in(&entry.key);
        }
        if found.is_empty() {
            found = self.nearly_ending_in(&entry.key);
        }
        let fits = |key: &&&str| self.fits(key, &entry.node.value);
        if found.iter().any(|key| fits(&key)) {
            found.retain(|key| fits(&key));
        }
        found.into_iter().take(HINTS_MAX).map(|key| written(key, &entry.place)).collect()
    }

    /// Keys that have this name when only letters and digits are compared.
    fn spelled_as(&self, name: &str) -> impl Iterator<Item = &str> {
        let name = squeezed(name);
        let foreign = FOREIGN.iter().filter(|(foreign, _)| squeezed(foreign) == name);
        let foreign: Vec<&str> = foreign.map(|(_, key)| *key).collect();
        let own = self.0.iter().map(String::as_str).filter(move |key| squeezed(key) == name);
        foreign.into_iter().chain(own)
    }

    /// Keys whose last part has this name; those of `retry` count for `groups` as well.
    fn ending_in(&self, name: &str) -> Vec<&str> {
        let name = squeezed(name);
        let same = self.endings().filter(|(_, last)| squeezed(last) == name);
        same.map(|(key, _)| key).collect()
    }

    fn nearly_ending_in(&self, name: &str) -> Vec<&str> {
        if name.len() < NEAR_BYTES_LEAST {
            return Vec::new();
        }
        let endings: Vec<&str> = self.endings().map(|(_, last)| last).collect();
        nearest(name, &endings).map(|near| self.ending_in(near)).unwrap_or_default()
    }

    fn endings(&self) -> impl Iterator<Item = (&str, &str)> {
        let in_groups = |key: &str| {
            let below = key.strip_prefix("groups[].");
            below.is_some_and(|below| self.0.contains(&format!("retry.{below}")))
        };
        let keys = self.0.iter().map(String::as_str).filter(move |key| !in_groups(key));
        keys.filter_map(|key| Some((key, key.rsplit_once('.')?.1)))
    }

    /// Whether a value of this kind can be at `key`: a map fits only a key with keys below it.
    fn fits(&self, key: &str, value: &Value) -> bool {
        let has = |below: &str| self.0.contains(&format!("{key}.{below}"));
        let is_part = self
            .0
            .iter()
            .any(|other| other.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')));
        match value {
            Value::Map(entries) if !entries.is_empty() => entries.iter().any(|e| has(&e.key)),
            Value::Map(_) | Value::Null => true,
            _ => !is_part,
        }
    }
}

/// The spelling that a key has in the kind of source that `place` is.
fn written(key: &str, place: &ConfigPosition) -> String {
    match place {
        ConfigPosition::Env(_) => {
            let name = key.replace("[]", "__0").replace('.', "__").to_ascii_uppercase();
            format!("{PREFIX}{name}")
        }
        ConfigPosition::Flag(_) => key.replace("[]", "[0]"),
        ConfigPosition::File { .. } => key.to_owned(),
    }
}

/// Only letters and digits, in lower case.
fn squeezed(name: &str) -> String {
    let kept = name.chars().filter(char::is_ascii_alphanumeric);
    kept.map(|char| char.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::known_keys::{WHOLE, known_keys};
    use crate::config::section::{Findings, Section};
    use crate::config::{Config, raw};

    /// The keys of a part of the chart's schema. Each part refuses other keys.
    fn keys_of_chart(part: &serde_json::Value, path: &str, keys: &mut BTreeSet<String>) {
        for (name, part) in part["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            keys.insert(path.clone());
            keys_of_chart(part, &path, keys);
        }
        if part["items"].is_object() {
            keys_of_chart(&part["items"], &format!("{path}[]"), keys);
        }
        let has_keys = part["properties"].is_object();
        assert_eq!(part["additionalProperties"] == false, has_keys, "{path}");
    }

    #[test]
    fn the_chart_knows_every_key_and_no_other() {
        let schema = include_str!("../../deploy/helm/reprise/values.schema.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        let mut keys = BTreeSet::new();
        keys_of_chart(&schema["properties"]["config"], "", &mut keys);
        let index = known_keys().0.iter().filter(|key| !key.ends_with("[]"));
        assert_eq!(keys.iter().collect::<Vec<_>>(), index.collect::<Vec<_>>());
    }

    #[test]
    fn the_index_has_every_key_and_no_other() {
        let index = known_keys();
        for key in [
            "listen[].sasl.users_file",
            "upstream.sasl.password",
            "upstream.tls.verify",
            "retry.breaker.window",
            "topics.list[].name",
            "groups[].match",
            "log.filter",
        ] {
            assert!(index.0.contains(key), "{key}");
        }
        let mut findings = Findings::default();
        let tree = raw::parse(WHOLE).unwrap();
        Config::read(Section::root(&tree, &findings));
        let problems = std::mem::take(findings.problems.get_mut());
        let unknown: Vec<_> = problems.iter().filter(|p| p.says.contains("unknown key")).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        for (foreign, key) in FOREIGN {
            assert!(index.0.contains(key) && !index.0.contains(foreign), "{foreign} {key}");
        }
    }
}
