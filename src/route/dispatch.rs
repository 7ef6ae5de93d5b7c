//! The dispatch of requests by API.

use kafka_protocol::protocol::{Encodable, Request};

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
use crate::route::{Router, fetch, produce};
use crate::wire::api::Api;
use crate::wire::decode;
use crate::wire::header::RequestHead;

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
            Api::Heartbeat => with!(|r| heartbeat::answer(self, conn, r)),
            Api::LeaveGroup => with!(|r| leave_group::answer(self, h, r)),
            Api::OffsetCommit => with!(|r| offset_commit::answer(self, conn, h, r).await),
            Api::OffsetFetch => with!(|r| offset_fetch::answer(self, h, r).await),
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
}
