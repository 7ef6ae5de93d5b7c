//! Whose a Fetch is, and that nobody's is watched.

use reprise::config::LaneChoice;
use reprise::model::{ClientId, GroupId, TopicName};
use reprise::route::conn::Conn;
use reprise::route::token::Token;

use crate::support::{Consumer, Member, Rec, Server, rebalance};

const ORDERS: &[(&str, i32)] = &[("orders", 1)];

fn conn(token: Option<u16>, group: Option<&str>) -> Conn {
    let peer = "127.0.0.1:1".parse().unwrap();
    let group = group.map(GroupId::new);
    Conn::new(7, peer, ("127.0.0.1".to_owned(), 1), token.map(Token::Port), group)
}

/// Fetches of nobody known so far.
fn unowned(server: &Server) -> u64 {
    server.metric("reprise_fetches_unowned_total").to_string().parse().unwrap()
}

/// Group, member, and whether it has a lane.
fn whose(server: &Server, conn: &Conn, topics: &[&str]) -> Option<(String, String, bool)> {
    let topics: Vec<TopicName> = topics.iter().map(|topic| TopicName::new(topic)).collect();
    let watched = server.router().watched(conn, &topics, 500)?;
    let by = watched.by();
    assert_eq!((by.conn, by.max_wait_ms), (7, 500));
    Some((watched.group().to_string(), by.member.to_string(), by.has_lane))
}

fn is_of(found: Option<(String, String, bool)>, member: &Member) -> bool {
    let key = match &member.instance {
        Some(instance) => format!("instance:{instance}"),
        None => member.id.clone(),
    };
    found.is_some_and(|(group, id, _)| group == member.group && id == key)
}

fn joined(server: &Server, group: &str, topics: &[&str]) -> Member {
    let mut member = Member::new(server, group, topics);
    member.join(ORDERS);
    member
}

/// The connection speaks through that address for these members.
fn bind(server: &Server, token: u16, members: &[&Member]) {
    for member in members {
        let (group, id) = (GroupId::new(&member.group), member.id.as_str().into());
        server.router().tokens.bind(Token::Port(token), &group, id, ClientId::new("app"));
    }
}

#[test]
fn the_address_tells_which_member_fetches_on_any_connection() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = joined(&server, "shop", &["orders"]);
    let mut other = joined(&server, "audit", &["orders"]);
    let before = unowned(&server);
    member.client.fetch("orders", 0, 0, 0);
    member.client.another().fetch("orders", 0, 0, 0);
    other.client.another().fetch("orders", 0, 0, 0);
    assert_eq!(unowned(&server), before);
    server.client().fetch("orders", 0, 0, 0);
    assert_eq!(unowned(&server), before + 1, "a tool, at an address of its own");

    bind(&server, 1, &[&member]);
    bind(&server, 2, &[&other]);
    assert!(is_of(whose(&server, &conn(Some(1), None), &["orders"]), &member));
    assert!(is_of(whose(&server, &conn(Some(2), None), &["orders"]), &other));
}

#[test]
fn without_an_address_it_is_the_only_member_of_the_only_group_that_consumes_the_topic() {
    let server = Server::start();
    server.client().create("orders", 2);
    assert_eq!(whose(&server, &conn(None, None), &["orders"]), None);
    let mut member = joined(&server, "shop", &["orders"]);
    let known = conn(None, None);
    assert!(is_of(whose(&server, &known, &["orders"]), &member));
    assert!(is_of(whose(&server, &known, &["things", "orders"]), &member));
    assert_eq!(whose(&server, &known, &["things"]), None);
    let mut audit = joined(&server, "audit", &["orders"]);
    assert_eq!(whose(&server, &known, &["orders"]), None, "which group?");
    assert_eq!(audit.leave(), 0);
    crate::support::until("the other group is gone", || {
        is_of(whose(&server, &known, &["orders"]), &member)
    });
    let mut second = Member::new(&server, "shop", &["orders"]);
    rebalance(&mut [&mut member, &mut second], &[("orders", 2)]);
    assert_eq!(whose(&server, &known, &["orders"]), None, "which member?");
}

#[test]
fn an_address_nobody_speaks_through_is_a_member_s_that_joined_at_another_until_it_fetches_there() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders"]).fixed("one");
    member.join(ORDERS);
    let calls_itself = |name| {
        let conn = conn(Some(9), None);
        conn.heard(Some(name));
        conn
    };
    let (same, tool) = (calls_itself(&member.client.id), calls_itself("tool"));
    assert!(is_of(whose(&server, &conn(None, None), &["orders"]), &member));
    assert!(is_of(whose(&server, &same, &["orders"]), &member));
    assert_eq!(whose(&server, &tool, &["orders"]), None);
    member.client.fetch("orders", 0, 0, 0);
    assert_eq!(whose(&server, &same, &["orders"]), None, "it is another by the same name");
    assert!(is_of(whose(&server, &conn(None, None), &["orders"]), &member));
}

