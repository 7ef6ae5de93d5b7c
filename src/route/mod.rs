//! Request routing: one file for each API; this file holds the router and its `match`.
#![expect(clippy::needless_pass_by_value, reason = "a handler is given its request for good")]

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod addresses;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_user_scram_credentials;
mod altering;
mod api_versions;
pub mod bounds;
pub mod code;
mod conflict;
pub mod conn;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod convert;
mod create_acls;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
pub mod delivery;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
pub mod doors;
mod elect_leaders;
mod end_txn;
pub mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod lane;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
pub mod markers;
pub mod members;
pub mod membership;
mod metadata;
mod nacks;
mod named;
pub mod names;
pub mod node_listing;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod operations;
mod ordered;
pub mod origins;
mod parted;
pub mod passthrough;
mod place;
pub mod positions;
pub mod posted;
mod produce;
mod reading;
mod refusals;
mod relayed;
mod replicas;
pub mod rights;
mod sasl_authenticate;
mod sasl_handshake;
pub mod session;
mod spread;
mod sync_group;
pub mod token;
pub mod topic_ids;
pub mod transactions;
mod txn_offset_commit;
mod unserved;
pub mod voices;

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
use crate::route::bounds::TopicBounds;
use crate::route::conn::Conn;
use crate::route::markers::Markers;
use crate::route::members::Members;
use crate::route::names::Names;
use crate::route::node_listing::NodeListing;
use crate::route::origins::{Origins, ReadBack};
use crate::route::positions::Positions;
use crate::route::refusals::Refusals;
use crate::route::token::Tokens;
use crate::route::transactions::Transactions;
use crate::route::voices::Voices;
use crate::socket::Budget;
use crate::upstream::{Upstream, UpstreamError};
use crate::wire::api::Api;
use crate::wire::header::RequestHead;
use crate::wire::{DecodeError, EncodeError, ResponseError, decode, encode};

