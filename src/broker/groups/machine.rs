//! A group of either kind, behind one interface.

use bytes::Bytes;

use crate::broker::groups::group_record::StoredState;
use crate::group::{Classic, ClassicConfig, Consumer, ConsumerConfig, ConsumerPhase};
use crate::group::{GroupInput, GroupOutput, GroupPhase};
use crate::model::{Deadline, MemberId, Moment};

/// Protocol of a group's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// `JoinGroup`, `SyncGroup`, `Heartbeat` and `LeaveGroup`; the group's leader assigns.
    Classic,
    /// `ConsumerGroupHeartbeat` (KIP-848); the coordinator assigns.
    Consumer,
}

impl GroupKind {
    /// The group type in `ListGroups`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
        }
    }
}

pub(super) enum Machine {
    Classic(Box<Classic>),
    Consumer(Box<Consumer>),
}

impl Machine {
    pub(super) fn new(kind: GroupKind, classic: ClassicConfig, consumer: ConsumerConfig) -> Self {
        match kind {
            GroupKind::Classic => Self::Classic(Box::new(Classic::new(classic))),
            GroupKind::Consumer => Self::Consumer(Box::new(Consumer::new(consumer))),
        }
    }

    pub(super) fn restored(
        classic: ClassicConfig,
        consumer: ConsumerConfig,
        now: Moment,
        state: StoredState,
    ) -> Self {
        match state {
            StoredState::Classic(state) => {
                Self::Classic(Box::new(Classic::restored(classic, now, state)))
            }
            StoredState::Consumer(state) => {
                Self::Consumer(Box::new(Consumer::restored(consumer, now, state)))
            }
        }
    }

    /// Turns a consumer group whose members all speak the classic protocol into a classic group.
    pub(super) fn turn_classic(&mut self, config: ClassicConfig, now: Moment) {
        let state = self.as_consumer().and_then(Consumer::as_classic);
        if let Some(state) = state {
            *self = Self::Classic(Box::new(Classic::taking_over(config, now, state)));
        }
    }

    pub(super) fn subscription(&self, member: &MemberId) -> Option<Bytes> {
        match self {
            Self::Classic(group) => group.subscription(member),
            Self::Consumer(group) => group.subscription(member),
        }
    }

    pub(super) fn handle(&mut self, now: Moment, input: GroupInput) {
        match self {
            Self::Classic(group) => group.handle(now, input),
            Self::Consumer(group) => group.handle(now, input),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Moment) {
        match self {
            Self::Classic(group) => group.handle_timeout(now),
            Self::Consumer(group) => group.handle_timeout(now),
        }
    }

    pub(super) fn poll_output(&mut self) -> Option<GroupOutput> {
        match self {
            Self::Classic(group) => group.poll_output(),
            Self::Consumer(group) => group.poll_output(),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        match self {
            Self::Classic(group) => group.poll_timeout(),
            Self::Consumer(group) => group.poll_timeout(),
        }
    }

    pub(super) fn restart_sessions(&mut self, now: Moment) {
        match self {
            Self::Classic(group) => group.restart_sessions(now),
            Self::Consumer(group) => group.restart_sessions(now),
        }
    }

    pub(super) fn kind(&self) -> GroupKind {
        match self {
            Self::Classic(_) => GroupKind::Classic,
            Self::Consumer(_) => GroupKind::Consumer,
        }
    }

    pub(super) fn as_classic(&self) -> Option<&Classic> {
        match self {
            Self::Classic(group) => Some(group),
            Self::Consumer(_) => None,
        }
    }

    pub(super) fn as_consumer(&self) -> Option<&Consumer> {
        match self {
            Self::Classic(_) => None,
            Self::Consumer(group) => Some(group),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Classic(group) => group.phase() == GroupPhase::Empty,
            Self::Consumer(group) => group.phase() == ConsumerPhase::Empty,
        }
    }

    pub(super) fn is_deleted(&self) -> bool {
        match self {
            Self::Classic(group) => group.phase() == GroupPhase::Dead,
            Self::Consumer(group) => group.phase() == ConsumerPhase::Dead,
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Classic(group) => group.is_blank(),
            Self::Consumer(group) => group.is_blank(),
        }
    }

    pub(super) fn phase(&self) -> String {
        match self {
            Self::Classic(group) => group.phase().to_string(),
            Self::Consumer(group) => group.phase().to_string(),
        }
    }

    /// `consumer`, `connect`, …; empty before the first member.
    pub(super) fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(group) => group.protocol_type().unwrap_or_default(),
            Self::Consumer(_) => "consumer",
        }
    }

    pub(super) fn key_of(&self, member: &MemberId) -> Option<MemberId> {
        match self {
            Self::Classic(group) => group.key_of(member),
            Self::Consumer(group) => group.key_of(member),
        }
    }

    pub(super) fn member_keys(&self) -> Vec<MemberId> {
        match self {
            Self::Classic(group) => group.member_keys().collect(),
            Self::Consumer(group) => group.member_keys().collect(),
        }
    }
}
