//! Addresses in answers: a client gets those of the sidecar, never a broker's.

use bytes::BytesMut;
use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
use kafka_protocol::messages::produce_response::NodeEndpoint;
use kafka_protocol::messages::{
    ApiVersionsRequest, DescribeClusterRequest, FindCoordinatorRequest, MetadataRequest,
    MetadataResponse, ProduceResponse, ShareAcknowledgeRequest, ShareAcknowledgeResponse,
    ShareFetchRequest, ShareFetchResponse, share_acknowledge_response, share_fetch_response,
};
use kafka_protocol::protocol::Encodable;

use crate::broker::{answer, broker, request};
use crate::support::batch::plain;
use crate::support::client::{produce_request, s};
use crate::support::{Client, Rec, Server};

fn house() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    (server, client)
}

#[test]
fn only_brokers_of_the_cluster_have_addresses() {
    let (server, mut client) = house();
    for version in 1..=13 {
        let told: MetadataResponse = client.metadata(version, &["reprise.retry.shop"]);
        let brokers: Vec<_> = told.brokers.iter().map(|of| (of.node_id.0, of.port)).collect();
        assert_eq!(brokers.len(), 1, "v{version}");
        assert_eq!(brokers[0].0, server.cluster().node_id(), "v{version}");
        let ports = [server.cluster().addr(), server.addr()].map(|of| i32::from(of.port()));
        assert!(!ports.contains(&brokers[0].1), "v{version}");
        assert!(told.brokers[0].host.starts_with("127."));
    }
}

