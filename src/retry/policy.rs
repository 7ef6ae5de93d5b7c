//! What a group's retries are ruled by, and which group has which rules.

use std::sync::Arc;

use serde::Serialize;

use crate::model::{GroupId, TopicName};
use crate::retry::{Entry, Ladder, LevelTable, TopicRule};

/// `RocketMQ`'s default limit of retries (`SubscriptionGroupConfig.retryMaxTimes`).
pub const MAX_RECONSUME_TIMES: u32 = 16;
/// How long a hand-out may stay open (`DefaultMQPushConsumer.consumeTimeout`): 15 minutes.
pub const CONSUME_TIMEOUT_MS: u64 = 15 * 60 * 1000;
/// Lost deliveries of the same records before they are tested.
pub const CRASH_LIMIT: u32 = 3;
/// Time that a part of the suspects is waited for.
pub const ISOLATION_TIMEOUT_MS: u64 = 5_000;
/// Failed deliveries in place that make a dead letter.
pub const IN_PLACE_LIMIT: u32 = 4;
/// A record that ends every consumer is withheld after so long: 15 min.
pub const GIVE_UP_AFTER_MS: u64 = 15 * 60 * 1000;
/// How long a partition is held before a record of it is served again
/// (`DefaultMQPushConsumer.suspendCurrentQueueTimeMillis`): 1 s.
pub const ORDER_INTERVAL_MS: u64 = 1_000;

/// A limit that nothing reaches: what `RocketMQ` takes for a consumer in order without one
/// (`Integer.MAX_VALUE`).
pub const UNLIMITED: u32 = 0x7fff_ffff;

/// The group of records that wait before they enter their topic. No client is in it: it has no
/// retry topic, and its name is none a client gives to a group.
pub const DELAYED: &str = "\0delayed";

/// [`DELAYED`] as a group.
pub fn delayed() -> GroupId {
    GroupId::new(DELAYED)
}

/// What waits for a failed record until it is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderMode {
    /// Nothing but itself.
    #[default]
    Off,
    /// Everything behind it in its partition.
    Partition,
    /// The later records of its key in its partition.
    Key,
}

/// A member fetches again, in the same assignment, an offset below its last delivery and not below
/// the committed offset: whether that is a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnSeekBack {
    /// Counted and shown, never acted upon: a delay queue or back-pressure looks the same.
    #[default]
    Observe,
    /// The record may have failed.
    Retry,
}

/// When a group is held: failures of first deliveries, among the last ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRules {
    /// More than so many of a hundred.
    pub ratio_percent: u32,
    /// Of the last so many.
    pub window: u32,
    /// And at least so many.
    pub min: u32,
}

impl Default for BreakerRules {
    fn default() -> Self {
        Self { ratio_percent: 50, window: 100, min: 20 }
    }
}

/// The rules of one group.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Retries before the dead letters; 0: the first failure goes there.
    pub max_reconsume_times: u32,
    /// The delay table, as it was given or made of a back-off.
    pub levels: Arc<LevelTable>,
    /// The share by which the delay of a level may be longer, in thousandths.
    pub jitter_milli: u32,
    /// A failure so long after a record's first one is its last; `None`: only the count ends it.
    pub max_elapsed_ms: Option<u64>,
    /// Retries of the group that leave through its retry topic in a second; `None`: no bound.
    pub rate: Option<u32>,
    /// How long a hand-out may stay open, and how long a settled entry is remembered after the
    /// group's commit has passed its origin.
    pub consume_timeout_ms: u64,
    /// Keep exhausted records as dead letters; otherwise they are dropped and counted.
    pub keep_dead_letters: bool,
    /// What the kept ones may take; beyond it exhausted records are held. `None`: no bound.
    pub dead_letters_bytes_max: Option<u64>,
    /// Age at which a dead letter is deleted; `None`: never.
    pub dead_letters_retention_ms: Option<u64>,
    /// The topic of the real cluster they are sent to, a template; `None`: they stay here. The
    /// ledger has nothing to do with it.
    pub dead_letters_topic: Option<Arc<str>>,
    /// The group has a retry topic; otherwise nothing of it is retried.
    pub lane: bool,
    /// What is inferred is tried again in its own place, also where a member has the retry topic.
    pub in_place: bool,
    /// Failures are also told from what consumers do, not only from what they say.
    pub inference: bool,
    /// Lost deliveries of the same records before they are tested; at least 1.
    pub crash_limit: u32,
    /// Time that a part of the suspects is waited for.
    pub isolation_timeout_ms: u64,
    /// Failed deliveries in place that make a dead letter.
    pub in_place_limit: u32,
    /// After so long a record that ends every consumer is withheld; `None`: never.
    pub give_up_after_ms: Option<u64>,
    /// Whether a member that seeks back has failed.
    pub on_seek_back: OnSeekBack,
    /// What waits for a failed record.
    pub order: OrderMode,
    /// How long a partition is held before a record of it is served again.
    pub order_interval_ms: u64,
    /// A member that does not come back to a record its partition waits for is made to.
    pub calls_back: bool,
    /// When the group is held; `None`: never.
    pub breaker: Option<BreakerRules>,
    /// A retry that waits is given up once a reset has its original delivered again.
    pub supersedes: bool,
}