#[test]
fn a_listener_may_be_one_group_s() {
    let server = Server::start();
    server.client().create("orders", 2);
    let mut member = joined(&server, "shop", &["orders"]);
    let _audit = joined(&server, "audit", &["orders"]);
    let known = conn(None, Some("shop"));
    assert!(is_of(whose(&server, &known, &["orders"]), &member));
    assert_eq!(whose(&server, &conn(None, Some("nobody")), &["orders"]), None);
    let mut second = Member::new(&server, "shop", &["orders"]);
    rebalance(&mut [&mut member, &mut second], &[("orders", 2)]);
    assert_eq!(whose(&server, &known, &["orders"]), None, "which of them?");
    bind(&server, 3, &[&second]);
    assert!(is_of(whose(&server, &conn(Some(3), Some("shop")), &["orders"]), &second));
}

#[test]
fn a_client_object_in_two_groups_is_told_by_the_topic() {
    let server = Server::start();
    server.client().create("orders", 1);
    server.client().create("things", 1);
    let (shop, audit) =
        (joined(&server, "shop", &["orders"]), joined(&server, "audit", &["things"]));
    bind(&server, 4, &[&shop, &audit]);
    let known = conn(Some(4), None);
    assert!(is_of(whose(&server, &known, &["orders"]), &shop));
    assert!(is_of(whose(&server, &known, &["things"]), &audit));
    assert_eq!(whose(&server, &known, &["orders", "things"]), None);
    assert_eq!(whose(&server, &known, &["others"]), None);
}

#[test]
fn who_has_left_is_not_watched_any_more() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = joined(&server, "shop", &["orders"]);
    bind(&server, 5, &[&member]);
    let known = conn(Some(5), None);
    assert!(is_of(whose(&server, &known, &["orders"]), &member));
    assert_eq!(member.leave(), 0);
    crate::support::until("the member is gone", || whose(&server, &known, &["orders"]).is_none());
}

#[test]
fn a_member_by_kip_848_is_known_by_its_address_and_by_its_topics() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = Consumer::new(&server, "shop", &["orders"]);
    member.enter();
    let found = whose(&server, &conn(None, None), &["orders"]);
    assert_eq!(found.map(|(group, ..)| group), Some("shop".to_owned()));
    assert_eq!(whose(&server, &conn(None, None), &["things"]), None);
    let before = unowned(&server);
    member.client.another().fetch("orders", 0, 0, 0);
    assert_eq!(unowned(&server), before);
}

#[test]
fn who_subscribes_to_the_retry_topic_has_a_lane_unless_the_group_is_to_retry_in_place() {
    let mut server = Server::with("retry: {lane: auto}");
    server.client().create("orders", 1);
    let _shop = joined(&server, "shop", &["orders", "reprise.retry.shop"]);
    let known = conn(None, None);
    let has_lane = |server: &Server| whose(server, &known, &["orders"]).map(|(.., lane)| lane);
    assert_eq!(has_lane(&server), Some(true));
    server.reload_with(|config| config.retry.lane = LaneChoice::InPlace);
    assert_eq!(has_lane(&server), Some(false));
}

#[test]
fn a_group_of_which_nothing_is_inferred_is_neither_watched_nor_counted_as_nobody() {
    let mut server = Server::start();
    server.client().create("orders", 1);
    let mut member = joined(&server, "shop", &["orders"]);
    for lane in [LaneChoice::Off, LaneChoice::RetryTopic] {
        server.reload_with(|config| config.retry.lane = lane);
        assert_eq!(whose(&server, &conn(None, None), &["orders"]), None, "{lane:?}");
    }
    let before = unowned(&server);
    member.client.fetch("orders", 0, 0, 0);
    assert_eq!(unowned(&server), before);
    server.reload_with(|config| config.retry.lane = LaneChoice::Auto);
    assert!(is_of(whose(&server, &conn(None, None), &["orders"]), &member));
}

#[test]
fn dead_letters_and_retry_topics_are_nobody_s_to_watch() {
    let server = Server::with("retry: {max_reconsume_times: 0}");
    let mut tool = server.client();
    tool.create("orders", 1);
    assert_eq!(tool.nack("shop", "orders-0@0", Rec::new("x")).error_code, 0);
    assert_eq!(tool.read_all("reprise.dlq.shop").len(), 1);
    let before = unowned(&server);
    tool.fetch("reprise.dlq.shop", 0, 0, 0);
    tool.fetch("reprise.retry.shop", 0, 0, 0);
    assert_eq!(unowned(&server), before);
    tool.fetch("orders", 0, 0, 0);
    assert_eq!(unowned(&server), before + 1);
}
