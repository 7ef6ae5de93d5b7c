//! The table of APIs this build serves: key, versions, names.

use kafka_protocol::messages as m;
use kafka_protocol::protocol::{HeaderVersion, Request};

use crate::wire::scan::{
    Schema, cluster, consumer, data, groups, offsets, replicas, security, topics, transactions,
};

#[derive(Debug)]
struct ApiRow {
    key: i16,
    name: &'static str,
    /// Lowest version decoded and answered.
    min: i16,
    max: i16,
    request_header: fn(i16) -> i16,
    response_header: fn(i16) -> i16,
    schema: &'static Schema,
}

const fn row<R>(name: &'static str, min: i16, max: i16, schema: &'static Schema) -> ApiRow
where
    R: Request,
{
    assert!(
        R::VERSIONS.min <= min && max <= R::VERSIONS.max,
        "a version is claimed which the codec crate cannot read"
    );
    ApiRow {
        key: R::KEY,
        name,
        min,
        max,
        request_header: R::header_version,
        response_header: <R::Response as HeaderVersion>::header_version,
        schema,
    }
}

macro_rules! apis {
    ($($api:ident $request:ident $min:literal..=$max:literal $schema:path;)*) => {
        /// An API that this build decodes. Every other API is relayed or not advertised.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Api {
            $(
                #[doc = concat!("`", stringify!($api), "`")]
                $api,
            )*
        }

        impl Api {
            /// Every API, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$api),*];

            fn row(self) -> &'static ApiRow {
                match self {
                    $(Self::$api => {
                        const ROW: ApiRow =
                            row::<m::$request>(stringify!($api), $min, $max, &$schema);
                        &ROW
                    })*
                }
            }
        }
    };
}

apis! {
    Produce ProduceRequest 3..=13 data::PRODUCE;
    Fetch FetchRequest 4..=18 data::FETCH;
    ListOffsets ListOffsetsRequest 1..=10 data::LIST_OFFSETS;
    Metadata MetadataRequest 0..=13 cluster::METADATA;
    OffsetCommit OffsetCommitRequest 2..=9 offsets::OFFSET_COMMIT;
    OffsetFetch OffsetFetchRequest 1..=9 offsets::OFFSET_FETCH;
    FindCoordinator FindCoordinatorRequest 0..=6 groups::FIND_COORDINATOR;
    JoinGroup JoinGroupRequest 0..=9 groups::JOIN_GROUP;
    Heartbeat HeartbeatRequest 0..=4 groups::HEARTBEAT;
    LeaveGroup LeaveGroupRequest 0..=5 groups::LEAVE_GROUP;
    SyncGroup SyncGroupRequest 0..=5 groups::SYNC_GROUP;
    DescribeGroups DescribeGroupsRequest 0..=6 groups::DESCRIBE_GROUPS;
    ListGroups ListGroupsRequest 0..=5 groups::LIST_GROUPS;
    SaslHandshake SaslHandshakeRequest 0..=1 cluster::SASL_HANDSHAKE;
    ApiVersions ApiVersionsRequest 0..=4 cluster::API_VERSIONS;
    CreateTopics CreateTopicsRequest 2..=7 topics::CREATE_TOPICS;
    DeleteTopics DeleteTopicsRequest 1..=6 topics::DELETE_TOPICS;
    DeleteRecords DeleteRecordsRequest 0..=2 topics::DELETE_RECORDS;
    InitProducerId InitProducerIdRequest 0..=5 data::INIT_PRODUCER_ID;
    OffsetForLeaderEpoch OffsetForLeaderEpochRequest 2..=4 offsets::OFFSET_FOR_LEADER_EPOCH;
    DescribeConfigs DescribeConfigsRequest 1..=4 topics::DESCRIBE_CONFIGS;
    AlterConfigs AlterConfigsRequest 0..=2 topics::ALTER_CONFIGS;
    DescribeLogDirs DescribeLogDirsRequest 1..=4 topics::DESCRIBE_LOG_DIRS;
    CreatePartitions CreatePartitionsRequest 0..=3 topics::CREATE_PARTITIONS;
    DeleteGroups DeleteGroupsRequest 0..=2 groups::DELETE_GROUPS;
    IncrementalAlterConfigs IncrementalAlterConfigsRequest 0..=1
        topics::INCREMENTAL_ALTER_CONFIGS;
    OffsetDelete OffsetDeleteRequest 0..=0 offsets::OFFSET_DELETE;
    DescribeCluster DescribeClusterRequest 0..=2 cluster::DESCRIBE_CLUSTER;
    SaslAuthenticate SaslAuthenticateRequest 0..=2 cluster::SASL_AUTHENTICATE;
    ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest 0..=1
        consumer::CONSUMER_GROUP_HEARTBEAT;
    ConsumerGroupDescribe ConsumerGroupDescribeRequest 0..=1
        consumer::CONSUMER_GROUP_DESCRIBE;
    DescribeAcls DescribeAclsRequest 1..=3 security::DESCRIBE_ACLS;
    CreateAcls CreateAclsRequest 1..=3 security::CREATE_ACLS;
    DeleteAcls DeleteAclsRequest 1..=3 security::DELETE_ACLS;
    AlterReplicaLogDirs AlterReplicaLogDirsRequest 1..=2 replicas::ALTER_LOG_DIRS;
    ElectLeaders ElectLeadersRequest 0..=2 replicas::ELECT_LEADERS;
    AlterPartitionReassignments AlterPartitionReassignmentsRequest 0..=1
        replicas::ALTER_REASSIGNMENTS;
    ListPartitionReassignments ListPartitionReassignmentsRequest 0..=0
        replicas::LIST_REASSIGNMENTS;
    DescribeClientQuotas DescribeClientQuotasRequest 0..=1 security::DESCRIBE_QUOTAS;
    AlterClientQuotas AlterClientQuotasRequest 0..=1 security::ALTER_QUOTAS;
    DescribeUserScramCredentials DescribeUserScramCredentialsRequest 0..=0
        security::DESCRIBE_SCRAM;
    AlterUserScramCredentials AlterUserScramCredentialsRequest 0..=0 security::ALTER_SCRAM;
    DescribeQuorum DescribeQuorumRequest 0..=2 replicas::DESCRIBE_QUORUM;
    ListConfigResources ListConfigResourcesRequest 0..=1 replicas::LIST_CONFIG_RESOURCES;
    DescribeTopicPartitions DescribeTopicPartitionsRequest 0..=0
        cluster::DESCRIBE_TOPIC_PARTITIONS;
    AddPartitionsToTxn AddPartitionsToTxnRequest 0..=3 transactions::ADD_PARTITIONS;
    AddOffsetsToTxn AddOffsetsToTxnRequest 0..=4 transactions::ADD_OFFSETS;
    TxnOffsetCommit TxnOffsetCommitRequest 0..=5 transactions::TXN_OFFSET_COMMIT;
    EndTxn EndTxnRequest 0..=5 transactions::END_TXN;
    DescribeProducers DescribeProducersRequest 0..=0 transactions::DESCRIBE_PRODUCERS;
    DescribeTransactions DescribeTransactionsRequest 0..=0 transactions::DESCRIBE;
    ListTransactions ListTransactionsRequest 0..=2 transactions::LIST;
}

