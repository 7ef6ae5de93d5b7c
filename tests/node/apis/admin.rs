//! Topics and their settings: made, deleted, described, page by page.

use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest,
    DescribeTopicPartitionsRequest, MetadataRequest,
};
use reprise::wire::ResponseError;
use uuid::Uuid;

use crate::support::client::s;
use crate::support::{Client, Rec, Server};

fn topic(name: &str, partitions: i32) -> CreatableTopic {
    let mut topic = CreatableTopic::default();
    (topic.name, topic.num_partitions, topic.replication_factor) = (s(name), partitions, 1);
    topic
}

fn setting(name: &str, value: &str) -> CreatableTopicConfig {
    let mut config = CreatableTopicConfig::default();
    (config.name, config.value) = (s(name), Some(s(value)));
    config
}

#[test]
fn topics_are_created_in_every_version_with_kafkas_errors() {
    let server = Server::start();
    let mut client = server.client();
    client.metadata(9, &["reprise.retry.shop"]);
    for version in 2..=7 {
        let name = format!("t{version}");
        let mut replicated = topic("r", 1);
        replicated.replication_factor = 3;
        let mut odd = topic("odd", 1);
        odd.configs = vec![setting("retention.ms", "soon")];
        let mut strange = topic("strange", 1);
        strange.configs = vec![setting("no.such.key", "1")];
        let mut good = topic(&name, 2);
        good.configs = vec![setting("retention.ms", "60000")];
        let topics = vec![
            good,
            topic("no spaces", 1),
            topic("none", 0),
            replicated,
            odd,
            strange,
            topic("reprise.retry.shop", 1),
        ];
        let request = CreateTopicsRequest::default().with_topics(topics);
        let answer = client.call(version, &request);
        let codes: Vec<i16> = answer.topics.iter().map(|topic| topic.error_code).collect();
        let expected = [
            0,
            ResponseError::InvalidTopicException.code(),
            ResponseError::InvalidPartitions.code(),
            ResponseError::InvalidReplicationFactor.code(),
            ResponseError::InvalidConfig.code(),
            ResponseError::InvalidConfig.code(),
            ResponseError::TopicAlreadyExists.code(),
        ];
        assert_eq!(codes, expected, "v{version}");
        assert!(answer.topics[1..].iter().all(|topic| topic.error_message.is_some()));
        if version >= 5 {
            assert_eq!(answer.topics[0].num_partitions, 2);
            let configs = answer.topics[0].configs.as_ref().unwrap();
            let keep = configs.iter().find(|config| config.name.as_str() == "retention.ms");
            assert_eq!(keep.unwrap().value.as_ref().unwrap().as_str(), "60000");
        }
        let again = client.call(version, &request);
        assert_eq!(again.topics[0].error_code, ResponseError::TopicAlreadyExists.code());
        let mut only = CreateTopicsRequest::default().with_topics(vec![topic("only", 4)]);
        only.validate_only = true;
        assert_eq!(client.call(version, &only).topics[0].error_code, 0);
        let mut asked = kafka_protocol::messages::MetadataRequest::default();
        asked.allow_auto_topic_creation = false;
        asked.topics = None;
        let names = client.call(9, &asked).topics.into_iter().map(|topic| topic.name.unwrap());
        let names: Vec<String> = names.map(|name| name.to_string()).collect();
        assert!(names.contains(&name) && !names.contains(&"only".to_owned()), "{names:?}");
    }
}

#[test]
fn duplicate_topics_and_foreign_replicas_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    for version in 2..=7 {
        let placed = |index: i32, broker: i32| {
            let mut partition = CreatableReplicaAssignment::default();
            (partition.partition_index, partition.broker_ids) = (index, vec![broker.into()]);
            partition
        };
        let (here, other) = (server.node_id(), server.node_id() + 1);
        let mut topics = vec![topic("twice", 1), topic("bare", 1), topic("twice", 2)];
        let mut bare = setting("retention.ms", "");
        bare.value = None;
        topics[1].configs = vec![bare];
        for (count, replicas) in [
            (-1, vec![placed(0, other)]),
            (-1, vec![placed(0, here), placed(0, here)]),
            (-1, vec![placed(1, here)]),
            (2, vec![placed(0, here), placed(1, here)]),
        ] {
            let mut strange = topic(&format!("placed-{}", topics.len()), count);
            strange.assignments = replicas;
            topics.push(strange);
        }
        let strange = CreateTopicsRequest::default().with_topics(topics);
        let refused = client.call(version, &strange).topics;
        let refused: Vec<i16> = refused.iter().map(|topic| topic.error_code).collect();
        let misplaced = ResponseError::InvalidReplicaAssignment.code();
        let mut expected = vec![misplaced; 6];
        expected[0] = ResponseError::InvalidRequest.code();
        expected[1] = ResponseError::InvalidConfig.code();
        assert_eq!(refused, expected, "v{version}: a name that comes twice is answered once");
        let mut well = topic(&format!("placed-v{version}"), -1);
        (well.replication_factor, well.assignments) = (-1, vec![placed(1, here), placed(0, here)]);
        let request_of_placed = CreateTopicsRequest::default().with_topics(vec![well]);
        assert_eq!(client.call(version, &request_of_placed).topics[0].error_code, 0);
    }
}

