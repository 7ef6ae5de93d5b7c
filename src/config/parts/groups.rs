//! `groups`: rules for groups by name, and for topics of them; `membership`: bounds of sessions.

use std::time::Duration;

use serde::Serialize;

use super::{HOUR, MS, Retry, SECOND, TopicKeys};
use crate::config::section::{Section, duration, text};
use crate::model::ser_duration;
use crate::retry::UNLIMITED;

/// Keys of `retry` that apply to a whole group, so a rule with a topic cannot have them.
const OF_THE_GROUP: [&str; 11] = [
    "delivery",
    "breaker",
    "consume_timeout",
    "crash_limit",
    "isolation_timeout",
    "in_place_limit",
    "give_up_after",
    "on_seek_back",
    "on_consume_timeout",
    "order",
    "rate",
];

/// Retry rules for groups by name, or for their records of some topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRule {
    /// `*`: any text, `?`: one character. The first rule that matches the whole name wins.
    pub pattern: String,
    /// The pattern of topics; `None`: the rule applies to all records of the group.
    pub topic: Option<String>,
    /// The rules of `retry` with the keys of this rule laid over, for a rule without a topic.
    pub retry: Retry,
    /// The keys that the rule sets, for a rule with a topic.
    pub keys: TopicKeys,
}

#[derive(Serialize)]
struct PatternRetry<'a> {
    #[serde(rename = "match")]
    pattern: &'a str,
    #[serde(flatten)]
    retry: &'a Retry,
}

#[derive(Serialize)]
struct TopicOverride<'a> {
    #[serde(rename = "match")]
    pattern: &'a str,
    topic: &'a str,
    #[serde(flatten)]
    keys: &'a TopicKeys,
}

impl Serialize for GroupRule {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let pattern = &self.pattern;
        match &self.topic {
            None => PatternRetry { pattern, retry: &self.retry }.serialize(s),
            Some(topic) => TopicOverride { pattern, topic, keys: &self.keys }.serialize(s),
        }
    }
}

impl GroupRule {
    pub(in crate::config) fn read_all(root: &mut Section<'_>, base: &Retry) -> Vec<Self> {
        let mut rules: Vec<Self> = Vec::new();
        for mut item in root.list("groups").unwrap_or_default() {
            let rule = Self::read(&mut item, base);
            let same =
                |other: &Self| (&other.pattern, &other.topic) == (&rule.pattern, &rule.topic);
            if !item.has("match") {
                item.problem("match", "is missing; such as \"shop\" or \"shop-*\"");
            } else if rules.iter().any(same) {
                item.problem("match", "an earlier rule has the same pattern and wins");
            }
            item.finish();
            rules.push(rule);
        }
        rules
    }

    fn read(item: &mut Section<'_>, base: &Retry) -> Self {
        let (mut pattern, mut topic) = (String::new(), None);
        item.take("match", &mut pattern, text);
        item.take("topic", &mut topic, |value| text(value).map(Some));
        if !item.has("topic") {
            let retry = base.clone().read_over(item);
            return Self { pattern, topic: None, retry, keys: TopicKeys::default() };
        }
        for key in OF_THE_GROUP {
            if item.has(key) {
                item.problem(key, "is the whole group's; write it in a rule without topic");
                item.ignore(key);
            }
        }
        let keys = TopicKeys::read(item, base);
        if keys.max_reconsume_times == Some(UNLIMITED) {
            let says = "unlimited is the whole group's; write it in a rule without topic";
            item.problem("max_reconsume_times", says);
        }
        Self { pattern, topic: topic.or(Some(String::new())), retry: base.clone(), keys }
    }
}

/// Bounds for members of groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MembershipConfig {
    /// Shortest session a member may ask for (`group.min.session.timeout.ms`).
    #[serde(serialize_with = "ser_duration")]
    pub session_timeout_min: Duration,
    /// Longest session a member may ask for (`group.max.session.timeout.ms`).
    #[serde(serialize_with = "ser_duration")]
    pub session_timeout_max: Duration,
    /// Time that a new group waits for more members (`group.initial.rebalance.delay.ms`).
    #[serde(serialize_with = "ser_duration")]
    pub initial_rebalance_delay: Duration,
    /// Silence after which a member of a KIP-848 group is removed
    /// (`group.consumer.session.timeout.ms`).
    #[serde(serialize_with = "ser_duration")]
    pub consumer_session_timeout: Duration,
    /// Interval of heartbeats of such a member (`group.consumer.heartbeat.interval.ms`).
    #[serde(serialize_with = "ser_duration")]
    pub consumer_heartbeat_interval: Duration,
}

impl Default for MembershipConfig {
    fn default() -> Self {
        Self {
            session_timeout_min: SECOND * 6,
            session_timeout_max: SECOND * 1800,
            initial_rebalance_delay: Duration::ZERO,
            consumer_session_timeout: SECOND * 45,
            consumer_heartbeat_interval: SECOND * 5,
        }
    }
}

impl MembershipConfig {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut membership = Self::default();
        let (min, max) = (&mut membership.session_timeout_min, &mut membership.session_timeout_max);
        s.take("session_timeout_min", min, duration(MS..=HOUR * 24));
        s.take("session_timeout_max", max, duration(MS..=HOUR * 24));
        if min > max {
            s.problem("session_timeout_min", "must be at most session_timeout_max");
        }
        let delay = &mut membership.initial_rebalance_delay;
        s.take("initial_rebalance_delay", delay, duration(Duration::ZERO..=SECOND * 60));
        let session = &mut membership.consumer_session_timeout;
        s.take("consumer_session_timeout", session, duration(MS..=HOUR * 24));
        let interval = &mut membership.consumer_heartbeat_interval;
        s.take("consumer_heartbeat_interval", interval, duration(MS..=HOUR));
        if membership.consumer_session_timeout <= membership.consumer_heartbeat_interval {
            s.problem("consumer_heartbeat_interval", "must be below consumer_session_timeout");
        }
        s.finish();
        membership
    }
}
