//! Keys kept in order where transactions of the cluster are open: a member that reads uncommitted
//! records has in hand what may be taken back yet.

use crate::support::batch::unpack;
use crate::support::client::fetch_request;
use crate::support::{Got, Member, Producer, Rec, Server, until};

/// The records of a test are of long ago.
const RULES: &str = "topics: {retention: unlimited}\n\
                     retry: {levels: 20ms, order: {mode: key}}";
const TOPICS: &[(&str, i32)] = &[("t", 1), ("retry.shop", 1)];

fn rec(key: &str, value: &str) -> Rec {
    Rec { key: Some(key.to_owned().into()), ..Rec::new(value) }
}

/// A member in whose hand are 1 and 3 of the key `k`, and 4 of it, in a transaction that is open;
/// the first of them has failed.
fn with_open() -> (Server, Member, Producer) {
    let server = Server::with(RULES);
    server.client().create("t", 1);
    let mut producer = Producer::begin(server.cluster(), "other");
    assert_eq!(producer.add(3, &[("t", 0)]), [0]);
    assert_eq!(producer.put_record(9, "t", rec("other", "open")), 0);
    server.client().put("t", 0, &[rec("k", "k1"), rec("j", "j2"), rec("k", "k3")]);
    assert_eq!(producer.put_record(9, "t", rec("k", "k4")), 0);
    let mut member = Member::new(&server, "shop", &["t", "retry.shop"]);
    member.join(TOPICS);
    assert_eq!(member.client.fetch("t", 0, 0, 1_000).high_watermark, 5);
    assert_eq!(member.client.nack("shop", "t-0@1", rec("k", "k1")).error_code, 0);
    assert_eq!(member.commit("t", 0, 5), 0);
    (server, member, producer)
}

fn retried(member: &mut Member) -> String {
    let got = member.retry_once();
    member.done(got.offset + 1);
    got.text()
}

/// What one Fetch of its lane brings, of all records or of committed ones.
fn given(member: &mut Member, isolation: i8) -> Vec<Got> {
    let from = member.position();
    let request = fetch_request("retry.shop", 0, from, 0).with_isolation_level(isolation);
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
            let place = format!("retry.shop-0@{}", member.position() - 1);
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
    let mut member = Member::new(&server, "shop", &["t", "retry.shop"]);
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

        let mut member = Member::new(&other, "shop", &["t", "retry.shop"]);
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
