//! The gauges of one group, for the metrics.

use std::time::Duration;

use crate::engine;
use crate::model::{GroupId, WallMs};
use crate::observe::GroupGauges;
use crate::retry::detector::BreakerView;
use crate::server::source::AdminSource;
use crate::server::source::group_members::states;
use crate::server::source::{dead, number};

impl AdminSource {
    pub(super) fn gauge(
        &self,
        group: String,
        id: &GroupId,
        known: Option<&engine::GroupSummary>,
        now: WallMs,
    ) -> GroupGauges {
        let dead_bytes = self.dead_letter_bytes(id);
        let mut gauge = GroupGauges {
            group,
            members: number(self.router.live_members(id)),
            levels_in_force: self.policy(id).levels_ms.len(),
            topics: self.topics(id).iter().map(ToString::to_string).collect(),
            retry_topics: self.router.retry_topics(id).iter().map(ToString::to_string).collect(),
            dead: known.map_or(0, dead),
            dead_bytes,
            stalled: self.router.stalled(id),
            breaker_open: matches!(
                self.router.breaker(id),
                BreakerView::Paused { .. } | BreakerView::Testing { .. }
            ),
            forward: self.forward_statuses.of(id).map(|status| (status.pending, status.refused)),
            ..GroupGauges::default()
        };
        let Some(known) = known else { return gauge };
        let states = states(known);
        gauge.waiting = states.waiting;
        gauge.due = states.due;
        gauge.unread = states.unread;
        gauge.blocked = states.blocked;
        gauge.levels = known
            .counts
            .waiting
            .iter()
            .map(|(level, n)| (level.and_then(|l| usize::try_from(l).ok()).unwrap_or(0), *n))
            .collect();
        let overdue_ms = known.first_due.map_or(0, |due| now.since(due));
        gauge.overdue_s = seconds(overdue_ms);
        gauge.unread_oldest_s = known.oldest_out.map_or(0.0, |since| seconds(now.since(since)));
        gauge
    }
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}
