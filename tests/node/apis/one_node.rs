//! Cluster APIs of tools: one node answers as Kafka with one broker does.

use kafka_protocol::messages::alter_client_quotas_request as quotas;
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic,
};
use kafka_protocol::messages::alter_user_scram_credentials_request as scram;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_quorum_request as quorum;
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request;
use reprise::wire::{Api, ResponseError};

use crate::support::client::s;
use crate::support::{Client, Server};

const PARTITIONS: i32 = 2;

fn house() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", PARTITIONS);
    (server, client)
}

fn every<R: Request>(mut each: impl FnMut(i16)) {
    let (min, max) = Api::from_key(R::KEY).unwrap().served();
    (min..=max).for_each(&mut each);
}

#[test]
fn no_election_is_needed_where_one_node_leads_everything() {
    let (_server, mut client) = house();
    let needless = ResponseError::ElectionNotNeeded.code();
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    every::<ElectLeadersRequest>(|version| {
        let of = |name, partitions| {
            TopicPartitions::default().with_topic(s(name)).with_partitions(partitions)
        };
        let asked = vec![
            of("orders", vec![0, 1, PARTITIONS, -1]),
            of("reprise.dlq.shop", vec![0]),
            of("nowhere", vec![0]),
        ];
        let mut request = ElectLeadersRequest::default().with_topic_partitions(Some(asked));
        let answer = client.call(version, &request);
        assert_eq!(answer.error_code, 0, "v{version}");
        let codes: Vec<Vec<i16>> = answer
            .replica_election_results
            .iter()
            .map(|topic| topic.partition_result.iter().map(|one| one.error_code).collect())
            .collect();
        let orders = vec![needless, needless, unknown, unknown];
        assert_eq!(codes, [orders, vec![needless], vec![unknown]], "v{version}");
        if version >= 1 {
            request.election_type = 7;
            let answer = client.call(version, &request);
            assert_eq!(answer.error_code, ResponseError::InvalidRequest.code());
        }
        // All partitions: those already led by the requested leader are left out.
        let all = ElectLeadersRequest::default().with_topic_partitions(None);
        let answer = client.call(version, &all);
        assert_eq!((answer.error_code, answer.replica_election_results.len()), (0, 0));
    });
}

#[test]
fn a_partition_keeps_its_one_replica() {
    let (server, mut client) = house();
    let node = server.node_id();
    every::<AlterPartitionReassignmentsRequest>(|version| {
        let of = |index, replicas: Option<Vec<i32>>| {
            let replicas = replicas.map(|ids| ids.into_iter().map(Into::into).collect());
            ReassignablePartition::default().with_partition_index(index).with_replicas(replicas)
        };
        let invalid = ResponseError::InvalidReplicaAssignment.code();
        let cases = [
            (of(0, Some(vec![node])), 0),
            (of(0, Some(vec![node, node + 1])), invalid),
            (of(0, Some(vec![node, node])), invalid),
            (of(0, Some(vec![])), invalid),
            (of(1, None), ResponseError::NoReassignmentInProgress.code()),
            (of(9, Some(vec![node])), ResponseError::UnknownTopicOrPartition.code()),
        ];
        let partitions = cases.iter().map(|(asked, _)| asked.clone()).collect();
        let topic = ReassignableTopic::default().with_name(s("orders"));
        let request = AlterPartitionReassignmentsRequest::default()
            .with_topics(vec![topic.with_partitions(partitions)]);
        let answer = client.call(version, &request);
        assert_eq!(answer.error_code, 0);
        for (told, (asked, code)) in answer.responses[0].partitions.iter().zip(&cases) {
            assert_eq!(told.error_code, *code, "v{version}: {asked:?}");
            assert_eq!(told.error_message.is_some(), *code != 0);
        }
    });
    let listed = client.call(0, &ListPartitionReassignmentsRequest::default().with_topics(None));
    assert_eq!((listed.error_code, listed.topics.len()), (0, 0));
}

