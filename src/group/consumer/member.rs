//! One member: its subscription, target and assignment, and its deadlines.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::input::{ConsumerHeartbeat, LEAVES_FOR_A_WHILE};
use crate::group::partition::TopicIdPartition;
use crate::group::state::Protocol;
use crate::model::{ClientId, Moment, MonoMs, TopicName};

#[derive(Clone, Debug)]
pub(super) struct ConsumerMemberState {
    pub(super) instance_id: Option<String>,
    pub(super) rack_id: Option<String>,
    pub(super) client_id: ClientId,
    pub(super) client_host: String,
    pub(super) rebalance_timeout_ms: u64,
    pub(super) assignor: Option<String>,
    pub(super) subscription: ConsumerSubscription,
    /// The names of its subscription, and the topics that match its pattern.
    pub(super) topics: BTreeSet<TopicName>,
    /// Last epoch sent to the member; 0 before the first, −2 while a static member is away.
    pub(super) epoch: i32,
    /// The epoch before: the answer with the current epoch may have been lost.
    pub(super) epoch_before: i32,
    /// The target assignment.
    pub(super) target: BTreeSet<TopicIdPartition>,
    /// The current assignment.
    pub(super) assigned: BTreeSet<TopicIdPartition>,
    /// Partitions that the member must revoke and may still own.
    pub(super) revoking: BTreeSet<TopicIdPartition>,
    /// Epoch in which each partition was assigned. Not persisted: after a restart, every partition
    /// counts from the member's epoch at that time.
    pub(super) since: BTreeMap<TopicIdPartition, i32>,
    /// Session deadline; after it the member is removed.
    pub(super) silent_by: MonoMs,
    /// Deadline of the revocation; after it the member is removed.
    pub(super) revoke_by: Option<MonoMs>,
    /// Set while the member speaks the classic protocol.
    pub(super) classic: Option<ClassicSide>,
}

/// Names and pattern as the member sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConsumerSubscription {
    pub(super) names: BTreeSet<TopicName>,
    pub(super) pattern: Option<String>,
}

/// Additional state of a member with the classic protocol.
#[derive(Clone, Debug)]
pub(super) struct ClassicSide {
    pub(super) session_timeout_ms: u64,
    pub(super) protocols: Vec<Protocol>,
    /// Deadline of the next JoinGroup or SyncGroup; after it the member is removed.
    pub(super) step_by: Option<MonoMs>,
}

impl ClassicSide {
    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|p| p.name == protocol)
    }

    pub(super) fn says_same(&self, other: &Self) -> bool {
        self.session_timeout_ms == other.session_timeout_ms && self.protocols == other.protocols
    }
}

impl ConsumerMemberState {
    /// A new member without epoch and assignment.
    pub(super) fn new(beat: &ConsumerHeartbeat) -> Self {
        Self {
            instance_id: beat.instance_id.clone(),
            rack_id: beat.rack_id.clone(),
            client_id: beat.client_id.clone(),
            client_host: beat.client_host.clone(),
            rebalance_timeout_ms: beat.rebalance_timeout_ms.unwrap_or(0),
            assignor: beat.assignor.clone(),
            subscription: ConsumerSubscription::default(),
            topics: BTreeSet::new(),
            epoch: 0,
            epoch_before: 0,
            target: BTreeSet::new(),
            assigned: BTreeSet::new(),
            revoking: BTreeSet::new(),
            since: BTreeMap::new(),
            silent_by: MonoMs::default(),
            revoke_by: None,
            classic: None,
        }
    }

    /// Applies a heartbeat's client data; returns whether anything changed.
    pub(super) fn update(&mut self, beat: &ConsumerHeartbeat) -> bool {
        let news = [
            replace(&mut self.client_id, Some(&beat.client_id)),
            replace(&mut self.client_host, Some(&beat.client_host)),
            replace(&mut self.rebalance_timeout_ms, beat.rebalance_timeout_ms.as_ref()),
            beat.rack_id.is_some() && replace(&mut self.rack_id, Some(&beat.rack_id)),
            beat.assignor.is_some() && replace(&mut self.assignor, Some(&beat.assignor)),
        ];
        news.contains(&true)
    }

    /// Whether a new process may take over the membership. The static member is away, or it speaks
    /// the classic protocol, in which a static member leaves without notice.
    pub(super) fn may_be_replaced(&self) -> bool {
        self.epoch == LEAVES_FOR_A_WHILE || self.classic.is_some()
    }

    /// Whether the member has its target and knows the group's epoch.
    pub(super) fn is_settled(&self, epoch: i32) -> bool {
        self.epoch == epoch && self.revoking.is_empty() && self.assigned == self.target
    }

    pub(super) fn move_to(&mut self, epoch: i32) {
        if self.epoch != epoch {
            self.epoch_before = self.epoch;
            self.epoch = epoch;
        }
    }

    /// Whether the member has owned this partition since `epoch`.
    pub(super) fn has_had(&self, one: &TopicIdPartition, epoch: i32) -> bool {
        let has = self.assigned.contains(one) || self.revoking.contains(one);
        has && self.since.get(one).is_some_and(|since| *since <= epoch)
    }

    /// Restarts the session timeout.
    pub(super) fn beat(&mut self, now: Moment, session_timeout_ms: u64) {
        let own_ms = self.classic.as_ref().map(|side| side.session_timeout_ms);
        self.silent_by = now.mono.plus(own_ms.unwrap_or(session_timeout_ms).max(1));
    }

    /// Starts the wait for the next JoinGroup or SyncGroup of a classic member.
    pub(super) fn wait_for_step(&mut self, now: Moment) {
        let by = now.mono.plus(self.rebalance_timeout_ms.max(1));
        if let Some(side) = &mut self.classic {
            side.step_by.get_or_insert(by);
        }
    }

    pub(super) fn step_done(&mut self) {
        if let Some(side) = &mut self.classic {
            side.step_by = None;
        }
    }

    pub(super) fn step_by(&self) -> Option<MonoMs> {
        self.classic.as_ref()?.step_by
    }

    /// Starts the revocation wait.
    pub(super) fn wait(&mut self, now: Moment) {
        self.revoke_by = Some(now.mono.plus(self.rebalance_timeout_ms.max(1)));
    }

    /// Restarts the session timeout and a running revocation wait.
    pub(super) fn restart(&mut self, now: Moment, session_timeout_ms: u64) {
        self.beat(now, session_timeout_ms);
        if !self.revoking.is_empty() {
            self.wait(now);
        }
    }
}

/// Replaces `known` if `new` is given; returns whether that changed it.
fn replace<T: Clone + PartialEq>(known: &mut T, new: Option<&T>) -> bool {
    match new {
        Some(new) if new != known => {
            *known = new.clone();
            true
        }
        _ => false,
    }
}
