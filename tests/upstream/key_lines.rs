//! Key lines of an earlier build, which accepted `order.mode: key` in front of a cluster. The mode
//! is refused there now (tests/operator/config), but blocked entries are delivered.

use bytes::Bytes;
use reprise::engine::Followers;
use reprise::model::TopicPartition;
use reprise::retry::{OrderDecision, OrderMode};
use reprise::wire::batch::{Headers, RawRecord, TimestampType, order_key};

use crate::support::batch::unpack;
use crate::support::{Got, Member, Rec, Server, wall_ms};

/// Old stored forms: version 2, and the flag of a record read in an open transaction.
const UNDECIDED: [u8; 2] = [2, 8];

fn rec(key: &str, value: &str) -> Rec {
    Rec { key: Some(key.to_owned().into()), ..Rec::new(value) }.at(wall_ms())
}

fn stored(key: &str, value: &str) -> Vec<u8> {
    let bytes = |text: &str| Some(Bytes::copy_from_slice(text.as_bytes()));
    let record = RawRecord {
        timestamp_ms: wall_ms(),
        timestamp_type: TimestampType::CreateTime,
        key: bytes(key),
        value: bytes(value),
        headers: Headers::default(),
    };
    record.to_bytes().into()
}

fn undecided(key: &str, value: &str) -> Vec<u8> {
    let mut stored = stored(key, value);
    stored[0] = UNDECIDED[0];
    stored[1] |= UNDECIDED[1];
    stored
}

fn member(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    member
}

fn read(member: &mut Member) -> Vec<String> {
    let data = member.client.fetch("orders", 0, 0, 1_000);
    unpack(&data.records.unwrap()).iter().map(Got::text).collect()
}

/// `orders` with the failed record `k0`, and `k2` and `k3` behind it. `Server::with` adds the
/// cluster after its configuration was checked.
fn line_of_an_earlier_build(commits: bool) -> Server {
    let server = Server::with("retry: {levels: 20ms, order: {mode: key}}");
    server.client().create("orders", 1);
    let all = [rec("k", "k0"), rec("j", "j1"), rec("k", "k2"), rec("k", "k3")];
    server.client().put("orders", 0, &all);
    let mut member = member(&server);
    assert_eq!(read(&mut member).len(), 4);
    assert_eq!(member.client.nack("shop", "orders-0@0", rec("k", "k0")).error_code, 0);
    let key = order_key(b"k");
    let followers = Followers {
        group: "shop".into(),
        partition: TopicPartition { topic: "orders".into(), partition: 0 },
        records: vec![(2, key, stored("k", "k2").into()), (3, key, undecided("k", "k3").into())],
    };
    let outcomes = server.run(server.router().engine.follow(followers)).unwrap();
    assert_eq!(outcomes, [OrderDecision::Behind; 2]);
    if commits {
        assert_eq!(member.commit("orders", 0, 4), 0);
    }
    assert_eq!(member.leave(), 0);
    server
}

#[test]
fn key_lines_of_an_earlier_build_are_delivered() {
    for commits in [true, false] {
        let mut server = line_of_an_earlier_build(commits);
        server.restart_with(|config| config.retry.order.mode = OrderMode::Off);
        let mut member = member(&server);
        if !commits {
            assert_eq!(read(&mut member).len(), 4, "as with any uncommitted record");
            assert_eq!(member.commit("orders", 0, 4), 0);
        }
        for (value, reconsume_times) in [("k0", 1), ("k2", 0), ("k3", 0)] {
            let got = member.retry_once();
            assert_eq!((got.text().as_str(), got.reconsume_times()), (value, reconsume_times));
            member.done(got.offset + 1);
        }
        assert_eq!(server.json("/api/v1/overview")["pending"], 0);
    }
}
