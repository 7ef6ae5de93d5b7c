//! Routing decision in front of a cluster: requests that are relayed, read or answered here.

use uuid::Uuid;

use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::security::sasl_handshake;
use crate::wire::relay::{FrameStartError, ProduceTopics, RequestStart};
use crate::wire::{Api, reassignments};

/// APIs that are read on every connection: their answers name brokers, they change groups, or they
/// may name our topics.
const READ: &[Api] = &[
    Api::ApiVersions,
    Api::Metadata,
    Api::FindCoordinator,
    Api::DescribeCluster,
    Api::JoinGroup,
    Api::SyncGroup,
    Api::Heartbeat,
    Api::LeaveGroup,
    Api::OffsetCommit,
    Api::OffsetFetch,
    Api::ConsumerGroupHeartbeat,
    Api::InitProducerId,
    Api::AddPartitionsToTxn,
    Api::TxnOffsetCommit,
    Api::EndTxn,
    Api::CreateTopics,
    Api::CreatePartitions,
    Api::DeleteTopics,
    Api::AlterConfigs,
    Api::IncrementalAlterConfigs,
    Api::DescribeConfigs,
    Api::DescribeTopicPartitions,
];

/// APIs that this node answers on connections to itself. It leads only our topics, and has no
/// groups, transactions or partitions of the cluster, which tools ask every broker for.
const OWN: &[Api] = &[
    Api::Produce,
    Api::Fetch,
    Api::ListOffsets,
    Api::OffsetForLeaderEpoch,
    Api::DeleteRecords,
    Api::ListGroups,
    Api::ListTransactions,
    Api::DescribeLogDirs,
    Api::AlterReplicaLogDirs,
];

/// APIs that this node answers only without a cluster. In front of one they are relayed in any
/// version.
const BY_ITSELF: &[Api] = &[
    Api::ElectLeaders,
    Api::AlterPartitionReassignments,
    Api::ListPartitionReassignments,
    Api::DescribeQuorum,
    Api::ListConfigResources,
    Api::DescribeClientQuotas,
    Api::AlterClientQuotas,
    Api::DescribeUserScramCredentials,
    Api::AlterUserScramCredentials,
    Api::DescribeAcls,
    Api::CreateAcls,
    Api::DeleteAcls,
];

/// First version of a Produce whose records have headers. No record before is a nack.
const HEADERS_SINCE: i16 = 3;

pub(super) fn only_passes(api: Api) -> bool {
    BY_ITSELF.contains(&api)
}

/// The routing decision for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingDecision {
    /// The request and its answer are relayed unchanged.
    Pass,
    /// The request is read and then relayed: a Fetch that may be a member's, a Produce that may be
    /// for one of our topics, or a tool's replica lists.
    Gather,
    /// The request is read and answered by a route.
    Answer,
}

impl Router {
    /// The routing decision for the request at the start of `buffer`; `None`: more bytes are
    /// needed.
    pub fn way(
        &self,
        conn: &Conn,
        start: &RequestStart,
        buffer: &[u8],
    ) -> Result<Option<RoutingDecision>, FrameStartError> {
        if self.upstream.is_none() {
            return Ok(Some(RoutingDecision::Answer));
        }
        Ok(Some(match Api::from_key(start.api_key) {
            Some(api) if READ.contains(&api) => RoutingDecision::Answer,
            Some(api) if conn.node.is_none() && OWN.contains(&api) => RoutingDecision::Answer,
            Some(Api::SaslHandshake) if start.version == sasl_handshake::BARE => {
                RoutingDecision::Answer
            }
            Some(Api::Fetch) if self.may_be_watched(conn) => RoutingDecision::Gather,
            Some(Api::Produce) if start.version >= HEADERS_SINCE => {
                return Ok(start.topics(buffer)?.map(|topics| self.way_of_produce(topics)));
            }
            _ if start.api_key == reassignments::KEY => RoutingDecision::Gather,
            _ => RoutingDecision::Pass,
        }))
    }

    fn way_of_produce(&self, topics: ProduceTopics<'_>) -> RoutingDecision {
        let is_foreign = match topics {
            ProduceTopics::Named(name) => !self.takes(name, Uuid::nil()),
            ProduceTopics::Identified(id) => !self.takes("", id) && !self.is_id_unknown(id),
            ProduceTopics::Other => false,
        };
        if is_foreign { RoutingDecision::Pass } else { RoutingDecision::Gather }
    }

    /// Whether the broker is asked before a request of this API is answered.
    pub fn asks(&self, conn: &Conn, api: Api) -> bool {
        self.upstream.is_some() && (conn.node.is_some() || !OWN.contains(&api))
    }
}