#[test]
fn every_log_lies_in_the_one_directory() {
    let (_server, mut client) = house();
    let dir = client.call(1, &DescribeLogDirsRequest::default().with_topics(None));
    let dir = dir.results[0].log_dir.to_string();
    let elsewhere = ResponseError::LogDirNotFound.code();
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    every::<AlterReplicaLogDirsRequest>(|version| {
        for (path, codes) in [(dir.as_str(), [0, unknown]), ("/elsewhere", [elsewhere; 2])] {
            let topic = AlterReplicaLogDirTopic::default().with_name(s("orders"));
            let asked = AlterReplicaLogDir::default()
                .with_path(s(path))
                .with_topics(vec![topic.with_partitions(vec![1, PARTITIONS])]);
            let request = AlterReplicaLogDirsRequest::default().with_dirs(vec![asked]);
            let answer = client.call(version, &request);
            let told = answer.results[0].partitions.iter().map(|one| one.error_code);
            assert_eq!(told.collect::<Vec<_>>(), codes, "v{version}");
        }
    });
}

#[test]
fn the_quorum_is_this_node() {
    let (server, mut client) = house();
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    every::<DescribeQuorumRequest>(|version| {
        for (name, index, code) in [
            ("__cluster_metadata", 0, 0),
            ("__cluster_metadata", 1, unknown),
            ("orders", 0, unknown),
        ] {
            let partition = quorum::PartitionData::default().with_partition_index(index);
            let topic = quorum::TopicData::default().with_topic_name(s(name));
            let request = DescribeQuorumRequest::default()
                .with_topics(vec![topic.with_partitions(vec![partition])]);
            let answer = client.call(version, &request);
            let told = &answer.topics[0].partitions[0];
            assert_eq!((answer.error_code, told.error_code), (0, code), "v{version} {name}");
            if code == 0 {
                assert_eq!(told.leader_id.0, server.node_id());
                assert_eq!(told.current_voters[0].replica_id.0, server.node_id());
                assert!(told.observers.is_empty());
            }
            if version >= 2 {
                let listener = &answer.nodes[0].listeners[0];
                assert_eq!(i32::from(listener.port), i32::from(server.addr().port()));
            }
        }
    });
}

#[test]
fn resources_with_settings_are_listed_by_type() {
    let (server, mut client) = house();
    let metrics = client.call(0, &ListConfigResourcesRequest::default());
    assert_eq!((metrics.error_code, metrics.config_resources.len()), (0, 0), "client metrics");
    let mut listed = |types: Vec<i8>| {
        let request = ListConfigResourcesRequest::default().with_resource_types(types);
        let answer = client.call(1, &request);
        let named = answer.config_resources.iter();
        let named = named.map(|one| (one.resource_type, one.resource_name.to_string()));
        (answer.error_code, named.collect::<Vec<_>>())
    };
    let node = (4, server.node_id().to_string());
    assert_eq!(listed(vec![2]), (0, vec![(2, "orders".to_owned())]));
    assert_eq!(listed(vec![]), (0, vec![node.clone(), (2, "orders".to_owned())]));
    assert_eq!(listed(vec![4, 32, 8, 16]), (0, vec![node]));
    assert_eq!(listed(vec![2, 9]), (ResponseError::UnsupportedVersion.code(), vec![]));
}

