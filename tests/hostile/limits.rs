//! Limits on connections: number, idle time and peer address, each with its log line and counter.

use reprise::config::Config;

use crate::at_leader;
use crate::support::{Client, Rec, Server};

#[test]
fn a_connection_over_the_limit_is_closed_at_once() {
    let server = Server::with("limits: {connections: 3}");
    let mut held: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut held {
        client.metadata(9, &[]);
    }
    assert_eq!(server.client().frame(), None);
    assert_eq!((server.disconnects("limit"), server.disconnects("client")), (1.0, 0.0));
    for client in &mut held {
        client.metadata(9, &[]);
    }
    drop(held.pop());
    server.until_disconnects("client", 1.0);
    server.client().metadata(9, &[]);
}

#[test]
fn only_an_idle_connection_without_pending_answers_is_closed() {
    silence_ends_it(&Server::with("limits: {idle: 2s}"));
    let cluster = Server::alone();
    silence_ends_it(&Server::in_front_of(cluster.addr(), "limits: {idle: 2s}"));
}

fn silence_ends_it(server: &Server) {
    server.client().create("t", 1);
    let mut waits = at_leader(server.client(), "t");
    // Longer than the idle limit.
    let (mut silent, mut spoke) = (server.client(), server.client());
    spoke.metadata(9, &[]);
    let data = waits.fetch("t", 0, 0, 5_000);
    assert_eq!(data.error_code, 0, "answered after more than that");
    assert_eq!((silent.frame(), spoke.frame()), (None, None));
    server.until_disconnects("idle", 2.0);
    assert_eq!(at_leader(server.client(), "t").put("t", 0, &[Rec::new("x")]), 0);
}

#[test]
fn only_this_host_is_served_by_default() {
    let config = Config::default();
    let hosts: Vec<&str> =
        config.listen.iter().map(|listen| listen.address.host.as_str()).collect();
    assert_eq!(hosts, ["127.0.0.1"]);
    assert_eq!(config.admin.address.unwrap().host, "127.0.0.1");
    let server = Server::start();
    assert!(server.addr().ip().is_loopback() && server.admin().ip().is_loopback());
    // If this host has another address, a connection to it is dropped before a byte is read.
    let outside = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let reached = outside.connect("192.0.2.1:9").and_then(|()| outside.local_addr());
    let Some(other) = reached.ok().filter(|addr| !addr.ip().is_loopback()) else { return };
    if std::net::TcpStream::connect((other.ip(), server.addr().port())).is_ok() {
        let mut client = Client::connect((other.ip(), server.addr().port()).into());
        let asked = client.encoded(9, &kafka_protocol::messages::MetadataRequest::default());
        client.raw_lossy(&asked);
        assert_eq!(client.frame(), None);
        server.until_disconnects("not_loopback", 1.0);
    }
}
