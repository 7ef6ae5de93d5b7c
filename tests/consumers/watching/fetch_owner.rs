//! Attribution of a Fetch to a member. An unattributed reader is never cut and never held.

use reprise::config::RetryDelivery;
use reprise::model::{GroupId, TopicName};
use reprise::route::clients::client_address::ClientAddress;
use reprise::route::clients::conn::Conn;

use crate::support::{Client, Consumer, Member, Rec, Server, in_front, rebalance, until};
use crate::watching::ordered::offsets;

both!(
    the_client_address_tells_the_member_on_any_connection,
    the_only_member_owns_no_fetch_of_another_client,
    without_addresses_client_id_and_host_tell_the_member,
    an_empty_client_id_counts_like_any_other,
    two_members_with_one_client_id_and_host_stay_unattributed,
    a_connection_keeps_to_the_member_that_joined_on_it,
    a_bound_listener_attributes_to_members_of_its_group,
    a_client_in_two_groups_is_attributed_by_topic,
    client_ids_tell_clients_that_share_a_port,
    a_member_that_has_left_owns_no_fetch,
    a_kip_848_member_is_attributed_like_a_classic_one,
    after_a_restart_client_id_and_host_tell_the_member,
    a_reader_without_a_group_is_never_held,
    a_reader_without_a_group_is_never_cut,
    a_retry_topic_subscriber_is_known_unless_in_place,
    a_group_without_inference_is_neither_watched_nor_counted
);

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
/// The client id and the host of every `Client`.
const CLIENT: (&str, &str) = ("test", "127.0.0.1");
/// The record that is nacked.
const FAILED: i64 = 1;

/// No client has its own client address, as under TLS or behind `advertised`.
fn without_addresses(rules: &str) -> Server {
    Server::with(&format!("listen: [{{address: '127.0.0.1:1', bind: exact}}]\n{rules}"))
}

fn orders(server: &Server) {
    let mut tool = server.client();
    tool.create("orders", 1);
    tool.put("orders", 0, &["0", "1", "2", "3"].map(Rec::new));
}

fn conn_of(client: (&str, &str), token: Option<u16>, group: Option<&str>) -> Conn {
    let (id, host) = client;
    let (peer, group) = (format!("{host}:1").parse().unwrap(), group.map(GroupId::new));
    let conn =
        Conn::new(7, peer, ("127.0.0.1".to_owned(), 1), token.map(ClientAddress::Port), group);
    conn.heard(Some(id));
    conn
}

fn conn(token: Option<u16>, group: Option<&str>) -> Conn {
    conn_of(CLIENT, token, group)
}

fn unattributed(server: &Server) -> u64 {
    server.metric("reprise_fetches_unattributed_total").to_string().parse().unwrap()
}

/// The group, the member, and whether it subscribes to the retry topic.
fn owner(server: &Server, conn: &Conn, topics: &[&str]) -> Option<(String, String, bool)> {
    let topics: Vec<TopicName> = topics.iter().map(|topic| TopicName::new(topic)).collect();
    let watched = server.router().watched(conn, &topics, 500)?;
    let by = watched.by();
    assert_eq!((by.conn, by.max_wait_ms), (7, 500));
    Some((watched.group().to_string(), by.member.to_string(), !by.retries.is_empty()))
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

/// Binds the members to that client address.
fn bind(server: &Server, token: u16, members: &[&Member]) {
    for member in members {
        let (group, id) = (GroupId::new(&member.group), member.id.as_str().into());
        server.router().tokens.bind(ClientAddress::Port(token), &group, id);
    }
}

/// Another connection of a client with that id.
fn client(server: &Server, id: &str) -> Client {
    server.client().with_id(id)
}

/// Offsets in the answer to one Fetch from the start of `orders`.
fn all(client: &mut Client) -> Vec<i64> {
    offsets(client.fetch("orders", 0, 0, 300).records.unwrap())
}

fn the_client_address_tells_the_member_on_any_connection() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = joined(&server, "shop", &["orders"]);
    let mut other = joined(&server, "audit", &["orders"]);
    let before = unattributed(&server);
    member.client.fetch("orders", 0, 0, 0);
    member.client.another().fetch("orders", 0, 0, 0);
    other.client.another().fetch("orders", 0, 0, 0);
    assert_eq!(unattributed(&server), before);
    server.client().fetch("orders", 0, 0, 0);
    assert_eq!(unattributed(&server), before + 1, "a tool has another address");

    bind(&server, 1, &[&member]);
    bind(&server, 2, &[&other]);
    assert!(is_of(owner(&server, &conn(Some(1), None), &["orders"]), &member));
    assert!(is_of(owner(&server, &conn(Some(2), None), &["orders"]), &other));
}

