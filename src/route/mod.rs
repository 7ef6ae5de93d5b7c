//! Request routing: one file for each API, in folders by subject. This file holds the router.
#![expect(clippy::needless_pass_by_value, reason = "a handler is given its request for good")]

pub mod clients;
mod cluster;
pub mod code;
pub mod configs;
mod convert;
pub mod delivery;
pub mod fetch;
pub mod groups;
pub mod nacks;
pub mod offsets;
pub mod passthrough;
mod produce;
mod refusals;
pub mod security;
mod split_by_owner;
pub mod topics;
pub mod transactions;
mod unique_names;
mod upstream_dispatch;

use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::protocol::{Encodable, Request};

pub use produce::ProduceDelay;

use crate::broker::Broker;
use crate::clock::Clock;
use crate::engine::{Detectors, Engine, TopicIds};
use crate::observe::Metrics;
use crate::retry::Policies;
use crate::route::clients::client_address::Tokens;
use crate::route::clients::conn::Conn;
use crate::route::clients::member_connections::MemberConnections;
use crate::route::clients::node_listing::NodeListing;
use crate::route::configs::bound_cache::TopicBounds;
use crate::route::groups::membership_cache::MembershipCache;
use crate::route::nacks::origin_records::{OriginRecordCache, ReadBack};
use crate::route::offsets::cluster_offsets::ClusterOffsetCache;
use crate::route::offsets::commit_markers::Markers;
use crate::route::refusals::Refusals;
use crate::route::topics::reserved_names::Names;
use crate::route::transactions::pending_transactions::PendingTransactions;
use crate::socket::Budget;
use crate::upstream::{Upstream, UpstreamError};
use crate::wire::api::Api;
use crate::wire::header::RequestHead;
use crate::wire::{DecodeError, EncodeError, ResponseError, decode, encode};
use clients::api_versions;
use cluster::{
    alter_partition_reassignments, alter_replica_log_dirs, describe_client_quotas,
    describe_cluster, describe_log_dirs, describe_quorum, elect_leaders,
    list_partition_reassignments,
};
use configs::{alter_configs, describe_configs, incremental_alter_configs, list_config_resources};
use groups::{
    consumer_group_describe, consumer_group_heartbeat, delete_groups, describe_groups,
    find_coordinator, heartbeat, join_group, leave_group, list_groups, sync_group,
};
use offsets::{list_offsets, offset_commit, offset_delete, offset_fetch, offset_for_leader_epoch};
use security::{
    alter_user_scram_credentials, create_acls, delete_acls, describe_acls,
    describe_user_scram_credentials, sasl_authenticate, sasl_handshake,
};
use topics::{
    create_partitions, create_topics, delete_records, delete_topics, describe_topic_partitions,
    metadata,
};
use transactions::{
    add_offsets_to_txn, add_partitions_to_txn, describe_producers, describe_transactions, end_txn,
    init_producer_id, list_transactions, txn_offset_commit,
};

/// Settings of this node that the routes need.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Our node id, the leader of all our partitions.
    pub node_id: i32,
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
    /// Committed offsets of the cluster's groups.
    pub positions: ClusterOffsetCache,
    /// Pending transactional commits: of retry topics, and in front of a cluster of all our topics.
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
    /// Clients to which this node is listed, in front of a cluster.
    pub node_listing: NodeListing,
    /// Connections on which brokers are asked in a member's name.
    pub voices: MemberConnections,
    /// One detector for each group whose deliveries are tracked.
    pub detectors: Arc<Detectors>,
    /// The memory budget of all connections.
    pub budget: Budget,
    pub metrics: Metrics,
    pub clock: Clock,
    pub config: NodeConfig,
    /// The retry policies; a reload of the configuration replaces them.
    pub policies: RwLock<Policies>,
}

/// The result of a request.
#[derive(Debug)]
pub enum Reply {
    /// A whole frame, length prefix included.
    Frame(Bytes),
    /// No answer: a Produce with acks 0.
    Nothing,
    /// The last frame of the connection, and the reason why it ends.
    Last(Bytes, String),
    /// The reason why the connection ends without an answer.
    Close(String),
}

/// The future of an answer.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// The reason why a request ends its connection.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

