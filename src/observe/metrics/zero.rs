//! Counters that start at 0 as soon as their group is known. A series that appears with its first
//! event shows no increase, so an alert would miss that event.

use std::sync::PoisonError;

use super::{GroupGauges, LEVELS_MAX, Metrics, level_label, names};
use crate::observe::names::Def;

/// Reasons of a failed delivery, in the words of `retry::Disposition`.
pub const FAILURE_REASONS: [&str; 4] = ["rejected", "seek_back", "crashed", "timed_out"];
/// Further reasons of a dead letter.
pub const FINAL_REASONS: [&str; 5] =
    ["max_attempts", "explicit_dlq", "expired", "undecodable", "manual"];
/// Actions of operators, in the words of `retry::Action`.
pub const ACTIONS: [&str; 9] = [
    "redrive",
    "edit",
    "send",
    "discard",
    "delete",
    "restore",
    "retry_now",
    "delay_until",
    "dead_letter_now",
];
/// Words of `route::nacks` and `route::offset_commit`.
const REFUSAL_REASONS: [&str; 4] = ["malformed", "unknown_record", "too_large", "not_now"];
/// Further words of `route::offset_commit`.
const MARKER_REFUSAL_REASONS: [&str; 2] = ["retries_off", "denied"];
/// Words of `Metrics::set_degraded`.
const DEGRADED_REASONS: [&str; 4] =
    ["disk_full", "upstream_lost", "dead_letters_waiting", "retries_waiting"];
/// Words of `Metrics::transaction_ended`.
const TRANSACTION_OUTCOMES: [&str; 3] = ["committed", "aborted", "timed_out"];
/// Words of `engine::delayed`.
const DELAYED_OUTCOMES: [&str; 6] =
    ["scheduled", "delivered", "cancelled", "dropped", "refused", "unreadable"];
/// Errors of a commit that consumers meet in a rebalance.
const COMMIT_ERRORS: [&str; 3] =
    ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"];
/// Most topics of a group whose counters start at 0: a pattern may match thousands.
const TOPICS_MAX: usize = 8;

impl Metrics {
    /// Creates the series without group, broker and topic labels.
    pub(super) fn expect_process(&self) {
        for reason in DEGRADED_REASONS {
            self.gauge(&names::DEGRADED, &[reason]);
        }
        for outcome in TRANSACTION_OUTCOMES {
            self.expect(&names::TRANSACTIONS, &[outcome]);
        }
        for outcome in DELAYED_OUTCOMES {
            self.expect(&names::DELAYED_RECORDS, &[outcome]);
        }
    }

    /// Creates the counters of an upstream broker, unless half of the label values are taken.
    pub fn expect_broker(&self, broker: &str) {
        if !self.0.words.is_half_full() && self.0.words.admits(broker) {
            self.expect(&names::UPSTREAM_CONNECT_FAILURES, &[broker]);
            self.expect(&names::UPSTREAM_CREDENTIALS_REFUSED, &[broker]);
        }
    }

    /// Creates a group's counters, at 0 unless they exist.
    pub(super) fn expect_group(&self, state: &GroupGauges) {
        let (group, levels) = (state.group.as_str(), state.levels_in_force);
        let mut expected = self.0.expected.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.0.groups.admits(group) {
            return;
        }
        if expected.insert((group.to_owned(), format!("{levels} levels"))) {
            self.expect_of_group(group, levels);
        }
        let topics = state.topics.iter().take(TOPICS_MAX);
        for topic in topics.chain(state.retry_topics.iter()) {
            let place = (group.to_owned(), format!("of {topic}"));
            if expected.contains(&place) || self.0.pairs.is_half_full() {
                continue;
            }
            self.0.pairs.admits(&format!("{group}\n{topic}"));
            if state.retry_topics.contains(topic) {
                self.expect(&names::RECORDS_ACKED, &[group, topic]);
            } else {
                self.expect_of_topic(group, topic);
            }
            expected.insert(place);
        }
    }

    fn expect_of_group(&self, group: &str, levels: usize) {
        self.expect(&names::GROUP_REBALANCES, &[group]);
        self.expect(&names::SEEK_BACKS, &[group]);
        self.expect(&names::NACKS_KNOWN, &[group]);
        self.expect(&names::UNLIKE_READERS, &[group]);
        for error in COMMIT_ERRORS {
            self.expect(&names::COMMIT_FAILURES, &[group, error]);
        }
        for action in ACTIONS {
            self.expect(&names::OPERATOR_ACTIONS, &[group, action]);
        }
        self.expect(&names::JOBS_STOPPED, &[group]);
        for reason in REFUSAL_REASONS {
            self.expect(&names::NACKS_REFUSED, &[group, reason]);
            self.expect(&names::COMMIT_MARKERS_REFUSED, &[group, reason]);
        }
        for reason in MARKER_REFUSAL_REASONS {
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
    use crate::observe::names::{ALL, MetricKind};
    use crate::observe::{GroupGauges, Metrics};

    fn known(group: &str, topics: &[&str]) -> GroupGauges {
        GroupGauges {
            group: group.into(),
            levels_in_force: 2,
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            retry_topics: vec![format!("reprise.retry.{group}")],
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
    fn every_counter_of_a_group_begins_at_zero() {
        let metrics = Metrics::new(80).unwrap();
        metrics.set_groups(&[known("shop", &["orders"])]);
        let text = metrics.render().unwrap();
        let mut count = 0;
        for def in ALL.iter().filter(|def| def.labels.contains(&"group")) {
            let series = match def.kind {
                MetricKind::Counter => format!("{}{{", def.name),
                MetricKind::Histogram(_) => format!("{}_count{{", def.name),
                MetricKind::Gauge => continue,
            };
            let lines = text.lines().filter(|line| line.starts_with(&series));
            let of_shop = lines.filter(|line| line.contains("group=\"shop\""));
            let values: Vec<&str> = of_shop.filter_map(|line| line.rsplit(' ').next()).collect();
            assert!(!values.is_empty(), "{series}");
            assert!(values.iter().all(|value| *value == "0"), "{series}: {values:?}");
            count += 1;
        }
        assert!(count >= 17, "{count}");
    }

    #[test]
    fn counters_of_a_broker_begin_at_zero() {
        let metrics = Metrics::new(80).unwrap();
        metrics.expect_broker("kafka-1:9092");
        let text = metrics.render().unwrap();
        for series in [
            r#"reprise_upstream_connect_failures_total{broker="kafka-1:9092"} 0"#,
            r#"reprise_upstream_credentials_refused_total{broker="kafka-1:9092"} 0"#,
            r#"reprise_degraded{reason="upstream_lost"} 0"#,
            r#"reprise_transactions_total{outcome="timed_out"} 0"#,
        ] {
            assert!(text.contains(series), "{series}\n{text}");
        }
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