#[test]
fn concurrent_clients_get_one_port_per_broker() {
    let (server, _) = house();
    // Each round has a sidecar that has opened no broker ports yet.
    for _ in 0..8 {
        let beside = server.beside();
        let together = std::sync::Barrier::new(40);
        let ports: Vec<i32> = std::thread::scope(|scope| {
            let ask = || {
                let mut client = beside.client();
                // The sidecar connects to the cluster before all clients ask at once.
                client.call(0, &ApiVersionsRequest::default());
                together.wait();
                client.call(9, &MetadataRequest::default()).brokers[0].port
            };
            let asking: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        assert!(ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    }
}

#[test]
fn a_coordinator_is_a_broker_at_its_address_here() {
    let (server, mut client) = house();
    let brokers = client.call(9, &MetadataRequest::default()).brokers;
    let mut request = FindCoordinatorRequest::default();
    request.key = s("shop");
    let told = client.call(3, &request);
    assert_eq!((told.error_code, told.node_id.0), (0, server.cluster().node_id()));
    assert_eq!((&told.host, told.port), (&brokers[0].host, brokers[0].port));
    let mut request = FindCoordinatorRequest::default();
    request.coordinator_keys = vec![s("shop"), s("store")];
    for told in client.call(4, &request).coordinators {
        assert_eq!((&told.host, told.port), (&brokers[0].host, brokers[0].port));
    }
}

#[test]
fn a_description_of_the_cluster_names_the_same_addresses() {
    let (_server, mut client) = house();
    let metadata = client.call(9, &MetadataRequest::default());
    let told = client.call(0, &DescribeClusterRequest::default());
    let of_metadata: Vec<_> =
        metadata.brokers.iter().map(|b| (b.node_id, b.host.clone(), b.port)).collect();
    let described: Vec<_> =
        told.brokers.iter().map(|b| (b.broker_id, b.host.clone(), b.port)).collect();
    assert_eq!(described, of_metadata);
    assert_eq!(told.cluster_id, metadata.cluster_id.unwrap(), "the cluster's own id");
}

/// A broker that is no leader any more, and names the new leader.
fn moved(mut stream: std::net::TcpStream) {
    let own = stream.local_addr().unwrap();
    while let Some(asked) = request(&mut stream) {
        let body = if asked.frame[..2] == [0, 18] {
            vec![0; 6]
        } else if asked.frame[..2] == [0, 3] {
            let mut broker = MetadataResponseBroker::default();
            (broker.node_id, broker.host) = (1.into(), s(&own.ip().to_string()));
            broker.port = i32::from(own.port());
            encoded(&MetadataResponse::default().with_brokers(vec![broker]), 9)
        } else {
            let mut node = NodeEndpoint::default();
            (node.node_id, node.host, node.port) = (5.into(), s("kafka-5.internal"), 9092);
            encoded(&ProduceResponse::default().with_node_endpoints(vec![node]), 10)
        };
        answer(&mut stream, asked.correlation_id, &body);
    }
}

/// The response header's tagged fields, then the body.
fn encoded(answer: &impl Encodable, version: i16) -> Vec<u8> {
    let mut out = BytesMut::from(&[0][..]);
    answer.encode(&mut out, version).unwrap();
    out.to_vec()
}

#[test]
fn a_new_leader_in_an_answer_has_a_local_address() {
    let behind = broker(moved);
    let server = Server::in_front_of(behind, "");
    let mut client = server.client();
    let brokers = client.call(9, &MetadataRequest::default()).brokers;
    assert_eq!(brokers[0].node_id.0, 1);
    let request = produce_request("orders", 0, plain(&[Rec::new("x")]), -1);
    let told = client.leader("orders").call(10, &request);
    let named = &told.node_endpoints[0];
    assert_eq!(named.node_id.0, 5);
    assert!(named.host.starts_with("127."), "{}", named.host);
    assert_ne!(named.port, brokers[0].port, "a port of its own");
    let again = client.leader("orders").call(10, &request);
    assert_eq!(again.node_endpoints[0].port, named.port);
}

/// A broker that is no leader any more, for consumers of a share group. Its `ApiVersions` answer
/// announces `ShareFetch`.
fn moved_share(mut stream: std::net::TcpStream) {
    while let Some(asked) = request(&mut stream) {
        let body = match asked.frame[1] {
            18 => vec![0, 0, 0, 0, 0, 1, 0, 78, 0, 1, 0, 9],
            78 => {
                let mut node = share_fetch_response::NodeEndpoint::default();
                (node.node_id, node.host, node.port) = (7.into(), s("127.0.0.1"), 9);
                let mut partition = share_fetch_response::PartitionData::default();
                partition.records = Some(vec![7; 300_000].into());
                let mut topic = share_fetch_response::ShareFetchableTopicResponse::default();
                topic.partitions = vec![partition];
                let mut told = ShareFetchResponse::default();
                (told.responses, told.node_endpoints) = (vec![topic], vec![node]);
                encoded(&told, 1)
            }
            _ => {
                let mut node = share_acknowledge_response::NodeEndpoint::default();
                (node.node_id, node.host, node.port) = (7.into(), s("127.0.0.1"), 9);
                let told = ShareAcknowledgeResponse::default().with_node_endpoints(vec![node]);
                encoded(&told, 1)
            }
        };
        answer(&mut stream, asked.correlation_id, &body);
    }
}

#[test]
fn a_new_share_fetch_leader_has_a_local_address() {
    let server = Server::in_front_of(broker(moved_share), "");
    let mut client = server.client();
    let versions = client.call(0, &ApiVersionsRequest::default());
    assert_eq!(versions.api_keys[0].max_version, 2, "no layout that is not known here");
    let told = client.call(1, &ShareFetchRequest::default());
    let records = told.responses[0].partitions[0].records.as_ref().unwrap();
    assert_eq!(records.len(), 300_000);
    let fetched = &told.node_endpoints[0];
    let told = client.call(1, &ShareAcknowledgeRequest::default());
    let acknowledged = &told.node_endpoints[0];
    assert_eq!((acknowledged.node_id, acknowledged.port), (fetched.node_id, fetched.port));
    assert_ne!(fetched.port, 9);
    assert!(fetched.host.starts_with("127.") && fetched.host.as_str() != "127.0.0.1");
}

#[test]
fn a_broker_port_works_at_once_after_a_restart() {
    let mut server = Server::with_kept_port();
    server.client().create("orders", 1);
    let mut client = server.client();
    client.put("orders", 0, &[Rec::new("x")]);
    let broker = client.call(9, &MetadataRequest::default()).brokers[0].clone();
    server.restart();
    // No client has asked this start for anything yet.
    let mut told = None;
    crate::support::until("its port is open", || {
        let port = u16::try_from(broker.port).unwrap();
        told = std::net::TcpStream::connect((broker.host.as_str(), port)).ok();
        told.is_some()
    });
    let data = client.connect_to(&broker).fetch("orders", 0, 0, 0);
    assert_eq!(data.error_code, 0);
}
