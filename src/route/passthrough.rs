//! Which requests only pass, in front of a real cluster: all that we neither answer nor change.

use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::sasl_handshake;
use crate::wire::{Api, reassignments};

/// What is read on every connection: addresses of brokers, what groups agree on, and what may name
/// topics of ours.
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

/// What is answered here on connections to this node: it leads our own topics, and has no groups,
/// transactions or partitions of the cluster, which tools ask every broker for.
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

/// APIs that this node answers only by itself. In front of a cluster they pass in any version.
const BY_ITSELF: &[Api] = &[
    Api::ElectLeaders,
    Api::AlterPartitionReassignments,
    Api::ListPartitionReassignments,
    Api::DescribeQuorum,
    Api::ListConfigResources,
    Api::DescribeClientQuotas,
    Api::DescribeUserScramCredentials,
    Api::AlterUserScramCredentials,
    Api::DescribeAcls,
    Api::CreateAcls,
    Api::DeleteAcls,
];

/// Whether requests of this API are never read in front of a cluster.
pub(super) fn only_passes(api: Api) -> bool {
    BY_ITSELF.contains(&api)
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Its bytes go to the broker, the broker's bytes to the client.
    Pass,
    /// Passes after it was read: a Fetch that may be a member's, replica lists of a tool.
    Gather,
    /// It is read and answered by a route.
    Answer,
}

impl Router {
    /// The way of a request with this API key and version on this connection.
    pub fn way(&self, conn: &Conn, api_key: i16, version: i16) -> Way {
        if self.upstream.is_none() {
            return Way::Answer;
        }
        match Api::from_key(api_key) {
            Some(api) if READ.contains(&api) => Way::Answer,
            Some(api) if conn.node.is_none() && OWN.contains(&api) => Way::Answer,
            Some(Api::SaslHandshake) if version == sasl_handshake::BARE => Way::Answer,
            Some(Api::Fetch) if self.may_be_watched(conn) => Way::Gather,
            _ if api_key == reassignments::KEY => Way::Gather,
            _ => Way::Pass,
        }
    }

    /// Whether the broker is asked before a request of this API is answered.
    pub fn asks(&self, conn: &Conn, api: Api) -> bool {
        self.upstream.is_some() && (conn.node.is_some() || !OWN.contains(&api))
    }
}
