//! Faults of a broker: the client's connection ends, the sidecar goes on, and the next connection
//! works.

mod damaged_batches;
mod moved_brokers;
mod outage;
mod restarts;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use bytes::BytesMut;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{ApiVersionsRequest, HeartbeatRequest, MetadataResponse};
use kafka_protocol::protocol::{Encodable, Request as _};
use reprise::config::Config;
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::relay::is_greeting;
use crate::support::batch::plain;
use crate::support::client::{produce_request, s};
use crate::support::{Client, PATIENCE, Rec, Server, until};

/// An API that is only relayed.
const UNKNOWN_API: i16 = 901;

/// The broker treats the first `bad` connections with `treat`, and answers `ApiVersions` with an
/// empty list on later ones.
fn in_front_of(
    bad: usize,
    treat: impl Fn(TcpStream) + Clone + Send + 'static,
) -> (Server, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let addr = broker(move |stream| {
        if is_greeting(&stream) {
            return;
        }
        if counted.fetch_add(1, Ordering::SeqCst) < bad { treat(stream) } else { behave(stream) }
    });
    (Server::in_front_of(addr, ""), seen)
}

fn behave(mut stream: TcpStream) {
    while let Some(request) = request(&mut stream) {
        answer(&mut stream, request.correlation_id, &[0, 0, 0, 0, 0, 0]);
    }
}

fn asks(client: &mut Client) -> Option<i16> {
    client.try_call(0, &ApiVersionsRequest::default()).map(|told| told.error_code)
}

/// Checks that `treat` ends a connection once the request was read, and that the next connection is
/// served.
fn ends_the_connection(treat: impl Fn(TcpStream) + Clone + Send + 'static) {
    let (server, _) = in_front_of(1, treat);
    assert_eq!(asks(&mut server.client()), None);
    assert_eq!(asks(&mut server.client()), Some(0), "the next connection is served");
}

#[test]
fn a_broker_that_closes_at_once() {
    ends_the_connection(drop);
}

#[test]
fn a_broker_that_closes_inside_an_answer() {
    ends_the_connection(|mut stream| {
        request(&mut stream);
        stream.write_all(&[0, 0, 0, 90, 0, 0, 0, 1, 0]).unwrap();
    });
}

#[test]
fn an_answer_to_another_request() {
    ends_the_connection(|mut stream| {
        let asked = request(&mut stream).unwrap();
        answer(&mut stream, asked.correlation_id + 1, &[0, 0, 0, 0, 0, 0]);
        drop(stream.read(&mut [0]));
    });
}

#[test]
fn lengths_no_answer_has() {
    for len in [-1_i32, 0, 3, i32::MAX] {
        ends_the_connection(move |mut stream| {
            request(&mut stream);
            stream.write_all(&len.to_be_bytes()).unwrap();
            stream.write_all(&[0; 64]).unwrap();
            drop(stream.read(&mut [0]));
        });
    }
}

#[test]
fn counts_the_bytes_cannot_hold() {
    ends_the_connection(|mut stream| {
        let asked = request(&mut stream).unwrap();
        answer(&mut stream, asked.correlation_id, &[0, 0, 0x7f, 0xff, 0xff, 0xff]);
        drop(stream.read(&mut [0]));
    });
}

#[test]
fn bytes_behind_an_answer() {
    ends_the_connection(|mut stream| {
        let asked = request(&mut stream).unwrap();
        answer(&mut stream, asked.correlation_id, &[0, 0, 0, 0, 0, 0, 9]);
        drop(stream.read(&mut [0]));
    });
}

#[test]
fn an_unrequested_answer_ends_the_connection() {
    let (server, _) = in_front_of(1, |mut stream| {
        let asked = request(&mut stream).unwrap();
        answer(&mut stream, asked.correlation_id, &[0, 0, 0, 0, 0, 0]);
        answer(&mut stream, 77, b"unasked");
        drop(stream.read(&mut [0]));
    });
    let mut client = server.client();
    assert_eq!(asks(&mut client), Some(0));
    assert_eq!(client.frame(), None, "the connection ends");
    assert_eq!(asks(&mut server.client()), Some(0));
}

#[test]
fn a_passing_answer_to_another_request() {
    let (server, _) = in_front_of(1, |mut stream| {
        let asked = request(&mut stream).unwrap();
        answer(&mut stream, asked.correlation_id + 1, b"wrong");
        drop(stream.read(&mut [0]));
    });
    let mut client = server.client();
    // API 33 is only relayed.
    client.raw(&[0, 0, 0, 10, 0, 33, 0, 0, 0, 0, 0, 5, 0xff, 0xff]);
    assert_eq!(client.frame(), None);
}

#[test]
fn a_broker_that_hangs_holds_up_only_its_own_clients() {
    let (server, seen) = in_front_of(1, |mut stream| {
        drop(stream.read(&mut [0; 64]));
        drop(stream.read(&mut [0; 64]));
    });
    let mut stuck = server.client();
    let _hangs = stuck.send(0, &ApiVersionsRequest::default());
    until("the first client has its broker", || seen.load(Ordering::SeqCst) == 1);
    assert_eq!(asks(&mut server.client()), Some(0));
    assert!(stuck.is_silent());
}

