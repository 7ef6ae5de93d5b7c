//! One member: its client and protocols, its waiting requests and its session timeout.

use bytes::Bytes;

use crate::group::input::{JoinRequest, RequestId};
use crate::group::state::{MemberState, Protocol};
use crate::model::{ClientId, MemberId, Moment, MonoMs};

/// Limit on the wait of a first join: without a member id the client cannot send heartbeats (Kafka
/// `NEW_MEMBER_JOIN_TIMEOUT_MS`).
const FIRST_JOIN_MS_MAX: u64 = 300_000;

#[derive(Clone, Debug)]
pub(super) struct ClassicMemberState {
    pub(super) instance_id: Option<String>,
    pub(super) client_id: ClientId,
    pub(super) client_host: String,
    pub(super) session_timeout_ms: u64,
    pub(super) rebalance_timeout_ms: u64,
    pub(super) protocols: Vec<Protocol>,
    pub(super) assignment: Bytes,
    /// No join was answered yet, and the member did not replace a static member.
    pub(super) is_new: bool,
    /// The waiting JoinGroup request.
    pub(super) joining: Option<RequestId>,
    /// The waiting SyncGroup request.
    pub(super) syncing: Option<RequestId>,
    give_up: MonoMs,
}

impl ClassicMemberState {
    pub(super) fn new(now: Moment, token: RequestId, join: JoinRequest) -> Self {
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

    pub(super) fn restored(now: Moment, kept: MemberState) -> Self {
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

    /// Applies a later join.
    pub(super) fn update(&mut self, join: JoinRequest) {
        self.client_id = join.client_id;
        self.client_host = join.client_host;
        self.session_timeout_ms = join.session_timeout_ms;
        self.rebalance_timeout_ms = join.rebalance_timeout_ms;
        self.protocols = join.protocols;
    }

    /// Restarts the session timeout.
    pub(super) fn beat(&mut self, now: Moment) {
        self.give_up = now.mono.plus(self.session_timeout_ms.max(1));
    }

    /// Session deadline; none while a request of the member waits, except for its first join.
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
