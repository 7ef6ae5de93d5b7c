//! Gauges of groups, replaced as a whole at each scrape: gauges of deleted groups disappear, and
//! groups folded into `other` are added up.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::{GaugeVec, Metrics, float, level_label, names};
use crate::observe::names::Def;

/// Present state of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupGauges {
    pub group: String,
    pub members: u64,
    /// Levels of the group's delay table.
    pub levels_in_force: usize,
    /// Topics that the members subscribe to, and topics with committed offsets.
    pub topics: Vec<String>,
    pub retry_topics: Vec<String>,
    /// Retries delivered and not final.
    pub unread: u64,
    /// Age of the oldest unread retry, in seconds.
    pub unread_oldest_s: f64,
    /// Retries whose delay runs.
    pub waiting: u64,
    /// Retries that are due and not released.
    pub due: u64,
    /// Exhausted records withheld by the dead-letter quota.
    pub blocked: u64,
    /// First outstanding records not committed for `consume_timeout`.
    pub stalled: u64,
    /// Retries whose delay runs or that are due: (level, number).
    pub levels: Vec<(usize, u64)>,
    pub breaker_open: bool,
    /// Time since the oldest due retry became due, in seconds.
    pub overdue_s: f64,
    /// Dead letters kept.
    pub dead: u64,
    /// Bytes of the dead letters kept.
    pub dead_bytes: u64,
    /// Kinds of dead letters.
    pub dead_fingerprints: u64,
    /// Unix seconds of the oldest dead letter; 0 = none.
    pub dead_oldest_s: f64,
}

/// Metric families that a snapshot replaces.
const FAMILIES: [&Def; 14] = [
    &names::GROUP_MEMBERS,
    &names::RECORDS_UNREAD,
    &names::UNREAD_OLDEST,
    &names::RECORDS_WAITING,
    &names::RECORDS_DUE,
    &names::RECORDS_BLOCKED,
    &names::RECORDS_STALLED,
    &names::RECORDS_BY_LEVEL,
    &names::BREAKER_OPEN,
    &names::RETRY_OVERDUE,
    &names::DLQ_RECORDS,
    &names::DLQ_BYTES,
    &names::DLQ_FINGERPRINTS,
    &names::DLQ_OLDEST,
];

impl Metrics {
    /// Replaces the gauges of all groups.
    pub fn set_groups(&self, groups: &[GroupGauges]) {
        let _whole = self.0.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        for vec in FAMILIES.into_iter().filter_map(|def| self.family(def)) {
            vec.reset();
        }
        let mut oldest_dead: BTreeMap<&str, f64> = BTreeMap::new();
        for state in groups {
            self.expect_group(state);
            let group = self.group(&names::GROUP_MEMBERS, &state.group);
            for (def, value) in [
                (&names::GROUP_MEMBERS, state.members),
                (&names::RECORDS_UNREAD, state.unread),
                (&names::RECORDS_WAITING, state.waiting),
                (&names::RECORDS_DUE, state.due),
                (&names::RECORDS_BLOCKED, state.blocked),
                (&names::RECORDS_STALLED, state.stalled),
                (&names::BREAKER_OPEN, u64::from(state.breaker_open)),
                (&names::DLQ_RECORDS, state.dead),
                (&names::DLQ_BYTES, state.dead_bytes),
                (&names::DLQ_FINGERPRINTS, state.dead_fingerprints),
            ] {
                self.plus(def, &[group], float(value));
            }
            for (level, n) in &state.levels {
                self.plus(&names::RECORDS_BY_LEVEL, &[group, &level_label(*level)], float(*n));
            }
            self.at_least(&names::UNREAD_OLDEST, group, state.unread_oldest_s);
            self.at_least(&names::RETRY_OVERDUE, group, state.overdue_s);
            let oldest = oldest_dead.entry(group).or_insert(state.dead_oldest_s);
            if state.dead_oldest_s > 0.0 && (*oldest <= 0.0 || state.dead_oldest_s < *oldest) {
                *oldest = state.dead_oldest_s;
            }
        }
        for (group, oldest_s) in oldest_dead {
            self.set(&names::DLQ_OLDEST, &[group], oldest_s);
        }
    }

    fn family(&self, def: &Def) -> Option<&GaugeVec> {
        self.0.gauges.iter().find(|(name, _)| *name == def.name).map(|(_, vec)| vec)
    }

    fn plus(&self, def: &Def, labels: &[&str], value: f64) {
        if let Some(gauge) = self.gauge(def, labels) {
            gauge.add(value);
        }
    }

    fn at_least(&self, def: &Def, group: &str, value: f64) {
        if let Some(gauge) = self.gauge(def, &[group]) {
            gauge.set(gauge.get().max(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(group: &str, dead: u64, dead_oldest_s: f64) -> GroupGauges {
        GroupGauges { group: group.into(), dead, dead_oldest_s, ..GroupGauges::default() }
    }

    #[test]
    fn folded_groups_add_up_and_groups_that_are_gone_disappear() {
        let metrics = Metrics::new(1).unwrap();
        metrics.set_groups(&[state("a", 1, 9.0), state("b", 2, 0.0), state("c", 3, 7.0)]);
        let text = metrics.render().unwrap();
        assert!(text.contains(r#"reprise_dlq_records{group="other"} 5"#), "{text}");
        let oldest = r#"reprise_dlq_oldest_timestamp_seconds{group="other"} 7"#;
        assert!(text.contains(oldest), "{text}");
        metrics.set_groups(&[state("a", 1, 9.0)]);
        assert!(!metrics.render().unwrap().contains(r#"reprise_dlq_records{group="other"}"#));
    }
}
