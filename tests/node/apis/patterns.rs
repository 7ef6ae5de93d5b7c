//! Subscriptions by a pattern (KIP-848).

use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatResponse, DeleteTopicsRequest,
};
use reprise::wire::ResponseError;

use crate::support::client::s;
use crate::support::{Client, Consumer, Server, settle};

fn house() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 2);
    client.create("payments", 1);
    (server, client)
}

/// Joins `shop` by this pattern and these names.
fn join(member: &mut Consumer, pattern: &str) -> ConsumerGroupHeartbeatResponse {
    let mut request = member.whole_request();
    request.member_epoch = 0;
    request.subscribed_topic_regex = Some(s(pattern));
    member.send(&request)
}

fn by_pattern(server: &Server, pattern: &str) -> Consumer {
    let mut member = Consumer::new(server, "shop", &[]);
    join(&mut member, pattern);
    member
}

/// The names of the topics of the member's assigned partitions.
fn topics(member: &mut Consumer) -> Vec<String> {
    member.holds().into_iter().map(|(topic, _)| topic).collect()
}

#[test]
fn a_pattern_matches_whole_topic_names() {
    let (server, mut client) = house();
    client.create("orders2", 1);
    for (pattern, expected) in [
        ("ord.*", vec!["orders", "orders2"]),
        ("orders", vec!["orders"]),
        ("^orders$|^pay.*", vec!["orders", "payments"]),
        ("rders", vec![]),
        ("(?i)PAYMENTS", vec!["payments"]),
    ] {
        let mut member = by_pattern(&server, pattern);
        assert_eq!(topics(&mut member), expected, "{pattern}");
        member.go(-1);
    }
}

#[test]
fn later_topics_come_and_go_with_the_next_heartbeat() {
    let (server, mut client) = house();
    let mut member = by_pattern(&server, "ord.*");
    assert!(member.acknowledge().assignment.is_none());
    client.create("orders-of-today", 1);
    assert!(member.beat().assignment.is_some());
    assert_eq!(topics(&mut member), ["orders", "orders-of-today"]);
    let mut request = DeleteTopicsRequest::default();
    request.topic_names = vec![s("orders-of-today")];
    assert_eq!(client.call(5, &request).responses[0].error_code, 0);
    settle(&mut [&mut member]);
    assert_eq!(topics(&mut member), ["orders"]);
}

#[test]
fn a_member_changes_between_patterns_and_names() {
    let (server, _client) = house();
    let mut member = by_pattern(&server, "pay.*");
    let change = |member: &mut Consumer, names: Option<&[&str]>, pattern: Option<&str>| {
        let mut request = member.quiet_request();
        request.subscribed_topic_names =
            names.map(|names| names.iter().map(|name| s(name)).collect());
        request.subscribed_topic_regex = pattern.map(s);
        member.send(&request);
        settle(&mut [member]);
        topics(member)
    };
    assert_eq!(change(&mut member, None, Some("ord.*")), ["orders"]);
    assert_eq!(change(&mut member, Some(&["payments"]), None), ["orders", "payments"]);
    assert_eq!(change(&mut member, None, Some("")), ["payments"]);
    assert_eq!(change(&mut member, Some(&[]), Some(".*s")), ["orders", "payments"]);
}

#[test]
fn patterns_outlive_a_restart_and_are_described() {
    let (mut server, _client) = house();
    let mut member = by_pattern(&server, "ord.*");
    for _ in 0..2 {
        let mut client = server.client();
        let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![s("shop")]);
        let told = client.call(1, &request).groups.remove(0).members.remove(0);
        assert_eq!(told.subscribed_topic_regex.as_deref(), Some("ord.*"));
        assert!(told.subscribed_topic_names.is_empty());
        server.restart();
    }
    let mut client = server.client();
    member.client = server.client();
    client.create("orders-of-today", 1);
    member.beat();
    assert_eq!(topics(&mut member), ["orders", "orders-of-today"]);
}

#[test]
fn a_pattern_matches_no_retry_and_no_dead_letter_topic() {
    let (server, mut client) = house();
    client.metadata(12, &["reprise.retry.shop", "reprise.retry.other", "reprise.dlq.shop"]);
    let mut member = by_pattern(&server, ".*");
    assert_eq!(topics(&mut member), ["orders", "payments"]);
    member.go(-1);
    let mut member = by_pattern(&server, "orders|reprise\\.retry\\..*");
    assert_eq!(topics(&mut member), ["orders"]);
    member.go(-1);
    let mut member = by_pattern(&server, "reprise\\.dlq\\..*|orders");
    assert_eq!(topics(&mut member), ["orders"]);
}

#[test]
fn an_invalid_pattern_is_refused_with_the_reason() {
    let (server, _client) = house();
    let mut member = Consumer::new(&server, "shop", &["orders"]);
    let large = "((a{100}){100}){100}";
    for pattern in ["(", "a)(b", "[z-a]", "(?=orders)", large] {
        let mut request = member.whole_request();
        request.member_epoch = 0;
        request.subscribed_topic_regex = Some(s(pattern));
        let answer = member.client.call(1, &request);
        assert_eq!(answer.error_code, ResponseError::InvalidRegularExpression.code(), "{pattern}");
        let why = answer.error_message.unwrap().to_string();
        assert!(why.contains("not a valid regular expression"), "{why}");
    }
    join(&mut member, "");
    assert_eq!(topics(&mut member), ["orders"], "an empty pattern is none");
}