#[test]
fn an_absent_broker_ends_connections_and_the_sidecar_stays_ready() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let server = Server::in_front_of(gone, "");
    assert_eq!(asks(&mut server.client()), None);
    // The rights of this client are unknown: the producer keeps the nack and tries again.
    let nack = plain(&[Rec::new("x").header("x-retry-origin", "orders-0@1")]);
    let request = produce_request("reprise.retry.shop", 0, nack, -1);
    assert!(server.client().try_call(9, &request).is_none());
    let ready = server.get("/readyz");
    assert!(ready.contains("upstream lost"), "an unready sidecar takes its pod with it: {ready}");
    assert!(server.metric("reprise_degraded{reason=\"upstream_lost\"}") > 0.0);
    let failures = format!("reprise_upstream_connect_failures_total{{broker=\"{gone}\"}}");
    assert!(server.metric(&failures) >= 2.0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_cluster_sidecar_refuses_a_data_directory_in_memory() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let start = |more: &str| {
        let text = format!(
            "listen: [{{address: '127.0.0.1:0'}}]\nadmin: {{address: off}}\ndata_dir: {}\n{more}",
            dir.path().display()
        );
        let config = Config::parse("test", &text, &[], &[]).unwrap().config;
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let server = reprise::server::Server::start(config).await?;
            server.shutdown().await;
            Ok::<(), reprise::server::StartError>(())
        })
    };
    let upstream = "upstream: {bootstrap: '127.0.0.1:1'}\n";
    let refused = start(upstream).unwrap_err().to_string();
    assert!(refused.contains("is on tmpfs") && refused.contains("journal.ephemeral"), "{refused}");
    start("").unwrap();
    start(&format!("{upstream}journal: {{ephemeral: accept}}\n")).unwrap();
}

/// A nack that names a record without its bytes.
fn by_reference(client: &mut Client, origin: &str) -> (i16, Option<String>) {
    let mut record = Rec::new("").header("x-retry-by-reference", "true");
    (record.key, record.value) = (None, None);
    let told = client.nack("shop", origin, record);
    (told.error_code, told.error_message.map(|text| text.to_string()))
}

#[test]
fn a_record_is_read_back_after_a_broker_restart() {
    let mut cluster = Server::alone();
    let server = Server::in_front_of(cluster.addr(), "");
    let mut client = server.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("before"), Rec::new("after")]);
    assert_eq!(by_reference(&mut client, "orders-0@0"), (0, None));
    cluster.stop();
    cluster.start_again();
    // The connection of the first read is closed, and the sidecar has not noticed yet.
    assert_eq!(by_reference(&mut server.client(), "orders-0@1"), (0, None));
}

/// Brokers during the election of a leader for `orders-0`.
fn electing(mut stream: TcpStream) {
    let own = stream.local_addr().unwrap();
    while let Some(asked) = request(&mut stream) {
        let body = match asked.frame[..2] {
            [0, 3] => {
                let mut broker = MetadataResponseBroker::default();
                (broker.node_id, broker.host) = (1.into(), s(&own.ip().to_string()));
                broker.port = i32::from(own.port());
                let mut partition = MetadataResponsePartition::default();
                (partition.leader_id, partition.error_code) = ((-1).into(), 5);
                let mut topic = MetadataResponseTopic::default();
                (topic.name, topic.partitions) = (Some(s("orders")), vec![partition]);
                let told = MetadataResponse::default().with_brokers(vec![broker]);
                let mut body = BytesMut::new();
                told.with_topics(vec![topic]).encode(&mut body, 4).unwrap();
                body.to_vec()
            }
            // An error other than an authorization error: the client may READ the group.
            _ => ResponseError::UnknownMemberId.code().to_be_bytes().to_vec(),
        };
        answer(&mut stream, asked.correlation_id, &body);
    }
}

#[test]
fn a_nack_by_reference_is_retried_during_a_leader_election() {
    let server = Server::in_front_of(broker(electing), "");
    let mut record = Rec::new("").header("x-retry-by-reference", "true");
    (record.key, record.value) = (None, None);
    let nack = plain(&[record.header("x-retry-origin", "orders-0@1")]);
    let request = produce_request("reprise.retry.shop", 0, nack, -1);
    assert!(server.client().try_call(9, &request).is_none(), "the producer tries again");
}

#[test]
fn a_cluster_that_comes_back_is_found_again() {
    let mut cluster = Server::alone();
    let server = Server::in_front_of(cluster.addr(), "");
    let mut client = server.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("before")]);
    cluster.stop();
    assert!(client.try_call(4, &HeartbeatRequest::default()).is_none());
    assert_eq!(asks(&mut server.client()), None);
    cluster.start_again();
    let mut client = server.client();
    assert_eq!(client.metadata(9, &["orders"]).topics[0].error_code, 0);
    client.put("orders", 0, &[Rec::new("after")]);
    assert_eq!(client.read_all("orders").len(), 2);
}

/// A broker that never answers, and a channel that reports each closed connection of a client.
fn hangs() -> (SocketAddr, Receiver<()>) {
    let (gone, seen) = channel();
    let addr = broker(move |mut stream| {
        if is_greeting(&stream) {
            return;
        }
        request(&mut stream);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        gone.send(()).unwrap();
    });
    (addr, seen)
}

#[test]
fn a_hanging_broker_does_not_keep_a_closed_client() {
    let (addr, seen) = hangs();
    let server = Server::in_front_of(addr, "limits: {handshake: 100ms}");
    for api in [ApiVersionsRequest::KEY, UNKNOWN_API] {
        let mut client = server.client();
        let [high, low] = api.to_be_bytes();
        client.raw(&[0, 0, 0, 10, high, low, 0, 0, 0, 0, 0, 7, 0xff, 0xff]);
        drop(client);
        seen.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn a_hanging_broker_does_not_keep_a_closed_pipelining_client() {
    let (addr, seen) = hangs();
    let server = Server::in_front_of(addr, "limits: {handshake: 100ms}");
    let mut client = server.client();
    let asks = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
    client.raw(&asks.repeat(5000));
    drop(client);
    seen.recv_timeout(PATIENCE).unwrap();
}
