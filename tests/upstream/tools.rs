//! Requests of tools to a cluster that may name topics of ours, and requests that go to every
//! broker.

use kafka_protocol::messages::alter_configs_request::AlterConfigsResource as Replaced;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, DescribeConfigsRequest, DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest, IncrementalAlterConfigsRequest, ListGroupsRequest,
    ListTransactionsRequest, MetadataRequest,
};
use reprise::wire::ResponseError;
use uuid::Uuid;

use crate::support::client::s;
use crate::support::{Client, Member, Rec, Server};

const INVALID: fn() -> i16 = || ResponseError::InvalidTopicException.code();

/// A cluster with `orders`, and a group with a retry.
fn house() -> Server {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 3);
    client.nack("shop", "orders-0@0", Rec::new("x"));
    server
}

fn topics_of(client: &mut Client) -> Vec<String> {
    let all = client.call(9, &MetadataRequest::default().with_topics(None)).topics;
    all.iter().map(|topic| topic.name.as_ref().unwrap().to_string()).collect()
}

#[test]
fn cluster_topics_are_created_and_deleted_and_sidecar_topics_refused() {
    let server = house();
    let mut client = server.client();
    let topic = |name: &str| {
        let mut topic = CreatableTopic::default();
        (topic.name, topic.num_partitions, topic.replication_factor) = (s(name), 1, 1);
        topic
    };
    for names in [&["reprise.retry.new", "payments", "reprise.dlq.new"][..], &["reprise.retry.new"]]
    {
        let topics = names.iter().map(|name| topic(name)).collect();
        let told = client.call(7, &CreateTopicsRequest::default().with_topics(topics));
        assert_eq!(told.topics.len(), names.len());
        for one in &told.topics {
            let ours = one.name.as_str() != "payments";
            let exists = ResponseError::TopicAlreadyExists.code();
            assert_eq!(one.error_code, if ours { exists } else { 0 }, "{}", one.name.as_str());
        }
    }
    let mut cluster = Client::connect(server.cluster().addr());
    assert_eq!(topics_of(&mut cluster), ["orders", "payments"]);

    let mut by_name = DeleteTopicsRequest::default();
    by_name.topic_names = vec![s("reprise.retry.shop"), s("payments")];
    let told = client.call(5, &by_name);
    let code = |name: &str| {
        let mut found = told.responses.iter().filter(|r| r.name.as_ref().unwrap().as_str() == name);
        found.next().unwrap().error_code
    };
    assert_eq!((code("payments"), code("reprise.retry.shop")), (0, INVALID()));
    let ours = client.metadata(12, &["reprise.retry.shop"]).topics[0].topic_id;
    let theirs = client.metadata(12, &["orders"]).topics[0].topic_id;
    let mut by_id = DeleteTopicsRequest::default();
    by_id.topics = [ours, theirs]
        .map(|id| {
            let mut one = DeleteTopicState::default();
            one.topic_id = id;
            one
        })
        .to_vec();
    let told = client.call(6, &by_id);
    let code = |id: Uuid| told.responses.iter().find(|r| r.topic_id == id).unwrap().error_code;
    assert_eq!((code(theirs), code(ours)), (0, INVALID()));
    assert!(topics_of(&mut cluster).is_empty());
}

#[test]
fn settings_of_sidecar_topics_are_described_beside_the_clusters() {
    let server = house();
    let mut client = server.client();
    let resource = |kind: i8, name: &str| {
        let mut asked = DescribeConfigsResource::default();
        (asked.resource_type, asked.resource_name) = (kind, s(name));
        asked.configuration_keys = None;
        asked
    };
    let node = server.node_id().to_string();
    for version in 1..=4 {
        let mut request = DescribeConfigsRequest::default();
        request.resources =
            vec![resource(2, "reprise.retry.shop"), resource(2, "orders"), resource(4, &node)];
        let told = client.call(version, &request);
        assert_eq!(told.results.len(), 3);
        for name in ["orders", "reprise.retry.shop", &node] {
            let one = told.results.iter().find(|one| one.resource_name.as_str() == name).unwrap();
            assert_eq!(one.error_code, 0, "{name}");
            assert!(!one.configs.is_empty(), "{name}");
        }
        request.resources.truncate(1);
        assert_eq!(client.call(version, &request).results.len(), 1);
    }
}

