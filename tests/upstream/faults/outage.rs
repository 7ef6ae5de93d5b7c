//! The cluster is unreachable for longer than sessions last, resets connections, or refuses the
//! login. Groups and directories of another cluster are refused.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::BytesMut;
use kafka_protocol::messages::{
    ApiVersionsRequest, HeartbeatRequest, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::Encodable;
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::support::client::s;
use crate::support::{Client, Member, Rec, Server, until};

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];
const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];

/// A minute without the cluster, at a hundredth of its length: sessions expire, and retries become
/// due.
#[test]
fn retries_due_during_an_outage_come_afterwards() {
    let mut cluster = Server::alone();
    let server = Server::in_front_of(cluster.addr(), "retry: {levels: 300ms}");
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", TOPICS);
    member.session_ms = 500;
    member.join(PARTITIONS);
    for offset in 0..10 {
        let nacked = member.client.nack("shop", &format!("orders-0@{offset}"), Rec::new("x"));
        assert_eq!(nacked.error_code, 0);
    }
    cluster.stop();
    assert!(member.client.try_call(4, &HeartbeatRequest::default()).is_none());
    until("all are due", || server.metric("reprise_retry_overdue_seconds{group=\"shop\"}") > 0.0);
    cluster.start_again();

    let mut member = Member::new(&server, "shop", TOPICS);
    until("the old member's session has ended", || {
        member = Member::new(&server, "shop", TOPICS);
        member.join(PARTITIONS);
        member.assigned.len() == 2
    });
    let mut seen = Vec::new();
    while seen.len() < 10 {
        let got = member.retries();
        assert!(got.iter().all(|retry| retry.reconsume_times() == 1), "nothing was charged");
        member.done(got.last().unwrap().offset + 1);
        seen.extend(got.iter().map(|retry| retry.header("ORIGIN_MESSAGE_ID").unwrap()));
    }
    seen.sort();
    let origins: Vec<String> = (0..10).map(|offset| format!("orders-0@{offset}")).collect();
    assert_eq!(seen, origins, "each once");
    assert_eq!(server.json("/api/v1/groups/shop")["pending"], 0);
}

/// Resets the connection inside an answer, by closing it while a request is unread.
fn resets(mut stream: TcpStream) {
    stream.read_exact(&mut [0; 4]).unwrap();
    stream.write_all(&[0, 0, 0, 90, 0, 0, 0, 1, 0]).unwrap();
}

#[test]
fn a_broker_that_resets_inside_an_answer_ends_the_connection() {
    let server = Server::in_front_of(broker(resets), "");
    for _ in 0..3 {
        let mut client = server.client();
        assert!(client.try_call(0, &ApiVersionsRequest::default()).is_none());
    }
}

/// Accepts the handshake and refuses the password, then closes, as Kafka does.
fn refuses_to_log_in(mut stream: TcpStream) {
    let mut body = BytesMut::new();
    let handshake = request(&mut stream).unwrap();
    let mut told = SaslHandshakeResponse::default();
    told.mechanisms = vec![s("PLAIN")];
    told.encode(&mut body, 1).unwrap();
    answer(&mut stream, handshake.correlation_id, &body.split());
    let login = request(&mut stream).unwrap();
    let mut told = SaslAuthenticateResponse::default();
    told.error_code = ResponseError::SaslAuthenticationFailed.code();
    told.error_message = Some(s("Authentication failed: Invalid username or password"));
    told.encode(&mut body, 1).unwrap();
    answer(&mut stream, login.correlation_id, &body);
}

#[test]
fn a_refused_login_returns_the_brokers_own_message() {
    let server = Server::in_front_of(broker(refuses_to_log_in), "");
    let mut client = server.client();
    let mut handshake = SaslHandshakeRequest::default();
    handshake.mechanism = s("PLAIN");
    let mechanisms = client.call(1, &handshake).mechanisms;
    assert_eq!(mechanisms[0].as_str(), "PLAIN");
    let login = SaslAuthenticateRequest::default().with_auth_bytes("\0shop\0guessed".into());
    let told = client.call(1, &login);
    assert_eq!(told.error_code, ResponseError::SaslAuthenticationFailed.code());
    assert!(told.error_message.unwrap().contains("Invalid username"));
    assert_eq!(client.frame(), None, "and the connection ends as the broker ended it");
}

#[test]
fn a_group_without_retries_uses_the_clusters_topic_names() {
    let server = Server::with("groups: [{match: shop, delivery: off}]");
    let mut client = server.client();
    client.create("orders", 1);
    // The cluster knows these topics by the same names.
    let mut direct = Client::connect(server.cluster().addr());
    direct.create("reprise.retry.shop", 2);
    let told = client.metadata(9, TOPICS).topics;
    let retry = told.iter().find(|topic| topic.name == Some(s("reprise.retry.shop"))).unwrap();
    assert_eq!((retry.error_code, retry.partitions.len()), (0, 2));
    assert_eq!(retry.partitions[0].leader_id.0, server.cluster().node_id());
    let mut member = Member::new(&server, "shop", TOPICS);
    member.join(&[("orders", 1), ("reprise.retry.shop", 2)]);
    assert_eq!(member.assigned.len(), 2);
    assert!(
        member.assigned.contains(&("reprise.retry.shop".to_owned(), vec![0, 1])),
        "both are its own"
    );
    assert_eq!(member.commit("reprise.retry.shop", 1, 7), 0);
    assert_eq!(member.position_of("reprise.retry.shop", 1), 7);
    assert_eq!(server.json("/api/v1/overview")["pending"], 0);
}

#[test]
fn two_sidecars_never_share_a_data_directory() {
    let server = Server::start();
    let refused = server.start_beside_on_the_same_directory().unwrap_err();
    assert!(refused.contains("in use by another process"), "{refused}");
    server.client().create("orders", 1);
}
