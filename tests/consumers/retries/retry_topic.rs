//! The retry topic: an ordinary topic, into which due retries are released.

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, IncrementalAlterConfigsRequest, MetadataRequest,
};

use reprise::wire::ResponseError;
use reprise::wire::partitioner::partition_of;
use serde_json::{Value, json};

use crate::support::batch::{Got, unpack};
use crate::support::client::s;
use crate::support::member::offset_fetch;
use crate::support::{Consumer, Member, Rec, Server, rebalance, settle, until};

both!(
    unread_retries_come_to_the_next_member,
    two_members_share_the_partitions_and_each_retry_comes_once,
    a_nacked_delivery_is_not_given_again,
    a_deleted_topic_gives_its_retries_to_the_next_one,
    a_retry_that_kills_its_consumer_charges_no_other,
    a_late_failure_goes_on_counting,
    a_late_failure_of_a_deleted_retry_is_taken
);

/// Headers of a record.
type Headers = Vec<(Bytes, Option<Bytes>)>;

const RETRY: &str = "reprise.retry.shop";
const PARTITIONS: &[(&str, i32)] = &[("orders", 1), (RETRY, 1)];

fn member(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders", RETRY]);
    member.join(PARTITIONS);
    member
}

/// A sidecar with `orders`, and a retry of each text released.
fn released(yaml: &str, texts: &[&str]) -> (Server, Member) {
    let server = Server::with(yaml);
    server.client().create("orders", 1);
    let mut member = member(&server);
    for (n, text) in texts.iter().enumerate() {
        fail(&mut member, &format!("orders-0@{n}"), text);
    }
    let mut count = 0;
    until("all are released", || {
        count = read(&mut member, 0, 0, 100).len();
        count == texts.len()
    });
    (server, member)
}

fn fail(member: &mut Member, origin: &str, text: &str) {
    assert_eq!(member.client.nack("shop", origin, Rec::new(text)).error_code, 0);
}

fn read(member: &mut Member, partition: i32, from: i64, wait_ms: i32) -> Vec<Got> {
    let data = member.client.fetch(RETRY, partition, from, wait_ms);
    assert_eq!(data.error_code, 0);
    unpack(&data.records.unwrap())
}

fn texts(got: &[Got]) -> Vec<String> {
    got.iter().map(Got::text).collect()
}

#[test]
fn a_subscriber_makes_the_topic_with_the_configured_partitions() {
    let server = Server::with("retry: {levels: 20ms, partitions: 4}");
    server.client().create("orders", 4);
    let known = |server: &Server| {
        let all = MetadataRequest::default().with_topics(None);
        let topics = server.client().call(9, &all).topics;
        let found = topics.into_iter().find(|one| &*one.name.as_ref().unwrap().0 == RETRY);
        found.map(|one| (one.partitions.len(), one.is_internal))
    };
    assert_eq!(known(&server), None);
    let mut a = Consumer::new(&server, "shop", &["orders", RETRY]);
    let mut b = Consumer::new(&server, "shop", &["orders", RETRY]);
    a.enter();
    b.enter();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(known(&server), Some((4, true)), "left out by patterns");
    let held = |consumer: &mut Consumer| {
        let held = consumer.holds().into_iter().find(|(topic, _)| topic == RETRY);
        held.map(|(_, partitions)| partitions).unwrap_or_default()
    };
    let mut all = [held(&mut a), held(&mut b)].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3], "each partition has one reader");
    for n in 0..40 {
        let record = Rec { key: None, ..Rec::new(&n.to_string()) };
        assert_eq!(a.client.nack("shop", &format!("orders-0@{n}"), record).error_code, 0);
    }
    let mut got = Vec::new();
    until("all come", || {
        let each = (0..4).map(|partition| texts(&read(&mut a, partition, 0, 50)));
        got = each.collect();
        got.iter().map(Vec::len).sum::<usize>() == 40
    });
    assert!(got.iter().all(|of| of.len() == 10), "{got:?}");
}

fn unread_retries_come_to_the_next_member() {
    let (server, mut first) = released("retry: {levels: 20ms}", &["a", "b", "c"]);
    first.done(1);
    assert_eq!(first.leave(), 0);
    let mut next = member(&server);
    let got = next.retries();
    assert_eq!(texts(&got), ["b", "c"]);
    assert!(got.iter().all(|got| got.reconsume_times() == 1), "nothing is charged");
    next.done(3);
    assert!(server.pending("shop").is_empty());
    let acked = "reprise_records_acked_total{group=\"shop\",topic=\"reprise.retry.shop\"}";
    assert!((server.metric(acked) - 3.0).abs() < 0.1);
}