/// The rules of all groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    fallback: Policy,
    /// What waits before it enters its topic is no group's retry.
    delayed: Policy,
    groups: Vec<(String, Policy)>,
    topics: Vec<TopicRule>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_reconsume_times: MAX_RECONSUME_TIMES,
            levels: Arc::new(LevelTable::default()),
            jitter_milli: 0,
            max_elapsed_ms: None,
            rate: None,
            consume_timeout_ms: CONSUME_TIMEOUT_MS,
            keep_dead_letters: true,
            dead_letters_bytes_max: None,
            dead_letters_retention_ms: None,
            dead_letters_topic: None,
            lane: true,
            in_place: false,
            inference: true,
            crash_limit: CRASH_LIMIT,
            isolation_timeout_ms: ISOLATION_TIMEOUT_MS,
            in_place_limit: IN_PLACE_LIMIT,
            give_up_after_ms: Some(GIVE_UP_AFTER_MS),
            on_seek_back: OnSeekBack::default(),
            order: OrderMode::Off,
            order_interval_ms: ORDER_INTERVAL_MS,
            calls_back: false,
            breaker: None,
            supersedes: true,
        }
    }
}

impl Policy {
    /// Its consumers are watched: for what they do, or so that keys are kept in order.
    pub fn is_watched(&self) -> bool {
        self.inference || (self.lane && self.order == OrderMode::Key)
    }

    /// The limit a configured number stands for: `-1` is the default.
    pub fn limit(configured: i64) -> Option<u32> {
        match configured {
            -1 => Some(MAX_RECONSUME_TIMES),
            n => u32::try_from(n).ok(),
        }
    }
}

impl Default for Policies {
    fn default() -> Self {
        Self::new(Policy::default(), Vec::new())
    }
}

impl Policies {
    /// `groups`: a pattern (`*` any text, `?` one character) and its rules. The first pattern that
    /// matches a group's whole name wins; a group no pattern matches has `fallback`.
    pub fn new(fallback: Policy, groups: Vec<(String, Policy)>) -> Self {
        let delayed = Policy { lane: false, inference: false, rate: None, ..fallback.clone() };
        Self { fallback, delayed, groups, topics: Vec::new() }
    }

    /// The same with rules for records of some topics: the first that fits group and topic changes
    /// what the group's own rules say.
    #[must_use]
    pub fn with_topics(self, topics: Vec<TopicRule>) -> Self {
        Self { topics, ..self }
    }

    /// The rules of this group.
    pub fn of(&self, group: &GroupId) -> &Policy {
        if group.as_str() == DELAYED {
            return &self.delayed;
        }
        let matching = self.groups.iter().find(|(pattern, _)| glob(pattern, group.as_str()));
        matching.map_or(&self.fallback, |(_, policy)| policy)
    }

    /// The pattern of the group's rules; `None`: it has the fallback.
    pub fn rule_of(&self, group: &GroupId) -> Option<&str> {
        let mut patterns = self.groups.iter().map(|(pattern, _)| pattern.as_str());
        patterns.find(|pattern| glob(pattern, group.as_str()))
    }

    /// Whether there are rules with this pattern.
    pub fn has_rule(&self, pattern: &str) -> bool {
        self.groups.iter().any(|(known, _)| known == pattern)
    }

