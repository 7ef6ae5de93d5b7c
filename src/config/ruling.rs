//! The value of each `retry` key in force for a group or a topic, and the place that sets it.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Config, GroupRule, Retry};
use crate::retry::glob;

/// One key of `retry` in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveKey {
    /// Dotted, such as `dead_letters.keep`.
    pub key: String,
    /// The value as it is written in the configuration.
    pub value: String,
    /// The innermost place that sets the value: a rule of `groups`, `retry`, or the default.
    pub from: String,
}

impl Config {
    /// Every key of `retry` for a group, and for records of `topic` if one is named.
    pub fn in_force(&self, group: &str, topic: Option<&str>) -> Vec<ActiveKey> {
        let mut found = Vec::new();
        put(&mut found, &tree(&Retry::default()), "default");
        put(&mut found, &tree(&self.retry), "retry");
        let mut rules = self.groups.iter().enumerate();
        let whole = rules.find(|(_, rule)| rule.topic.is_none() && glob(&rule.pattern, group));
        if let Some((index, rule)) = whole {
            put(&mut found, &tree(&rule.retry), &named(index, rule));
        }
        let fits = |rule: &GroupRule| {
            glob(&rule.pattern, group)
                && rule.topic.as_deref().zip(topic).is_some_and(|(own, topic)| glob(own, topic))
        };
        if let Some((index, rule)) = self.groups.iter().enumerate().find(|(_, rule)| fits(rule)) {
            if rule.keys.levels.is_some() {
                let off = json!({ "backoff": { "initial": "off" } });
                put(&mut found, &off, &named(index, rule));
            }
            put(&mut found, &tree(&rule.keys), &named(index, rule));
        }
        found
    }
}

fn named(index: usize, rule: &GroupRule) -> String {
    let topic = rule.topic.as_ref().map(|topic| format!(", topic: {topic}"));
    format!("groups[{index}] (match: {}{})", rule.pattern, topic.unwrap_or_default())
}

/// The keys as JSON; a failure is shown as a key.
fn tree<T: Serialize>(keys: &T) -> Value {
    serde_json::to_value(keys).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

/// Lays a place's keys over those found so far; a key with an unchanged value keeps its place.
fn put(found: &mut Vec<ActiveKey>, keys: &Value, from: &str) {
    let none = Map::new();
    for (key, value) in leaves("", keys.as_object().unwrap_or(&none)) {
        match found.iter_mut().find(|known| known.key == key) {
            Some(known) if known.value == value => {}
            Some(known) => (known.value, known.from) = (value, from.to_owned()),
            None => found.push(ActiveKey { key, value, from: from.to_owned() }),
        }
    }
}

fn leaves(path: &str, keys: &Map<String, Value>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (key, value) in keys {
        let key = format!("{path}{key}");
        match value {
            Value::Object(below) => found.extend(leaves(&format!("{key}."), below)),
            Value::String(text) => found.push((key, text.clone())),
            other => found.push((key, other.to_string())),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "retry: {max_reconsume_times: 8, max_elapsed: 1d}
groups:
  - {match: shop, topic: 'orders*', levels: 1s 2s, max_reconsume_times: 2}
  - {match: 'sh*', backoff: {initial: 1s}, rate: 50}
  - {match: shop, rate: 7}";

    fn of(group: &str, topic: Option<&str>) -> impl Fn(&str) -> (String, String) + use<> {
        let config = Config::parse("t", TEXT, &[], &[]).unwrap().config;
        let all = config.in_force(group, topic);
        move |key| {
            let found = all.iter().find(|found| found.key == key).unwrap();
            (found.value.clone(), found.from.clone())
        }
    }

    fn says(value: &str, from: &str) -> (String, String) {
        (value.to_owned(), from.to_owned())
    }

    #[test]
    fn the_innermost_matching_rule_is_named_with_its_value() {
        let shop = of("shop", Some("orders-eu"));
        let (whole, topic) = ("groups[1] (match: sh*)", "groups[0] (match: shop, topic: orders*)");
        assert_eq!(shop("max_reconsume_times"), says("2", topic));
        assert_eq!(shop("levels"), says("1s 2s", topic));
        assert_eq!(shop("backoff.initial"), says("off", topic), "levels end the back-off");
        assert_eq!(shop("rate"), says("50", whole), "the first rule that fits, not the last");
        assert_eq!(shop("max_elapsed"), says("1d", "retry"));
        assert_eq!(shop("crash_limit"), says("3", "default"));
    }

    #[test]
    fn a_topic_rule_applies_to_no_other_topic() {
        for topic in [None, Some("carts")] {
            let shop = of("shop", topic);
            assert_eq!(shop("max_reconsume_times"), says("8", "retry"));
            assert_eq!(shop("backoff.initial"), says("1s", "groups[1] (match: sh*)"));
        }
    }
}
