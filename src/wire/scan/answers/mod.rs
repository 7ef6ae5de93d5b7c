//! Layouts of broker answers that are read before a client gets them. A broker is as untrusted as a
//! client: its counts are checked against its bytes too.

mod cluster;
mod data;
mod groups;
#[cfg(test)]
mod tests;
mod topics;
mod transactions;

use super::Schema;
use crate::wire::api::Api;

/// The layout of an answer; `None` for one that is never read here.
pub(in crate::wire) fn of(api: Api) -> Option<&'static Schema> {
    Some(match api {
        Api::ApiVersions => &cluster::API_VERSIONS,
        Api::Metadata => &cluster::METADATA,
        Api::FindCoordinator => &cluster::FIND_COORDINATOR,
        Api::DescribeCluster => &cluster::DESCRIBE_CLUSTER,
        Api::JoinGroup => &groups::JOIN_GROUP,
        Api::SyncGroup => &groups::SYNC_GROUP,
        Api::Heartbeat => &groups::HEARTBEAT,
        Api::LeaveGroup => &groups::LEAVE_GROUP,
        Api::OffsetCommit => &groups::OFFSET_COMMIT,
        Api::OffsetFetch => &groups::OFFSET_FETCH,
        Api::Fetch => &data::FETCH,
        Api::ListOffsets => &data::LIST_OFFSETS,
        Api::Produce => &data::PRODUCE,
        Api::ConsumerGroupHeartbeat => &groups::CONSUMER_GROUP_HEARTBEAT,
        Api::CreateTopics => &topics::CREATE_TOPICS,
        Api::DeleteTopics => &topics::DELETE_TOPICS,
        Api::CreatePartitions => &topics::CREATE_PARTITIONS,
        Api::AlterConfigs => &topics::ALTER_CONFIGS,
        Api::IncrementalAlterConfigs => &topics::INCREMENTAL_ALTER_CONFIGS,
        Api::DescribeConfigs => &topics::DESCRIBE_CONFIGS,
        Api::DescribeTopicPartitions => &topics::DESCRIBE_TOPIC_PARTITIONS,
        Api::AddPartitionsToTxn => &transactions::ADD_PARTITIONS,
        Api::TxnOffsetCommit => &transactions::TXN_OFFSET_COMMIT,
        Api::EndTxn => &transactions::END_TXN,
        Api::InitProducerId => &transactions::INIT_PRODUCER_ID,
        _ => return None,
    })
}