fn the_only_member_owns_no_fetch_of_another_client() {
    let server = Server::start();
    server.client().create("orders", 1);
    let _member = joined(&server, "shop", &["orders"]);
    for known in [conn(None, None), conn(Some(9), None), conn_of(("tool", CLIENT.1), None, None)] {
        assert_eq!(owner(&server, &known, &["orders"]), None, "{known:?}");
    }
}

fn without_addresses_client_id_and_host_tell_the_member() {
    let server = without_addresses("");
    server.client().create("orders", 2);
    assert_eq!(owner(&server, &conn(None, None), &["orders"]), None);
    let member = joined(&server, "shop", &["orders"]);
    let known = conn(None, None);
    assert!(is_of(owner(&server, &known, &["orders"]), &member));
    assert!(is_of(owner(&server, &known, &["things", "orders"]), &member));
    assert_eq!(owner(&server, &known, &["things"]), None, "it subscribes to something else");
    for other in [("tool", CLIENT.1), ("", CLIENT.1), (CLIENT.0, "127.0.0.2")] {
        assert_eq!(owner(&server, &conn_of(other, None, None), &["orders"]), None, "{other:?}");
    }
    let before = unattributed(&server);
    client(&server, CLIENT.0).fetch("orders", 0, 0, 0);
    assert_eq!(unattributed(&server), before);
    client(&server, "tool").fetch("orders", 0, 0, 0);
    assert_eq!(unattributed(&server), before + 1);
}

fn an_empty_client_id_counts_like_any_other() {
    let server = without_addresses("");
    server.client().create("orders", 1);
    let mut member = Member::on(client(&server, ""), "shop", &["orders"]);
    member.join(ORDERS);
    assert!(is_of(owner(&server, &conn_of(("", CLIENT.1), None, None), &["orders"]), &member));
    assert_eq!(owner(&server, &conn_of(("", "127.0.0.2"), None, None), &["orders"]), None);
}

fn two_members_with_one_client_id_and_host_stay_unattributed() {
    let server = without_addresses("");
    server.client().create("orders", 2);
    let mut member = joined(&server, "shop", &["orders"]);
    let known = conn(None, None);
    let mut audit = joined(&server, "audit", &["orders"]);
    assert_eq!(owner(&server, &known, &["orders"]), None, "members of two groups");
    assert_eq!(audit.leave(), 0);
    until("the other group is empty", || is_of(owner(&server, &known, &["orders"]), &member));
    let mut second = Member::new(&server, "shop", &["orders"]);
    rebalance(&mut [&mut member, &mut second], &[("orders", 2)]);
    assert_eq!(owner(&server, &known, &["orders"]), None, "two members of one group");
    let before = unattributed(&server);
    server.client().fetch("orders", 0, 0, 0);
    assert_eq!(unattributed(&server), before + 1);

    let mut third = Member::on(client(&server, "third"), "shop", &["orders"]);
    rebalance(&mut [&mut member, &mut second, &mut third], &[("orders", 2)]);
    let of_third = conn_of(("third", CLIENT.1), None, None);
    assert!(is_of(owner(&server, &of_third, &["orders"]), &third));
}

