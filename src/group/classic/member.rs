//! One member: what it said of itself, what it waits for, when it is given up.

use bytes::Bytes;

use crate::group::input::{Join, Token};
use crate::group::state::{MemberState, Protocol};
use crate::model::{ClientId, MemberId, MonoMs, Now};

/// How long a member's first join may wait: it has no id to send heartbeats with (Kafka
/// `NEW_MEMBER_JOIN_TIMEOUT_MS`).
const FIRST_JOIN_MS_MAX: u64 = 300_000;

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    pub(super) client_id: ClientId,
    pub(super) client_host: String,
    pub(super) session_timeout_ms: u64,
    pub(super) rebalance_timeout_ms: u64,
    pub(super) protocols: Vec<Protocol>,
    pub(super) assignment: Bytes,
    /// Has never been answered a join, and took nobody's place.
    pub(super) is_new: bool,
    /// The join it waits for.
    pub(super) joining: Option<Token>,
    /// The sync it waits for.
    pub(super) syncing: Option<Token>,
    give_up: MonoMs,
}

impl Member {
    pub(super) fn new(now: Now, token: Token, join: Join) -> Self {
        Self {
            instance_id: join.instance_id,
            client_id: join.client_id,
            client_host: join.client_host,
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            protocols: join.protocols,
            assignment: Bytes::new(),
            is_new: true,
            joining: Some(token),
            syncing: None,
            give_up: now.mono.plus(FIRST_JOIN_MS_MAX),
        }
    }

    pub(super) fn restored(now: Now, kept: MemberState) -> Self {
        Self {
            give_up: now.mono.plus(kept.session_timeout_ms.max(1)),
            instance_id: kept.instance_id,
            client_id: kept.client_id,
            client_host: kept.client_host,
            session_timeout_ms: kept.session_timeout_ms,
            rebalance_timeout_ms: kept.rebalance_timeout_ms,
            protocols: kept.protocols,
            assignment: kept.assignment,
            is_new: false,
            joining: None,
            syncing: None,
        }
    }

    pub(super) fn kept(&self, id: &MemberId) -> MemberState {
        MemberState {
            member_id: id.clone(),
            instance_id: self.instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            protocols: self.protocols.clone(),
            assignment: self.assignment.clone(),
        }
    }

    /// Takes over what a later join says.
    pub(super) fn update(&mut self, join: Join) {
        self.client_id = join.client_id;
        self.client_host = join.client_host;
        self.session_timeout_ms = join.session_timeout_ms;
        self.rebalance_timeout_ms = join.rebalance_timeout_ms;
        self.protocols = join.protocols;
    }

    /// Alive now.
    pub(super) fn beat(&mut self, now: Now) {
        self.give_up = now.mono.plus(self.session_timeout_ms.max(1));
    }

    /// When it is given up; never while it waits for us, but for its first join.
    pub(super) fn due(&self) -> Option<MonoMs> {
        let waits = self.joining.is_some() || self.syncing.is_some();
        (self.is_new || !waits).then_some(self.give_up)
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|p| p.name == protocol)
    }

    pub(super) fn metadata(&self, protocol: &str) -> Option<Bytes> {
        self.protocols.iter().find(|p| p.name == protocol).map(|p| p.metadata.clone())
    }
}
