//! Brokers under TLS: relayed requests, in front of another sidecar that listens with TLS.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};

use bytes::Bytes;
use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest};
use tokio_rustls::rustls::server::Acceptor;

use crate::support::batch::{plain, unpack};
use crate::support::client::fetch_request;
use crate::support::{Client, Member, Rec, Server};
use crate::tls::authority::{Authority, CertificateFiles, HOST};
use crate::tls::heard::listen;

/// A cluster by itself; `tls`: more of its keys, `more`: more keys of the configuration.
pub(crate) fn cluster(made: &CertificateFiles, tls: &str, more: &str) -> Server {
    listen();
    let names = "names: {retry: 'not-here.{group}', dead_letters: 'nor-here.{group}'}";
    Server::with(&format!("{}{names}\n{more}", made.listen(tls)))
}

/// The configuration that puts a sidecar in front of the cluster.
pub(crate) fn upstream(addr: SocketAddr, tls: &str) -> String {
    format!("upstream: {{bootstrap: '{addr}', tls: {{{tls}}}}}\n")
}

fn ca(authority: &Authority) -> String {
    format!("ca: {}", authority.ca().display())
}

/// The connection on which the cluster's broker answers.
fn broker(client: &mut Client) -> Client {
    let told = client.call(9, &MetadataRequest::default());
    client.connect_to(&told.brokers[0])
}

#[test]
fn clients_and_read_backs_reach_a_cluster_under_tls() {
    let authority = Authority::new();
    let cluster = cluster(&authority.signs("broker", &[HOST]), "", "");
    let server = Server::with(&upstream(cluster.addr(), &ca(&authority)));
    let mut client = server.client();
    client.create("orders", 1);
    let mut leader = broker(&mut client);
    leader.put("orders", 0, &[Rec::new("first"), Rec::new("failed")]);
    assert_eq!(leader.read_all("orders").len(), 2);
    // By reference: the sidecar fetches the record on a connection of its own.
    let mut reference = Rec::new("").header("x-retry-by-reference", "true");
    reference.value = None;
    let told = client.nack("shop", "orders-0@1", reference);
    assert_eq!((told.error_code, told.error_message), (0, None));
    let connections = "reprise_client_connections{listener=";
    assert!(cluster.get("/metrics").contains(connections), "they are the cluster's clients");
}

#[test]
fn mutual_tls_works_on_both_sides() {
    let authority = Authority::new();
    let demands = format!(", client_ca: {}", authority.ca().display());
    let cluster = cluster(&authority.signs("broker", &[HOST]), &demands, "");
    let us = authority.signs("sidecar", &["sidecar"]);
    let ours = format!(
        "{}, certificate: {}, key: {}",
        ca(&authority),
        us.certificate.display(),
        us.key.display()
    );
    let listener = authority.signs("listener", &[HOST]).listen(&demands);
    let server = Server::with(&format!("{listener}{}", upstream(cluster.addr(), &ours)));
    let shop = authority.showing(&authority.signs("shop", &["shop"]));
    let mut client = Client::secure(server.addr(), HOST, &shop).unwrap();
    client.create("orders", 1);
    // The port of a broker has the TLS of its listener.
    let mut leader = broker(&mut client);
    leader.put("orders", 0, &[Rec::new("x")]);
    assert_eq!(leader.read_all("orders").len(), 1);
}

#[test]
fn a_30_mb_frame_passes_both_ways_through_tls() {
    let authority = Authority::new();
    let large = "topics: {max_message_bytes: 40MiB}\n";
    let cluster = cluster(&authority.signs("broker", &[HOST]), "", large);
    let listener = authority.signs("listener", &[HOST]).listen("");
    let server = Server::with(&format!("{listener}{}", upstream(cluster.addr(), &ca(&authority))));
    let mut client = Client::secure(server.addr(), HOST, &authority.trust()).unwrap();
    client.create("orders", 1);
    let mut leader = broker(&mut client);
    let value: Vec<u8> = (0..30_000_000_usize).map(|i| u8::try_from(i % 253).unwrap()).collect();
    let mut record = Rec::new("");
    record.value = Some(Bytes::from(value));
    // The first frame of a connection has a lower size limit.
    assert_eq!(leader.call(3, &ApiVersionsRequest::default()).error_code, 0);
    assert_eq!(leader.produce("orders", 0, plain(&[record.clone()])).error_code, 0);
    let fetched = leader.fetch("orders", 0, 0, 0).records.unwrap();
    let got = unpack(&fetched);
    assert!(got[0].value == record.value, "not a byte is another");
}

#[test]
fn the_name_of_a_broker_is_sent_along() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bootstrap = format!("localhost:{}", listener.local_addr().unwrap().port());
    let tls = ca(&authority);
    let server = Server::with(&format!("upstream: {{bootstrap: '{bootstrap}', tls: {{{tls}}}}}\n"));
    let mut client = server.client();
    let _unanswered = client.send(3, &ApiVersionsRequest::default());
    let (mut stream, _) = listener.accept().unwrap();
    let mut acceptor = Acceptor::default();
    let accepted = loop {
        acceptor.read_tls(&mut stream).unwrap();
        if let Some(accepted) = acceptor.accept().map_err(|(error, _)| error).unwrap() {
            break accepted;
        }
    };
    assert_eq!(accepted.client_hello().server_name(), Some("localhost"));
    drop(stream.flush());
}

#[test]
fn client_id_and_host_tell_a_member_under_tls() {
    let authority = Authority::new();
    let cluster = Server::alone();
    let listener = authority.signs("listener", &[HOST]).listen("");
    let upstream = format!("upstream: {{bootstrap: '{}'}}\n", cluster.addr());
    let server = Server::with(&format!("{listener}{upstream}"));
    let secure = |id| Client::secure(server.addr(), HOST, &authority.trust()).unwrap().with_id(id);
    let unattributed = || server.metric("reprise_fetches_unattributed_total");
    secure("tool").create("orders", 1);
    let mut member = Member::on(secure("shop-1"), "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    for (id, counted) in [("shop-1", 0.0), ("shop-2", 1.0), ("", 1.0)] {
        let before = unattributed();
        let fetched = broker(&mut secure(id)).call(12, &fetch_request("orders", 0, 0, 0));
        assert_eq!(fetched.error_code, 0);
        assert!((unattributed() - before - counted).abs() < 0.1, "{id}");
    }
}