fn a_connection_keeps_to_the_member_that_joined_on_it() {
    let server = without_addresses("");
    server.client().create("orders", 2);
    let mut member = joined(&server, "shop", &["orders"]);
    let mut second = Member::new(&server, "shop", &["orders"]);
    rebalance(&mut [&mut member, &mut second], &[("orders", 2)]);
    assert_eq!(second.leave(), 0);
    let known = conn(None, None);
    until("one member is left", || is_of(owner(&server, &known, &["orders"]), &member));
    // The second member's connection exists only in the sidecar itself, not in front of a cluster.
    if !in_front() {
        let before = unattributed(&server);
        member.client.fetch("orders", 0, 0, 0);
        assert_eq!(unattributed(&server), before);
        second.client.fetch("orders", 0, 0, 0);
        assert_eq!(unattributed(&server), before + 1, "it is not the other member's");
    }
}

fn a_bound_listener_attributes_to_members_of_its_group() {
    let server = Server::start();
    server.client().create("orders", 2);
    let mut member = joined(&server, "shop", &["orders"]);
    let _audit = joined(&server, "audit", &["orders"]);
    let known = conn(None, Some("shop"));
    assert!(is_of(owner(&server, &known, &["orders"]), &member), "by client id and host");
    assert_eq!(owner(&server, &conn(None, Some("nobody")), &["orders"]), None);
    let tool = conn_of(("tool", CLIENT.1), None, Some("shop"));
    assert_eq!(owner(&server, &tool, &["orders"]), None, "not as the only member");
    let mut second = Member::new(&server, "shop", &["orders"]);
    rebalance(&mut [&mut member, &mut second], &[("orders", 2)]);
    assert_eq!(owner(&server, &known, &["orders"]), None, "two members match");
    bind(&server, 3, &[&second]);
    assert!(is_of(owner(&server, &conn(Some(3), Some("shop")), &["orders"]), &second));
}

fn a_client_in_two_groups_is_attributed_by_topic() {
    let server = Server::start();
    server.client().create("orders", 1);
    server.client().create("things", 1);
    let (shop, audit) =
        (joined(&server, "shop", &["orders"]), joined(&server, "audit", &["things"]));
    bind(&server, 4, &[&shop, &audit]);
    let known = conn(Some(4), None);
    assert!(is_of(owner(&server, &known, &["orders"]), &shop));
    assert!(is_of(owner(&server, &known, &["things"]), &audit));
    assert_eq!(owner(&server, &known, &["orders", "things"]), None);
    assert_eq!(owner(&server, &known, &["others"]), None);
}

fn client_ids_tell_clients_that_share_a_port() {
    let server = Server::start();
    server.client().create("orders", 1);
    let member = joined(&server, "shop", &["orders"]);
    bind(&server, 6, &[&member]);
    assert!(is_of(owner(&server, &conn(Some(6), None), &["orders"]), &member));
    let tool = conn_of(("tool", CLIENT.1), Some(6), None);
    assert_eq!(owner(&server, &tool, &["orders"]), None);
}

fn a_member_that_has_left_owns_no_fetch() {
    for server in [Server::start(), without_addresses("")] {
        server.client().create("orders", 1);
        let mut member = joined(&server, "shop", &["orders"]);
        bind(&server, 5, &[&member]);
        let known = conn(Some(5), None);
        assert!(is_of(owner(&server, &known, &["orders"]), &member));
        assert_eq!(member.leave(), 0);
        until("the member is gone", || owner(&server, &known, &["orders"]).is_none());
        assert_eq!(owner(&server, &conn(None, None), &["orders"]), None);
    }
}

fn a_kip_848_member_is_attributed_like_a_classic_one() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = Consumer::new(&server, "shop", &["orders"]);
    member.enter();
    let before = unattributed(&server);
    member.client.another().fetch("orders", 0, 0, 0);
    assert_eq!(unattributed(&server), before);

    let server = without_addresses("");
    server.client().create("orders", 1);
    let mut member = Consumer::new(&server, "shop", &["orders"]);
    member.enter();
    assert!(is_of(owner(&server, &conn(None, None), &["orders"]), &member));
    assert_eq!(owner(&server, &conn(None, None), &["things"]), None);
    let tool = conn_of(("tool", CLIENT.1), None, None);
    assert_eq!(owner(&server, &tool, &["orders"]), None);
}