#[test]
fn acls_quotas_and_users_are_answered_as_by_plain_kafka() {
    let (_server, mut client) = house();
    let disabled = ResponseError::SecurityDisabled.code();
    every::<DescribeAclsRequest>(|version| {
        let filter = DescribeAclsRequest::default()
            .with_resource_type_filter(2)
            .with_operation(1)
            .with_permission_type(1);
        let answer = client.call(version, &filter);
        assert_eq!((answer.error_code, answer.resources.len()), (disabled, 0), "v{version}");
        assert!(answer.error_message.unwrap().contains("No Authorizer"));
    });
    every::<CreateAclsRequest>(|version| {
        let acl = AclCreation::default().with_resource_type(2).with_operation(3);
        let request = CreateAclsRequest::default().with_creations(vec![acl.clone(), acl]);
        let told = client.call(version, &request).results;
        let codes: Vec<i16> = told.iter().map(|one| one.error_code).collect();
        assert_eq!(codes, [disabled; 2], "v{version}");
    });
    every::<DeleteAclsRequest>(|version| {
        let filter = DeleteAclsFilter::default().with_resource_type_filter(2).with_operation(3);
        let request = DeleteAclsRequest::default().with_filters(vec![filter]);
        let told = client.call(version, &request).filter_results;
        assert_eq!((told.len(), told[0].error_code), (1, disabled), "v{version}");
    });
    every::<DescribeClientQuotasRequest>(|version| {
        let answer = client.call(version, &DescribeClientQuotasRequest::default());
        assert_eq!((answer.error_code, answer.entries), (0, Some(Vec::new())), "v{version}");
    });
    every::<AlterClientQuotasRequest>(|version| {
        let entity = quotas::EntityData::default().with_entity_type(s("user"));
        let entity = vec![entity.with_entity_name(Some(s("alice")))];
        let entry = quotas::EntryData::default().with_entity(entity);
        let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
        let told = client.call(version, &request).entries;
        let code = ResponseError::PolicyViolation.code();
        assert_eq!((told.len(), told[0].error_code), (1, code), "v{version}");
        assert_eq!(told[0].entity[0].entity_name, Some(s("alice")), "v{version}");
    });
    let all = client.call(0, &DescribeUserScramCredentialsRequest::default());
    assert_eq!((all.error_code, all.results.len()), (0, 0));
    let alice = vec![UserName::default().with_name(s("alice"))];
    let request = DescribeUserScramCredentialsRequest::default().with_users(Some(alice));
    let told = client.call(0, &request).results;
    assert_eq!(told[0].error_code, ResponseError::ResourceNotFound.code());
    let deletion = scram::ScramCredentialDeletion::default().with_name(s("alice"));
    let upsertion = scram::ScramCredentialUpsertion::default().with_name(s("alice"));
    let request = AlterUserScramCredentialsRequest::default()
        .with_deletions(vec![deletion])
        .with_upsertions(vec![upsertion]);
    let told = client.call(0, &request).results;
    assert_eq!((told.len(), told[0].error_code), (1, ResponseError::PolicyViolation.code()));
    assert!(told[0].error_message.as_ref().unwrap().contains("users_file"));
}

#[test]
fn an_api_that_is_not_served_is_refused_in_words() {
    let (_server, mut client) = house();
    let unsupported = ResponseError::UnsupportedVersion.code();
    // Key, version, correlation id 7, no client id, an empty tag section, and hardly a body.
    for (key, error_at) in [(71_u8, 9), (64, 9), (57, 9)] {
        client.raw(&[0, 0, 0, 11, 0, key, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0]);
        let frame = client.frame().unwrap();
        assert_eq!(frame[..4], 7_i32.to_be_bytes(), "{key}");
        // Behind the correlation id: no tags, throttle_time_ms.
        assert_eq!(frame[error_at..error_at + 2], unsupported.to_be_bytes(), "{key}");
    }
    assert_eq!(client.metadata(9, &[]).brokers.len(), 1, "the connection goes on");
    // The answer to `WriteTxnMarkers` has no error field of its own.
    client.raw(&[0, 0, 0, 11, 0, 27, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0]);
    assert_eq!(client.frame(), None);
}

#[test]
fn the_broker_tells_the_settings_that_tools_read() {
    let server = Server::with("topics: {retention: 1d, retention_bytes: 1MiB}");
    let mut client = server.client();
    let mut asked = DescribeConfigsResource::default();
    (asked.resource_type, asked.resource_name) = (4, s(&server.node_id().to_string()));
    asked.configuration_keys = None;
    let request = DescribeConfigsRequest::default().with_resources(vec![asked]);
    let configs = client.call(4, &request).results.remove(0).configs;
    let value = |name: &str| {
        let found = configs.iter().find(|config| config.name.as_str() == name);
        let found = found.unwrap_or_else(|| panic!("no {name}"));
        assert!(found.read_only && found.config_source == 4, "{name}");
        found.value.as_ref().unwrap().to_string()
    };
    let listener = format!("PLAINTEXT://127.0.0.1:{}", server.addr().port());
    for name in ["listeners", "advertised.listeners"] {
        let told = value(name);
        assert!(told.starts_with("PLAINTEXT://127."), "{told}");
        assert_eq!(told.rsplit(':').next(), listener.rsplit(':').next());
    }
    assert_eq!((value("node.id"), value("broker.id")), ("1".to_owned(), "1".to_owned()));
    assert_eq!(value("log.retention.ms"), "86400000");
    assert_eq!(value("log.retention.bytes"), "1048576");
    assert_eq!(value("message.max.bytes"), "1048588");
    assert_eq!(value("min.insync.replicas"), "1");
}
