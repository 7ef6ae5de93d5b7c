//! The codec crate's decoding and encoding of requests and answers. The crate has Kafka's own
//! schemas: Kafka's clients read a frame that it reads whole and encodes alike.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request};
use reprise::wire::Api;

/// A frame without its length, decoded to its end.
#[derive(Debug)]
pub struct DecodedFrame {
    /// Debug text of the message.
    pub text: String,
    /// The message as the crate encodes it.
    pub again: Bytes,
}

/// Decodes requests and answers of one API; the error names the undecodable part.
#[derive(Clone, Copy)]
pub struct Reader {
    pub request: fn(i16, &Bytes) -> Result<DecodedFrame, String>,
    pub answer: fn(i16, &Bytes) -> Result<DecodedFrame, String>,
}

/// Decodes header and body at their versions.
fn read<H, B>(header: i16, version: i16, frame: &Bytes) -> Result<DecodedFrame, String>
where
    H: Decodable + Encodable + Debug,
    B: Decodable + Encodable + Debug,
{
    let mut rest = frame.clone();
    let head = H::decode(&mut rest, header).map_err(|error| format!("header: {error}"))?;
    let body = B::decode(&mut rest, version).map_err(|error| format!("body: {error}"))?;
    if !rest.is_empty() {
        return Err(format!("{} bytes behind the message", rest.len()));
    }
    let mut again = BytesMut::new();
    head.encode(&mut again, header).map_err(|error| format!("header: {error}"))?;
    body.encode(&mut again, version).map_err(|error| format!("body: {error}"))?;
    Ok(DecodedFrame { text: format!("{head:#?}\n{body:#?}"), again: again.freeze() })
}

fn of<R>() -> Reader
where
    R: Request + Decodable + Debug,
    R::Response: Encodable + Debug,
{
    Reader {
        request: |version, frame| {
            read::<RequestHeader, R>(R::header_version(version), version, frame)
        },
        answer: |version, frame| {
            let header = <R::Response as HeaderVersion>::header_version(version);
            read::<ResponseHeader, R::Response>(header, version, frame)
        },
    }
}

/// The decoders of each API; the match makes the compiler ask for a new API's.
pub fn reader(api: Api) -> Reader {
    match api {
        Api::Produce => of::<ProduceRequest>(),
        Api::Fetch => of::<FetchRequest>(),
        Api::ListOffsets => of::<ListOffsetsRequest>(),
        Api::Metadata => of::<MetadataRequest>(),
        Api::OffsetCommit => of::<OffsetCommitRequest>(),
        Api::OffsetFetch => of::<OffsetFetchRequest>(),
        Api::FindCoordinator => of::<FindCoordinatorRequest>(),
        Api::JoinGroup => of::<JoinGroupRequest>(),
        Api::Heartbeat => of::<HeartbeatRequest>(),
        Api::LeaveGroup => of::<LeaveGroupRequest>(),
        Api::SyncGroup => of::<SyncGroupRequest>(),
        Api::DescribeGroups => of::<DescribeGroupsRequest>(),
        Api::ListGroups => of::<ListGroupsRequest>(),
        Api::SaslHandshake => of::<SaslHandshakeRequest>(),
        Api::SaslAuthenticate => of::<SaslAuthenticateRequest>(),
        Api::ApiVersions => of::<ApiVersionsRequest>(),
        Api::CreateTopics => of::<CreateTopicsRequest>(),
        Api::DeleteTopics => of::<DeleteTopicsRequest>(),
        Api::DeleteRecords => of::<DeleteRecordsRequest>(),
        Api::InitProducerId => of::<InitProducerIdRequest>(),
        Api::OffsetForLeaderEpoch => of::<OffsetForLeaderEpochRequest>(),
        Api::DescribeConfigs => of::<DescribeConfigsRequest>(),
        Api::AlterConfigs => of::<AlterConfigsRequest>(),
        Api::DescribeLogDirs => of::<DescribeLogDirsRequest>(),
        Api::CreatePartitions => of::<CreatePartitionsRequest>(),
        Api::DeleteGroups => of::<DeleteGroupsRequest>(),
        Api::IncrementalAlterConfigs => of::<IncrementalAlterConfigsRequest>(),
        Api::OffsetDelete => of::<OffsetDeleteRequest>(),
        Api::DescribeCluster => of::<DescribeClusterRequest>(),
        Api::ConsumerGroupHeartbeat => of::<ConsumerGroupHeartbeatRequest>(),
        Api::ConsumerGroupDescribe => of::<ConsumerGroupDescribeRequest>(),
        Api::DescribeTopicPartitions => of::<DescribeTopicPartitionsRequest>(),
        Api::DescribeAcls => of::<DescribeAclsRequest>(),
        Api::CreateAcls => of::<CreateAclsRequest>(),
        Api::DeleteAcls => of::<DeleteAclsRequest>(),
        Api::AlterReplicaLogDirs => of::<AlterReplicaLogDirsRequest>(),
        Api::ElectLeaders => of::<ElectLeadersRequest>(),
        Api::AlterPartitionReassignments => of::<AlterPartitionReassignmentsRequest>(),
        Api::ListPartitionReassignments => of::<ListPartitionReassignmentsRequest>(),
        Api::DescribeClientQuotas => of::<DescribeClientQuotasRequest>(),
        Api::AlterClientQuotas => of::<AlterClientQuotasRequest>(),
        Api::DescribeUserScramCredentials => of::<DescribeUserScramCredentialsRequest>(),
        Api::AlterUserScramCredentials => of::<AlterUserScramCredentialsRequest>(),
        Api::DescribeQuorum => of::<DescribeQuorumRequest>(),
        Api::ListConfigResources => of::<ListConfigResourcesRequest>(),
        Api::AddPartitionsToTxn => of::<AddPartitionsToTxnRequest>(),
        Api::AddOffsetsToTxn => of::<AddOffsetsToTxnRequest>(),
        Api::TxnOffsetCommit => of::<TxnOffsetCommitRequest>(),
        Api::EndTxn => of::<EndTxnRequest>(),
        Api::DescribeProducers => of::<DescribeProducersRequest>(),
        Api::DescribeTransactions => of::<DescribeTransactionsRequest>(),
        Api::ListTransactions => of::<ListTransactionsRequest>(),
    }
}
