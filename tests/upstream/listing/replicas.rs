//! Replica lists and factors that a client computed from the listed brokers.

use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, BrokerId,
    CreatePartitionsRequest, CreateTopicsRequest, MetadataRequest, MetadataResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, Request as _};
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::support::client::s;
use crate::support::{Client, Server};

fn ids(nodes: &[i32]) -> Vec<BrokerId> {
    nodes.iter().copied().map(BrokerId).collect()
}

fn topic(name: &str, factor: i16) -> CreatableTopic {
    let mut topic = CreatableTopic::default();
    (topic.name, topic.num_partitions, topic.replication_factor) = (s(name), 1, factor);
    topic
}

fn create(client: &mut Client, topic: CreatableTopic) -> i16 {
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    client.call(5, &request).topics[0].error_code
}

#[test]
fn a_factor_of_all_listed_brokers_means_the_clusters_brokers() {
    let server = Server::start();
    let mut client = server.client();
    let refused = ResponseError::InvalidReplicationFactor.code();
    assert_eq!(create(&mut client, topic("orders", 2)), refused, "it was listed one broker");
    client.metadata(9, &["reprise.retry.shop"]);
    assert_eq!(create(&mut client, topic("orders", 2)), 0);
    assert_eq!(create(&mut client, topic("others", 3)), refused, "there were never three");
}

#[test]
fn replicas_on_this_node_are_placed_on_cluster_brokers() {
    let server = Server::start();
    let mut client = server.client();
    let node = server.node_id();
    client.metadata(9, &["reprise.retry.shop"]);
    let mut by_hand = topic("orders", -1);
    by_hand.num_partitions = -1;
    for (index, replicas) in [&[node][..], &[node, server.cluster().node_id()]].iter().enumerate() {
        let mut one = CreatableReplicaAssignment::default();
        (one.partition_index, one.broker_ids) = (i32::try_from(index).unwrap(), ids(replicas));
        by_hand.assignments.push(one);
    }
    assert_eq!(create(&mut client, by_hand), 0);
    let mut more = CreatePartitionsTopic::default();
    (more.name, more.count) = (s("orders"), 3);
    let one = CreatePartitionsAssignment::default().with_broker_ids(ids(&[node]));
    more.assignments = Some(vec![one]);
    let request = CreatePartitionsRequest::default().with_topics(vec![more]);
    assert_eq!(client.call(3, &request).results[0].error_code, 0);
    let partitions = &client.metadata(9, &["orders"]).topics[0].partitions;
    assert_eq!(partitions.len(), 3);
    let cluster = ids(&[server.cluster().node_id()]);
    assert!(partitions.iter().all(|partition| partition.replica_nodes == cluster));
}

/// Brokers 1, 2 and 3 at one address, and the reassignment requests they get.
fn three() -> (Server, Receiver<Bytes>) {
    let (sender, asked) = channel();
    let addr = broker(move |stream| serve(stream, &sender));
    (Server::in_front_of(addr, ""), asked)
}

fn serve(mut stream: TcpStream, asked: &std::sync::mpsc::Sender<Bytes>) {
    let own = stream.local_addr().unwrap();
    while let Some(got) = request(&mut stream) {
        let mut body = bytes::BytesMut::from(&[0][..]);
        if got.frame[..2] == AlterPartitionReassignmentsRequest::KEY.to_be_bytes() {
            asked.send(Bytes::from(got.frame)).unwrap();
            AlterPartitionReassignmentsResponse::default().encode(&mut body, 0).unwrap();
        } else if got.frame[..2] == MetadataRequest::KEY.to_be_bytes() {
            let broker = |id: i32| {
                let mut broker = MetadataResponseBroker::default();
                (broker.node_id, broker.host) = (id.into(), s(&own.ip().to_string()));
                broker.port = i32::from(own.port());
                broker
            };
            let told = MetadataResponse::default().with_brokers([1, 2, 3].map(broker).to_vec());
            told.encode(&mut body, 9).unwrap();
        } else {
            body = bytes::BytesMut::zeroed(6);
        }
        answer(&mut stream, got.correlation_id, &body);
    }
}

#[test]
fn a_reassignment_names_brokers_of_the_cluster_only() {
    let (server, asked) = three();
    let mut client = server.client();
    client.call(9, &MetadataRequest::default());
    let partition = |index: i32, replicas: Option<&[i32]>| {
        let mut partition = ReassignablePartition::default();
        (partition.partition_index, partition.replicas) = (index, replicas.map(ids));
        partition
    };
    let request = |partitions: Vec<ReassignablePartition>| {
        let mut topic = ReassignableTopic::default();
        (topic.name, topic.partitions) = (s("orders"), partitions);
        AlterPartitionReassignmentsRequest::default().with_topics(vec![topic])
    };
    let node = server.node_id();
    for (lists, expected) in [
        ([&[node, 1][..], &[2, 1]], [&[3, 1][..], &[2, 1]]),
        ([&[1, 2, 3, node], &[node, 3, 2, 1]], [&[1, 2, 3], &[3, 2, 1]]),
        ([&[1, 2], &[2, 3]], [&[1, 2], &[2, 3]]),
    ] {
        let of = |[first, second]: [&[i32]; 2]| {
            request(vec![partition(0, Some(first)), partition(1, Some(second)), partition(2, None)])
        };
        client.call(0, &of(lists));
        let frame = asked.recv().unwrap();
        // key, version, correlation id, client id, no tagged fields
        let mut body = frame.slice(2 + 2 + 4 + 2 + client.id.len() + 1..);
        let told = AlterPartitionReassignmentsRequest::decode(&mut body, 0).unwrap();
        assert!(body.is_empty());
        assert_eq!(told, of(expected), "{lists:?}");
    }
}