#[test]
fn this_node_describes_the_static_settings_of_tools() {
    let server = house();
    let mut client = server.client();
    let node = server.node_id().to_string();
    let mut asked = DescribeConfigsResource::default();
    (asked.resource_type, asked.resource_name) = (4, s(&node));
    asked.configuration_keys = None;
    let request = DescribeConfigsRequest::default().with_resources(vec![asked]);
    let configs = client.call(4, &request).results.remove(0).configs;
    let of = |name: &str| {
        let mut named = configs.iter().filter(|config| config.name.as_str() == name);
        let value = named.next().and_then(|config| config.value.as_ref()).map(ToString::to_string);
        assert!(named.next().is_none(), "{name} is told once");
        value.unwrap_or_else(|| panic!("{name} is not told"))
    };
    assert_eq!([of("node.id"), of("broker.id")], [node.clone(), node]);
    let told = client.metadata(9, &["reprise.retry.shop"]).brokers.pop().unwrap();
    let listener = format!("PLAINTEXT://{}:{}", told.host.as_str(), told.port);
    assert_eq!([of("advertised.listeners"), of("listeners")], [listener.clone(), listener]);
    assert_eq!(of("log.retention.ms"), "-1", "retries and dead letters are not retained by time");
    assert_eq!(of("log.retention.bytes"), "-1");
    assert!(configs.iter().all(|config| config.read_only));
}

#[test]
fn topics_grow_in_the_cluster_and_ours_do_not() {
    let server = house();
    let mut client = server.client();
    let policy = ResponseError::PolicyViolation.code();
    for version in 0..=3 {
        let count = 4 + i32::from(version);
        for names in
            [&["reprise.retry.shop", "orders", "reprise.dlq.shop"][..], &["reprise.retry.shop"]]
        {
            let topic = |name: &&str| {
                let mut topic = CreatePartitionsTopic::default();
                (topic.name, topic.count, topic.assignments) = (s(name), count, None);
                topic
            };
            let topics = names.iter().map(topic).collect();
            let request = CreatePartitionsRequest::default().with_topics(topics);
            let told = client.call(version, &request);
            assert_eq!(told.results.len(), names.len(), "v{version}");
            for one in &told.results {
                let ours = one.name.as_str() != "orders";
                assert_eq!(one.error_code, if ours { policy } else { 0 }, "v{version} {one:?}");
            }
        }
        let grown = client.metadata(9, &["orders", "reprise.retry.shop"]).topics;
        let grown: Vec<usize> = grown.iter().map(|topic| topic.partitions.len()).collect();
        assert_eq!(grown, [usize::try_from(count).unwrap(), 1], "v{version}");
    }
}

#[test]
fn only_settings_of_cluster_topics_can_be_changed() {
    let server = house();
    let mut client = server.client();
    let node = server.node_id().to_string();
    let (policy, invalid) =
        (ResponseError::PolicyViolation.code(), ResponseError::InvalidRequest.code());
    let told: [(i8, &str, i16); 4] = [
        (2, "orders", 0),
        (2, "reprise.retry.shop", policy),
        (2, "reprise.dlq.shop", policy),
        (4, &node, invalid),
    ];
    let code_of = |name: &str| told.iter().find(|(_, of, _)| *of == name).unwrap().2;
    for version in 0..=1 {
        let resource = |(kind, name, _): &(i8, &str, i16)| {
            let mut config = AlterableConfig::default();
            (config.name, config.value) = (s("retention.ms"), Some(s("60000")));
            let mut resource = AlterConfigsResource::default();
            (resource.resource_type, resource.resource_name) = (*kind, s(name));
            resource.configs.push(config);
            resource
        };
        for asked in [&told[..], &told[1..2]] {
            let resources = asked.iter().map(resource).collect();
            let request = IncrementalAlterConfigsRequest::default().with_resources(resources);
            let answer = client.call(version, &request);
            assert_eq!(answer.responses.len(), asked.len(), "v{version}");
            for one in &answer.responses {
                assert_eq!(one.error_code, code_of(&one.resource_name), "v{version} {one:?}");
            }
        }
    }
    let mut behind = Client::connect(server.cluster().addr());
    let mut asked = DescribeConfigsResource::default();
    (asked.resource_type, asked.resource_name) = (2, s("orders"));
    asked.configuration_keys = Some(vec![s("retention.ms")]);
    let mut described = || {
        let request = DescribeConfigsRequest::default().with_resources(vec![asked.clone()]);
        behind.call(4, &request).results[0].configs[0].value.as_ref().unwrap().to_string()
    };
    assert_eq!(described(), "60000");
    for version in 0..=2 {
        let resource = |(kind, name, _): &(i8, &str, i16)| {
            let mut resource = Replaced::default();
            (resource.resource_type, resource.resource_name) = (*kind, s(name));
            resource
        };
        let request = AlterConfigsRequest::default();
        let request = request.with_resources(told.iter().map(resource).collect());
        let answer = client.call(version, &request);
        assert_eq!(answer.responses.len(), told.len(), "v{version}");
        for one in &answer.responses {
            assert_eq!(one.error_code, code_of(&one.resource_name), "v{version} {one:?}");
        }
    }
    assert_ne!(described(), "60000", "back at its default");
}

