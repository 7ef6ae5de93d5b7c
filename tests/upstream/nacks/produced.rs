//! Nacks that are produced at a broker's port, alone and beside other partitions.

use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::messages::produce_request::TopicProduceData;
use reprise::wire::ResponseError;

use crate::support::batch::plain;
use crate::support::client::{produce_request, s};
use crate::support::{Client, Rec, Server, until};

const RETRY: &str = "reprise.retry.shop";

/// First version that names topics by their ids.
const IDENTIFIED_SINCE: i16 = 13;

/// A Produce to each of these topics, one record each; a nack names `orders-0@<origin>`.
fn produce(server: &Server, version: i16, topics: &[&str], origin: i64) -> ProduceRequest {
    let topic = |name: &&str| -> TopicProduceData {
        let record = Rec::new("order");
        let record = match *name {
            RETRY => record.header("x-retry-origin", format!("orders-0@{origin}")),
            _ => record,
        };
        let mut topic = produce_request(name, 0, plain(&[record]), -1).topic_data.remove(0);
        if version >= IDENTIFIED_SINCE {
            topic.topic_id = server.client().metadata(12, &[*name]).topics[0].topic_id;
            topic.name = s("");
        }
        topic
    };
    let topics = topics.iter().map(topic).collect();
    ProduceRequest::default().with_timeout_ms(10_000).with_topic_data(topics)
}

/// The broker's port of a client, with two topics and `count` records of orders.
fn at_broker(client: &mut Client, count: usize) -> &mut Client {
    client.create("orders", 1);
    client.create("payments", 1);
    client.metadata(9, &[RETRY]);
    client.put("orders", 0, &vec![Rec::new("order"); count]);
    client.leader("orders")
}

#[test]
fn nacks_at_a_brokers_port_never_reach_the_cluster() {
    let server = Server::start();
    let mut client = server.client();
    let broker = at_broker(&mut client, 40);
    let mut nacks = 0;
    for version in 3..=13 {
        for topics in [&[RETRY][..], &["orders", RETRY, "payments"]] {
            let request = produce(&server, version, topics, nacks);
            let request = request.with_acks(if version % 2 == 0 { 1 } else { -1 });
            let answer = broker.call(version, &request);
            assert_eq!(answer.responses.len(), topics.len(), "v{version}");
            for topic in &answer.responses {
                let of = &topic.partition_responses[0];
                assert_eq!(of.error_code, 0, "v{version}: {topic:?}");
            }
            nacks += 1;
        }
    }
    assert_eq!(server.pending("shop").len(), usize::try_from(nacks).unwrap());
    assert_eq!(client.list_offset("payments", 0, -1).1, 11, "each once");
    assert_eq!(client.list_offset("orders", 0, -1).1, 40 + 11, "each once");
    // The cluster behind is a sidecar too: it would have taken the nacks.
    assert_eq!(server.cluster().pending("shop").len(), 0);
}

#[test]
fn nacks_without_acks_are_taken_beside_other_partitions() {
    let server = Server::start();
    let mut client = server.client();
    let broker = at_broker(&mut client, 40);
    for (origin, topics) in [&[RETRY][..], &["payments", RETRY]].into_iter().enumerate() {
        let origin = i64::try_from(origin).unwrap();
        let request = produce(&server, 9, topics, origin).with_acks(0);
        let request = broker.encoded(9, &request);
        broker.raw(&request);
    }
    // A relayed request in the same stream: nothing before it is left over.
    let request = produce(&server, 9, &["payments", "orders"], 0).with_acks(-1);
    assert_eq!(broker.call(9, &request).responses.len(), 2);
    until("both nacks are taken", || server.pending("shop").len() == 2);
    assert_eq!(client.list_offset("payments", 0, -1).1, 2);

    // A refusal ends the connection, as in Kafka.
    let mut bad = produce(&server, 9, &["payments", RETRY], 0).with_acks(0);
    let nonsense = Rec::new("order").header("x-retry-origin", "nonsense");
    bad.topic_data[1].partition_data[0].records = Some(plain(&[nonsense]));
    let broker = client.leader("orders");
    let bad = broker.encoded(9, &bad);
    broker.raw(&bad);
    assert_eq!(broker.frame(), None);
    let mut other = server.client();
    until("the other record is stored", || other.list_offset("payments", 0, -1).1 == 3);
}

#[test]
fn a_transaction_goes_on_without_its_nack() {
    let server = Server::start();
    let mut client = server.client();
    let broker = at_broker(&mut client, 1);
    let mut request = produce(&server, 9, &["payments", RETRY], 0).with_acks(-1);
    request.transactional_id = Some(s("pay"));
    let answer = broker.call(9, &request);
    let refused = ResponseError::InvalidTxnState.code();
    let told = |topic: &str| {
        let of = answer.responses.iter().find(|of| of.name.as_str() == topic).unwrap();
        of.partition_responses[0].clone()
    };
    assert_eq!(told(RETRY).error_code, refused);
    assert!(told(RETRY).error_message.unwrap().contains("no transactional.id"));
    let why = told("payments").error_message.unwrap_or_default();
    assert!(!why.contains("no transactional.id"), "the cluster's own verdict: {why}");
    assert_eq!(server.pending("shop").len(), 0);
}

#[test]
fn a_bad_nack_spares_the_other_partitions() {
    let server = Server::start();
    let mut client = server.client();
    let broker = at_broker(&mut client, 1);
    let mut request = produce(&server, 9, &["payments", RETRY], 0).with_acks(-1);
    let nonsense = Rec::new("order").header("x-retry-origin", "nonsense");
    request.topic_data[1].partition_data[0].records = Some(plain(&[nonsense]));
    let answer = broker.call(9, &request);
    let errors: Vec<(&str, i16)> = answer
        .responses
        .iter()
        .map(|topic| (topic.name.as_str(), topic.partition_responses[0].error_code))
        .collect();
    let refused = ResponseError::InvalidRecord.code();
    assert_eq!(errors, [("payments", 0), (RETRY, refused)]);
    assert_eq!(server.pending("shop").len(), 0);
}
