//! Which requests only pass, in front of a real cluster: all that we neither answer nor change.

use crate::route::Router;
use crate::route::conn::Conn;
use crate::wire::Api;

/// What is read on every connection: addresses of brokers, and what groups agree on.
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
];

/// What is answered here on connections to this node, the leader of our own topics.
const OWN: &[Api] = &[Api::Produce, Api::Fetch, Api::ListOffsets, Api::OffsetForLeaderEpoch];

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Its bytes go to the broker, the broker's bytes to the client.
    Pass,
    /// It is read and answered by a route.
    Answer,
}

impl Router {
    /// The way of a request with this API key on this connection.
    pub fn way(&self, conn: &Conn, api_key: i16) -> Way {
        if self.upstream.is_none() {
            return Way::Answer;
        }
        match Api::from_key(api_key) {
            Some(api) if READ.contains(&api) => Way::Answer,
            Some(api) if conn.node.is_none() && OWN.contains(&api) => Way::Answer,
            _ => Way::Pass,
        }
    }

    /// Whether the broker is asked before a request of this API is answered.
    pub fn asks(&self, api: Api) -> bool {
        self.upstream.is_some() && !OWN.contains(&api)
    }
}
