//! Tests that every version of every answer is walked to its last byte.

use bytes::BytesMut;
use kafka_protocol::messages as m;
use kafka_protocol::protocol::{Encodable, StrBytes};

use super::*;
use crate::wire::scan::check;

/// Asserts that every version of a fully filled answer is walked to its last byte.
fn walks<R: Encodable>(api: Api, answer: impl Fn(i16) -> R) {
    let schema = of(api).unwrap();
    let (min, max) = api.served();
    for version in min..=max {
        let mut bytes = BytesMut::new();
        answer(version).encode(&mut bytes, version).unwrap();
        assert_eq!(check(schema, version, &bytes), Ok(bytes.len()), "{api:?} v{version}");
        for end in 0..bytes.len() {
            let whole = check(schema, version, &bytes[..end]) == Ok(end);
            assert!(!whole, "{api:?} v{version} cut at {end} is seen to be cut");
        }
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

#[test]
fn answers_about_the_cluster_are_walked_whole() {
    walks(Api::ApiVersions, |version| {
        let mut answer = m::ApiVersionsResponse::default();
        answer.api_keys.push(m::api_versions_response::ApiVersion::default());
        if version >= 3 {
            let mut feature = m::api_versions_response::FinalizedFeatureKey::default();
            feature.name = text("metadata.version");
            answer.finalized_features.push(feature);
            answer.finalized_features_epoch = 7;
            answer.zk_migration_ready = true;
        }
        answer
    });
    walks(Api::Metadata, |_| {
        let mut answer = m::MetadataResponse::default();
        let mut broker = m::metadata_response::MetadataResponseBroker::default();
        broker.host = text("kafka-1");
        answer.brokers.push(broker);
        answer.cluster_id = Some(text("c"));
        let mut topic = m::metadata_response::MetadataResponseTopic::default();
        topic.name = Some(m::TopicName(text("orders")));
        let mut partition = m::metadata_response::MetadataResponsePartition::default();
        partition.replica_nodes = vec![1.into(), 2.into()];
        partition.isr_nodes = vec![1.into()];
        topic.partitions.push(partition);
        answer.topics.push(topic);
        answer
    });
    walks(Api::FindCoordinator, |version| {
        let mut answer = m::FindCoordinatorResponse::default();
        if version >= 4 {
            let mut one = m::find_coordinator_response::Coordinator::default();
            one.key = text("g");
            one.host = text("kafka-1");
            answer.coordinators.push(one);
        } else {
            answer.host = text("kafka-1");
        }
        answer
    });
    walks(Api::DescribeCluster, |_| {
        let mut answer = m::DescribeClusterResponse::default();
        answer.brokers.push(m::describe_cluster_response::DescribeClusterBroker::default());
        answer
    });
}

#[test]
fn answers_about_groups_are_walked_whole() {
    walks(Api::JoinGroup, |_| {
        let mut answer = m::JoinGroupResponse::default();
        answer.protocol_name = Some(text("range"));
        let mut member = m::join_group_response::JoinGroupResponseMember::default();
        member.member_id = text("m");
        member.metadata = bytes::Bytes::from_static(b"abc");
        answer.members.push(member);
        answer
    });
    walks(Api::SyncGroup, |_| {
        let mut answer = m::SyncGroupResponse::default();
        answer.assignment = bytes::Bytes::from_static(b"abc");
        answer
    });
    walks(Api::Heartbeat, |_| m::HeartbeatResponse::default());
    walks(Api::ConsumerGroupHeartbeat, |_| {
        use m::consumer_group_heartbeat_response as r;
        let mut topic = r::TopicPartitions::default();
        topic.partitions = vec![1, 2];
        let mut assignment = r::Assignment::default();
        assignment.topic_partitions = vec![topic];
        let mut answer = m::ConsumerGroupHeartbeatResponse::default();
        answer.assignment = Some(assignment);
        answer
    });
    walks(Api::LeaveGroup, |version| {
        let mut answer = m::LeaveGroupResponse::default();
        if version >= 3 {
            answer.members.push(m::leave_group_response::MemberResponse::default());
        }
        answer
    });
    walks(Api::OffsetCommit, |_| {
        let mut answer = m::OffsetCommitResponse::default();
        let mut topic = m::offset_commit_response::OffsetCommitResponseTopic::default();
        topic.partitions.push(m::offset_commit_response::OffsetCommitResponsePartition::default());
        answer.topics.push(topic);
        answer
    });
    walks(Api::OffsetFetch, |version| {
        use m::offset_fetch_response as r;
        let mut answer = m::OffsetFetchResponse::default();
        if version >= 8 {
            let mut group = r::OffsetFetchResponseGroup::default();
            let mut topic = r::OffsetFetchResponseTopics::default();
            topic.partitions.push(r::OffsetFetchResponsePartitions::default());
            group.topics.push(topic);
            answer.groups.push(group);
        } else {
            let mut topic = r::OffsetFetchResponseTopic::default();
            topic.partitions.push(r::OffsetFetchResponsePartition::default());
            answer.topics.push(topic);
        }
        answer
    });
}

#[test]
fn answers_to_what_the_sidecar_produces_itself_are_walked_whole() {
    use m::produce_response as r;
    walks(Api::Produce, |version| {
        let mut partition = r::PartitionProduceResponse::default();
        if version >= 8 {
            partition.record_errors.push(r::BatchIndexAndErrorMessage::default());
            partition.error_message = Some(text("why"));
        }
        let mut topic = r::TopicProduceResponse::default();
        topic.partition_responses.push(partition);
        let mut answer = m::ProduceResponse::default();
        answer.responses.push(topic);
        answer
    });
}

#[test]
fn an_answer_to_where_a_partition_begins_is_walked_whole() {
    use m::list_offsets_response as r;
    walks(Api::ListOffsets, |_| {
        let mut topic = r::ListOffsetsTopicResponse::default();
        topic.name = m::TopicName(text("orders"));
        topic.partitions.push(r::ListOffsetsPartitionResponse::default());
        let mut answer = m::ListOffsetsResponse::default();
        answer.topics.push(topic);
        answer
    });
}

#[test]
fn an_answer_to_fetch_is_walked_whole() {
    use m::fetch_response as r;
    walks(Api::Fetch, |version| {
        let mut partition = r::PartitionData::default();
        partition.aborted_transactions = Some(vec![r::AbortedTransaction::default()]);
        partition.records = Some(bytes::Bytes::from_static(b"records"));
        let mut answer = m::FetchResponse::default();
        if version >= 12 {
            partition.diverging_epoch.epoch = 3;
            partition.current_leader.leader_epoch = 4;
            partition.snapshot_id.epoch = 5;
        }
        if version >= 16 {
            let mut node = r::NodeEndpoint::default();
            node.host = text("kafka-1");
            answer.node_endpoints = vec![node];
        }
        let mut topic = r::FetchableTopicResponse::default();
        topic.partitions = vec![partition];
        answer.responses = vec![topic];
        answer
    });
}

#[test]
fn a_count_a_broker_makes_up_is_refused() {
    let lie = [0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff];
    assert!(check(of(Api::Metadata).unwrap(), 3, &lie).is_err());
    assert!(check(of(Api::OffsetCommit).unwrap(), 3, &lie).is_err());
}

#[test]
fn answers_about_topics_are_walked_whole() {
    walks(Api::CreateTopics, |version| {
        use m::create_topics_response as r;
        let mut topic = r::CreatableTopicResult::default();
        topic.error_message = Some(text("no"));
        if version >= 5 {
            topic.topic_config_error_code = 29;
            topic.configs = Some(vec![r::CreatableTopicConfigs::default()]);
        }
        let mut answer = m::CreateTopicsResponse::default();
        answer.topics.push(topic);
        answer
    });
    walks(Api::DeleteTopics, |_| {
        let mut topic = m::delete_topics_response::DeletableTopicResult::default();
        topic.name = Some(m::TopicName(text("orders")));
        let mut answer = m::DeleteTopicsResponse::default();
        answer.responses.push(topic);
        answer
    });
    walks(Api::CreatePartitions, |_| {
        let mut topic = m::create_partitions_response::CreatePartitionsTopicResult::default();
        (topic.name, topic.error_message) = (m::TopicName(text("orders")), Some(text("no")));
        let mut answer = m::CreatePartitionsResponse::default();
        answer.results.push(topic);
        answer
    });
    walks(Api::AlterConfigs, |_| {
        use m::alter_configs_response as r;
        let mut resource = r::AlterConfigsResourceResponse::default();
        (resource.resource_name, resource.error_message) = (text("orders"), Some(text("no")));
        let mut answer = m::AlterConfigsResponse::default();
        answer.responses.push(resource);
        answer
    });
    walks(Api::IncrementalAlterConfigs, |_| {
        use m::incremental_alter_configs_response as r;
        let mut resource = r::AlterConfigsResourceResponse::default();
        (resource.resource_name, resource.error_message) = (text("orders"), Some(text("no")));
        let mut answer = m::IncrementalAlterConfigsResponse::default();
        answer.responses.push(resource);
        answer
    });
    walks(Api::DescribeConfigs, |_| {
        use m::describe_configs_response as r;
        let mut config = r::DescribeConfigsResourceResult::default();
        config.value = Some(text("1"));
        config.synonyms.push(r::DescribeConfigsSynonym::default());
        let mut result = r::DescribeConfigsResult::default();
        result.configs.push(config);
        let mut answer = m::DescribeConfigsResponse::default();
        answer.results.push(result);
        answer
    });
    walks(Api::DescribeTopicPartitions, |_| {
        use m::describe_topic_partitions_response as r;
        let mut partition = r::DescribeTopicPartitionsResponsePartition::default();
        partition.replica_nodes = vec![1.into(), 2.into()];
        partition.last_known_elr = Some(vec![1.into()]);
        let mut topic = r::DescribeTopicPartitionsResponseTopic::default();
        topic.name = Some(m::TopicName(text("orders")));
        topic.partitions.push(partition);
        let mut answer = m::DescribeTopicPartitionsResponse::default();
        answer.topics.push(topic);
        answer.next_cursor = Some(r::Cursor::default());
        answer
    });
}

#[test]
fn answers_inside_a_transaction_are_walked_whole() {
    walks(Api::AddPartitionsToTxn, |_| {
        use m::add_partitions_to_txn_response as r;
        let mut topic = r::AddPartitionsToTxnTopicResult::default();
        topic.results_by_partition.push(r::AddPartitionsToTxnPartitionResult::default());
        let mut answer = m::AddPartitionsToTxnResponse::default();
        answer.results_by_topic_v3_and_below.push(topic);
        answer
    });
    walks(Api::TxnOffsetCommit, |_| {
        use m::txn_offset_commit_response as r;
        let mut topic = r::TxnOffsetCommitResponseTopic::default();
        topic.partitions.push(r::TxnOffsetCommitResponsePartition::default());
        let mut answer = m::TxnOffsetCommitResponse::default();
        answer.topics.push(topic);
        answer
    });
    walks(Api::EndTxn, |_| m::EndTxnResponse::default());
    walks(Api::InitProducerId, |_| m::InitProducerIdResponse::default());
}
