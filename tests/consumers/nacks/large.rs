//! Nacks beyond the size of one journal group. A batch that may be too large is refused as a whole;
//! a reload that moves many entries succeeds.

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::{CreateTopicsRequest, DescribeConfigsRequest};
use reprise::wire::ResponseError;

use crate::support::batch::plain;
use crate::support::client::s;
use crate::support::{Member, Rec, Server, in_front, until};

both!(
    a_record_that_its_topic_took_is_nacked_by_value,
    a_nack_larger_than_its_topic_holds_is_refused,
    nacks_by_reference_count_with_the_records_they_name,
    a_reload_may_change_more_entries_than_one_atomic_group
);

const LATER: &str = "retry: {levels: 1h}";
/// More entries than the engine puts into one journal group.
const ENTRIES: usize = 5_000;
/// The largest batch in a topic of these tests.
const LARGE_BYTES: usize = 3_100_000;
/// Number of nacks in one batch.
const BATCH: usize = 1_000;

/// Creates a topic with a larger batch limit.
fn create_large(server: &Server, topic: &str) {
    let mut config = CreatableTopicConfig::default();
    (config.name, config.value) = (s("max.message.bytes"), Some(s(&LARGE_BYTES.to_string())));
    let mut asked = CreatableTopic::default();
    (asked.name, asked.num_partitions, asked.replication_factor) = (s(topic), 1, 1);
    asked.configs = vec![config];
    let answer = server.client().call(5, &CreateTopicsRequest::default().with_topics(vec![asked]));
    assert_eq!(answer.topics[0].error_code, 0, "{:?}", answer.topics[0].error_message);
}

/// The batch limit of a topic by `DescribeConfigs`.
fn described(member: &mut Member, topic: &str) -> usize {
    let mut resource = DescribeConfigsResource::default();
    (resource.resource_type, resource.resource_name) = (2, s(topic));
    resource.configuration_keys = Some(vec![s("max.message.bytes")]);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let told = member.client.call(4, &request).results.remove(0);
    assert_eq!(told.error_code, 0, "{:?}", told.error_message);
    told.configs[0].value.as_ref().unwrap().parse().unwrap()
}

fn a_record_that_its_topic_took_is_nacked_by_value() {
    let server = Server::start();
    create_large(&server, "orders");
    server.client().create("small", 1);
    let mut member = Member::new(&server, "shop", &["orders", "small", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("small", 1), ("reprise.retry.shop", 1)]);
    let value = "v".repeat(LARGE_BYTES - 100);
    // A first request is small, since a connection may not begin with a large one.
    member.client.fetch("orders", 0, 0, 0);
    member.client.put("orders", 0, &[Rec::new(&value)]);
    let reason = "r".repeat(1_000);
    let failed = Rec::new(&value).header("x-retry-reason", &reason);
    let told = member.client.nack("shop", "orders-0@0", failed);
    assert_eq!(told.error_code, 0, "{:?}", told.error_message);
    let retry = member.retry_once();
    assert!(retry.text() == value && retry.reconsume_times() == 1);
    // The application copies our headers into its nack.
    let mut again = Rec::new(&value).header("x-retry-level", "-1");
    for name in ["RECONSUME_TIME", "ORIGIN_MESSAGE_ID", "x-retry-reason"] {
        again = again.header(name, retry.header(name).unwrap());
    }
    let told = member.client.nack("shop", &format!("reprise.retry.shop-0@{}", retry.offset), again);
    assert_eq!(told.error_code, 0, "{:?}", told.error_message);
    let letters = member.client.read_all("reprise.dlq.shop");
    assert!(letters.len() == 1 && letters[0].text() == value, "with a fetch of 1 MiB");
}

fn a_nack_larger_than_its_topic_holds_is_refused() {
    let server = Server::start();
    create_large(&server, "orders");
    server.client().create("small", 1);
    let mut member = Member::new(&server, "shop", &["orders", "small", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("small", 1), ("reprise.retry.shop", 1)]);
    let refused = ResponseError::MessageTooLarge.code();
    let value = Rec::new(&"v".repeat(LARGE_BYTES - 100));
    assert_eq!(member.client.nack("shop", "small-0@0", value).error_code, refused);
    let value = Rec::new(&"v".repeat(LARGE_BYTES + 20_000));
    assert_eq!(member.client.nack("shop", "orders-0@0", value).error_code, refused);
    if in_front() {
        assert_eq!(described(&mut member, "reprise.retry.shop"), 64 << 20);
        return;
    }
    for topic in ["reprise.retry.shop", "reprise.dlq.shop"] {
        assert_eq!(described(&mut member, topic), LARGE_BYTES + (16 << 10), "{topic}");
    }
    let letter = plain(&[Rec::new(&"v".repeat(LARGE_BYTES - 100))]);
    assert_eq!(member.client.produce("reprise.dlq.shop", 0, letter).error_code, 0);
    let letter = plain(&[Rec::new(&"v".repeat(LARGE_BYTES + 20_000))]);
    assert_eq!(member.client.produce("reprise.dlq.shop", 0, letter).error_code, refused);
}

fn nacks_by_reference_count_with_the_records_they_name() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    let large = Rec::new(&"v".repeat(900_000));
    assert_eq!(member.client.nack("shop", "orders-0@0", large).error_code, 0);
    let retry = member.retry_once();
    let by_reference = || {
        Rec::new("")
            .header("x-retry-origin", format!("reprise.retry.shop-0@{}", retry.offset))
            .header("x-retry-by-reference", "true")
    };
    let many: Vec<Rec> = (0..300).map(|_| by_reference()).collect();
    let told = member.client.produce("reprise.retry.shop", 0, plain(&many));
    assert_eq!(told.error_code, ResponseError::MessageTooLarge.code());
    assert!(told.error_message.unwrap().contains("send fewer in one batch"));
    // In front of a cluster, each is read back with its 900 KB.
    let few = if in_front() { 60 } else { 200 };
    let few: Vec<Rec> = (0..few).map(|_| by_reference()).collect();
    assert_eq!(member.client.produce("reprise.retry.shop", 0, plain(&few)).error_code, 0);
    let again = member.retries_from(retry.offset + 1).remove(0);
    assert_eq!(again.reconsume_times(), 2, "one failure, however often it was told");
}

fn a_reload_may_change_more_entries_than_one_atomic_group() {
    let mut server = Server::with(LATER);
    let mut client = server.client();
    for batch in 0..ENTRIES / BATCH {
        let origin = |n: usize| format!("orders-0@{}", batch * BATCH + n);
        let nacks = (0..BATCH).map(|n| Rec::new("x").header("x-retry-origin", origin(n)));
        let nacks: Vec<Rec> = nacks.collect();
        assert_eq!(client.produce("reprise.retry.shop", 0, plain(&nacks)).error_code, 0);
    }
    let due = |server: &Server| server.json("/api/v1/groups/shop")["due"].clone();
    assert_eq!(due(&server), 0, "nothing is due for an hour");
    server.reload_with(|config| "20ms".clone_into(&mut config.retry.levels));
    until("all of them are due", || due(&server) == ENTRIES);
    assert_eq!(client.nack("shop", "orders-0@999999", Rec::new("x")).error_code, 0);
    let again = server.killed();
    until("and after a kill as well", || due(&again) == ENTRIES + 1);
}
