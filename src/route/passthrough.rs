//! Routing decision in front of a cluster: requests that are relayed, read or answered here.

use uuid::Uuid;

use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::security::sasl_handshake;
use crate::wire::Api;
use crate::wire::relay::{FrameStartError, ProduceTopics, RequestStart};

/// APIs that are read: their answers name brokers, they change groups, or they may name a retry
/// topic before its first record.
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
    Api::DeleteTopics,
    Api::DescribeTopicPartitions,
];

/// First version of a Produce whose records have headers. No record before is a nack.
const HEADERS_SINCE: i16 = 3;

/// Whether requests of the API are relayed in any version that the broker knows.
pub(super) fn only_passes(api: Api) -> bool {
    let is_looked_at =
        matches!(api, Api::Fetch | Api::Produce | Api::SaslHandshake | Api::SaslAuthenticate);
    !is_looked_at && !READ.contains(&api)
}

/// The routing decision for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingDecision {
    /// The request and its answer are relayed unchanged.
    Pass,
    /// The request is read and then relayed: a Fetch that may be a member's, or a Produce that may
    /// be for a retry topic.
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
            Some(Api::SaslHandshake) if start.version == sasl_handshake::BARE => {
                RoutingDecision::Answer
            }
            Some(Api::Fetch) if self.may_be_watched(conn) => RoutingDecision::Gather,
            Some(Api::Produce) if start.version >= HEADERS_SINCE => {
                return Ok(start.topics(buffer)?.map(|topics| self.way_of_produce(topics)));
            }
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
}
