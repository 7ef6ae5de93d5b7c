//! One member: what it said of itself, what it is to have, what it has.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::consumer::LEAVES_FOR_A_WHILE;
use crate::group::input::ConsumerHeartbeat;
use crate::group::partition::TopicPartition;
use crate::group::state::Protocol;
use crate::model::{ClientId, MonoMs, Now, TopicName};

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    pub(super) rack_id: Option<String>,
    pub(super) client_id: ClientId,
    pub(super) client_host: String,
    pub(super) rebalance_timeout_ms: u64,
    pub(super) assignor: Option<String>,
    pub(super) subscription: Subscription,
    /// The names of its subscription, and the topics that match its pattern.
    pub(super) topics: BTreeSet<TopicName>,
    /// What it was last told; 0 until then, −2 while a static member is away.
    pub(super) epoch: i32,
    /// The one before: the answer that told the last one may be lost.
    pub(super) epoch_before: i32,
    /// What it is to have in the end.
    pub(super) target: BTreeSet<TopicPartition>,
    /// What it may have now.
    pub(super) assigned: BTreeSet<TopicPartition>,
    /// What it has to give up and may still have.
    pub(super) revoking: BTreeSet<TopicPartition>,
    /// In which epoch it was given each of those. Not kept: after a restart all of it counts from
    /// the epoch the member has then.
    pub(super) since: BTreeMap<TopicPartition, i32>,
    /// When it is given up for silence.
    pub(super) silent_by: MonoMs,
    /// When it is given up because it still has what it is to give up.
    pub(super) revoke_by: Option<MonoMs>,
    /// Set while it speaks the classic protocol.
    pub(super) classic: Option<ClassicSide>,
}

/// Names and pattern as the member sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subscription {
    pub(super) names: BTreeSet<TopicName>,
    pub(super) pattern: Option<String>,
}

/// What a member that speaks the classic protocol says beside all that.
#[derive(Clone, Debug)]
pub(super) struct ClassicSide {
    pub(super) session_timeout_ms: u64,
    pub(super) protocols: Vec<Protocol>,
    /// When it is given up because it neither joins again nor asks what it is to hold.
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

impl Member {
    /// A member that has been told nothing yet.
    pub(super) fn new(beat: &ConsumerHeartbeat) -> Self {
        Self {
            instance_id: beat.instance_id.clone(),
            rack_id: beat.rack_id.clone(),
            client_id: beat.client_id.clone(),
            client_host: beat.client_host.clone(),
            rebalance_timeout_ms: beat.rebalance_timeout_ms.unwrap_or(0),
            assignor: beat.assignor.clone(),
            subscription: Subscription::default(),
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

    /// Takes over what it says of itself; whether anything is new.
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

    /// Its place is another process's to take: it is away, or it speaks the classic protocol, in
    /// which a static member does not say that it goes.
    pub(super) fn may_be_replaced(&self) -> bool {
        self.epoch == LEAVES_FOR_A_WHILE || self.classic.is_some()
    }

    /// It has what it is to have, and knows the group's epoch.
    pub(super) fn is_settled(&self, epoch: i32) -> bool {
        self.epoch == epoch && self.revoking.is_empty() && self.assigned == self.target
    }

    pub(super) fn move_to(&mut self, epoch: i32) {
        if self.epoch != epoch {
            self.epoch_before = self.epoch;
            self.epoch = epoch;
        }
    }

    /// Whether it has had this partition ever since that epoch.
    pub(super) fn has_had(&self, one: &TopicPartition, epoch: i32) -> bool {
        let has = self.assigned.contains(one) || self.revoking.contains(one);
        has && self.since.get(one).is_some_and(|since| *since <= epoch)
    }

    /// Alive now.
    pub(super) fn beat(&mut self, now: Now, session_timeout_ms: u64) {
        let own_ms = self.classic.as_ref().map(|side| side.session_timeout_ms);
        self.silent_by = now.mono.plus(own_ms.unwrap_or(session_timeout_ms).max(1));
    }

    /// Begins to wait for the next step of one that speaks the classic protocol.
    pub(super) fn wait_for_step(&mut self, now: Now) {
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

    /// Begins to wait until it gives up what it has to.
    pub(super) fn wait(&mut self, now: Now) {
        self.revoke_by = Some(now.mono.plus(self.rebalance_timeout_ms.max(1)));
    }

    /// Begins its session and its wait anew.
    pub(super) fn restart(&mut self, now: Now, session_timeout_ms: u64) {
        self.beat(now, session_timeout_ms);
        if !self.revoking.is_empty() {
            self.wait(now);
        }
    }
}

/// Puts `new` in, if there is one; whether that changed anything.
fn replace<T: Clone + PartialEq>(known: &mut T, new: Option<&T>) -> bool {
    match new {
        Some(new) if new != known => {
            *known = new.clone();
            true
        }
        _ => false,
    }
}
