//! Keys kept in order where transactions are open: a member that reads uncommitted records has in
//! hand what lies behind the first of them.

use bytes::Bytes;

use crate::support::{Member, Rec, Server};
use crate::transactions::Producer;

fn rec(key: &str, value: &str) -> Rec {
    Rec { key: Some(Bytes::copy_from_slice(key.as_bytes())), ..Rec::new(value) }
}

/// A member that has in hand all there is: a record of an open transaction in front, one of the
/// key `k` in that transaction last.
fn with_open() -> (Server, Member, Producer) {
    let server = Server::with("retry: {levels: 20ms, order: {mode: key}}");
    server.client().create("t", 1);
    let mut producer = Producer::begin(&server, "other");
    assert_eq!(producer.add(3, &[("t", 0)]), [0]);
    assert_eq!(producer.put_record(9, "t", rec("other", "open")), 0);
    server.client().put("t", 0, &[rec("k", "k1"), rec("j", "j2"), rec("k", "k3")]);
    assert_eq!(producer.put_record(9, "t", rec("k", "k4")), 0);
    let mut member = Member::new(&server, "shop", &["t", "retry.shop"]);
    member.join(&[("t", 1), ("retry.shop", 1)]);
    let given = member.client.fetch("t", 0, 0, 1_000);
    assert_eq!((given.last_stable_offset, given.high_watermark), (0, 5));
    (server, member, producer)
}

fn retried(member: &mut Member) -> String {
    let got = member.retry_once();
    member.done(got.offset + 1);
    got.text()
}

#[test]
fn what_is_in_hand_behind_an_open_transaction_goes_behind_a_failed_record_of_its_key() {
    for committed in [true, false] {
        let (server, mut member, mut producer) = with_open();
        assert_eq!(member.client.nack("shop", "t-0@1", rec("k", "k1")).error_code, 0);
        assert_eq!(member.commit("t", 0, 5), 0);
        assert_eq!(producer.end(3, committed), 0);
        server.client().put("t", 0, &[rec("k", "k6")]);
        let given = member.client.fetch("t", 0, 6, 0).records.unwrap();
        assert_eq!(given.get(57..61), Some(&[0; 4][..]), "it waits as well: {given:?}");
        let all: &[&str] = if committed { &["k1", "k3", "k4", "k6"] } else { &["k1", "k3", "k6"] };
        for value in all {
            assert_eq!(retried(&mut member), *value, "{committed}");
        }
    }
}