#[test]
fn topics_are_deleted_in_every_version_by_name_and_id() {
    let server = Server::start();
    let mut client = server.client();
    for version in 1..=6 {
        client.create("t", 1);
        client.put("t", 0, &[Rec::new("old")]);
        let id = client.metadata(12, &["t"]).topics[0].topic_id;
        let codes = |client: &mut Client, names: &[&str]| -> Vec<i16> {
            let mut request = DeleteTopicsRequest::default();
            if version >= 6 {
                let by_name = |name: &&str| DeleteTopicState::default().with_name(Some(s(name)));
                request.topics = names.iter().map(by_name).collect();
                if names.len() == 1 {
                    request.topics[0] =
                        DeleteTopicState::default().with_name(None).with_topic_id(id);
                }
            } else {
                request.topic_names = names.iter().map(|name| s(name)).collect();
            }
            let answer = client.call(version, &request);
            answer.responses.iter().map(|topic| topic.error_code).collect()
        };
        let unknown = ResponseError::UnknownTopicOrPartition.code();
        let ours = ResponseError::InvalidTopicException.code();
        let refused = codes(&mut client, &["nowhere", "reprise.retry.shop", "reprise.dlq.shop"]);
        assert_eq!(refused, [unknown, unknown, ours], "v{version}");
        let told = if version >= 6 {
            let by_id = DeleteTopicState::default().with_name(None).with_topic_id(id);
            client.call(version, &DeleteTopicsRequest::default().with_topics(vec![by_id]))
        } else {
            let names = vec![s("t")];
            client.call(version, &DeleteTopicsRequest::default().with_topic_names(names))
        };
        let told = &told.responses[0];
        let named = (told.name.as_ref().unwrap().as_str(), told.error_code);
        assert_eq!(named, ("t", 0), "v{version}: named whatever it was asked by");
        assert_eq!(told.topic_id, if version >= 6 { id } else { Uuid::nil() }, "v{version}");
        let gone = if version >= 6 { ResponseError::UnknownTopicId.code() } else { unknown };
        assert_eq!(codes(&mut client, &["t"]), [gone], "v{version}");
        client.create("t", 1);
        assert!(client.read_all("t").is_empty(), "a new topic of the name is empty");
        assert_eq!(codes(&mut client, &["t", "t"])[0], 0);
    }
}

#[test]
fn settings_are_described_in_every_version() {
    let server = Server::start();
    let mut client = server.client();
    client.metadata(9, &["reprise.retry.shop"]);
    client.create("t", 1);
    let node = server.node_id().to_string();
    for version in 1..=4 {
        let resource = |kind: i8, name: &str| {
            DescribeConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(s(name))
                .with_configuration_keys(None)
        };
        let mut one = resource(2, "t");
        one.configuration_keys = Some(vec![s("max.message.bytes")]);
        let resources = vec![
            resource(2, "t"),
            one,
            resource(4, &node),
            resource(2, "nowhere"),
            resource(8, "0"),
            resource(2, "reprise.retry.shop"),
        ];
        let request = DescribeConfigsRequest::default().with_resources(resources);
        let answer = client.call(version, &request);
        let codes: Vec<i16> = answer.results.iter().map(|result| result.error_code).collect();
        let unknown = ResponseError::UnknownTopicOrPartition.code();
        assert_eq!(codes, [0, 0, 0, unknown, ResponseError::InvalidRequest.code(), 0]);
        assert!(answer.results[0].configs.len() > 2, "v{version}");
        let only = &answer.results[1].configs;
        assert_eq!(only.len(), 1);
        assert_eq!(only[0].value.as_ref().unwrap().as_str(), "1048588");
        assert_eq!(only[0].config_source, 5);
        let of_broker = &answer.results[2].configs;
        assert!(of_broker.iter().any(|c| c.name.as_str() == "auto.create.topics.enable"));
    }
}

