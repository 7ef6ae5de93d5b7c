//! Records outstanding for too long, or at a lost member, and the fields that a record keeps.

use crate::parity::row::{Comparison, Row};
use crate::parity::shop::{LONG_SESSIONS, Shop, given, joined};
use crate::support::batch::unpack;
use crate::support::{Member, Rec, Server, until};

const MINUTE_MS: u64 = 60_000;

pub(crate) const Q21: Row = Row {
    id: "Q21",
    theirs: "A consume timeout of 1 min fires after 111 to 122 s, at level 3, counted 1; a \
             success that comes late does not withdraw the retry, a failure that comes late adds \
             none.",
    ours: "By default a record outstanding for `consume_timeout` stays with its member and is \
           counted (`reprise_stalled_records`), a retry like any other record. With \
           `on_consume_timeout: retry` it fails as there, the next uncommitted one of its \
           partition a timeout later.",
    stands: Comparison::Differs("a consumer that commits seldom looks like one that hangs"),
};

#[test]
fn q21_an_outstanding_retry_fails_where_the_group_says_so() {
    let mut shop = Shop::with("retry: {on_consume_timeout: retry}");
    for _ in 0..2 {
        let place = shop.delivered(Rec::new("x"));
        shop.fail(&place);
    }
    shop.server.pass(10_000);
    let in_hand = given(&shop.server, &mut shop.member);
    assert_eq!(in_hand.len(), 2);
    shop.member.done(in_hand[0].offset + 1);
    shop.server.pass(15 * MINUTE_MS);
    until("it has failed", || shop.only()["state"] == "waiting");
    let told = ["reconsume_times", "cause"].map(|key| shop.only()[key].clone());
    assert_eq!(serde_json::json!(told), serde_json::json!([2, "timed_out"]));
    // a failure that comes late adds none, a success that comes late does not withdraw the retry
    shop.fail(&format!("reprise.retry.shop-0@{}", in_hand[1].offset));
    assert_eq!(shop.only()["reconsume_times"], 2);
    shop.member.done(in_hand[1].offset + 1);
    let (_, again) = shop.comes_after(30_000);
    assert_eq!(again.reconsume_times(), 2);
}

#[test]
fn q21_an_outstanding_retry_stays_with_its_member() {
    let mut shop = Shop::with("");
    let place = shop.delivered(Rec::new("x"));
    shop.fail(&place);
    shop.server.pass(10_000);
    let in_hand = given(&shop.server, &mut shop.member).remove(0);
    // the engine reads the clock with each request, and the next answer shows the new time
    let state = |shop: &Shop| (shop.only(), shop.only()).1["state"].clone();
    shop.server.pass(2 * 15 * MINUTE_MS);
    assert_eq!(state(&shop), "unread");
    let stalled = "reprise_stalled_records{group=\"shop\"}";
    until("it is counted", || shop.server.metric(stalled) > 0.9);
    // a late failure counts once, a late success counts as one
    let place = format!("reprise.retry.shop-0@{}", in_hand.offset);
    shop.fail(&place);
    shop.fail(&place);
    assert_eq!(shop.only()["reconsume_times"], 2);
    shop.member.done(in_hand.offset + 1);
    let (_, again) = shop.comes_after(30_000);
    assert_eq!(again.reconsume_times(), 2);
    assert!(shop.open().is_empty());
}

pub(crate) const Q35: Row = Row {
    id: "Q35",
    theirs: "A push client of 5.x is killed: what it had is back after 120 s, and counted.",
    ours: "With the end of its session, with the next Fetch. Nothing is charged before it was \
           lost again and again (Q22).",
    stands: Comparison::Differs("who dies has said nothing about any one record"),
};

#[test]
fn q35_a_killed_members_retries_return_uncharged_after_its_session() {
    let server = Server::told(LONG_SESSIONS);
    let mut tool = server.client();
    tool.create("orders", 1);
    tool.put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.session_ms = 300;
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    let soon = Rec::new("a").header("x-retry-delay-ms", "100");
    assert_eq!(member.client.nack("shop", "orders-0@0", soon).error_code, 0);
    let fetched = member.client.fetch("orders", 0, 0, 0).records.unwrap();
    assert_eq!(unpack(&fetched).len(), 2);
    server.pass(100);
    assert_eq!(given(&server, &mut member).len(), 1);
    drop(member);
    server.pass(300);
    until("its session is over", || {
        server.json("/api/v1/explain?group=shop")["suspects"][0]["losses"] == 1
    });
    let mut next = joined(&server, "shop", &["orders", "reprise.retry.shop"]);
    assert_eq!(next.position_of("orders", 0), -1);
    let again = next.client.fetch("orders", 0, 0, 0).records.unwrap();
    assert_eq!(unpack(&again).len(), 2);
    let known = server.json("/api/v1/explain?group=shop");
    let told = ["stage", "losses", "next"].map(|key| known["suspects"][0][key].clone());
    let expected = serde_json::json!(["counted", 1, "tested after 2 more lost deliveries"]);
    assert_eq!(serde_json::json!(told), expected);
    assert_eq!(known["partitions"][0]["suspects"], serde_json::json!([]));
    let got = given(&server, &mut next);
    assert_eq!((got.len(), got[0].reconsume_times()), (1, 1));
    assert_eq!(next.heartbeat(), 0);
}

pub(crate) const Q38: Row = Row {
    id: "Q38",
    theirs: "On a retry the application sees the origin's topic, the same message id, the time \
             it was born, its tags, keys and properties; RETRY_TOPIC and ORIGIN_MESSAGE_ID are \
             the same over all hops.",
    ours: "Key, value, headers and timestamp byte for byte, ORIGIN_MESSAGE_ID and RETRY_TOPIC \
           the same over all hops. In place: the record itself, at its own offset. Through the \
           retry topic: `reprise.retry.<group>`, the origin's topic in RETRY_TOPIC.",
    stands: Comparison::Partly("the origin's topic as the topic of the record"),
};

#[test]
fn q38_records_keep_their_bytes_and_origin_over_all_hops() {
    let mut shop = Shop::with("");
    let sent = Rec::odd();
    let mut place = shop.delivered(sent.clone());
    let mut failed = sent.clone();
    for _ in 0..17 {
        // error handlers send the record as received, our headers included
        shop.fail_with(&place, failed.clone());
        shop.server.pass(7_200_000);
        let got = shop.given().pop().unwrap_or_else(|| shop.letters().remove(0));
        assert_eq!((&got.key, &got.value, got.time_ms), (&sent.key, &sent.value, sent.time_ms));
        assert_eq!(got.headers[..sent.headers.len()], sent.headers);
        assert_eq!(got.header("RETRY_TOPIC").unwrap(), "orders");
        assert_eq!(got.header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@0");
        place = format!("reprise.retry.shop-0@{}", got.offset);
        failed.headers = got.headers;
    }
    assert_eq!(shop.letters()[0].reconsume_times(), 17);
}