/// Settings of this node that the routes need.
#[derive(Clone, Debug)]
pub struct Config {
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
    pub members: Members,
    /// Committed offsets of the cluster's groups.
    pub positions: Positions,
    /// Pending transactional commits: of retry topics, and in front of a cluster of all our topics.
    pub transactions: Arc<Transactions>,
    /// Commit markers that were accepted before.
    pub markers: Markers,
    /// Records of the cluster for nacks without the record's bytes.
    pub origins: Origins,
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
    pub voices: Voices,
    /// One detector for each group whose deliveries are tracked.
    pub detectors: Arc<Detectors>,
    /// The memory budget of all connections.
    pub budget: Budget,
    pub metrics: Metrics,
    pub clock: Clock,
    pub config: Config,
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
pub type Answering<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

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
    ) -> Answering<'a> {
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
                let reply = self.dispatch(conn, head).await;
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

    async fn dispatch(&self, conn: &Conn, head: RequestHead) -> Result<Reply, AnswerError> {
        Ok(match head.api {
            Api::ApiVersions => Reply::Frame(api_versions::answer(&head)?),
            Api::SaslHandshake => {
                self.with(&head, async |r| sasl_handshake::answer(conn, &head, r)).await?
            }
            Api::SaslAuthenticate => sasl_authenticate::answer(self, conn, &head).await?,
            Api::Produce => {
                let from = (conn, &ReadBack::default());
                produce::begin(self, from, &head)?.finish(self, &head).await?
            }
            Api::Fetch => {
                let version = head.version;
                self.with(&head, async |r| fetch::answer(self, conn, version, r).await).await?
            }
            Api::Metadata => {
                self.with(&head, async |r| metadata::answer(self, conn, &head, r).await).await?
            }
            Api::ListOffsets => {
                self.with(&head, async |r| list_offsets::answer(self, conn, &head, r).await).await?
            }
            Api::OffsetForLeaderEpoch => {
                self.with(&head, async |r| offset_for_leader_epoch::answer(self, conn, r)).await?
            }
            Api::FindCoordinator => {
                self.with(&head, async |r| find_coordinator::answer(self, conn, &head, r)).await?
            }
            Api::JoinGroup => {
                self.with(&head, async |r| join_group::answer(self, conn, &head, r).await).await?
            }
            Api::SyncGroup => {
                self.with(&head, async |r| sync_group::answer(self, conn, r).await).await?
            }
            Api::Heartbeat => self.with(&head, async |r| heartbeat::answer(self, conn, r)).await?,
            Api::LeaveGroup => {
                self.with(&head, async |r| leave_group::answer(self, &head, r)).await?
            }
            Api::OffsetCommit => {
                self.with(&head, async |r| offset_commit::answer(self, conn, &head, r).await)
                    .await?
            }
            Api::OffsetFetch => {
                self.with(&head, async |r| offset_fetch::answer(self, conn, &head, r).await).await?
            }
            Api::InitProducerId => {
                self.with(&head, async |r| init_producer_id::answer(self, &head, r).await).await?
            }
            Api::ConsumerGroupHeartbeat => {
                let with = async |r| consumer_group_heartbeat::answer(self, conn, &head, r).await;
                self.with(&head, with).await?
            }
            Api::AddPartitionsToTxn | Api::AddOffsetsToTxn | Api::TxnOffsetCommit | Api::EndTxn => {
                self.transact(conn, head).await?
            }
            _ => self.inspect(conn, head).await?,
        })
    }

    /// The APIs of open transactions.
    async fn transact(&self, conn: &Conn, head: RequestHead) -> Result<Reply, AnswerError> {
        let h = &head;
        match head.api {
            Api::AddPartitionsToTxn => {
                self.with(h, async |r| add_partitions_to_txn::answer(self, conn, h, r).await).await
            }
            Api::AddOffsetsToTxn => {
                self.with(h, async |r| add_offsets_to_txn::answer(self, h, r).await).await
            }
            Api::TxnOffsetCommit => {
                self.with(h, async |r| txn_offset_commit::answer(self, conn, h, r).await).await
            }
            _ => self.with(h, async |r| end_txn::answer(self, conn, h, r).await).await,
        }
    }

    /// The APIs by which tools read.
    async fn inspect(&self, conn: &Conn, head: RequestHead) -> Result<Reply, AnswerError> {
        Ok(match head.api {
            Api::DescribeConfigs => {
                self.with(&head, async |r| describe_configs::answer(self, conn, r)).await?
            }
            Api::DescribeCluster => {
                self.with(&head, async |r| describe_cluster::answer(self, conn, r)).await?
            }
            Api::DescribeTopicPartitions => {
                self.with(&head, async |r| describe_topic_partitions::answer(self, r)).await?
            }
            Api::ConsumerGroupDescribe => {
                self.with(&head, async |r| consumer_group_describe::answer(self, &head, r)).await?
            }
            Api::ListGroups => self.with(&head, async |r| list_groups::answer(self, r)).await?,
            Api::DescribeGroups => {
                self.with(&head, async |r| describe_groups::answer(self, &head, r)).await?
            }
            Api::ListTransactions => {
                self.with(&head, async |r| list_transactions::answer(self, r)).await?
            }
            Api::DescribeTransactions => {
                self.with(&head, async |r| describe_transactions::answer(self, r)).await?
            }
            Api::DescribeProducers => {
                self.with(&head, async |r| describe_producers::answer(self, conn, r)).await?
            }
            Api::DescribeLogDirs => {
                self.with(&head, async |r| describe_log_dirs::answer(self, r)).await?
            }
            _ => self.change(conn, head).await?,
        })
    }

    /// The APIs by which tools make changes.
    async fn change(&self, conn: &Conn, head: RequestHead) -> Result<Reply, AnswerError> {
        Ok(match head.api {
            Api::CreateTopics => {
                self.with(&head, async |r| create_topics::answer(self, &head, r).await).await?
            }
            Api::CreatePartitions => {
                self.with(&head, async |r| create_partitions::answer(self, r).await).await?
            }
            Api::DeleteTopics => {
                self.with(&head, async |r| delete_topics::answer(self, &head, r).await).await?
            }
            Api::DeleteRecords => {
                self.with(&head, async |r| delete_records::answer(self, conn, r).await).await?
            }
            Api::AlterConfigs => {
                self.with(&head, async |r| alter_configs::answer(self, r).await).await?
            }
            Api::IncrementalAlterConfigs => {
                self.with(&head, async |r| incremental_alter_configs::answer(self, r).await).await?
            }
            Api::DeleteGroups => {
                self.with(&head, async |r| delete_groups::answer(self, r).await).await?
            }
            Api::OffsetDelete => {
                self.with(&head, async |r| offset_delete::answer(self, r).await).await?
            }
            _ => self.administer(conn, &head)?,
        })
    }

    /// The APIs of replicas, the quorum, ACLs and quotas.
    fn administer(&self, conn: &Conn, head: &RequestHead) -> Result<Reply, AnswerError> {
        match head.api {
            Api::ElectLeaders => self.with_now(head, |r| elect_leaders::answer(self, head, r)),
            Api::AlterPartitionReassignments => {
                self.with_now(head, |r| alter_partition_reassignments::answer(self, r))
            }
            Api::ListPartitionReassignments => {
                self.with_now(head, list_partition_reassignments::answer)
            }
            Api::AlterReplicaLogDirs => {
                self.with_now(head, |r| alter_replica_log_dirs::answer(self, r))
            }
            Api::DescribeQuorum => {
                self.with_now(head, |r| describe_quorum::answer(self, conn, head, r))
            }
            Api::ListConfigResources => {
                self.with_now(head, |r| list_config_resources::answer(self, head, r))
            }
            Api::DescribeClientQuotas => self.with_now(head, describe_client_quotas::answer),
            Api::DescribeUserScramCredentials => {
                self.with_now(head, describe_user_scram_credentials::answer)
            }
            Api::AlterUserScramCredentials => {
                self.with_now(head, alter_user_scram_credentials::answer)
            }
            Api::DescribeAcls => self.with_now(head, describe_acls::answer),
            Api::CreateAcls => self.with_now(head, create_acls::answer),
            Api::DeleteAcls => self.with_now(head, delete_acls::answer),
            // Every other API is matched above.
            api => Ok(Reply::Close(format!("{} is not served here", api.name()))),
        }
    }

    /// Decodes a request, answers it without waiting, and encodes the answer.
    fn with_now<Req, Resp>(
        &self,
        head: &RequestHead,
        answer: impl FnOnce(Req) -> Resp,
    ) -> Result<Reply, AnswerError>
    where
        Req: Request,
        Resp: Encodable + Refusals,
    {
        let request = decode::<Req>(head)?;
        self.encoded(head, &answer(request))
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
