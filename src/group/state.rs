//! Persisted state and description of a classic group.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::model::{ClientId, MemberId};

/// State of a classic group, named as in `DescribeGroups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupPhase {
    Empty,
    /// Waiting for members to join.
    PreparingRebalance,
    /// Waiting for the leader's assignments.
    CompletingRebalance,
    /// Every member has an assignment.
    Stable,
    Dead,
}

impl fmt::Display for GroupPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        })
    }
}

/// An assignor with a member's metadata for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// `range`, `cooperative-sticky`, …
    pub name: String,
    /// Opaque bytes; for consumers, the subscription with owned partitions.
    #[serde(with = "blob")]
    pub metadata: Bytes,
}

/// Whole state of a stable or empty group. Journalled: a change of its shape is a change of the
/// format.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupState {
    /// The current generation; 0 before the first.
    pub generation: i32,
    /// `consumer`, `connect`, …; absent before the first member.
    pub protocol_type: Option<String>,
    /// The assignor in use; absent while empty.
    pub protocol: Option<String>,
    /// Absent while the group is empty.
    pub leader: Option<MemberId>,
    /// Sorted by member id.
    pub members: Vec<MemberState>,
}

/// One member of a [`GroupState`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    /// The client's `client.id`.
    pub client_id: ClientId,
    /// The client's address as text.
    pub client_host: String,
    /// Silence after which it is removed.
    pub session_timeout_ms: u64,
    /// Time that a rebalance waits for the member.
    pub rebalance_timeout_ms: u64,
    /// Supported protocols in order of preference.
    pub protocols: Vec<Protocol>,
    /// The leader's bytes.
    #[serde(with = "blob")]
    pub assignment: Bytes,
}

/// Description of a classic group, for the HTTP interface and `DescribeGroups`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub phase: GroupPhase,
    pub generation: i32,
    /// `consumer`, `connect`, …
    pub protocol_type: Option<String>,
    /// The assignor in use; absent while there is none.
    pub protocol: Option<String>,
    pub leader: Option<MemberId>,
    /// Sorted by member id.
    pub members: Vec<MemberDescription>,
}

/// One member of a [`Description`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    /// The client's `client.id`.
    pub client_id: ClientId,
    /// The client's address as text.
    pub client_host: String,
    /// Silence after which it is removed.
    pub session_timeout_ms: u64,
    /// The member's metadata for the chosen protocol; empty while none is chosen.
    pub metadata: Bytes,
    /// Empty unless the group is stable.
    pub assignment: Bytes,
}

/// The member's stable name: `instance:<id>` for a static member, which outlives its process,
/// otherwise the member id.
pub fn member_key(member_id: &MemberId, instance_id: Option<&str>) -> MemberId {
    match instance_id {
        Some(instance) => MemberId::from(format!("instance:{instance}")),
        None => member_id.clone(),
    }
}

/// Serde encoding of `Bytes`: length and bytes.
mod blob {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        // Serde writes a sequence of bytes like a byte string. The vector grows as bytes arrive, so
        // a false length in the input allocates nothing.
        Vec::<u8>::deserialize(d).map(Bytes::from)
    }
}