    /// How a record is retried.
    pub fn ladder(&self, entry: &Entry) -> Ladder {
        match entry.origin.as_ref() {
            Some(origin) => self.ladder_of(&entry.group, &origin.topic),
            None => Ladder::new(self.of(&entry.group), None),
        }
    }

    /// How what a group fails on of a topic is retried.
    pub fn ladder_of(&self, group: &GroupId, topic: &TopicName) -> Ladder {
        let rule = self.topics.iter().find(|rule| rule.is_for(group.as_str(), topic.as_str()));
        Ladder::new(self.of(group), rule)
    }

    /// A number that differs when a delay table, or which group has which, differs (FNV-1a).
    /// It is stored: the count must not change.
    pub fn tables_mark(&self) -> u64 {
        let mut mark = Fnv::default();
        mark.table(&self.fallback.levels);
        for (pattern, policy) in &self.groups {
            mark.bytes(pattern.as_bytes());
            mark.bytes(&[0xff]);
            mark.table(&policy.levels);
            mark.jitter(policy.jitter_milli);
        }
        mark.jitter(self.fallback.jitter_milli);
        for rule in &self.topics {
            mark.bytes(rule.group.as_bytes());
            mark.bytes(&[0xfe]);
            mark.bytes(rule.topic.as_bytes());
            mark.bytes(&[0xff]);
            if let Some(delays) = &rule.delays {
                mark.table(&delays.levels);
                mark.jitter(delays.jitter_milli);
            }
        }
        mark.0
    }
}

pub(super) struct Fnv(pub(super) u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn jitter(&mut self, jitter_milli: u32) {
        if jitter_milli != 0 {
            self.bytes(&[0xfd]);
            self.bytes(&jitter_milli.to_le_bytes());
        }
    }

    fn table(&mut self, table: &LevelTable) {
        self.bytes(&table.len().to_le_bytes());
        for delay_ms in table.iter() {
            self.bytes(&delay_ms.to_le_bytes());
        }
    }
}

/// Whether a whole text fits a pattern: `*` any text, `?` one character. Without recursion: on a
/// mismatch the last `*` takes one character more.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    let mut star = None;
    loop {
        let mut rest = text.clone();
        match (pattern.next(), rest.next()) {
            (Some('*'), _) => star = Some((pattern.clone(), text.clone())),
            (Some('?'), Some(_)) => text = rest,
            (Some(p), Some(t)) if p == t => text = rest,
            (None, None) => return true,
            _ => {
                let Some((after_star, taken)) = &mut star else { return false };
                if taken.next().is_none() {
                    return false;
                }
                (pattern, text) = (after_star.clone(), taken.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, hit) in [
            ("shop", "shop", true),
            ("shop", "shops", false),
            ("shop*", "shop", true),
            ("*-eu", "shop-eu", true),
            ("*-eu", "shop-eu-eu", true),
            ("*-eu", "shop-eux", false),
            ("a*b*c", "aXbXbYc", true),
            ("a*b*c", "aXbXbY", false),
            ("?", "é", true),
            ("?", "", false),
            ("", "", true),
            ("*", "", true),
            ("a.c", "abc", false),
        ] {
            assert_eq!(glob(pattern, text), hit, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_matching_pattern_rules_a_group() {
        let with = |max_reconsume_times| Policy { max_reconsume_times, ..Policy::default() };
        let groups = vec![("shop".into(), with(5)), ("sh*".into(), with(7))];
        let policies = Policies::new(with(1), groups);
        let max = |group: &str| policies.of(&group.into()).max_reconsume_times;
        assert_eq!((max("shop"), max("shoe"), max("other")), (5, 7, 1));
    }

    #[test]
    fn minus_one_is_the_default_limit_and_other_negatives_are_none() {
        assert_eq!(Policy::limit(-1), Some(16));
        assert_eq!((Policy::limit(0), Policy::limit(3)), (Some(0), Some(3)));
        assert_eq!(Policy::limit(-2), None);
    }

    #[test]
    fn the_mark_of_the_shipped_table_never_changes() {
        assert_eq!(Policies::default().tables_mark(), Policies::default().tables_mark());
        let (table, _) = LevelTable::parse("1s 2s").unwrap();
        let other = Policy { levels: Arc::new(table), ..Policy::default() };
        let changed = Policies::new(other, Vec::new());
        assert_ne!(changed.tables_mark(), Policies::default().tables_mark());
    }
}