#[test]
fn the_cluster_is_described_in_every_version() {
    let server = Server::start();
    let mut client = server.client();
    for version in 0..=2 {
        let answer = client.call(version, &DescribeClusterRequest::default());
        assert_eq!(answer.error_code, 0);
        assert_eq!(answer.brokers.len(), 1);
        assert_eq!(answer.brokers[0].broker_id, server.node_id());
        assert_eq!(answer.controller_id, server.node_id());
        let told = client.metadata(9, &[]).cluster_id.unwrap();
        assert_eq!(answer.cluster_id, told);
    }
}

/// A client retries `UNKNOWN_TOPIC_OR_PARTITION` (3), since the topic may still be created.
#[test]
fn an_invalid_topic_name_gets_its_own_error() {
    let server = Server::start();
    let mut client = server.client();
    let long = "x".repeat(250);
    let names = [("a b", 17), ("..", 17), (long.as_str(), 17), ("none", 3)];
    for version in 4..=13 {
        let of = |(name, _): (&str, i16)| MetadataRequestTopic::default().with_name(Some(s(name)));
        let request = MetadataRequest::default()
            .with_topics(Some(names.map(of).to_vec()))
            .with_allow_auto_topic_creation(false);
        let answer = client.call(version, &request);
        let told = answer.topics.iter().map(|topic| topic.error_code);
        let expected = names.map(|(_, code)| code);
        assert_eq!(told.collect::<Vec<_>>(), expected, "version {version}");
    }
}

#[test]
fn partitions_are_listed_page_by_page_without_a_gap() {
    let server = Server::start();
    let mut client = server.client();
    for (name, partitions) in [("a", 3), ("b", 5), ("c", 1)] {
        client.create(name, partitions);
    }
    for limit in 1..=10 {
        let mut seen = Vec::new();
        let mut cursor: Option<Cursor> = None;
        let mut pages = 0;
        loop {
            let request = DescribeTopicPartitionsRequest::default()
                .with_response_partition_limit(limit)
                .with_cursor(cursor);
            let answer = client.call(0, &request);
            pages += 1;
            for topic in &answer.topics {
                let name = topic.name.as_ref().unwrap().to_string();
                seen.extend(topic.partitions.iter().map(|p| (name.clone(), p.partition_index)));
            }
            let Some(next) = answer.next_cursor else { break };
            let mut from = Cursor::default();
            (from.topic_name, from.partition_index) = (next.topic_name, next.partition_index);
            cursor = Some(from);
        }
        let all: Vec<(String, i32)> = [("a", 3), ("b", 5), ("c", 1)]
            .iter()
            .flat_map(|(name, count)| (0..*count).map(|index| ((*name).to_owned(), index)))
            .collect();
        assert_eq!(seen, all, "{limit} a page");
        assert_eq!(pages, (9 + limit - 1) / limit, "{limit} a page");
    }
    let mut asked = TopicRequest::default();
    asked.name = s("nowhere");
    let request = DescribeTopicPartitionsRequest::default().with_topics(vec![asked]);
    let answer = client.call(0, &request);
    let error = answer.topics[0].error_code;
    assert_eq!(error, ResponseError::UnknownTopicOrPartition.code());
}

/// Kafka without an authorizer answers every operation.
#[test]
fn authorized_operations_are_listed_on_request() {
    let server = Server::start();
    let mut client = server.client();
    client.create("t", 1);
    let untold = i32::MIN;
    for is_asked in [false, true] {
        let told = |operations: i32| if is_asked { operations } else { untold };
        for version in 8..=13 {
            let asks_cluster = is_asked && version <= 10;
            let of = |name| MetadataRequestTopic::default().with_name(Some(s(name)));
            let request = MetadataRequest::default()
                .with_topics(Some(vec![of("t"), of("a b")]))
                .with_include_cluster_authorized_operations(asks_cluster)
                .with_include_topic_authorized_operations(is_asked);
            let answer = client.call(version, &request);
            assert_eq!(answer.topics[0].topic_authorized_operations, told(3_576));
            assert_eq!(answer.topics[1].topic_authorized_operations, untold);
            let of_cluster = if asks_cluster { 8_096 } else { untold };
            assert_eq!(answer.cluster_authorized_operations, of_cluster);
        }
        let request =
            DescribeClusterRequest::default().with_include_cluster_authorized_operations(is_asked);
        assert_eq!(client.call(2, &request).cluster_authorized_operations, told(8_096));
    }
    let request = DescribeTopicPartitionsRequest::default()
        .with_topics(vec![TopicRequest::default().with_name(s("t"))]);
    let answer = client.call(0, &request);
    assert_eq!(answer.topics[0].topic_authorized_operations, 3_576);
}