impl AnswerError {
    fn word(&self) -> &'static str {
        match self {
            Self::Decode(_) => "undecodable",
            Self::Encode(_) => "unencodable",
            Self::Upstream(_) => "upstream",
        }
    }
}

impl Router {
    /// Whether a broker of the cluster has our node id. The broker keeps it, and our topics have no
    /// leader then.
    pub fn node_clash(&self) -> bool {
        self.upstream.as_ref().is_some_and(|upstream| upstream.has_broker(self.config.node_id))
    }

    /// Answers one request. A Produce has appended its records when this returns, and the future
    /// waits until they are durable. Any other request does all its work in the future.
    pub fn answer<'a>(
        &'a self,
        conn: &'a Conn,
        head: RequestHead,
        back: ReadBack,
    ) -> AnswerFuture<'a> {
        let began = self.clock.elapsed();
        if let Err(error) = conn.session.admits(head.api, began) {
            self.metrics.request_error(head.api.name(), "unauthenticated");
            return Box::pin(async move { Reply::Close(error.to_string()) });
        }
        if head.api == Api::Produce {
            let pending = produce::begin(self, (conn, &back), &head);
            Box::pin(async move {
                let reply = match pending {
                    Ok(pending) => pending.finish(self, &head).await,
                    Err(error) => Err(error.into()),
                };
                self.finish(head.api, began, reply)
            })
        } else {
            Box::pin(async move {
                let api = head.api;
                let reply = self.dispatch(conn, &head).await;
                self.finish(api, began, reply)
            })
        }
    }

    fn finish(&self, api: Api, began: Duration, reply: Result<Reply, AnswerError>) -> Reply {
        let seconds = self.clock.elapsed().saturating_sub(began).as_secs_f64();
        self.metrics.request(api.name(), seconds);
        reply.unwrap_or_else(|error| {
            self.metrics.request_error(api.name(), error.word());
            Reply::Close(format!("{}: {error}", api.name()))
        })
    }

    async fn dispatch(&self, conn: &Conn, h: &RequestHead) -> Result<Reply, AnswerError> {
        macro_rules! with {
            (|$request:ident| $answer:expr) => {
                self.with(h, async |$request| $answer).await
            };
        }
        match h.api {
            Api::ApiVersions => Ok(Reply::Frame(api_versions::answer(h)?)),
            Api::SaslHandshake => with!(|r| sasl_handshake::answer(conn, h, r)),
            Api::SaslAuthenticate => sasl_authenticate::answer(self, conn, h).await,
            Api::Produce => self.produce(conn, h).await,
            Api::Fetch => with!(|r| fetch::answer(self, conn, h.version, r).await),
            Api::Metadata => with!(|r| metadata::answer(self, conn, h, r).await),
            Api::ListOffsets => with!(|r| list_offsets::answer(self, conn, h, r).await),
            Api::OffsetForLeaderEpoch => with!(|r| offset_for_leader_epoch::answer(self, conn, r)),
            Api::FindCoordinator => with!(|r| find_coordinator::answer(self, conn, h, r)),
            Api::JoinGroup => with!(|r| join_group::answer(self, conn, h, r).await),
            Api::SyncGroup => with!(|r| sync_group::answer(self, conn, r).await),
            Api::Heartbeat => with!(|r| heartbeat::answer(self, conn, r)),
            Api::LeaveGroup => with!(|r| leave_group::answer(self, h, r)),
            Api::OffsetCommit => with!(|r| offset_commit::answer(self, conn, h, r).await),
            Api::OffsetFetch => with!(|r| offset_fetch::answer(self, conn, h, r).await),
            Api::InitProducerId => with!(|r| init_producer_id::answer(self, h, r).await),
            Api::ConsumerGroupHeartbeat => {
                with!(|r| consumer_group_heartbeat::answer(self, conn, h, r).await)
            }
            // Open transactions.
            Api::AddPartitionsToTxn => {
                with!(|r| add_partitions_to_txn::answer(self, conn, h, r).await)
            }
            Api::AddOffsetsToTxn => with!(|r| add_offsets_to_txn::answer(self, h, r).await),
            Api::TxnOffsetCommit => with!(|r| txn_offset_commit::answer(self, conn, h, r).await),
            Api::EndTxn => with!(|r| end_txn::answer(self, conn, h, r).await),
            // Tools that read.
            Api::DescribeConfigs => with!(|r| describe_configs::answer(self, conn, r)),
            Api::DescribeCluster => with!(|r| describe_cluster::answer(self, conn, r)),
            Api::DescribeTopicPartitions => with!(|r| describe_topic_partitions::answer(self, r)),
            Api::ConsumerGroupDescribe => with!(|r| consumer_group_describe::answer(self, h, r)),
            Api::ListGroups => with!(|r| list_groups::answer(self, r)),
            Api::DescribeGroups => with!(|r| describe_groups::answer(self, h, r)),
            Api::ListTransactions => with!(|r| list_transactions::answer(self, r)),
            Api::DescribeTransactions => with!(|r| describe_transactions::answer(self, r)),
            Api::DescribeProducers => with!(|r| describe_producers::answer(self, conn, r)),
            Api::DescribeLogDirs => with!(|r| describe_log_dirs::answer(self, r)),
            // Tools that change something.
            Api::CreateTopics => with!(|r| create_topics::answer(self, h, r).await),
            Api::CreatePartitions => with!(|r| create_partitions::answer(self, r).await),
            Api::DeleteTopics => with!(|r| delete_topics::answer(self, h, r).await),
            Api::DeleteRecords => with!(|r| delete_records::answer(self, conn, r).await),
            Api::AlterConfigs => with!(|r| alter_configs::answer(self, r).await),
            Api::IncrementalAlterConfigs => {
                with!(|r| incremental_alter_configs::answer(self, r).await)
            }
            Api::DeleteGroups => with!(|r| delete_groups::answer(self, r).await),
            Api::OffsetDelete => with!(|r| offset_delete::answer(self, r).await),
            // Replicas, the quorum, ACLs and quotas.
            Api::ElectLeaders => with!(|r| elect_leaders::answer(self, h, r)),
            Api::AlterPartitionReassignments => {
                with!(|r| alter_partition_reassignments::answer(self, r))
            }
            Api::ListPartitionReassignments => with!(|r| list_partition_reassignments::answer(r)),
            Api::AlterReplicaLogDirs => with!(|r| alter_replica_log_dirs::answer(self, r)),
            Api::DescribeQuorum => with!(|r| describe_quorum::answer(self, conn, h, r)),
            Api::ListConfigResources => with!(|r| list_config_resources::answer(self, h, r)),
            Api::DescribeClientQuotas => with!(|r| describe_client_quotas::answer(r)),
            Api::DescribeUserScramCredentials => {
                with!(|r| describe_user_scram_credentials::answer(r))
            }
            Api::AlterUserScramCredentials => with!(|r| alter_user_scram_credentials::answer(r)),
            Api::DescribeAcls => with!(|r| describe_acls::answer(r)),
            Api::CreateAcls => with!(|r| create_acls::answer(r)),
            Api::DeleteAcls => with!(|r| delete_acls::answer(r)),
        }
    }

    async fn produce(&self, conn: &Conn, head: &RequestHead) -> Result<Reply, AnswerError> {
        let from = (conn, &ReadBack::default());
        produce::begin(self, from, head)?.finish(self, head).await
    }

    /// Decodes the request, answers it, and encodes the answer.
    async fn with<Req, Resp>(
        &self,
        head: &RequestHead,
        answer: impl AsyncFnOnce(Req) -> Resp,
    ) -> Result<Reply, AnswerError>
    where
        Req: Request,
        Resp: Encodable + Refusals,
    {
        let request = decode::<Req>(head)?;
        self.encoded(head, &answer(request).await)
    }

    /// Encodes an answer and counts the errors in it.
    fn encoded<Resp: Encodable + Refusals>(
        &self,
        head: &RequestHead,
        answer: &Resp,
    ) -> Result<Reply, AnswerError> {
        answer.each(&mut |code| {
            if let Some(error) = ResponseError::try_from_code(code) {
                self.metrics.request_error(head.api.name(), &code::name(error));
            }
        });
        Ok(Reply::Frame(encode(head, answer)?))
    }
}
