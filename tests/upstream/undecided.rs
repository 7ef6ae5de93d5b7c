//! Keys kept in order where transactions of the cluster are open: a member that reads uncommitted
//! records has in hand what may be taken back yet.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kafka_protocol::messages::{
    ApiVersionsRequest, FetchRequest, MetadataRequest, MetadataResponse,
};
use kafka_protocol::protocol::Request as _;
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::relay::{changed, is_greeting, pass};
use crate::support::batch::unpack;
use crate::support::client::fetch_request;
use crate::support::{Got, Member, Producer, Rec, Server, until, wall_ms};

const RULES: &str = "retry: {levels: 20ms, order: {mode: key}}";
const TOPICS: &[(&str, i32)] = &[("t", 1), ("reprise.retry.shop", 1)];

/// One that retention does not take meanwhile.
fn rec(key: &str, value: &str) -> Rec {
    Rec { key: Some(key.to_owned().into()), ..Rec::new(value) }.at(wall_ms())
}

fn with_open() -> (Server, Member, Producer) {
    let server = Server::with(RULES);
    let (member, producer) = opened(&server, server.cluster());
    (server, member, producer)
}

/// A member in whose hand are 1 and 3 of the key `k`, and 4 of it, in a transaction that is open;
/// the first of them has failed.
fn opened(server: &Server, cluster: &Server) -> (Member, Producer) {
    server.client().create("t", 1);
    let mut producer = Producer::begin(cluster, "other");
    assert_eq!(producer.add(3, &[("t", 0)]), [0]);
    assert_eq!(producer.put_record(9, "t", rec("other", "open")), 0);
    server.client().put("t", 0, &[rec("k", "k1"), rec("j", "j2"), rec("k", "k3")]);
    assert_eq!(producer.put_record(9, "t", rec("k", "k4")), 0);
    let mut member = Member::new(server, "shop", &["t", "reprise.retry.shop"]);
    member.join(TOPICS);
    assert_eq!(member.client.fetch("t", 0, 0, 1_000).high_watermark, 5);
    assert_eq!(member.client.nack("shop", "t-0@1", rec("k", "k1")).error_code, 0);
    assert_eq!(member.commit("t", 0, 5), 0);
    (member, producer)
}

fn retried(member: &mut Member) -> String {
    let got = member.retry_once();
    member.done(got.offset + 1);
    got.text()
}

/// What one Fetch of its lane brings, of all records or of committed ones.
fn given(member: &mut Member, isolation: i8) -> Vec<Got> {
    let from = member.position();
    let request = fetch_request("reprise.retry.shop", 0, from, 0).with_isolation_level(isolation);
    let data = member.client.fetch_by(11, &request);
    assert_eq!(data.error_code, 0);
    unpack(&data.records.unwrap())
}

fn story(server: &Server) -> String {
    server.json("/api/v1/explain?record=t-0@4").to_string()
}

/// How often it was looked at in vain.
fn looks(server: &Server) -> usize {
    story(server).matches("its transaction is open").count()
}

#[test]
fn what_is_put_behind_is_given_to_nobody_while_its_transaction_is_open_at_the_cluster() {
    for committed in [true, false] {
        let (server, mut member, mut producer) = with_open();
        assert_eq!([retried(&mut member), retried(&mut member)], ["k1", "k3"]);
        for isolation in [0, 1] {
            let before = looks(&server);
            until("its turn comes", || {
                assert_eq!(given(&mut member, isolation), []);
                looks(&server) > before
            });
        }
        assert_eq!(producer.end(3, committed), 0);
        server.client().put("t", 0, &[rec("k", "k6")]);
        assert_eq!(member.client.fetch("t", 0, 6, 0).error_code, 0);
        if committed {
            assert_eq!(retried(&mut member), "k4");
            let place = format!("reprise.retry.shop-0@{}", member.position() - 1);
            assert_eq!(member.client.nack("shop", &place, rec("k", "k4")).error_code, 0);
            let got = member.retry_once();
            assert_eq!((got.text().as_str(), got.reconsume_times()), ("k4", 1), "and once only");
            member.done(got.offset + 1);
        }
        assert_eq!(retried(&mut member), "k6", "{committed}");
    }
}

#[test]
fn what_the_cluster_has_taken_back_is_nobody_s_after_a_restart_either() {
    let (server, mut member, mut producer) = with_open();
    assert_eq!([retried(&mut member), retried(&mut member)], ["k1", "k3"]);
    until("its turn comes", || {
        assert_eq!(given(&mut member, 0), []);
        looks(&server) > 0
    });
    let server = server.killed();
    assert_eq!(producer.end(3, false), 0);
    let mut member = Member::new(&server, "shop", &["t", "reprise.retry.shop"]);
    member.join(TOPICS);
    until("it is settled", || {
        assert_eq!(given(&mut member, 1), []);
        story(&server).contains("aborted")
    });
}

