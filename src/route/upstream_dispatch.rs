//! APIs that are answered with requests to the upstream cluster: only the `match`.

use kafka_protocol::messages::{CreateTopicsRequest, DescribeTopicPartitionsRequest};
use kafka_protocol::protocol::{Encodable, Request};

use crate::route::clients::api_versions;
use crate::route::clients::conn::Conn;
use crate::route::cluster::describe_cluster;
use crate::route::groups::{
    consumer_group_heartbeat, find_coordinator, heartbeat, join_group, leave_group, sync_group,
};
use crate::route::offsets::{offset_commit, offset_fetch};
use crate::route::refusals::Refusals;
use crate::route::reply::{AnswerError, Reply};
use crate::route::security::sasl_handshake;
use crate::route::topics::{delete_topics, metadata};
use crate::route::transactions::{
    add_partitions_to_txn, end_txn, init_producer_id, txn_offset_commit,
};
use crate::route::{Router, fetch};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead, decode};

impl Router {
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
            Api::Heartbeat => helped!(|r| heartbeat::relayed(self, conn, link, h, r).await),
            Api::LeaveGroup => helped!(|r| leave_group::relayed(self, link, h, r).await),
            Api::OffsetCommit => helped!(|r| offset_commit::relayed(self, conn, link, h, r).await),
            Api::OffsetFetch => helped!(|r| offset_fetch::relayed(self, link, h, r).await),
            Api::ConsumerGroupHeartbeat => {
                helped!(|r| consumer_group_heartbeat::relayed(self, conn, link, h, r).await)
            }
            Api::InitProducerId => helped!(|r| init_producer_id::relayed(self, link, h, r).await),
            Api::AddPartitionsToTxn => {
                helped!(|r| add_partitions_to_txn::relayed(self, conn, link, h, r).await)
            }
            Api::TxnOffsetCommit => {
                helped!(|r| txn_offset_commit::relayed(self, conn, link, h, r).await)
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
            // Relayed without a look (`passthrough.rs`).
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
}
