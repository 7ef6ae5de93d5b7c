//! APIs that are answered with requests to the upstream cluster: only the `match`.

use kafka_protocol::protocol::{Encodable, Request};

use crate::route::conn::Conn;
use crate::route::refusals::Refusals;
use crate::route::{
    AnswerError, Reply, Router, add_partitions_to_txn, alter_configs, api_versions,
    consumer_group_heartbeat, create_partitions, create_topics, delete_topics, describe_cluster,
    describe_configs, describe_topic_partitions, end_txn, fetch, find_coordinator, heartbeat,
    incremental_alter_configs, init_producer_id, join_group, leave_group, metadata, offset_commit,
    offset_fetch, sasl_handshake, sync_group, txn_offset_commit,
};
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
        self.look_for_conflicts(link, h).await?;
        match head.api {
            Api::ApiVersions => {
                Ok(Reply::Frame(api_versions::relayed(conn, link, h, decode(h)?).await?))
            }
            Api::Metadata => {
                self.helped(h, async |r| metadata::relayed(self, conn, link, h, r).await).await
            }
            Api::FindCoordinator => {
                self.helped(h, async |r| find_coordinator::relayed(self, conn, link, h, r).await)
                    .await
            }
            Api::DescribeCluster => {
                self.helped(h, async |r| describe_cluster::relayed(self, conn, link, h, r).await)
                    .await
            }
            Api::JoinGroup => {
                self.helped(h, async |r| join_group::relayed(self, conn, link, h, r).await).await
            }
            Api::SyncGroup => {
                self.helped(h, async |r| sync_group::relayed(self, conn, link, h, r).await).await
            }
            Api::Heartbeat => {
                self.helped(h, async |r| heartbeat::relayed(self, conn, link, h, r).await).await
            }
            Api::LeaveGroup => {
                self.helped(h, async |r| leave_group::relayed(self, link, h, r).await).await
            }
            Api::OffsetCommit => {
                self.helped(h, async |r| offset_commit::relayed(self, conn, link, h, r).await).await
            }
            Api::OffsetFetch => {
                self.helped(h, async |r| offset_fetch::relayed(self, conn, link, h, r).await).await
            }
            Api::ConsumerGroupHeartbeat => {
                self.helped(h, async |r| {
                    consumer_group_heartbeat::relayed(self, conn, link, h, r).await
                })
                .await
            }
            Api::InitProducerId => {
                self.helped(h, async |r| init_producer_id::relayed(self, link, h, r).await).await
            }
            Api::AddPartitionsToTxn => {
                let with = async |r| add_partitions_to_txn::relayed(self, conn, link, h, r).await;
                self.helped(h, with).await
            }
            Api::TxnOffsetCommit => {
                self.helped(h, async |r| txn_offset_commit::relayed(self, conn, link, h, r).await)
                    .await
            }
            Api::EndTxn => self.helped(h, async |r| end_txn::relayed(self, link, h, r).await).await,
            Api::SaslHandshake => sasl_handshake::relayed(self, conn, link, h).await,
            Api::Fetch if conn.node.is_some() => fetch::relayed(self, conn, link, head).await,
            _ => self.relay_tools(conn, link, head).await,
        }
    }

    /// The APIs of tools.
    async fn relay_tools(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: RequestHead,
    ) -> Result<Reply, AnswerError> {
        let h = &head;
        match head.api {
            Api::CreateTopics => {
                self.helped(h, async |r| create_topics::relayed(self, conn, link, h, r).await).await
            }
            Api::DeleteTopics => {
                self.helped(h, async |r| delete_topics::relayed(self, link, h, r).await).await
            }
            Api::CreatePartitions => {
                self.helped(h, async |r| create_partitions::relayed(self, conn, link, h, r).await)
                    .await
            }
            Api::AlterConfigs => {
                self.helped(h, async |r| alter_configs::relayed(self, link, h, r).await).await
            }
            Api::IncrementalAlterConfigs => {
                let with = async |r| incremental_alter_configs::relayed(self, link, h, r).await;
                self.helped(h, with).await
            }
            Api::DescribeConfigs => {
                let with = async |r| describe_configs::relayed(self, conn, link, h, r).await;
                self.helped(h, with).await
            }
            Api::DescribeTopicPartitions => {
                let with =
                    async |r| describe_topic_partitions::relayed(self, conn, link, h, r).await;
                self.helped(h, with).await
            }
            // All other APIs need nothing from the cluster.
            _ => self.dispatch(conn, head).await,
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