/// One that must do what is asked.
fn did(server: &Server, args: &[&str]) {
    let done = server.retry(args);
    assert!(done.status.success(), "{args:?}: {done:?}");
}

#[test]
fn what_moves_to_another_sidecar_is_given_to_nobody_there_either() {
    for committed in [true, false] {
        let (server, mut member, mut producer) = with_open();
        assert_eq!([retried(&mut member), retried(&mut member)], ["k1", "k3"]);
        until("its turn comes", || {
            assert_eq!(given(&mut member, 0), []);
            looks(&server) > 0
        });
        member.leave();
        let files = tempfile::tempdir().unwrap();
        let file = files.path().join("pending.jsonl").display().to_string();
        did(&server, &["export", "--take", "--execute", "--out", &file]);
        let other = Server::in_front_of(server.cluster().addr(), RULES);
        did(&other, &["import", &file, "--execute"]);

        let mut member = Member::new(&other, "shop", &["t", "reprise.retry.shop"]);
        member.join(TOPICS);
        until("its turn comes there", || {
            assert_eq!(given(&mut member, 1), []);
            looks(&other) > 0
        });
        assert_eq!(producer.end(3, committed), 0);
        if committed {
            assert_eq!(retried(&mut member), "k4");
        } else {
            until("it is settled", || {
                assert_eq!(given(&mut member, 1), []);
                story(&other).contains("aborted")
            });
        }
    }
}

/// Brokers that close every connection of the sidecar's own, as those do that want a login. One
/// leads; of the idle ones, whose ids are the least, each answers one Fetch of a connection.
struct Closed {
    behind: SocketAddr,
    idle: Vec<SocketAddr>,
}

impl Closed {
    /// A sidecar in front of such a cluster, and the cluster.
    fn cluster(idle: usize) -> (Server, Server) {
        let closed: Arc<OnceLock<Self>> = Arc::default();
        let play = |leads: bool| {
            let closed = Arc::clone(&closed);
            broker(move |stream| serve(stream, leads, closed.wait()))
        };
        let idle = (0..idle).map(|_| play(false)).collect();
        let leader = play(true);
        let cluster = Server::alone_as(leader);
        assert!(closed.set(Self { behind: cluster.addr(), idle }).is_ok());
        (Server::in_front_of(leader, RULES), cluster)
    }

    fn brokers(&self, answer: &mut MetadataResponse) {
        for (node, addr) in (0..).zip(&self.idle) {
            let mut idle = answer.brokers[0].clone();
            (idle.node_id, idle.port) = (node.into(), addr.port().into());
            answer.brokers.push(idle);
        }
    }
}

fn serve(mut stream: TcpStream, leads: bool, closed: &Closed) {
    if is_greeting(&stream) {
        return;
    }
    let mut behind = TcpStream::connect(closed.behind).unwrap();
    let mut fetches = 0;
    while let Some(asked) = request(&mut stream) {
        let Some(mut told) = pass(&asked, &mut behind) else { return };
        match i16::from_be_bytes([asked.frame[0], asked.frame[1]]) {
            MetadataRequest::KEY => {
                told = changed::<MetadataRequest>(&asked, &told, |all| closed.brokers(all));
            }
            FetchRequest::KEY if !leads => {
                fetches += 1;
                if fetches > 1 {
                    continue;
                }
                told = changed::<FetchRequest>(&asked, &told, |answer| {
                    let partition = &mut answer.responses[0].partitions[0];
                    partition.error_code = ResponseError::NotLeaderOrFollower.code();
                    partition.records = Some(Bytes::new());
                });
            }
            _ => {}
        }
        answer(&mut stream, asked.correlation_id, &told);
    }
}

#[test]
fn where_nobody_lets_us_in_a_member_is_asked_whoever_else_is_silent() {
    for idle in [0, 6] {
        let (server, cluster) = Closed::cluster(idle);
        let (mut member, mut producer) = opened(&server, &cluster);
        let brokers = member.client.call(9, &MetadataRequest::default()).brokers;
        let silent: Vec<_> = brokers.iter().filter(|broker| broker.node_id.0 < 6).collect();
        assert_eq!(silent.len(), idle);
        let polls = silent.into_iter().map(|broker| {
            let mut client = member.client.connect_to(broker);
            client.call(3, &ApiVersionsRequest::default());
            let poll = fetch_request("t", 0, 0, 0);
            client.call(11, &poll);
            let _unanswered = client.send(11, &poll);
            client
        });
        let _polls: Vec<_> = polls.collect();
        assert_eq!([retried(&mut member), retried(&mut member)], ["k1", "k3"]);
        until("its turn comes", || {
            assert_eq!(given(&mut member, 0), []);
            looks(&server) > 0
        });
        assert_eq!(producer.end(3, true), 0);
        assert_eq!(retried(&mut member), "k4", "{idle} idle ones");
    }
}
