//! The public view of a retry topic: Metadata, offsets, the snapshot, parked retries.

use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use reprise::wire::ResponseError;

use crate::support::batch::unpack;
use crate::support::client::{fetch_request, s};
use crate::support::member::offset_fetch;
use crate::support::{Member, Rec, Server, in_front, until};

in_front!(
    a_retry_topic_exists_by_every_name_and_by_id,
    a_members_position_is_found_by_id_connection_and_address,
    non_members_read_a_snapshot_without_any_delivery,
    a_snapshot_respects_its_byte_limit_after_the_first_record,
    another_group_reads_the_snapshot_and_acknowledges_nothing,
    retries_are_parked_until_a_member_subscribes_to_them,
    an_odd_group_name_gives_one_retry_topic_name_everywhere,
    a_group_without_a_lane_has_no_retry_topic
);

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

fn shop() -> (Server, Member) {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(PARTITIONS);
    (server, member)
}

fn a_retry_topic_exists_by_every_name_and_by_id() {
    let mut server = Server::start();
    let mut client = server.client();
    let told = client.metadata(12, &["reprise.retry.shop", "reprise.dlq.shop"]);
    assert!(told.topics.iter().all(|t| t.error_code == 0 && t.partitions.len() == 1));
    let names: Vec<&str> = told.topics.iter().map(|t| t.name.as_ref().unwrap().as_str()).collect();
    assert_eq!(names, ["reprise.retry.shop", "reprise.dlq.shop"], "as asked");
    let ids: Vec<_> = told.topics.iter().map(|t| t.topic_id).collect();
    assert_ne!(ids[0], ids[1]);
    let by_id = MetadataRequestTopic::default().with_name(None).with_topic_id(ids[0]);
    let request = MetadataRequest::default().with_topics(Some(vec![by_id]));
    let found = client.call(12, &request);
    assert_eq!(found.topics[0].name, Some(s("reprise.retry.shop")));
    // Metadata stores nothing: the names are listed once there is a nack or a member
    let all = MetadataRequest::default().with_topics(None);
    assert!(client.call(12, &all).topics.is_empty());
    assert_eq!(client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    server.restart();
    let listed = server.client().call(12, &all);
    let names: Vec<&str> =
        listed.topics.iter().map(|t| t.name.as_ref().unwrap().as_str()).collect();
    assert!(names.contains(&"reprise.retry.shop"), "{names:?}");
    let again = listed.topics.iter().find(|t| t.name == Some(s("reprise.retry.shop"))).unwrap();
    assert_eq!(again.topic_id, ids[0], "the same id for ever");
    let illegal = server.client().metadata(12, &["%RETRY%shop"]);
    assert_eq!(illegal.topics[0].error_code, ResponseError::InvalidTopicException.code());
}

fn a_members_position_is_found_by_id_connection_and_address() {
    let (server, mut member) = shop();
    assert_eq!(member.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let open = member.retry_once().offset;
    assert!(open >= 1 << 50);
    for version in 1..=7 {
        let found = offset_fetch(&mut member.client, version, "shop", "reprise.retry.shop", 0);
        assert_eq!(found, (open, Some(String::new()), 0), "v{version}, the same connection");
    }
    let mut another = member.client.another();
    assert_eq!(
        offset_fetch(&mut another, 7, "shop", "reprise.retry.shop", 0).0,
        open,
        "the same object"
    );
    assert_eq!(another.list_offset("reprise.retry.shop", 0, -2), (0, open, -1), "its position");
    assert_eq!(
        another.list_offset("reprise.retry.shop", 0, -1),
        (0, open + 1, -1),
        "its next offset"
    );
    let got = unpack(&another.fetch("reprise.retry.shop", 0, open, 0).records.unwrap());
    assert_eq!(got[0].offset, open, "and it is handed out there");
    let mut stranger = server.client();
    assert_eq!(offset_fetch(&mut stranger, 7, "shop", "reprise.retry.shop", 0).0, 0);
    let id = std::mem::replace(&mut member.client, stranger);
    assert_eq!(member.position(), open, "version 9 says the member id");
    drop(id);
}

fn non_members_read_a_snapshot_without_any_delivery() {
    let server = Server::with("retry: {levels: 1h}");
    let mut reader = server.client();
    for n in 0..3 {
        let record = Rec::new(&n.to_string());
        assert_eq!(reader.nack("shop", &format!("orders-0@{n}"), record).error_code, 0);
    }
    assert_eq!(reader.list_offset("reprise.retry.shop", 0, -2), (0, 0, -1));
    assert_eq!(reader.list_offset("reprise.retry.shop", 0, -1), (0, 3, -1));
    for from in 0..=3 {
        let data = reader.fetch("reprise.retry.shop", 0, from, 0);
        assert_eq!((data.error_code, data.high_watermark), (0, 3));
        let got = unpack(&data.records.unwrap());
        let offsets: Vec<i64> = got.iter().map(|record| record.offset).collect();
        assert_eq!(offsets, (from..3).collect::<Vec<i64>>(), "oldest due first");
    }
    let group = server.json("/api/v1/groups/shop");
    assert_eq!((&group["inflight"], &group["pending"]), (&0.into(), &3.into()));
}

fn a_snapshot_respects_its_byte_limit_after_the_first_record() {
    let server = Server::with("retry: {levels: 1h}");
    let mut reader = server.client();
    for n in 0..8 {
        let record = Rec::new(&"x".repeat(100_000));
        assert_eq!(reader.nack("shop", &format!("orders-0@{n}"), record).error_code, 0);
    }
    for (bytes_max, wanted) in [(350_000, 3), (150_000, 1), (1, 1), (10 << 20, 8)] {
        let mut request = fetch_request("reprise.retry.shop", 0, 0, 0);
        request.topics[0].partitions[0].partition_max_bytes = bytes_max;
        let data = reader.fetch_by(12, &request);
        assert_eq!((data.error_code, data.high_watermark), (0, 8));
        let got = unpack(&data.records.unwrap());
        assert_eq!(got.len(), wanted, "of {bytes_max} bytes");
    }
}

fn another_group_reads_the_snapshot_and_acknowledges_nothing() {
    let (server, mut member) = shop();
    assert_eq!(member.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    let open = member.retry_once().offset;
    let later = Rec::new("later").header("x-retry-delay-ms", "3600000");
    assert_eq!(member.client.nack("shop", "orders-0@2", later).error_code, 0);
    // the other group has a retry partition as well, so the two could be mixed up
    let mut spy = Member::new(&server, "spy", &["reprise.retry.shop", "reprise.retry.spy"]);
    spy.join(&[("reprise.retry.shop", 1), ("reprise.retry.spy", 1)]);
    let both = ["reprise.retry.shop", "reprise.retry.spy"].map(|topic| (topic.to_owned(), vec![0]));
    spy.assigned.sort();
    assert_eq!(spy.assigned, both);
    assert!(spy.position() >= 1 << 50);
    assert_eq!(spy.position_of("reprise.retry.shop", 0), 0);
    assert_eq!(offset_fetch(&mut spy.client, 7, "spy", "reprise.retry.shop", 0).0, 0);
    assert_eq!(spy.client.list_offset("reprise.retry.shop", 0, -2).1, 0);
    let got = spy.client.read_all("reprise.retry.shop");
    assert!(got.iter().any(|record| record.text() == "later"), "{got:?}");
    assert_eq!(spy.commit("reprise.retry.shop", 0, 1), 0, "said yes to, and forgotten");
    assert_eq!(spy.commit("reprise.retry.shop", 0, open + 1), 0);
    assert_eq!(member.position(), open, "the group's own hand-out is still open");
}

fn retries_are_parked_until_a_member_subscribes_to_them() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut old = Member::new(&server, "shop", &["orders"]);
    old.join(&[("orders", 1)]);
    assert_eq!(old.client.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    until("it is parked", || server.json("/api/v1/groups/shop")["parked"] == 1);
    let advice = server.json("/api/v1/groups/shop")["advice"].to_string();
    assert!(advice.contains("reprise.retry.shop"), "the way out: {advice}");
    until("the gauge", || server.metric("reprise_records_parked{group=\"shop\"}") >= 1.0);
    let mut new = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    crate::support::rebalance(&mut [&mut old, &mut new], PARTITIONS);
    let got = new.retry_once();
    assert_eq!((got.text().as_str(), got.number("RECONSUME_TIME")), ("x", 1));
    assert_eq!(server.json("/api/v1/groups/shop")["parked"], 0);
}

fn an_odd_group_name_gives_one_retry_topic_name_everywhere() {
    let server = Server::start();
    let group = "grün/1";
    let mut member = Member::new(&server, group, &[]);
    let retry = server.json("/api/v1/groups")["items"].clone();
    assert_eq!(retry.as_array().map(Vec::len), Some(0));
    let templates = reprise::config::Config::default().templates();
    let topic = templates.retry_topic(&group.into()).to_string();
    member.topics = vec![topic.clone()];
    member.join(&[(&topic, 1)]);
    assert_eq!(member.assigned, [(topic.clone(), vec![0])]);
    let record = Rec::new("x").header("x-retry-origin", "orders-0@1");
    let batch = crate::support::batch::plain(&[record]);
    assert_eq!(member.client.produce(&topic, 0, batch).error_code, 0);
    let from = member.position_of(&topic, 0);
    let mut got = Vec::new();
    until("a retry", || {
        got = unpack(&member.client.fetch(&topic, 0, from, 1000).records.unwrap());
        !got.is_empty()
    });
    assert_eq!(got[0].text(), "x");
}

fn a_group_without_a_lane_has_no_retry_topic() {
    let config = "groups: [{match: shop, delivery: off}]\ntopics: {auto_create: false}";
    let server = Server::with(config);
    let mut client = server.client();
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    let told = client.metadata(9, &["reprise.retry.shop"]);
    assert_eq!(told.topics[0].error_code, unknown);
    assert_eq!(client.nack("shop", "orders-0@1", Rec::new("x")).error_code, unknown);
    assert_eq!(client.fetch("reprise.retry.shop", 0, 0, 0).error_code, unknown);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(PARTITIONS);
    // In front of a cluster the topic is the cluster's, and its group leader assigns it.
    let given = member.assigned.iter().any(|(topic, _)| topic == "reprise.retry.shop");
    assert_eq!(given, in_front(), "{:?}", member.assigned);
    assert_eq!(server.json("/api/v1/overview")["topics"], 0, "nothing was made");
    assert_eq!(client.nack("other", "orders-0@1", Rec::new("x")).error_code, 0);
}
