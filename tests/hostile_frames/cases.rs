//! A request with a value in every field, for every API and version.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{alter_configs_request as replaced, *};
use kafka_protocol::protocol::{Encodable, Request, StrBytes};
use reprise::wire::{self, Api, RequestHead};
use uuid::Uuid;

#[path = "admin.rs"]
mod admin;

const ID: Uuid = Uuid::from_u128(0x1111_2222_3333_4444_5555_6666_7777_8888);

fn s<T: From<StrBytes>>() -> T {
    StrBytes::from_static_str("shop").into()
}

/// Whether the body decodes; the second argument asks for equality with the sample.
pub(crate) type Reads = Box<dyn Fn(&RequestHead, bool) -> bool>;

/// One API: a request with a value in every field at every version, and its decoder.
pub(crate) struct Case {
    pub(crate) api: Api,
    pub(crate) frame: Box<dyn Fn(i16) -> Bytes>,
    pub(crate) reads: Reads,
}

fn case<R>(build: impl Fn(i16, &mut R) + Clone + 'static) -> Case
where
    R: Request + Default + PartialEq + Debug,
{
    let sample = move |version| {
        let mut request = R::default();
        build(version, &mut request);
        request
    };
    let again = sample.clone();
    Case {
        api: Api::from_key(R::KEY).unwrap(),
        frame: Box::new(move |version| framed(version, &sample(version))),
        reads: Box::new(move |head, equal| match wire::decode::<R>(head) {
            Ok(seen) if equal => {
                assert_eq!(seen, again(head.version), "version {}", head.version);
                true
            }
            answer => answer.is_ok(),
        }),
    }
}

fn framed<R: Request>(version: i16, request: &R) -> Bytes {
    let header_version = R::header_version(version);
    let mut out = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(77)
        .with_client_id(Some(s()))
        .encode(&mut out, header_version)
        .unwrap();
    request.encode(&mut out, version).unwrap();
    out.freeze()
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = data_cases();
    all.extend(member_cases());
    all.extend(consumer_cases());
    all.extend(offset_cases());
    all.extend(topic_cases());
    all.extend(change_cases());
    all.extend(admin::replica_cases());
    all.extend(admin::right_cases());
    all.extend(transaction_cases());
    all
}

fn data_cases() -> Vec<Case> {
    vec![
        case(|v, r: &mut ProduceRequest| {
            r.transactional_id = Some(s());
            (r.acks, r.timeout_ms) = (-1, 30_000);
            let mut topic = TopicProduceData::default();
            if v >= 13 {
                topic.topic_id = ID;
            } else {
                topic.name = s();
            }
            let mut partition = PartitionProduceData::default();
            partition.records = Some(Bytes::from_static(b"records"));
            topic.partition_data.push(partition);
            r.topic_data.push(topic);
        }),
        case(|v, r: &mut FetchRequest| {
            let mut topic = FetchTopic::default();
            let mut partition = FetchPartition::default();
            (partition.partition, partition.fetch_offset) = (3, 812);
            if v >= 17 {
                partition.replica_directory_id = ID;
            }
            if v >= 18 {
                partition.high_watermark = 900;
            }
            topic.partitions.push(partition);
            let mut forgotten = ForgottenTopic::default();
            forgotten.partitions.push(1);
            if v >= 13 {
                (topic.topic_id, forgotten.topic_id) = (ID, ID);
            } else {
                (topic.topic, forgotten.topic) = (s(), s());
            }
            r.topics.push(topic);
            if v >= 7 {
                r.forgotten_topics_data.push(forgotten);
            }
            if v >= 11 {
                r.rack_id = s();
            }
            if v >= 12 {
                r.cluster_id = Some(s());
            }
            if v >= 15 {
                r.replica_state.replica_epoch = 5;
            }
        }),
        case(|v, r: &mut ListOffsetsRequest| {
            let mut topic = ListOffsetsTopic::default();
            topic.name = s();
            let mut partition = ListOffsetsPartition::default();
            partition.timestamp = -2;
            if v >= 4 {
                partition.current_leader_epoch = 1;
            }
            topic.partitions.push(partition);
            r.topics.push(topic);
        }),
        case(|v, r: &mut OffsetForLeaderEpochRequest| {
            if v >= 3 {
                r.replica_id = 1.into();
            }
            let mut topic = OffsetForLeaderTopic::default();
            topic.topic = s();
            topic.partitions.push(OffsetForLeaderPartition::default());
            r.topics.push(topic);
        }),
    ]
}

fn member_cases() -> Vec<Case> {
    vec![
        case(
            |v, r: &mut FindCoordinatorRequest| {
                if v >= 4 { r.coordinator_keys.push(s()) } else { r.key = s() }
            },
        ),
        case(|v, r: &mut JoinGroupRequest| {
            (r.group_id, r.member_id, r.protocol_type) = (s(), s(), s());
            if v >= 5 {
                r.group_instance_id = Some(s());
            }
            if v >= 8 {
                r.reason = Some(s());
            }
            let mut protocol = JoinGroupRequestProtocol::default();
            (protocol.name, protocol.metadata) = (s(), Bytes::from_static(&[0, 1, 2]));
            r.protocols.push(protocol);
        }),
        case(|v, r: &mut SyncGroupRequest| {
            (r.group_id, r.member_id) = (s(), s());
            if v >= 3 {
                r.group_instance_id = Some(s());
            }
            if v >= 5 {
                (r.protocol_type, r.protocol_name) = (Some(s()), Some(s()));
            }
            let mut assignment = SyncGroupRequestAssignment::default();
            (assignment.member_id, assignment.assignment) = (s(), Bytes::from_static(&[7]));
            r.assignments.push(assignment);
        }),
        case(|_, r: &mut SaslHandshakeRequest| r.mechanism = s()),
        case(|_, r: &mut SaslAuthenticateRequest| r.auth_bytes = Bytes::from_static(&[7])),
        case(|v, r: &mut HeartbeatRequest| {
            (r.group_id, r.member_id) = (s(), s());
            if v >= 3 {
                r.group_instance_id = Some(s());
            }
        }),
        case(|v, r: &mut LeaveGroupRequest| {
            r.group_id = s();
            if v <= 2 {
                r.member_id = s();
            }
            if v >= 3 {
                let mut member = MemberIdentity::default();
                (member.member_id, member.group_instance_id) = (s(), Some(s()));
                if v >= 5 {
                    member.reason = Some(s());
                }
                r.members.push(member);
            }
        }),
    ]
}

fn consumer_cases() -> Vec<Case> {
    vec![
        case(|v, r: &mut ConsumerGroupHeartbeatRequest| {
            (r.group_id, r.member_id, r.member_epoch) = (s(), s(), 4);
            (r.instance_id, r.rack_id, r.server_assignor) = (Some(s()), Some(s()), Some(s()));
            r.subscribed_topic_names = Some(vec![s()]);
            if v >= 1 {
                r.subscribed_topic_regex = Some(s());
            }
            let owned = TopicPartitions::default().with_topic_id(ID).with_partitions(vec![3]);
            r.topic_partitions = Some(vec![owned]);
        }),
        case(|_, r: &mut ConsumerGroupDescribeRequest| {
            r.group_ids.push(s());
            r.include_authorized_operations = true;
        }),
    ]
}

fn offset_cases() -> Vec<Case> {
    vec![
        case(|v, r: &mut OffsetCommitRequest| {
            (r.group_id, r.member_id) = (s(), s());
            if v >= 7 {
                r.group_instance_id = Some(s());
            }
            let mut topic = OffsetCommitRequestTopic::default();
            topic.name = s();
            let mut partition = OffsetCommitRequestPartition::default();
            (partition.committed_offset, partition.committed_metadata) = (812, Some(s()));
            topic.partitions.push(partition);
            r.topics.push(topic);
        }),
        case(|v, r: &mut OffsetFetchRequest| {
            if v <= 7 {
                r.group_id = s();
                let mut topic = OffsetFetchRequestTopic::default();
                (topic.name, topic.partition_indexes) = (s(), vec![3]);
                r.topics = Some(vec![topic]);
            } else {
                let mut topic = OffsetFetchRequestTopics::default();
                (topic.name, topic.partition_indexes) = (s(), vec![3]);
                let mut group = OffsetFetchRequestGroup::default();
                (group.group_id, group.topics) = (s(), Some(vec![topic]));
                if v >= 9 {
                    (group.member_id, group.member_epoch) = (Some(s()), 4);
                }
                r.groups.push(group);
            }
            if v >= 7 {
                r.require_stable = true;
            }
        }),
        case(|v, r: &mut DescribeGroupsRequest| {
            r.groups.push(s());
            if v >= 3 {
                r.include_authorized_operations = true;
            }
        }),
        case(|v, r: &mut ListGroupsRequest| {
            if v >= 4 {
                r.states_filter.push(s());
            }
            if v >= 5 {
                r.types_filter.push(s());
            }
        }),
    ]
}

fn topic_cases() -> Vec<Case> {
    vec![
        case(|_, r: &mut InitProducerIdRequest| r.transactional_id = Some(s())),
        case(|v, r: &mut ApiVersionsRequest| {
            if v >= 3 {
                (r.client_software_name, r.client_software_version) = (s(), s());
            }
        }),
        case(|v, r: &mut MetadataRequest| {
            let mut topic = MetadataRequestTopic::default();
            topic.name = Some(s());
            if v >= 10 {
                topic.topic_id = ID;
            }
            r.topics = Some(vec![topic]);
            if v >= 8 {
                r.include_topic_authorized_operations = true;
            }
        }),
        case(|v, r: &mut DescribeClusterRequest| {
            r.include_cluster_authorized_operations = true;
            if v >= 2 {
                r.include_fenced_brokers = true;
            }
        }),
        case(|_, r: &mut DescribeTopicPartitionsRequest| {
            let mut topic = TopicRequest::default();
            topic.name = s();
            r.topics.push(topic);
            let mut cursor = Cursor::default();
            (cursor.topic_name, cursor.partition_index) = (s(), 3);
            r.cursor = Some(cursor);
        }),
        case(|_, r: &mut CreateTopicsRequest| {
            let mut topic = CreatableTopic::default();
            (topic.name, topic.num_partitions, topic.replication_factor) = (s(), -1, -1);
            let mut assignment = CreatableReplicaAssignment::default();
            assignment.broker_ids.push(1.into());
            topic.assignments.push(assignment);
            let mut config = CreatableTopicConfig::default();
            (config.name, config.value) = (s(), Some(s()));
            topic.configs.push(config);
            r.topics.push(topic);
        }),
        case(|v, r: &mut DeleteTopicsRequest| {
            if v >= 6 {
                let mut topic = DeleteTopicState::default();
                (topic.name, topic.topic_id) = (Some(s()), ID);
                r.topics.push(topic);
            } else {
                r.topic_names.push(s());
            }
        }),
        case(|_, r: &mut DescribeConfigsRequest| {
            let mut resource = DescribeConfigsResource::default();
            (resource.resource_type, resource.resource_name) = (2, s());
            resource.configuration_keys = Some(vec![s()]);
            r.resources.push(resource);
        }),
        case(|_, r: &mut DescribeLogDirsRequest| {
            let mut topic = DescribableLogDirTopic::default();
            (topic.topic, topic.partitions) = (s(), vec![1, 2]);
            r.topics = Some(vec![topic]);
        }),
    ]
}

/// Cases: changes of existing topics and groups.
fn change_cases() -> Vec<Case> {
    vec![
        case(|_, r: &mut CreatePartitionsRequest| {
            let mut topic = CreatePartitionsTopic::default();
            (topic.name, topic.count) = (s(), 4);
            let assignment = CreatePartitionsAssignment::default();
            topic.assignments = Some(vec![assignment.with_broker_ids(vec![1.into()])]);
            r.topics.push(topic);
        }),
        case(|_, r: &mut DeleteRecordsRequest| {
            let mut partition = DeleteRecordsPartition::default();
            (partition.partition_index, partition.offset) = (1, 9);
            let mut topic = DeleteRecordsTopic::default();
            (topic.name, topic.partitions) = (s(), vec![partition]);
            r.topics.push(topic);
        }),
        case(|_, r: &mut IncrementalAlterConfigsRequest| {
            let mut config = AlterableConfig::default();
            (config.name, config.config_operation, config.value) = (s(), 2, Some(s()));
            let mut resource = AlterConfigsResource::default();
            (resource.resource_type, resource.resource_name) = (2, s());
            resource.configs.push(config);
            r.resources.push(resource);
        }),
        case(|_, r: &mut AlterConfigsRequest| {
            let mut config = replaced::AlterableConfig::default();
            (config.name, config.value) = (s(), Some(s()));
            let mut resource = replaced::AlterConfigsResource::default();
            (resource.resource_type, resource.resource_name) = (2, s());
            resource.configs.push(config);
            r.resources.push(resource);
        }),
        case(|_, r: &mut DeleteGroupsRequest| r.groups_names.push(s())),
        case(|_, r: &mut OffsetDeleteRequest| {
            r.group_id = s();
            let mut topic = OffsetDeleteRequestTopic::default();
            let partition = OffsetDeleteRequestPartition::default().with_partition_index(3);
            (topic.name, topic.partitions) = (s(), vec![partition]);
            r.topics.push(topic);
        }),
    ]
}

/// Cases: requests of transactional producers, and about transactions.
fn transaction_cases() -> Vec<Case> {
    vec![
        case(|_, r: &mut AddPartitionsToTxnRequest| {
            let mut topic = AddPartitionsToTxnTopic::default();
            (topic.name, topic.partitions) = (s(), vec![1, 2]);
            r.v3_and_below_transactional_id = s();
            r.v3_and_below_topics.push(topic);
        }),
        case(|v, r: &mut TxnOffsetCommitRequest| {
            (r.transactional_id, r.group_id, r.producer_id) = (s(), s(), 7.into());
            if v >= 3 {
                (r.generation_id, r.member_id, r.group_instance_id) = (3, s(), Some(s()));
            }
            let mut partition = TxnOffsetCommitRequestPartition::default();
            (partition.committed_offset, partition.committed_metadata) = (9, Some(s()));
            let mut topic = TxnOffsetCommitRequestTopic::default();
            (topic.name, topic.partitions) = (s(), vec![partition]);
            r.topics.push(topic);
        }),
        case(|_, r: &mut AddOffsetsToTxnRequest| {
            (r.transactional_id, r.producer_id, r.group_id) = (s(), 7.into(), s());
        }),
        case(|_, r: &mut DescribeProducersRequest| {
            let mut topic = describe_producers_request::TopicRequest::default();
            (topic.name, topic.partition_indexes) = (s(), vec![0, 1]);
            r.topics.push(topic);
        }),
        case(|_, r: &mut DescribeTransactionsRequest| r.transactional_ids = vec![s()]),
        case(|_, r: &mut EndTxnRequest| {
            (r.transactional_id, r.producer_id, r.committed) = (s(), 7.into(), true);
        }),
        case(|v, r: &mut ListTransactionsRequest| {
            (r.state_filters, r.producer_id_filters) = (vec![s()], vec![7.into()]);
            if v >= 1 {
                r.duration_filter = 5;
            }
            if v >= 2 {
                r.transactional_id_pattern = Some(s());
            }
        }),
    ]
}