fn after_a_restart_client_id_and_host_tell_the_member() {
    let mut server = Server::start();
    server.client().create("orders", 1);
    let mut member = joined(&server, "shop", &["orders"]);
    let known = conn(Some(9), None);
    assert_eq!(owner(&server, &known, &["orders"]), None, "its address is known");
    server.restart();
    let found = owner(&server, &known, &["orders"]);
    // A member of a cluster's group is unknown before its first request.
    assert_eq!(is_of(found, &member), !in_front());
    member.client = server.client();
    assert_eq!(member.heartbeat(), 0);
    assert_eq!(owner(&server, &known, &["orders"]), None, "its address is known again");
    let before = unattributed(&server);
    member.client.fetch("orders", 0, 0, 0);
    assert_eq!(unattributed(&server), before);
}

/// Nacks a record, which then holds `orders` for the group `shop` or is cut from it. Any other
/// reader gets every record.
fn assigned_reader(server: &Server, id: &str) {
    orders(server);
    let mut member = joined(server, "shop", &["orders"]);
    let mut reader = client(server, id);
    assert_eq!(all(&mut member.client), [0, 1, 2, 3]);
    assert_eq!(member.commit("orders", 0, FAILED), 0);
    let answer = member.client.nack("shop", &format!("orders-0@{FAILED}"), Rec::new("1"));
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    assert_ne!(all(&mut member.client), [0, 1, 2, 3], "the member notices");
    let before = unattributed(server);
    assert_eq!(all(&mut reader), [0, 1, 2, 3], "the reader does not");
    assert_eq!(unattributed(server), before + 1);
}

fn a_reader_without_a_group_is_never_held() {
    let rules = "retry: {order: {mode: partition, interval: 30s}}";
    assigned_reader(&Server::with(rules), CLIENT.0);
    assigned_reader(&without_addresses(rules), "reader");
}

fn a_reader_without_a_group_is_never_cut() {
    let rules = "retry: {max_reconsume_times: 0, order: {mode: partition}}";
    assigned_reader(&Server::with(rules), CLIENT.0);
    assigned_reader(&without_addresses(rules), "reader");
}

fn a_retry_topic_subscriber_is_known_unless_in_place() {
    let mut server = Server::with("retry: {delivery: auto}");
    server.client().create("orders", 1);
    let shop = joined(&server, "shop", &["orders", "reprise.retry.shop"]);
    bind(&server, 1, &[&shop]);
    let known = conn(Some(1), None);
    let reads = |server: &Server| owner(server, &known, &["orders"]).map(|(.., reads)| reads);
    assert_eq!(reads(&server), Some(true));
    server.reload_with(|config| config.retry.delivery = RetryDelivery::InPlace);
    assert_eq!(reads(&server), Some(false));
}

fn a_group_without_inference_is_neither_watched_nor_counted() {
    let mut server = Server::start();
    server.client().create("orders", 1);
    let mut member = joined(&server, "shop", &["orders"]);
    bind(&server, 1, &[&member]);
    let known = conn(Some(1), None);
    let before = unattributed(&server);
    for delivery in [RetryDelivery::Off, RetryDelivery::Topic] {
        server.reload_with(|config| config.retry.delivery = delivery);
        assert_eq!(owner(&server, &known, &["orders"]), None, "{delivery:?}");
        member.client.fetch("orders", 0, 0, 0);
        assert_eq!(unattributed(&server), before);
    }
    server.reload_with(|config| config.retry.delivery = RetryDelivery::Auto);
    assert!(is_of(owner(&server, &known, &["orders"]), &member));
}

#[test]
fn fetches_of_dead_letter_topics_are_not_counted() {
    let server = Server::with("retry: {max_reconsume_times: 0}");
    let mut tool = server.client();
    tool.create("orders", 1);
    assert_eq!(tool.nack("shop", "orders-0@0", Rec::new("x")).error_code, 0);
    assert_eq!(tool.read_all("reprise.dlq.shop").len(), 1);
    let before = unattributed(&server);
    tool.fetch("reprise.dlq.shop", 0, 0, 0);
    assert_eq!(unattributed(&server), before);
    tool.fetch("orders", 0, 0, 0);
    assert_eq!(unattributed(&server), before + 1);
}
