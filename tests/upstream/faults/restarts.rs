//! A restarted sidecar in front of a cluster that refuses to answer it: clients connect to the
//! ports they know.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};

use kafka_protocol::messages::{
    ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use reprise::config::HostPort;

use crate::door::Door;
use crate::kafka::Kafka;
use crate::support::client::s;
use crate::support::{Client, Server};

/// A cluster that requires a password.
fn cluster(nodes: &[i32]) -> Kafka {
    let kafka = Kafka::behind(Door::of("PLAIN"));
    kafka.state().nodes = nodes.to_vec();
    kafka
}

/// A sidecar without a password.
fn before(kafka: &Kafka) -> Server {
    Server::in_front_of_told(kafka.addr, "")
}

/// A client with the password.
fn login(addr: SocketAddr) -> Client {
    let mut client = Client::connect(addr);
    let mut handshake = SaslHandshakeRequest::default();
    handshake.mechanism = s("PLAIN");
    assert_eq!(client.call(1, &handshake).error_code, 0);
    let password = SaslAuthenticateRequest::default().with_auth_bytes("\0side\0car".into());
    assert_eq!(client.call(1, &password).error_code, 0);
    client
}

/// Addresses of the cluster's brokers, as Metadata gives them to a client.
fn doors(client: &mut Client) -> BTreeMap<i32, SocketAddr> {
    let brokers = client.call(9, &MetadataRequest::default()).brokers;
    let at = |port| SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).unwrap()));
    brokers.iter().map(|b| (b.node_id.0, at(b.port))).collect()
}

fn is_closed(door: SocketAddr) -> bool {
    TcpStream::connect(door).is_err()
}

/// Whether this start knows no broker yet.
fn knows_nobody(server: &Server) -> bool {
    !server.router().upstream.as_ref().unwrap().knows_brokers()
}

#[test]
fn broker_ports_are_open_before_the_cluster_answers() {
    let kafka = cluster(&[1, 2]);
    let mut server = before(&kafka);
    let told = doors(&mut login(server.addr()));
    assert_eq!(told.len(), 2);
    for _ in 0..2 {
        server.restart();
        for door in told.values() {
            let mut client = login(*door);
            assert!(client.try_call(0, &ApiVersionsRequest::default()).is_some());
        }
        assert!(knows_nobody(&server));
    }
    // A second Metadata answer changes no address.
    assert_eq!(doors(&mut login(told[&2])), told);
    assert!(!knows_nobody(&server));
}

#[test]
fn a_brokers_port_does_not_depend_on_the_metadata_order() {
    // Brokers 100 and 0 map to the same port, the first one behind the listener's.
    let kafka = cluster(&[100, 0]);
    let mut server = before(&kafka);
    let told = doors(&mut login(server.addr()));
    assert!(told[&100] < told[&0]);
    server.restart();
    kafka.state().nodes = vec![0, 100];
    assert_eq!(doors(&mut login(told[&0])), told);
}

#[test]
fn a_removed_broker_has_no_port_after_the_next_start() {
    let kafka = cluster(&[1, 2]);
    let mut server = before(&kafka);
    let told = doors(&mut login(server.addr()));
    kafka.state().nodes = vec![2];
    assert_eq!(doors(&mut login(server.addr())).len(), 1);
    let mut gone = Client::connect(told[&1]);
    assert!(gone.try_call(0, &ApiVersionsRequest::default()).is_none(), "it is closed at once");
    server.restart();
    assert!(is_closed(told[&1]));
    login(told[&2]);
}

#[test]
fn an_absent_broker_ends_client_connections_until_fresh_metadata() {
    let kafka = cluster(&[]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    kafka.state().addr = Some(nobody);
    let mut server = before(&kafka);
    let told = doors(&mut login(server.addr()));
    server.restart();
    for _ in 0..2 {
        let mut client = Client::connect(told[&0]);
        assert!(client.try_call(0, &ApiVersionsRequest::default()).is_none());
    }
    kafka.state().addr = Some(kafka.addr);
    assert_eq!(doors(&mut login(server.addr())), told);
    login(told[&0]);
}

#[test]
fn another_cluster_inherits_no_broker_ports() {
    let (kafka, other) = (cluster(&[1, 2]), cluster(&[2, 3]));
    let mut server = before(&kafka);
    let told = doors(&mut login(server.addr()));
    server.restart_with(|config| {
        let at = HostPort { host: other.addr.ip().to_string(), port: other.addr.port() };
        config.upstream.as_mut().unwrap().bootstrap = vec![at];
    });
    assert!(told.values().all(|door| is_closed(*door)));
    let anew = doors(&mut login(server.addr()));
    assert_eq!(anew.keys().copied().collect::<Vec<_>>(), [2, 3]);
    login(anew[&2]);
    server.restart();
    login(anew[&3]);
    assert!(is_closed(told[&1]));
    assert_eq!((kafka.state().tokens, other.state().tokens), (1, 3), "who was asked for whom");
}
