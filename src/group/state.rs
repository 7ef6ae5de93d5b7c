//! What is kept of a group, and what is shown of it.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::model::{ClientId, MemberId};

/// Where a group is in its life; the names are those of `DescribeGroups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No members.
    Empty,
    /// Waiting for members to join.
    PreparingRebalance,
    /// Waiting for the leader's assignments.
    CompletingRebalance,
    /// Everyone has an assignment.
    Stable,
    /// Deleted.
    Dead,
}

impl fmt::Display for Phase {
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

/// An assignor and what a member says to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// `range`, `cooperative-sticky`, …
    pub name: String,
    /// Opaque: for consumers their subscription and owned partitions.
    #[serde(with = "blob")]
    pub metadata: Bytes,
}

/// A stable or empty group, whole. Journalled: a change of this shape is a change of a format.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupState {
    /// The generation the members know; 0 before the first.
    pub generation: i32,
    /// `consumer`, `connect`, …; absent before the first member.
    pub protocol_type: Option<String>,
    /// The assignor in use; absent while empty.
    pub protocol: Option<String>,
    /// Who assigns; absent while empty.
    pub leader: Option<MemberId>,
    /// Everyone, in order of member id.
    pub members: Vec<MemberState>,
}

/// One member of a [`GroupState`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// Its id.
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: ClientId,
    /// Its address as text.
    pub client_host: String,
    /// Silence after which it is removed.
    pub session_timeout_ms: u64,
    /// How long a rebalance waits for it.
    pub rebalance_timeout_ms: u64,
    /// All it supports, in order of preference.
    pub protocols: Vec<Protocol>,
    /// As the leader wrote it.
    #[serde(with = "blob")]
    pub assignment: Bytes,
}

/// A group for people and for `DescribeGroups`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Where it is in its life.
    pub phase: Phase,
    /// Its generation.
    pub generation: i32,
    /// `consumer`, `connect`, …
    pub protocol_type: Option<String>,
    /// The assignor in use; absent while there is none.
    pub protocol: Option<String>,
    /// Who assigns.
    pub leader: Option<MemberId>,
    /// Everyone, in order of member id.
    pub members: Vec<MemberDescription>,
}

/// One member of a [`Description`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its id.
    pub member_id: MemberId,
    /// Set for static members.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: ClientId,
    /// Its address as text.
    pub client_host: String,
    /// Its metadata for the chosen protocol; empty while none is chosen.
    pub metadata: Bytes,
    /// Its assignment; empty unless the group is stable.
    pub assignment: Bytes,
}

/// The name of a member that outlives its process if it is static: `instance:<id>`, else its id.
pub fn member_key(member_id: &MemberId, instance_id: Option<&str>) -> MemberId {
    match instance_id {
        Some(instance) => MemberId::from(format!("instance:{instance}")),
        None => member_id.clone(),
    }
}

/// `Bytes` as serde knows it: length and bytes.
mod blob {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        // A sequence of bytes is written like a byte string; its vector grows as bytes arrive,
        // never by a length that is only claimed.
        Vec::<u8>::deserialize(d).map(Bytes::from)
    }
}