impl Api {
    /// The API of a key; `None`: not served.
    pub fn from_key(key: i16) -> Option<Self> {
        Self::ALL.iter().copied().find(|api| api.key() == key)
    }

    pub fn key(self) -> i16 {
        self.row().key
    }

    /// The name in metrics and logs.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Lowest and highest version for `ApiVersions`. Produce begins at 0 although 0–2 are not
    /// served: librdkafka up to 2.10 otherwise disables features (KAFKA-18659).
    pub fn advertised(self) -> (i16, i16) {
        let row = self.row();
        let min = if self == Self::Produce { 0 } else { row.min };
        (min, row.max)
    }

    pub fn serves(self, version: i16) -> bool {
        let row = self.row();
        (row.min..=row.max).contains(&version)
    }

    /// Lowest and highest version decoded and answered.
    pub fn served(self) -> (i16, i16) {
        (self.row().min, self.row().max)
    }

    /// Whether requests of this version carry compact lengths and tagged fields (KIP-482).
    pub fn is_flexible(self, version: i16) -> bool {
        (self.row().request_header)(version) >= 2
    }

    /// Version of the response header: 0 = correlation id, 1 = and tagged fields.
    pub fn response_header_version(self, version: i16) -> i16 {
        (self.row().response_header)(version)
    }

    pub(super) fn schema(self) -> &'static Schema {
        self.row().schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_has_its_own_key_and_name() {
        let mut names = std::collections::BTreeSet::new();
        for &api in Api::ALL {
            assert_eq!(Api::from_key(api.key()), Some(api));
            assert!(names.insert(api.name()));
        }
        assert_eq!(names.len(), 52);
        for key in [-1, 27, 67, 76, 88, i16::MAX] {
            assert_eq!(Api::from_key(key), None, "{key}");
        }
    }

    #[test]
    fn only_served_versions_are_advertised_except_old_produce() {
        for &api in Api::ALL {
            let (min, max) = api.advertised();
            for version in min..=max {
                let old_produce = api == Api::Produce && version < 3;
                assert_eq!(api.serves(version), !old_produce, "{api:?} {version}");
            }
            assert!(!api.serves(max + 1) && !api.serves(-1));
        }
        assert_eq!(Api::Produce.advertised(), (0, 13));
        assert_eq!(Api::Fetch.advertised(), (4, 18));
        assert_eq!(Api::OffsetCommit.advertised(), (2, 9));
    }

    #[test]
    fn layouts_turn_flexible_where_the_headers_do() {
        for &api in Api::ALL {
            let (min, max) = api.served();
            for version in min..=max {
                let flexible = api.schema().is_flexible(version);
                assert_eq!(api.is_flexible(version), flexible, "{api:?} {version}");
            }
        }
    }

    #[test]
    fn the_answer_to_api_versions_has_the_oldest_header() {
        for version in 0..=4 {
            assert_eq!(Api::ApiVersions.response_header_version(version), 0);
        }
        assert_eq!(Api::Metadata.response_header_version(9), 1);
        assert_eq!(Api::Metadata.response_header_version(8), 0);
    }
}
