//! The detectors of groups, shared by the edge and the driver. The edge reports members' events to
//! them. The driver judges nacks by them, settles records in them and journals them.
//!
//! A plan is made under the mutex of its group, not from a snapshot: a grant, a turn or a test
//! batch goes to one Fetch, so the plan changes the state it is made of. A Fetch of a healthy group
//! holds the mutex for one look.

mod judge;
mod observe;
mod outputs;
pub(super) mod pending_records;
mod persist;
pub(super) mod suspect_entries;
pub(super) mod window_entries;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::watch;

use crate::clock::Clock;
use crate::engine::detectors::pending_records::PendingRecords;
use crate::engine::detectors::suspect_entries::GroupSuspects;
use crate::engine::detectors::window_entries::Windows;
use crate::model::{GroupId, Moment, TopicPartition};
use crate::retry::detector::{Detector, GroupObservation, Rules};
use crate::retry::{Policies, Policy};
use crate::wire::read_progress;

pub(super) use judge::JudgedNacks;

/// Offsets by group and partition, ascending.
pub(super) type UnpassedOffsets = BTreeMap<(GroupId, TopicPartition), Vec<i64>>;

/// The detectors of all groups.
#[derive(Debug, Default)]
pub struct Detectors {
    groups: RwLock<BTreeMap<GroupId, Arc<GroupDetector>>>,
    /// Incremented when a Fetch may have another owner than before.
    changes: AtomicU64,
}

/// The journalled state of all groups at the start.
pub(super) struct StoredDetectors {
    pub(super) windows: Windows,
    pub(super) suspects: GroupSuspects,
    /// Records with entries that no commit has passed.
    pub(super) not_passed: UnpassedOffsets,
}

/// The detector of one group.
#[derive(Debug)]
pub struct GroupDetector {
    state: Mutex<DetectorState>,
    /// Incremented when the plan of a waiting Fetch may have changed.
    news: watch::Sender<u64>,
    /// Sequence of the last decision reported to the detector.
    rests_on: AtomicU64,
}

/// A detector and its records that are not journalled yet.
#[derive(Debug)]
pub struct DetectorState {
    pub detector: Detector,
    pending: PendingRecords,
}

impl Detectors {
    /// Restores detectors from their journalled state.
    pub(super) fn new(now: Moment, policies: &Policies, remembered: StoredDetectors) -> Self {
        let StoredDetectors { windows, suspects, not_passed } = remembered;
        let detectors = Self::default();
        for ((group, partition), kept) in windows {
            let of = detectors.of(&group, policies.of(&group));
            of.lock().detector.restore(now, partition, kept.window);
        }
        for (group, record) in suspects {
            let of = detectors.of(&group, policies.of(&group));
            of.lock().detector.restore_suspects(now, record);
        }
        for ((group, partition), offsets) in not_passed {
            let policy = policies.of(&group);
            if policy.inference {
                detectors.of(&group, policy).lock().detector.known(&partition, offsets);
            }
        }
        detectors
    }

    /// Replaces the rules.
    pub(super) fn reload(&self, clock: Clock, policies: &Policies) {
        for (group, of) in self.all() {
            let mut state = of.lock();
            state.detector.rule(clock.now(), Rules::from(policies.of(&group)));
            drop(state);
            of.notify();
        }
        self.change_owners();
    }

    /// Restores an offset that a group had committed before the start.
    pub(super) fn read(
        &self,
        now: Moment,
        (group, partition): (&GroupId, TopicPartition),
        offset: i64,
        metadata: &str,
    ) {
        if let Some(of) = self.find(group) {
            of.lock().detector.handle(now, seen_offset(partition, offset, metadata));
        }
    }

    /// Signals that a Fetch may have another owner.
    pub fn change_owners(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Number of changes of owners so far.
    pub fn owner_changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The detector of a group, created if there is none.
    pub fn of(&self, group: &GroupId, policy: &Policy) -> Arc<GroupDetector> {
        if let Some(of) = self.find(group) {
            return of;
        }
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            groups.entry(group.clone()).or_insert_with(|| Arc::new(GroupDetector::new(policy))),
        )
    }

    /// The detector of a group, if there is one.
    pub fn find(&self, group: &GroupId) -> Option<Arc<GroupDetector>> {
        self.groups.read().unwrap_or_else(PoisonError::into_inner).get(group).cloned()
    }

    /// Every group with its detector.
    pub fn all(&self) -> Vec<(GroupId, Arc<GroupDetector>)> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        groups.iter().map(|(group, of)| (group.clone(), Arc::clone(of))).collect()
    }

    /// Removes the detectors of groups without members, Fetches and records.
    pub fn forget_idle(&self, clock: Clock) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        let known = groups.len();
        // Another holder may be about to change it.
        groups.retain(|_, of| Arc::strong_count(of) > 1 || !of.lock().is_idle(clock));
        if groups.len() < known {
            // The detector of members that come back starts empty.
            self.change_owners();
        }
    }
}

impl GroupDetector {
    fn new(policy: &Policy) -> Self {
        let state = DetectorState {
            detector: Detector::new(Rules::from(policy)),
            pending: PendingRecords::default(),
        };
        Self { state: Mutex::new(state), news: watch::Sender::new(0), rests_on: AtomicU64::new(0) }
    }

    /// The state, for reading only: use `Engine::change` to change it.
    pub fn lock(&self) -> MutexGuard<'_, DetectorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals that the plan of a waiting Fetch may have changed.
    fn notify(&self) {
        self.news.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Records that the detector knows a decision journalled at `seq`.
    pub(super) fn rest_on(&self, seq: u64) {
        self.rests_on.fetch_max(seq, Ordering::AcqRel);
    }

    /// A counter that changes when plans may have changed.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }
}

impl DetectorState {
    fn is_idle(&self, clock: Clock) -> bool {
        self.pending.is_empty() && self.detector.is_idle(clock.now())
    }
}

/// The event of a committed offset with its metadata.
pub fn seen_offset(partition: TopicPartition, offset: i64, metadata: &str) -> GroupObservation {
    let done = read_progress(offset, metadata).map(|progress| progress.done).unwrap_or_default();
    GroupObservation::Read { partition, offset, done }
}
