//! Counts of groups: gauges for the metrics, and what is pending for a drain.

use std::time::Duration;

use crate::admin::{DrainGroup, DrainView, Unavailable};
use crate::engine::{self, GroupSummary};
use crate::model::{GroupId, WallMs};
use crate::observe::GroupGauges;
use crate::retry::detector::BreakerView;
use crate::server::source::AdminSource;
use crate::server::source::group_members::states;
use crate::server::source::{dead, number};

/// Groups that a drain lists at once.
const GROUPS_MAX: usize = 1000;

impl AdminSource {
    pub(in crate::server) async fn pending(&self) -> Result<DrainView, Unavailable> {
        let known = self.router.engine.groups().await?;
        let delayed = self.router.engine.delayed_totals().await?;
        let groups = known.iter().map(part);
        let groups: Vec<DrainGroup> =
            groups.filter(|group| group.states.pending() > 0 || group.dead_letters > 0).collect();
        let due = groups.iter().filter_map(|group| group.next_due_ms);
        Ok(DrainView {
            draining: *self.draining.borrow(),
            connections: number(self.acceptor.connections()),
            pending: groups.iter().map(|group| group.states.pending()).sum::<u64>()
                + delayed.records,
            delayed: delayed.records,
            delayed_bytes: delayed.bytes,
            dead_letters: groups.iter().map(|group| group.dead_letters).sum(),
            next_due_ms: due.chain(delayed.first_due.map(|due| due.0)).min(),
            more_groups: number(groups.len().saturating_sub(GROUPS_MAX)),
            groups: groups.into_iter().take(GROUPS_MAX).collect(),
        })
    }

    pub(super) fn gauge(
        &self,
        group: String,
        id: &GroupId,
        known: Option<&engine::GroupSummary>,
        now: WallMs,
    ) -> GroupGauges {
        let mut gauge = GroupGauges {
            group,
            members: number(self.router.live_members(id)),
            levels_in_force: self.policy(id).levels_ms.len(),
            topics: self.topics(id).iter().map(ToString::to_string).collect(),
            retry_topics: self.router.retry_topics(id).iter().map(ToString::to_string).collect(),
            dead: known.map_or(0, dead),
            dead_bytes: known.map_or(0, |known| known.letter_bytes),
            stalled: self.router.stalled(id),
            breaker_open: matches!(
                self.router.breaker(id),
                BreakerView::Paused { .. } | BreakerView::Testing { .. }
            ),
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

fn part(known: &GroupSummary) -> DrainGroup {
    DrainGroup {
        group: known.group.to_string(),
        states: states(known),
        dead_letters: dead(known),
        next_due_ms: known.first_due.map(|due| due.0),
    }
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}
