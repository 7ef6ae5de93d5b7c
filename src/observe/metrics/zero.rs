//! Counters of a group from the moment it is known: a series that appears with its first event
//! has no increase, and an alert on the increase misses that event.

use std::sync::PoisonError;

use super::{LEVELS_MAX, Metrics, level_label, names};
use crate::observe::names::Def;

/// Reasons of a failed delivery, in the words of `retry::Disposition`.
pub const FAILURE_REASONS: [&str; 3] = ["rejected", "seek_back", "crashed"];
/// Reasons of a dead letter beside those.
pub const FINAL_REASONS: [&str; 5] =
    ["max_attempts", "explicit_dlq", "expired", "undecodable", "manual"];
/// Actions of operators, in the words of `retry::Action`.
pub const ACTIONS: [&str; 7] =
    ["redrive", "discard", "delete", "restore", "retry_now", "delay_until", "dead_letter_now"];
/// Words of `route::nacks` and `route::offset_commit`.
const REFUSAL_REASONS: [&str; 4] = ["malformed", "unknown_record", "too_large", "not_now"];
/// Errors of a commit that consumers meet in a rebalance.
const COMMIT_ERRORS: [&str; 3] =
    ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"];
/// Topics of one group whose counters begin at 0: a pattern may match thousands.
const TOPICS_MAX: usize = 8;

impl Metrics {
    /// Makes the counters of a group exist, at 0 unless they count already. `levels`: of its delay
    /// table; `topics`: those its members subscribe to.
    pub(super) fn expect_group(&self, group: &str, levels: usize, topics: &[String]) {
        let mut expected = self.0.expected.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.0.groups.admits(group) {
            return;
        }
        if expected.insert((group.to_owned(), format!("{levels} levels"))) {
            self.expect_of_group(group, levels);
        }
        for topic in topics.iter().take(TOPICS_MAX) {
            let place = (group.to_owned(), format!("of {topic}"));
            if expected.contains(&place) || self.0.pairs.is_half_full() {
                continue;
            }
            self.0.pairs.admits(&format!("{group}\n{topic}"));
            self.expect_of_topic(group, topic);
            expected.insert(place);
        }
    }

    fn expect_of_group(&self, group: &str, levels: usize) {
        self.expect(&names::GROUP_REBALANCES, &[group]);
        self.expect(&names::SEEK_BACKS, &[group]);
        for error in COMMIT_ERRORS {
            self.expect(&names::COMMIT_FAILURES, &[group, error]);
        }
        for action in ACTIONS {
            self.expect(&names::OPERATOR_ACTIONS, &[group, action]);
        }
        for reason in REFUSAL_REASONS {
            self.expect(&names::NACKS_REFUSED, &[group, reason]);
            self.expect(&names::COMMIT_MARKERS_REFUSED, &[group, reason]);
        }
        for level in 0..=levels.min(LEVELS_MAX) {
            self.expect(&names::RETRIES_SCHEDULED, &[group, &level_label(level)]);
            self.expect(&names::RETRIES_REDELIVERED, &[group, &level_label(level)]);
        }
        for def in
            [&names::REDELIVERY_LATENESS, &names::SUCCESS_RECONSUME_TIMES, &names::RETRY_TO_SUCCESS]
        {
            self.histogram(def, &[group]);
        }
    }

    fn expect_of_topic(&self, group: &str, topic: &str) {
        for reason in FAILURE_REASONS {
            self.expect(&names::RECORDS_FAILED, &[group, topic, reason]);
        }
        for reason in FAILURE_REASONS.into_iter().chain(FINAL_REASONS) {
            self.expect(&names::DLQ_RECORDS_TOTAL, &[group, topic, reason]);
        }
        self.expect(&names::DISCARDED, &[group, topic]);
    }

    fn expect(&self, def: &Def, labels: &[&str]) {
        self.counter(def, labels);
    }
}

#[cfg(test)]
mod tests {
    use crate::observe::{GroupGauges, Metrics};

    fn known(group: &str, topics: &[&str]) -> GroupGauges {
        GroupGauges {
            group: group.into(),
            levels_in_force: 2,
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            ..GroupGauges::default()
        }
    }

    #[test]
    fn counters_are_zero_as_soon_as_a_group_is_known() {
        let metrics = Metrics::new(80).unwrap();
        metrics.dead_lettered("shop", "orders", "rejected");
        metrics.set_groups(&[known("shop", &["orders"])]);
        let text = metrics.render().unwrap();
        for series in [
            r#"reprise_dlq_records_total{group="shop",reason="rejected",topic="orders"} 1"#,
            r#"reprise_dlq_records_total{group="shop",reason="crashed",topic="orders"} 0"#,
            r#"reprise_records_failed_total{group="shop",reason="seek_back",topic="orders"} 0"#,
            r#"reprise_retries_scheduled_total{group="shop",level="2"} 0"#,
            r#"reprise_nacks_refused_total{group="shop",reason="malformed"} 0"#,
            r#"reprise_group_rebalances_total{group="shop"} 0"#,
            r#"reprise_retry_to_success_seconds_count{group="shop"} 0"#,
        ] {
            assert!(text.contains(series), "{series}\n{text}");
        }
        assert!(!text.contains(r#"scheduled_total{group="shop",level="3"}"#), "not in its table");
    }

    #[test]
    fn a_pattern_of_many_topics_leaves_room_for_other_groups() {
        let metrics = Metrics::new(8).unwrap();
        let topics: Vec<String> = (0..500).map(|n| format!("t-{n}")).collect();
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        metrics.set_groups(&[known("all", &topics), known("shop", &["orders"])]);
        metrics.dead_lettered("shop", "orders", "rejected");
        let text = metrics.render().unwrap();
        assert!(text.contains(r#"reprise_discarded_total{group="all",topic="t-7"} 0"#));
        assert!(!text.contains(r#"topic="t-8""#));
        assert!(text.contains(r#"records_total{group="shop",reason="rejected",topic="orders"} 1"#));
        assert!(!text.contains(r#"dropped_total{metric="reprise_dlq"#), "{text}");
    }
}
