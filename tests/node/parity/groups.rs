//! Groups and topics: each group has its own retries and its own rules.

use kafka_protocol::messages::ListGroupsRequest;
use reprise::wire::ResponseError;

use crate::parity::row::{Comparison, Row};
use crate::parity::shop::{LONG_SESSIONS, Shop, commit, given, joined};
use crate::support::batch::unpack;
use crate::support::{Got, Rec, Server};

pub(crate) const Q10: Row = Row {
    id: "Q10",
    theirs: "A new group's first retry comes after 40 s instead of 3 s: routes and rebalances \
             have intervals of their own.",
    ours: "No warm-up: the first retry of a new group comes when it is due.",
    stands: Comparison::Differs("due is due"),
};

#[test]
fn q10_a_new_groups_first_retry_comes_when_due() {
    let mut shop = Shop::with("");
    let place = shop.delivered(Rec::new("x"));
    shop.fail_with(&place, Rec::new("x").header("x-retry-delay-ms", "3000"));
    let (_, got) = shop.comes_after(3_000);
    assert_eq!(got.reconsume_times(), 1);
}

pub(crate) const Q11: Row = Row {
    id: "Q11",
    theirs: "Two groups, one fails: only its records come back, to it, and only its dead letters \
             are written.",
    ours: "The same.",
    stands: Comparison::Same,
};

#[test]
fn q11_a_failure_in_one_group_does_not_affect_another() {
    let mut shop = Shop::with("retry: {max_reconsume_times: 1}");
    let mut audit = joined(&shop.server, "audit", &["orders", "reprise.retry.audit"]);
    let place = shop.delivered(Rec::new("x"));
    assert_eq!(unpack(&audit.client.fetch("orders", 0, 0, 0).records.unwrap()).len(), 1);
    shop.fail(&place);
    shop.server.pass(10_000);
    assert_eq!(given(&shop.server, &mut audit), []);
    let got = shop.given();
    assert_eq!(got.len(), 1);
    shop.fail(&format!("reprise.retry.shop-0@{}", got[0].offset));
    assert_eq!(shop.letters().len(), 1);
    let metrics = shop.server.get("/metrics");
    let is_of_audit = |line: &&str| {
        line.contains("retries") && line.contains("group=\"audit\"") && !line.ends_with(" 0")
    };
    assert_eq!(metrics.lines().find(is_of_audit), None);
    assert!(audit.client.read_all("reprise.dlq.audit").is_empty());
    assert!(shop.server.pending("audit").is_empty());
}

pub(crate) const Q12: Row = Row {
    id: "Q12",
    theirs: "One group and two topics: one retry topic, one dead-letter topic; RETRY_TOPIC tells \
             them apart.",
    ours: "The same; the lists of the admin port go by topic.",
    stands: Comparison::Same,
};

