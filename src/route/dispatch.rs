//! The dispatch of requests by API. In front of a cluster each request is relayed, read, or
//! answered here.

use std::time::Duration;

use kafka_protocol::messages::{CreateTopicsRequest, DescribeTopicPartitionsRequest};
use kafka_protocol::protocol::{Encodable, Request};
use uuid::Uuid;

use crate::route::clients::api_versions;
use crate::route::clients::conn::Conn;
use crate::route::cluster::{
    alter_replica_log_dirs, client_quotas, describe_cluster, describe_log_dirs, describe_quorum,
    elect_leaders, partition_reassignments,
};
use crate::route::configs::{
    alter_configs, describe_configs, incremental_alter_configs, list_config_resources,
};
use crate::route::groups::{
    consumer_group_describe, consumer_group_heartbeat, delete_groups, describe_groups,
    find_coordinator, heartbeat, join_group, leave_group, list_groups, sync_group,
};
use crate::route::nacks::origin_records::ReadBack;
use crate::route::offsets::{
    list_offsets, offset_commit, offset_delete, offset_fetch, offset_for_leader_epoch,
};
use crate::route::owner::OwnerCall;
use crate::route::refusals::Refusals;
use crate::route::reply::{AnswerError, AnswerFuture, Reply};
use crate::route::security::{acls, sasl_authenticate, sasl_handshake, user_scram_credentials};
use crate::route::topics::{
    create_partitions, create_topics, delete_records, delete_topics, describe_topic_partitions,
    metadata,
};
use crate::route::transactions::{
    add_offsets_to_txn, add_partitions_to_txn, describe_producers, describe_transactions, end_txn,
    init_producer_id, list_transactions, txn_offset_commit,
};
use crate::route::{Router, code, fetch, produce};
use crate::upstream::{Link, UpstreamError};
use crate::wire::relay::{FrameStartError, ProduceTopics, RequestStart};
use crate::wire::{Api, RequestHead, ResponseError, decode, encode, unserved};

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

/// Answers a request of an API that either owner answers.
macro_rules! owned {
    ($api:ident, $call:expr) => {{
        let call = $call;
        let (router, head) = (call.at.router, call.at.head);
        router.helped(head, async |request| $api::answer(call, request).await).await
    }};
}

impl Router {
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