fn two_members_share_the_partitions_and_each_retry_comes_once() {
    let server = Server::with("retry: {levels: 20ms, partitions: 2}");
    server.client().create("orders", 2);
    let [mut a, mut b] = [(); 2].map(|()| Member::new(&server, "shop", &["orders", RETRY]));
    rebalance(&mut [&mut a, &mut b], &[("orders", 2), (RETRY, 2)]);
    for n in 0..20 {
        fail(&mut a, &format!("orders-0@{n}"), &n.to_string());
    }
    let of = |member: &Member| {
        let held = member.assigned.iter().find(|(topic, _)| topic == RETRY);
        held.unwrap().1.clone()
    };
    let mut held = [of(&a), of(&b)].concat();
    held.sort_unstable();
    assert_eq!(held, [0, 1]);
    let mut all = Vec::new();
    until("all come", || {
        for member in [&mut a, &mut b] {
            let partition = of(member)[0];
            let from = member.position_of(RETRY, partition);
            let got = read(member, partition, from, 50);
            if let Some(last) = got.last() {
                assert_eq!(member.commit(RETRY, partition, last.offset + 1), 0);
                all.extend(texts(&got));
            }
        }
        all.len() >= 20
    });
    all.sort_by_key(|text| text.parse::<i32>().unwrap());
    assert_eq!(all, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_position_never_skips_a_retry() {
    let (server, mut member) = released("retry: {levels: 20ms}", &["a", "b", "c"]);
    assert_eq!(member.position(), 0, "a client would ask for latest");
    assert_eq!(offset_fetch(&mut server.client(), 7, "shop", RETRY, 0).0, 0);
    let elses = offset_fetch(&mut server.client(), 7, "audit", RETRY, 0).0;
    assert_eq!(elses, -1, "another group reads it as any topic");
    member.client.delete_records(RETRY, 0, 2);
    assert_eq!(member.position(), 2, "the first that is left");
    member.done(3);
    assert_eq!(member.position(), 3);
}

fn a_nacked_delivery_is_not_given_again() {
    let (mut server, mut first) = released("retry: {levels: 20ms 20ms 20ms 1h}", &["a", "b"]);
    fail(&mut first, "reprise.retry.shop-0@0", "a");
    let only_b = |member: &mut Member, when: &str| {
        let got = read(member, 0, 0, 100);
        assert_eq!((texts(&got), got[0].offset), (vec!["b".to_owned()], 1), "{when}");
    };
    only_b(&mut first, "to the same member");
    assert_eq!(first.leave(), 0);
    only_b(&mut member(&server), "to the next one");
    server.restart();
    only_b(&mut member(&server), "after a restart");
    let open = server.pending("shop");
    assert_eq!((open.len(), &open[0]["reconsume_times"]), (2, &2.into()), "{open:?}");
}

fn a_deleted_topic_gives_its_retries_to_the_next_one() {
    let (server, mut first) = released("retry: {levels: 20ms}", &["a", "b", "c"]);
    first.done(1);
    let request = DeleteTopicsRequest::default().with_topic_names(vec![s(RETRY)]);
    assert_eq!(first.client.call(3, &request).responses[0].error_code, 0);
    assert_eq!(server.pending("shop").len(), 2);
    first.client.metadata(9, &[RETRY]);
    let mut got = Vec::new();
    until("both are there", || {
        got = first.retries_from(0);
        got.len() == 2
    });
    assert_eq!((texts(&got), first.position()), (vec!["b".to_owned(), "c".to_owned()], 0));
    first.done(2);
    assert!(server.pending("shop").is_empty());
}

#[test]
fn a_topic_made_anew_has_another_id() {
    let (server, mut first) = released("retry: {levels: 20ms}", &["a"]);
    let id = |member: &mut Member| member.client.metadata(12, &[RETRY]).topics[0].topic_id;
    let before = id(&mut first);
    let request = DeleteTopicsRequest::default().with_topic_names(vec![s(RETRY)]);
    assert_eq!(first.client.call(3, &request).responses[0].error_code, 0);
    assert_ne!(id(&mut first), before, "its readers must not keep their position");
    assert_eq!(server.pending("shop").len(), 1);
}

#[test]
fn a_retry_topic_keeps_its_retries_whatever_its_settings() {
    let server = Server::start();
    let mut client = server.client();
    let (name, value) = (s("retention.ms"), Some(s("1000")));
    let config = CreatableTopicConfig::default().with_name(name).with_value(value);
    let topic = CreatableTopic::default()
        .with_name(s(RETRY))
        .with_num_partitions(2)
        .with_replication_factor(1)
        .with_configs(vec![config]);
    let made = client.call(7, &CreateTopicsRequest::default().with_topics(vec![topic]));
    assert_eq!(made.topics[0].error_code, 0);
    let settings = made.topics[0].configs.as_ref().unwrap();
    let kept = settings.iter().find(|one| one.name.as_str() == "retention.ms").unwrap();
    assert_eq!(kept.value.as_deref(), Some("-1"));
    let change =
        AlterableConfig::default().with_name(s("retention.ms")).with_value(Some(s("1000")));
    let resource = AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(s(RETRY))
        .with_configs(vec![change]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = &client.call(1, &request).responses[0];
    assert_eq!(answer.error_code, ResponseError::PolicyViolation.code());
    assert!(answer.error_message.as_ref().unwrap().contains("keeps each retry"), "{answer:?}");
}

/// A delivery that its group has committed past, and that the ledger has forgotten.
fn forgotten() -> (Server, Member, Got) {
    let yaml = "retry: {levels: 20ms, consume_timeout: 1s}";
    let (server, mut member) = released(yaml, &["a"]);
    let got = read(&mut member, 0, 0, 100).remove(0);
    member.done(1);
    assert_eq!(member.commit("orders", 0, 1), 0);
    // Another retry shows that the time has passed.
    let later = Rec::new("later").header("x-retry-delay-ms", "1200");
    assert_eq!(member.client.nack("shop", "orders-0@7", later).error_code, 0);
    let later = member.retry_once();
    member.done(later.offset + 1);
    (server, member, got)
}

/// Nacks the delivery with these headers. Returns origin and count of the retry that waits.
fn fails(server: &Server, member: &mut Member, headers: Headers) -> Value {
    let nack = Rec { headers, ..Rec::new("a") };
    assert_eq!(member.client.nack("shop", "reprise.retry.shop-0@0", nack).error_code, 0);
    let open = server.pending("shop");
    assert_eq!(open.len(), 1);
    json!([open[0]["origin"], open[0]["reconsume_times"]])
}

#[test]
fn a_replayed_delivery_may_fail_anew() {
    let (server, mut member, got) = forgotten();
    assert_eq!(member.commit(RETRY, 0, 0), 0);
    assert_eq!(fails(&server, &mut member, got.headers), json!(["orders-0@0", 1]));
}

fn a_late_failure_goes_on_counting() {
    for copies in [true, false] {
        let (server, mut member, got) = forgotten();
        let headers = if copies { got.headers } else { Vec::new() };
        let expected = json!(["orders-0@0", 2]);
        assert_eq!(fails(&server, &mut member, headers), expected, "copies: {copies}");
    }
}

fn a_late_failure_of_a_deleted_retry_is_taken() {
    let (server, mut member, _) = forgotten();
    member.client.delete_records(RETRY, 0, 2);
    assert_eq!(fails(&server, &mut member, Vec::new()), json!([null, 1]));
    assert_eq!(member.retry_once().text(), "a");
}

fn a_retry_that_kills_its_consumer_charges_no_other() {
    let server = Server::with(
        "retry: {levels: 20ms, partitions: 2, crash_limit: 1, max_reconsume_times: 3, \
         isolation_timeout: 60s}",
    );
    let mut tool = server.client();
    tool.create("orders", 1);
    let keyed = |key: &str, text: &str| Rec { key: Some(key.to_owned().into()), ..Rec::new(text) };
    let key_of = |partition| {
        let mut keys = (0..).map(|n: i32| n.to_string());
        keys.find(|key| partition_of(Some(key.as_bytes()), 0, 2) == partition).unwrap()
    };
    let (key, other_key) = (key_of(0), key_of(1));
    for (n, text) in ["deadly", "neighbour"].into_iter().enumerate() {
        let origin = format!("orders-0@{n}");
        assert_eq!(tool.nack("shop", &origin, keyed(&key, text)).error_code, 0);
    }
    let topics = ["orders", RETRY];
    let (mut deaths, mut well) = (0, Vec::new());
    for round in 10.. {
        let mut next = Member::new(&server, "shop", &topics);
        next.join(&[("orders", 1), (RETRY, 2)]);
        let origin = format!("orders-0@{round}");
        assert_eq!(tool.nack("shop", &origin, keyed(&other_key, "well")).error_code, 0);
        // The consumer commits what it handles, and dies of the deadly one.
        let mut handled = |next: &mut Member, partition: i32, wait_ms: i32| {
            let from = next.position_of(RETRY, partition);
            let got = read(next, partition, from, wait_ms);
            if got.iter().any(|got| got.text() == "deadly") {
                return None;
            }
            if let Some(last) = got.last() {
                assert_eq!(next.commit(RETRY, partition, last.offset + 1), 0);
            }
            well.extend(got.iter().map(|got| (got.text(), got.reconsume_times())));
            Some(got.len())
        };
        let (mut is_healthy, mut idle) = (false, 0);
        while idle < 5 {
            if handled(&mut next, 0, 50).is_none() {
                deaths += 1;
                break;
            }
            idle += i32::from(is_healthy);
            is_healthy = is_healthy || handled(&mut next, 1, 50).is_some_and(|count| count > 0);
        }
        assert_eq!(next.leave(), 0);
        if !tool.read_all("reprise.dlq.shop").is_empty() {
            break;
        }
        assert!(round < 60, "{deaths} deaths");
    }
    let letters = tool.read_all("reprise.dlq.shop");
    assert_eq!(texts(&letters), ["deadly"]);
    assert_eq!(letters[0].header("x-retry-disposition").unwrap(), "crashed");
    assert_eq!(letters[0].reconsume_times(), 4);
    let mut last = member(&server);
    until("the neighbour", || {
        let from = last.position_of(RETRY, 0);
        let got = read(&mut last, 0, from, 100);
        well.extend(got.iter().map(|got| (got.text(), got.reconsume_times())));
        well.iter().any(|(text, _)| text == "neighbour")
    });
    assert!(well.iter().all(|(_, times)| *times == 1), "lost beside another, not failed: {well:?}");
}