#[test]
fn q12_two_topics_of_a_group_share_its_retry_topics() {
    let mut shop = Shop::with("");
    shop.member.client.create("bills", 1);
    let topic = |got: &Got| got.header("RETRY_TOPIC").unwrap();
    for topic in ["orders", "bills"] {
        shop.member.client.put(topic, 0, &[Rec::new(topic)]);
        shop.fail_with(&format!("{topic}-0@0"), Rec::new(topic));
    }
    let listed = shop.server.json("/api/v1/retries?group=shop&topic=bills");
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(listed["items"][0]["origin"], "bills-0@0");
    shop.server.pass(10_000);
    let got = shop.given();
    assert_eq!(got.iter().map(topic).collect::<Vec<_>>(), ["orders", "bills"]);
    for got in &got {
        let dead = Rec::new(&got.text()).header("x-retry-level", "-1");
        shop.fail_with(&format!("reprise.retry.shop-0@{}", got.offset), dead);
    }
    let letters = shop.letters();
    assert_eq!(letters.iter().map(topic).collect::<Vec<_>>(), ["orders", "bills"]);
    let listed = shop.server.json("/api/v1/dead-letters?group=shop&topic=orders");
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

pub(crate) const Q13: Row = Row {
    id: "Q13",
    theirs: "Retries of a topic that is no longer subscribed are delivered all the same; the \
             filter is ignored.",
    ours: "What is due while nobody subscribes to the retry topic stays due, counted and \
           reported, and flows as soon as somebody does. Each topic of a group has a retry \
           topic; one of the whole group has the retries of topics whose own nobody reads.",
    stands: Comparison::Differs(
        "a listener gets the retries of the topics that it handles, as by RocketMQ's POP; who \
         subscribes to `reprise.retry.<group>` asks for those of every topic",
    ),
};

#[test]
fn q13_retries_without_a_subscriber_stay_due_and_are_reported() {
    let server = Server::told(LONG_SESSIONS);
    let mut tool = server.client();
    tool.create("orders", 1);
    let mut member = joined(&server, "shop", &["orders"]);
    assert_eq!(tool.nack("shop", "orders-0@0", Rec::new("x")).error_code, 0);
    server.pass(3 * 60 * 60 * 1000);
    // a request makes the engine read the clock
    assert_eq!(server.json("/api/v1/retries?group=shop")["items"].as_array().unwrap().len(), 1);
    let group = server.json("/api/v1/groups/shop");
    assert_eq!(group["due"], 1);
    assert!(
        group["advice"].to_string().contains("reprise.retry.shop--orders has no subscriber"),
        "{group}"
    );
    assert!((server.metric("reprise_records_due{group=\"shop\"}") - 1.0).abs() < 0.1);
    assert_eq!(member.leave(), 0);
    let mut other = joined(&server, "shop", &["reprise.retry.shop"]);
    let got = given(&server, &mut other);
    assert_eq!((got.len(), got[0].reconsume_times()), (1, 1), "with its count, at once");
    assert_eq!(got[0].header("RETRY_TOPIC").unwrap(), "orders", "whatever else it subscribes to");
}

pub(crate) const Q14: Row = Row {
    id: "Q14",
    theirs: "Broadcasting: a failure is dropped, and an empty retry topic is made.",
    ours: "A consumer without a group is given what it asks for, counted, and nothing is made. A \
           group with `delivery: off` has no retry topic: what names it is refused and counted.",
    stands: Comparison::Differs("a refusal is seen, a dropped failure is not"),
};

#[test]
fn q14_groups_without_retries_retry_and_create_nothing() {
    let off = "groups: [{match: off, delivery: off}]";
    let server = Server::told(&(LONG_SESSIONS.to_owned() + off));
    let mut reader = server.client();
    reader.create("orders", 1);
    reader.put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    // the handler fails on the first record again and again
    for _ in 0..20 {
        let given = reader.fetch("orders", 0, 0, 0).records.unwrap();
        assert_eq!(unpack(&given).len(), 2);
        assert!(reader.fetch("orders", 0, 2, 0).records.unwrap().is_empty());
    }
    assert!((server.metric("reprise_fetches_unattributed_total") - 40.0).abs() < 0.1);
    let mut member = joined(&server, "off", &["orders"]);
    let refused = reader.nack("off", "orders-0@0", Rec::new("a"));
    assert_eq!(refused.error_code, ResponseError::UnknownTopicOrPartition.code());
    let invalid = ResponseError::InvalidCommitOffsetSize.code();
    assert_eq!(commit(&mut member, "orders", 1, "!retry:0"), invalid);
    let counted = "reprise_commit_markers_refused_total{group=\"off\",reason=\"retries_off\"}";
    assert!((server.metric(counted) - 1.0).abs() < 0.1);
    let topics =
        reader.call(9, &kafka_protocol::messages::MetadataRequest::default().with_topics(None));
    let names: Vec<String> =
        topics.topics.iter().map(|topic| topic.name.as_ref().unwrap().to_string()).collect();
    assert_eq!(names, ["orders"]);
    let groups = reader.call(4, &ListGroupsRequest::default()).groups;
    assert_eq!(groups.len(), 1, "the one with a member: {groups:?}");
    assert_eq!(server.json("/api/v1/overview")["pending"], 0);
}

pub(crate) const Q15: Row = Row {
    id: "Q15",
    theirs: "The limit of the group's own settings is ignored when the client states one.",
    ours: "The first pattern of `groups` that matches, else `retry`; what a produced record or \
           a client's settings say of a limit is not believed. `group describe` shows the rules \
           in force, and each retry carries its limit.",
    stands: Comparison::Differs("one order of precedence, and it is shown"),
};

#[test]
fn q15_the_first_matching_group_rule_applies_and_is_shown() {
    let rules = "retry: {max_reconsume_times: 9}\n\
                 groups: [{match: shop, max_reconsume_times: 1}, {match: 'sh*', levels: 7s}]";
    let mut shop = Shop::with(rules);
    let policy =
        |group: &str| shop.server.json(&format!("/api/v1/groups/{group}"))["policy"].clone();
    assert_eq!(policy("shop")["max_reconsume_times"], 1);
    assert_eq!(policy("shop")["levels_ms"][2], 10_000, "the second pattern says nothing any more");
    joined(&shop.server, "shoes", &["orders"]);
    joined(&shop.server, "audit", &["orders"]);
    assert_eq!(policy("shoes")["levels_ms"], serde_json::json!([7_000]));
    assert_eq!(policy("shoes")["max_reconsume_times"], 9, "what a rule leaves out is `retry`'s");
    assert_eq!(policy("audit")["max_reconsume_times"], 9);
    let place = shop.delivered(Rec::new("x"));
    let states = Rec::new("x").header("MAX_RECONSUME_TIMES", "5");
    shop.fail_with(&place, states.clone());
    let (place, got) = shop.comes_after(10_000);
    assert_eq!(got.number("MAX_RECONSUME_TIMES"), 1);
    shop.fail_with(&place, states);
    assert_eq!(shop.letters().len(), 1);
}
