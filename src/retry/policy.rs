//! Retry rules of groups, and the choice of a group's rules.

use std::sync::Arc;

use serde::Serialize;

use crate::model::{GroupId, TopicName};
use crate::retry::fnv::Fnv;
use crate::retry::{Delays, Entry, Ladder, LevelTable, TopicRule, glob};

/// `RocketMQ`'s default limit of retries (`SubscriptionGroupConfig.retryMaxTimes`).
pub const MAX_RECONSUME_TIMES: u32 = 16;
/// Longest time a retry may stay outstanding (`DefaultMQPushConsumer.consumeTimeout`): 15 minutes.
pub const CONSUME_TIMEOUT_MS: u64 = 15 * 60 * 1000;
/// Lost deliveries of the same records before the detector tests them.
pub const CRASH_LIMIT: u32 = 3;
/// Time until the detector delivers the next part of the suspects, unless a commit comes first.
pub const ISOLATION_TIMEOUT_MS: u64 = 5_000;
/// Failed deliveries in place after which a record is a dead letter.
pub const IN_PLACE_LIMIT: u32 = 4;
/// Time after which a record that ends every consumer is withheld: 15 min.
pub const GIVE_UP_AFTER_MS: u64 = 15 * 60 * 1000;
/// Pause of a partition before a record of it is delivered again
/// (`DefaultMQPushConsumer.suspendCurrentQueueTimeMillis`): 1 s.
pub const ORDER_INTERVAL_MS: u64 = 1_000;

/// Partitions of a retry topic that is made here.
pub const RETRY_PARTITIONS: i32 = 3;

/// No limit: `RocketMQ`'s default for an ordered consumer (`Integer.MAX_VALUE`).
pub const UNLIMITED: u32 = 0x7fff_ffff;

/// Reserved group of produced records with a delay. The NUL keeps its name apart from every
/// client's, so it has no member and no retry topic.
pub const DELAYED: &str = "\0delayed";

/// [`DELAYED`] as a group.
pub fn delayed() -> GroupId {
    GroupId::new(DELAYED)
}

/// Records that are blocked by a failed one until it is final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderMode {
    /// No other record.
    #[default]
    Off,
    /// Every later record of the partition.
    Partition,
}

/// Meaning of a signal that may be a failure: a seek back (a member fetches, in one assignment,
/// below its last delivery and not below the committed offset), or a consume timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignalRule {
    /// Counted and shown only: a healthy application may look the same.
    #[default]
    Observe,
    /// The record may have failed, or has.
    Retry,
}

/// Failure rate of first deliveries at which a group's breaker opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRules {
    /// The breaker opens above this percentage of failures.
    pub ratio_percent: u32,
    /// Most latest first deliveries that count; beyond it their counts are halved.
    pub window: u32,
    /// Fewest failures that open the breaker.
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
    /// The delay table, given as such or computed from a back-off.
    pub levels: Arc<LevelTable>,
    /// Longest extension of a level's delay, in thousandths of the delay.
    pub jitter_milli: u32,
    /// A failure this long after a record's first one is its last; `None`: only the count ends the
    /// retries.
    pub max_elapsed_ms: Option<u64>,
    /// Deliveries through the retry topic per second; `None`: no limit.
    pub rate: Option<u32>,
    /// Longest time a retry may stay outstanding. Also the time for which a final entry is
    /// remembered after the group has committed past its origin.
    pub consume_timeout_ms: u64,
    /// Keep exhausted records as dead letters; otherwise they are dropped and counted.
    pub keep_dead_letters: bool,
    /// Quota of the dead letters; further exhausted records are withheld. `None`: no quota.
    pub dead_letters_bytes_max: Option<u64>,
    /// Age at which a dead letter is deleted; `None`: never.
    pub dead_letters_retention_ms: Option<u64>,
    /// The group has a retry topic; otherwise none of its records is retried.
    pub has_retries: bool,
    /// Partitions of a retry topic that is made here.
    pub partitions: i32,
    /// Inferred failures are retried in place, even if a member subscribes to the retry topic.
    pub in_place: bool,
    /// The detector infers failures from fetches, commits and lost members.
    pub inference: bool,
    /// Lost deliveries of the same records before the detector tests them; at least 1.
    pub crash_limit: u32,
    /// Time until the detector delivers the next part of the suspects, unless a commit comes first.
    pub isolation_timeout_ms: u64,
    /// Failed deliveries in place after which a record is a dead letter.
    pub in_place_limit: u32,
    /// Time after which a record that ends every consumer is withheld; `None`: never.
    pub give_up_after_ms: Option<u64>,
    /// Meaning of a member's seek back.
    pub on_seek_back: SignalRule,
    /// Meaning of a record that a live member does not commit for `consume_timeout_ms`.
    pub on_consume_timeout: SignalRule,
    /// Records that are blocked by a failed one.
    pub order: OrderMode,
    /// Pause of a partition before a record of it is delivered again.
    pub order_interval_ms: u64,
    /// `order.rewind: rebalance`: a member that fetches past its blocking record is made to rejoin.
    pub calls_back: bool,
    /// Failure rate at which the breaker opens; `None`: never.
    pub breaker: Option<BreakerRules>,
}