#[test]
fn records_of_the_cluster_are_deleted_and_no_dead_letters() {
    let server = house();
    let mut client = server.client();
    client.nack("shop", "orders-0@1", Rec::new("x").header("x-retry-level", "-1"));
    client.leader("orders").put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    let policy = ResponseError::PolicyViolation.code();
    for version in 0..=2 {
        for (name, told) in [("orders", (2, 0)), ("reprise.dlq.shop", (-1, policy))] {
            let partition = DeleteRecordsPartition::default().with_offset(-1);
            let mut topic = DeleteRecordsTopic::default();
            (topic.name, topic.partitions) = (s(name), vec![partition]);
            let request = DeleteRecordsRequest::default().with_topics(vec![topic]);
            let answer = client.leader(name).call(version, &request);
            let one = &answer.topics[0].partitions[0];
            assert_eq!((one.low_watermark, one.error_code), told, "v{version} {name}");
        }
    }
    let mut behind = Client::connect(server.cluster().addr());
    assert_eq!(behind.list_offset("orders", 0, -2).1, 2);
    assert_eq!(client.leader("reprise.dlq.shop").read_all("reprise.dlq.shop").len(), 1);
}

#[test]
fn topics_are_described_in_pages_with_sidecar_topics_last() {
    let server = house();
    let mut client = server.client();
    let mut request = DescribeTopicPartitionsRequest::default();
    request.response_partition_limit = 2;
    let first = client.call(0, &request);
    let cursor = first.next_cursor.unwrap();
    assert_eq!(first.topics.len(), 1);
    let mut next = Cursor::default();
    next.topic_name = cursor.topic_name;
    next.partition_index = cursor.partition_index;
    request.cursor = Some(next);
    let last = client.call(0, &request);
    let names: Vec<&str> = last.topics.iter().map(|t| t.name.as_ref().unwrap().as_str()).collect();
    assert_eq!(names, ["orders", "reprise.dlq.shop", "reprise.retry.shop"]);
    assert!(last.next_cursor.is_none());
    assert_eq!(last.topics[2].partitions[0].leader_id.0, server.node_id());
    assert_ne!(last.topics[0].partitions[0].leader_id.0, server.node_id());

    let mut one = TopicRequest::default();
    one.name = s("reprise.retry.shop");
    let mut by_name = DescribeTopicPartitionsRequest::default();
    (by_name.topics, by_name.response_partition_limit) = (vec![one], 100);
    let told = client.call(0, &by_name);
    assert_eq!((told.topics.len(), told.topics[0].error_code), (1, 0));
}

#[test]
fn this_node_adds_nothing_to_requests_for_every_broker() {
    let server = house();
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(&[("orders", 3)]);
    // The node keeps committed offsets of dead letters, but the group is not its own.
    member.client.nack("shop", "orders-0@1", Rec::new("x"));
    assert_eq!(member.commit("reprise.dlq.shop", 0, 0), 0);
    let mut client = server.client();
    assert!(client.call(4, &ListGroupsRequest::default()).groups.is_empty());
    let groups = client.leader("orders").call(4, &ListGroupsRequest::default()).groups;
    assert_eq!(groups.len(), 1, "the broker's own door has its groups");
    for version in 0..=2 {
        let told = client.call(version, &ListTransactionsRequest::default());
        assert_eq!((told.error_code, told.transaction_states.len()), (0, 0));
    }
    for version in 1..=4 {
        let told = client.call(version, &DescribeLogDirsRequest::default());
        assert_eq!((told.results.len(), told.results[0].topics.len()), (1, 0));
    }
}