    pub(super) async fn dispatch(
        &self,
        conn: &Conn,
        h: &RequestHead,
    ) -> Result<Reply, AnswerError> {
        macro_rules! with {
            (|$request:ident| $answer:expr) => {
                self.with(h, async |$request| $answer).await
            };
        }
        let here = || OwnerCall::here(self, conn, h);
        match h.api {
            Api::ApiVersions => Ok(Reply::Frame(api_versions::answer(h)?)),
            Api::SaslHandshake => with!(|r| sasl_handshake::answer(conn, h, r)),
            Api::SaslAuthenticate => sasl_authenticate::answer(self, conn, h).await,
            Api::Produce => self.produce(conn, h).await,
            Api::Fetch => self.fetch(conn, h).await,
            Api::Metadata => with!(|r| metadata::answer(self, conn, h, r).await),
            Api::ListOffsets => with!(|r| list_offsets::answer(self, h, r)),
            Api::OffsetForLeaderEpoch => with!(|r| offset_for_leader_epoch::answer(self, r)),
            Api::FindCoordinator => with!(|r| find_coordinator::answer(conn, h, r)),
            Api::JoinGroup => with!(|r| join_group::answer(self, conn, h, r).await),
            Api::SyncGroup => with!(|r| sync_group::answer(self, conn, r).await),
            Api::Heartbeat => owned!(heartbeat, here()),
            Api::LeaveGroup => owned!(leave_group, here()),
            Api::OffsetCommit => owned!(offset_commit, here()),
            Api::OffsetFetch => with!(|r| offset_fetch::answer(self, h, r).await),
            Api::InitProducerId => with!(|r| init_producer_id::answer(self, h, r).await),
            Api::ConsumerGroupHeartbeat => owned!(consumer_group_heartbeat, here()),
            // Open transactions.
            Api::AddPartitionsToTxn => {
                with!(|r| add_partitions_to_txn::answer(self, conn, h, r).await)
            }
            Api::AddOffsetsToTxn => with!(|r| add_offsets_to_txn::answer(self, h, r).await),
            Api::TxnOffsetCommit => owned!(txn_offset_commit, here()),
            Api::EndTxn => with!(|r| end_txn::answer(self, h, r).await),
            // Tools that read.
            Api::DescribeConfigs => with!(|r| describe_configs::answer(self, conn, r)),
            Api::DescribeCluster => with!(|r| describe_cluster::answer(self, conn, r)),
            Api::DescribeTopicPartitions => with!(|r| describe_topic_partitions::answer(self, r)),
            Api::ConsumerGroupDescribe => with!(|r| consumer_group_describe::answer(self, h, r)),
            Api::ListGroups => with!(|r| list_groups::answer(self, r)),
            Api::DescribeGroups => with!(|r| describe_groups::answer(self, h, r)),
            Api::ListTransactions => with!(|r| list_transactions::answer(self, r)),
            Api::DescribeTransactions => with!(|r| describe_transactions::answer(self, r)),
            Api::DescribeProducers => with!(|r| describe_producers::answer(self, r)),
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
                with!(|r| partition_reassignments::alter(self, r))
            }
            Api::ListPartitionReassignments => with!(|r| partition_reassignments::list(r)),
            Api::AlterReplicaLogDirs => with!(|r| alter_replica_log_dirs::answer(self, r)),
            Api::DescribeQuorum => with!(|r| describe_quorum::answer(self, conn, h, r)),
            Api::ListConfigResources => with!(|r| list_config_resources::answer(self, h, r)),
            Api::DescribeClientQuotas => with!(|r| client_quotas::describe(r)),
            Api::AlterClientQuotas => with!(|r| client_quotas::alter(r)),
            Api::DescribeUserScramCredentials => with!(|r| user_scram_credentials::describe(r)),
            Api::AlterUserScramCredentials => with!(|r| user_scram_credentials::alter(r)),
            Api::DescribeAcls => with!(|r| acls::describe(r)),
            Api::CreateAcls => with!(|r| acls::create(r)),
            Api::DeleteAcls => with!(|r| acls::delete(r)),
        }
    }

    async fn produce(&self, conn: &Conn, head: &RequestHead) -> Result<Reply, AnswerError> {
        let from = (conn, &ReadBack::default());
        produce::begin(self, from, head)?.finish(self, head).await
    }

    async fn fetch(&self, conn: &Conn, head: &RequestHead) -> Result<Reply, AnswerError> {
        let (answer, room) = fetch::answer(self, conn, head.version, decode(head)?).await;
        Ok(match self.encoded(head, &answer)? {
            Reply::Frame(frame) if !room.is_empty() => Reply::Large(frame, room),
            reply => reply,
        })
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

    /// Answers one request on a link that has no other request in flight.
    pub async fn answer_with(&self, conn: &Conn, link: &mut Link, head: RequestHead) -> Reply {
        let began = self.clock.elapsed();
        let api = head.api;
        let reply = self.relay(conn, link, head).await;
        self.finish(api, began, reply)
    }

    async fn relay(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: RequestHead,
    ) -> Result<Reply, AnswerError> {
        let h = &head;
        if self.upstream.as_ref().is_some_and(|upstream| upstream.came_back(h.client_id.as_ref())) {
            return Err(UpstreamError::Closed.into());
        }
        self.open_named(conn, link, h).await?;
        macro_rules! helped {
            (|$request:ident| $answer:expr) => {
                self.helped(h, async |$request| $answer).await
            };
        }
        match head.api {
            Api::ApiVersions => {
                Ok(Reply::Frame(api_versions::relayed(conn, link, h, decode(h)?).await?))
            }
            Api::SaslHandshake => sasl_handshake::relayed(self, conn, link, h).await,
            Api::Metadata => helped!(|r| metadata::relayed(self, conn, link, h, r).await),
            Api::FindCoordinator => {
                helped!(|r| find_coordinator::relayed(self, conn, link, h, r).await)
            }
            Api::DescribeCluster => {
                helped!(|r| describe_cluster::relayed(self, conn, link, h, r).await)
            }
            Api::JoinGroup => helped!(|r| join_group::relayed(self, conn, link, h, r).await),
            Api::SyncGroup => helped!(|r| sync_group::relayed(self, conn, link, h, r).await),
            Api::Heartbeat => owned!(heartbeat, OwnerCall::behind(self, conn, h, link)),
            Api::LeaveGroup => owned!(leave_group, OwnerCall::behind(self, conn, h, link)),
            Api::OffsetCommit => owned!(offset_commit, OwnerCall::behind(self, conn, h, link)),
            Api::OffsetFetch => helped!(|r| offset_fetch::relayed(self, link, h, r).await),
            Api::ConsumerGroupHeartbeat => {
                owned!(consumer_group_heartbeat, OwnerCall::behind(self, conn, h, link))
            }
            Api::InitProducerId => helped!(|r| init_producer_id::relayed(self, link, h, r).await),
            Api::AddPartitionsToTxn => {
                helped!(|r| add_partitions_to_txn::relayed(self, conn, link, h, r).await)
            }
            Api::TxnOffsetCommit => {
                owned!(txn_offset_commit, OwnerCall::behind(self, conn, h, link))
            }
            Api::EndTxn => helped!(|r| end_txn::relayed(self, link, h, r).await),
            Api::CreateTopics => {
                helped!(|r| link.call::<CreateTopicsRequest>(h, &r).await)
            }
            Api::DescribeTopicPartitions => {
                helped!(|r| link.call::<DescribeTopicPartitionsRequest>(h, &r).await)
            }
            Api::DeleteTopics => helped!(|r| delete_topics::relayed(self, link, h, r).await),
            Api::Fetch => fetch::relayed(self, conn, link, head).await,
            // Relayed without a look (`READ`).
            #[rustfmt::skip]
            Api::Produce | Api::ListOffsets | Api::DescribeGroups | Api::ListGroups
            | Api::DeleteRecords | Api::OffsetForLeaderEpoch | Api::DescribeLogDirs
            | Api::DeleteGroups | Api::OffsetDelete | Api::SaslAuthenticate
            | Api::ConsumerGroupDescribe | Api::DescribeAcls | Api::CreateAcls | Api::DeleteAcls
            | Api::AlterReplicaLogDirs | Api::ElectLeaders | Api::AlterPartitionReassignments
            | Api::ListPartitionReassignments | Api::DescribeClientQuotas | Api::AlterClientQuotas
            | Api::DescribeUserScramCredentials | Api::AlterUserScramCredentials
            | Api::DescribeQuorum | Api::ListConfigResources | Api::AddOffsetsToTxn
            | Api::DescribeProducers | Api::DescribeTransactions | Api::ListTransactions
            | Api::CreatePartitions | Api::AlterConfigs | Api::IncrementalAlterConfigs
            | Api::DescribeConfigs => self.dispatch(conn, h).await,
        }
    }

    /// Decodes the request, answers it with requests to the cluster, and encodes the answer.
    pub(super) async fn helped<Req>(
        &self,
        head: &RequestHead,
        answer: impl AsyncFnOnce(Req) -> Result<Req::Response, UpstreamError>,
    ) -> Result<Reply, AnswerError>
    where
        Req: Request,
        Req::Response: Encodable + Refusals,
    {
        let request = decode::<Req>(head)?;
        self.encoded(head, &answer(request).await?)
    }

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

    /// Answers an ApiVersions request of an unknown version.
    pub fn unsupported_api_versions(&self, correlation_id: i32) -> Reply {
        match api_versions::unsupported(correlation_id, self.upstream.is_some()) {
            Ok(frame) => Reply::Frame(frame),
            Err(error) => Reply::Close(error.to_string()),
        }
    }

    /// Answers a request of an unserved API. `None`: the protocol has no answer, or the client has
    /// not logged in.
    pub fn unserved(&self, conn: &Conn, key: (i16, i16), correlation_id: i32) -> Option<Reply> {
        if !conn.session.is_known() {
            return None;
        }
        let (api_key, version) = key;
        let frame = unserved::refusal(api_key, version, correlation_id)?;
        self.metrics.request_error("unknown", "unsupported_version");
        Some(Reply::Frame(frame))
    }

    /// Counts a request, and ends its connection after an error.
    pub(super) fn finish(
        &self,
        api: Api,
        began: Duration,
        reply: Result<Reply, AnswerError>,
    ) -> Reply {
        let seconds = self.clock.elapsed().saturating_sub(began).as_secs_f64();
        self.metrics.request(api.name(), seconds);
        reply.unwrap_or_else(|error| {
            self.metrics.request_error(api.name(), error.word());
            Reply::Close(format!("{}: {error}", api.name()))
        })
    }

    /// Encodes an answer and counts the errors in it.
    pub(super) fn encoded<Resp: Encodable + Refusals>(
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

/// Whether requests of the API are relayed in any version that the broker knows.
pub(super) fn only_passes(api: Api) -> bool {
    let is_looked_at =
        matches!(api, Api::Fetch | Api::Produce | Api::SaslHandshake | Api::SaslAuthenticate);
    !is_looked_at && !READ.contains(&api)
}