/// The rules of all groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    fallback: Policy,
    /// Rules of [`DELAYED`]: no retry topic, inference or rate limit.
    delayed: Policy,
    groups: Vec<(String, Policy)>,
    topics: Vec<TopicRule>,
    /// Dead letters are records of the cluster behind.
    letters_behind: bool,
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
            has_retries: true,
            partitions: RETRY_PARTITIONS,
            in_place: false,
            inference: true,
            crash_limit: CRASH_LIMIT,
            isolation_timeout_ms: ISOLATION_TIMEOUT_MS,
            in_place_limit: IN_PLACE_LIMIT,
            give_up_after_ms: Some(GIVE_UP_AFTER_MS),
            on_seek_back: SignalRule::default(),
            on_consume_timeout: SignalRule::default(),
            order: OrderMode::Off,
            order_interval_ms: ORDER_INTERVAL_MS,
            calls_back: false,
            breaker: None,
        }
    }
}

impl Policy {
    /// The group's rules, overridden by the topic's rule.
    fn ladder(&self, rule: Option<&TopicRule>) -> Ladder {
        let own = Ladder {
            max_reconsume_times: self.max_reconsume_times,
            delays: Delays { levels: Arc::clone(&self.levels), jitter_milli: self.jitter_milli },
            max_elapsed_ms: self.max_elapsed_ms,
            keep_dead_letters: self.keep_dead_letters,
        };
        let Some(rule) = rule else { return own };
        Ladder {
            max_reconsume_times: rule.max_reconsume_times.unwrap_or(own.max_reconsume_times),
            delays: rule.delays.clone().unwrap_or(own.delays),
            max_elapsed_ms: rule.max_elapsed_ms.unwrap_or(own.max_elapsed_ms),
            keep_dead_letters: rule.keep_dead_letters.unwrap_or(own.keep_dead_letters),
        }
    }

    /// Limit for a configured number: `-1` is the default, other negative numbers are invalid.
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
    /// `groups`: patterns (`*` any text, `?` one character) with their rules. The first pattern
    /// that matches a group's whole name wins; `fallback` is for all other groups.
    pub fn new(fallback: Policy, groups: Vec<(String, Policy)>) -> Self {
        let delayed =
            Policy { has_retries: false, inference: false, rate: None, ..fallback.clone() };
        Self { fallback, delayed, groups, topics: Vec::new(), letters_behind: false }
    }

    /// Adds topic rules: the first rule that matches group and topic overrides the group's own
    /// rules.
    #[must_use]
    pub fn with_topics(self, topics: Vec<TopicRule>) -> Self {
        Self { topics, ..self }
    }

    /// An exhausted record becomes a dead letter once it is read back from the cluster behind.
    #[must_use]
    pub fn with_letters_behind(self, letters_behind: bool) -> Self {
        Self { letters_behind, ..self }
    }

    pub fn has_letters_behind(&self) -> bool {
        self.letters_behind
    }

    pub fn of(&self, group: &GroupId) -> &Policy {
        if group.as_str() == DELAYED {
            return &self.delayed;
        }
        let matching = self.groups.iter().find(|(pattern, _)| glob(pattern, group.as_str()));
        matching.map_or(&self.fallback, |(_, policy)| policy)
    }

    /// The pattern of the group's rules; `None`: the group has the fallback.
    pub fn rule_of(&self, group: &GroupId) -> Option<&str> {
        let mut patterns = self.groups.iter().map(|(pattern, _)| pattern.as_str());
        patterns.find(|pattern| glob(pattern, group.as_str()))
    }

    /// Whether there are rules with this pattern.
    pub fn has_rule(&self, pattern: &str) -> bool {
        self.groups.iter().any(|(known, _)| known == pattern)
    }

    /// Retry rules of one record.
    pub fn ladder(&self, entry: &Entry) -> Ladder {
        match entry.origin.as_ref() {
            Some(origin) => self.ladder_of(&entry.group, &origin.topic),
            None => self.of(&entry.group).ladder(None),
        }
    }

    /// Retry rules for a group's failed records of one topic.
    pub fn ladder_of(&self, group: &GroupId, topic: &TopicName) -> Ladder {
        let rule = self.topics.iter().find(|rule| rule.is_for(group.as_str(), topic.as_str()));
        self.of(group).ladder(rule)
    }

    /// Hash of all delay tables and their owners (FNV-1a). The hash is stored and compared after a
    /// restart: its computation must not change.
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

impl Fnv {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_pattern_rules_a_group() {
        let with = |max_reconsume_times| Policy { max_reconsume_times, ..Policy::default() };
        let groups = vec![("shop".into(), with(5)), ("sh*".into(), with(7))];
        let policies = Policies::new(with(1), groups);
        let max = |group: &str| policies.of(&group.into()).max_reconsume_times;
        assert_eq!((max("shop"), max("shoe"), max("other")), (5, 7, 1));
    }

    #[test]
    fn a_limit_of_minus_one_is_the_default() {
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
