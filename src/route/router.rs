//! The router: the parts that requests are answered from.

use std::sync::{Arc, RwLock};

use crate::broker::Broker;
use crate::clock::Clock;
use crate::engine::{Detectors, Engine, TopicIds};
use crate::observe::Metrics;
use crate::retry::Policies;
use crate::route::clients::client_address::Tokens;
use crate::route::clients::member_connections::MemberConnections;
use crate::route::configs::bound_cache::TopicBounds;
use crate::route::groups::members::ReaderTopics;
use crate::route::groups::membership_cache::MembershipCache;
use crate::route::nacks::origin_records::OriginRecordCache;
use crate::route::offsets::cluster_offsets::ClusterOffsetCache;
use crate::route::offsets::commit_markers::Markers;
use crate::route::produce::ProduceDelay;
use crate::route::topics::opened_topics::OpenedTopics;
use crate::route::topics::reserved_names::Names;
use crate::route::transactions::pending_transactions::PendingTransactions;
use crate::socket::Budget;
use crate::upstream::Upstream;

/// The id of this node by itself, which leads all partitions: the first broker's in Kafka's own
/// quick start.
pub const NODE_ID: i32 = 1;

/// Settings of this node that the routes need.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Metadata and Produce create missing topics.
    pub auto_create: bool,
    /// For topics created that way, or with −1 partitions.
    pub default_partitions: i32,
    /// Bound of one request, in bytes.
    pub frame_bytes_max: usize,
    /// Bound of one Fetch answer, in bytes.
    pub fetch_bytes_max: usize,
    /// The topics whose records may be produced with a delay.
    pub produce_delay: ProduceDelay,
}

/// Answers requests; shared by all connections.
#[derive(Debug)]
pub struct Router {
    /// Local topics, committed offsets and groups.
    pub broker: Arc<Broker>,
    pub engine: Engine,
    /// The upstream cluster; `None`: this node is a cluster by itself.
    pub upstream: Option<Upstream>,
    /// Members of the cluster's groups that are connected here.
    pub members: MembershipCache,
    /// Topics of members that read a retry topic.
    pub reader_topics: ReaderTopics,
    /// Committed offsets of the cluster's groups.
    pub positions: ClusterOffsetCache,
    /// Transactional commits, noted until the transaction ends.
    pub transactions: Arc<PendingTransactions>,
    /// Commit markers that were accepted before.
    pub markers: Markers,
    /// Records of the cluster for nacks without the record's bytes.
    pub origins: OriginRecordCache,
    /// The largest batch of each cluster topic.
    pub bounds: TopicBounds,
    /// Topic ids from the cluster's last Metadata.
    pub topic_ids: TopicIds,
    /// The reserved names of retry and dead-letter topics.
    pub names: Names,
    /// Members by client address.
    pub tokens: Tokens,
    /// Connections on which brokers are asked in a member's name.
    pub voices: MemberConnections,
    /// One detector for each group whose deliveries are tracked.
    pub detectors: Arc<Detectors>,
    /// Retry topics of the cluster behind.
    pub topics_behind: OpenedTopics,
    /// The memory budget of all connections.
    pub budget: Budget,
    pub metrics: Metrics,
    pub clock: Clock,
    pub config: NodeConfig,
    /// The retry policies; a reload of the configuration replaces them.
    pub policies: RwLock<Policies>,
}
