//! Delivery tracking: fetches, deliveries, commits and membership changes go to the detector of
//! their group. The sidecar then executes the detector's outputs.
//!
//! A Fetch is attributed to a member (`attribution.rs`), gets a plan (`settlings.rs`), and is
//! recorded before its records leave. The group APIs supply the other observations (`observed.rs`).

mod attribution;
mod fetch_owner;
mod observed;
mod partition_order;
mod settlings;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::engine::GroupDetector;
use crate::model::{GroupId, MemberId, Moment, MonoMs, TopicPartition};
use crate::retry::detector::{
    BreakerView, DeliveredRange, Detector, DetectorView, FetchPosition, MemberFetch, Plan,
};
use crate::route::Router;

pub use fetch_owner::{FetchOwner, FetchSession};
use settlings::SettleTasks;
pub(super) use settlings::{FinalForm, ReadOutcome};

/// The interval at which the timers of detectors run.
const LOOK: Duration = Duration::from_secs(1);

/// A Fetch of a member whose group has a detector.
#[derive(Debug)]
pub struct TrackedFetch {
    group: GroupId,
    by: MemberFetch,
    detector: Arc<GroupDetector>,
    /// The detector's change counter at the last plan.
    planned_at: AtomicU64,
}

impl TrackedFetch {
    /// A caller without a Fetch, which settles records that no client asked for.
    fn nobody(group: &GroupId, detector: &Arc<GroupDetector>) -> Self {
        let member = MemberId::new("");
        let came = MonoMs::default();
        let by = MemberFetch {
            member,
            came,
            conn: 0,
            max_wait_ms: 0,
            retries: crate::retry::RetrySubscription::default(),
        };
        Self {
            group: group.clone(),
            by,
            detector: Arc::clone(detector),
            planned_at: AtomicU64::default(),
        }
    }

    pub fn group(&self) -> &GroupId {
        &self.group
    }

    pub(in crate::route) fn detector(&self) -> &GroupDetector {
        &self.detector
    }

    pub fn by(&self) -> &MemberFetch {
        &self.by
    }
}

impl Router {
    /// The detector of a group; `None`: its policy needs neither inference nor order.
    pub(in crate::route) fn detector_of(&self, group: &GroupId) -> Option<Arc<GroupDetector>> {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let policy = policies.of(group);
        policy.inference.then(|| self.detectors.of(group, policy))
    }

    /// The detector's plan for the requested partitions.
    pub fn asked(&self, by: &TrackedFetch, asked: &[FetchPosition]) -> Plan {
        let ask = |detector: &mut Detector, now: Moment| detector.asked(now, &by.by, asked);
        self.tell_then(&by.group, &by.detector, ask, |of| {
            by.planned_at.store(*of.news().borrow(), Ordering::Relaxed);
        })
    }

    /// Whether failures of a group are inferred, and the state of its detector.
    pub fn explain(&self, group: &GroupId) -> (bool, DetectorView) {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let is_watched = policies.of(group).inference;
        drop(policies);
        let of = self.detectors.find(group);
        let view = of.map(|of| of.lock().detector.view(self.clock.now()));
        (is_watched, view.unwrap_or_default())
    }

    /// Members of a group that have closed their connection and not left.
    pub fn disconnected_members(&self, group: &GroupId) -> BTreeSet<MemberId> {
        let of = self.detectors.find(group);
        of.map(|of| of.lock().detector.disconnected().clone()).unwrap_or_default()
    }

    pub fn breaker(&self, group: &GroupId) -> BreakerView {
        let of = self.detectors.find(group);
        of.map(|of| of.lock().detector.breaker(self.clock.now())).unwrap_or_default()
    }

    /// Partitions of a group with a record that has been uncommitted for longer than
    /// `consume_timeout`.
    pub fn stalled(&self, group: &GroupId) -> u64 {
        let of = self.detectors.find(group);
        of.map_or(0, |of| of.lock().detector.stalled(self.clock.now()))
    }

    /// Records that these records leave for the member.
    pub fn handed(&self, by: &TrackedFetch, handed: &[DeliveredRange]) {
        if !handed.is_empty() {
            self.tell(&by.group, &by.detector, |detector, now| {
                detector.handed(now, &by.by, handed);
            });
        }
    }

    /// Records that the requested partitions had no record for a plan with turns.
    pub fn nothing_came(&self, by: &TrackedFetch, asked: &[FetchPosition]) {
        self.tell(&by.group, &by.detector, |detector, now| {
            detector.nothing_came(now, &by.by, asked);
        });
    }

    /// Records that the planned offsets hold no record that can be delivered.
    pub fn passed_over(&self, by: &TrackedFetch, of: &TopicPartition, nothing: Range<i64>) {
        self.tell(&by.group, &by.detector, |detector, now| {
            detector.passed_over(now, &by.by, of, nothing);
        });
    }

    /// Returns when a new plan may differ from the last one: at a change of the detector, or at
    /// `until`.
    pub async fn replan(&self, by: &TrackedFetch, until: Option<MonoMs>) {
        let mut news = by.detector.news();
        let planned_at = by.planned_at.load(Ordering::Relaxed);
        let told = news.wait_for(|count| *count != planned_at);
        match until {
            None => drop(told.await),
            Some(at) => {
                let left_ms = at.since(self.clock.now().mono).max(1);
                drop(tokio::time::timeout(Duration::from_millis(left_ms), told).await);
            }
        }
    }

    /// Runs the timers of all detectors and forgets detectors of removed groups.
    fn watch_timeouts(&self) {
        for (group, of) in self.detectors.all() {
            self.tell(&group, &of, Detector::handle_timeout);
        }
        self.detectors.forget_idle(self.clock);
    }

    /// Orderly shutdown: outstanding records do not count as lost, and no more Fetches are planned.
    pub fn close_watches(&self) {
        for (group, of) in self.detectors.all() {
            self.tell(&group, &of, |detector, _| detector.close());
        }
    }

    /// Changes the detector of a group and executes its outputs.
    pub(in crate::route) fn tell<T>(
        &self,
        group: &GroupId,
        of: &GroupDetector,
        f: impl FnOnce(&mut Detector, Moment) -> T,
    ) -> T {
        self.tell_then(group, of, f, |_| {})
    }

    /// Changes the detector of a group; `then` runs before the next change.
    fn tell_then<T>(
        &self,
        group: &GroupId,
        of: &GroupDetector,
        f: impl FnOnce(&mut Detector, Moment) -> T,
        then: impl FnOnce(&GroupDetector),
    ) -> T {
        self.engine.change(self.clock, (group, of), f, then)
    }
}

/// Runs the timers of detectors, in one long-lived task that the server spawns.
pub async fn run(router: Arc<Router>) {
    let mut settlings = SettleTasks::default();
    loop {
        tokio::time::sleep(LOOK).await;
        router.watch_timeouts();
        router.settle_in_hand(&mut settlings);
    }
}
