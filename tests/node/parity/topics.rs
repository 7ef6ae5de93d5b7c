//! The topics of a group: their partitions, and the operations that clients may use on them.

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::{CreatePartitionsRequest, MetadataRequest};
use reprise::config::Config;

use crate::parity::row::{Comparison, Row};
use crate::parity::shop::Shop;
use crate::support::batch::unpack;
use crate::support::client::s;
use crate::support::{Client, Rec};

pub(crate) const Q16: Row = Row {
    id: "Q16",
    theirs: "Retry queues set to 0: retries are answered OK and lost. From 1 to 4 in a live \
             group: three of four are lost without a word.",
    ours: "A retry topic has 1 partition or more (`retry.partitions`), and may be given more: \
           retries enter the new ones, and members read them after their next Metadata.",
    stands: Comparison::Differs("a partition that members do not know yet loses nothing"),
};

#[test]
fn q16_a_retry_topic_may_grow_without_a_loss() {
    let mut shop = Shop::with("");
    let place = shop.delivered(Rec::new("x"));
    shop.fail(&place);
    let (_, got) = shop.comes_after(10_000);
    assert_eq!(got.reconsume_times(), 1);
    for count in [0, 1, 4] {
        let mut topic = CreatePartitionsTopic::default();
        (topic.name, topic.count, topic.assignments) = (s("reprise.retry.shop"), count, None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]);
        let answer = shop.member.client.call(3, &request);
        assert_eq!(answer.results[0].error_code == 0, count == 4, "{count} partitions");
    }
    assert_eq!(partitions(&mut shop.member.client, "reprise.retry.shop"), 4);
    for n in 0..20 {
        let place = shop.delivered(Rec { key: Some(n.to_string().into()), ..Rec::new("x") });
        shop.fail_with(&place, Rec { key: Some(n.to_string().into()), ..Rec::new("x") });
    }
    shop.server.pass(10_000);
    assert!(!shop.given().is_empty(), "partition 0");
    let mut rest = 0;
    for partition in 1..4 {
        let data = shop.member.client.fetch("reprise.retry.shop", partition, 0, 0);
        rest += unpack(&data.records.unwrap()).len();
    }
    assert!(rest > 0 && shop.open().len() == rest, "{rest} in the new partitions");
    for key in ["queues", "retry_queue_nums", "partitions"] {
        let yaml = format!("retry: {{{key}: 0}}");
        assert!(Config::parse("test", &yaml, &[], &[]).is_err(), "{key}");
    }
}

pub(crate) const Q17: Row = Row {
    id: "Q17",
    theirs: "The dead-letter topic has one queue, is read and written, and is not there before \
             its first record.",
    ours: "One partition, read and written by any client; listed, and empty, as soon as its \
           group has a failure.",
    stands: Comparison::Differs("who subscribes to it before its first record is given that one"),
};

#[test]
fn q17_the_dead_letter_topic_has_one_readable_writable_partition() {
    let mut shop = Shop::with("retry: {max_reconsume_times: 0}");
    let place = shop.delivered(Rec::new("x"));
    assert!(shop.letters().is_empty());
    shop.fail(&place);
    assert_eq!(partitions(&mut shop.member.client, "reprise.dlq.shop"), 1);
    assert!(listed(&mut shop.member.client).contains(&"reprise.dlq.shop".to_owned()));
    assert_eq!(shop.member.client.put("reprise.dlq.shop", 0, &[Rec::new("by hand")]), 1);
    let texts: Vec<String> = shop.letters().iter().map(crate::support::Got::text).collect();
    assert_eq!(texts, ["x", "by hand"]);
}

fn partitions(client: &mut Client, topic: &str) -> usize {
    client.metadata(9, &[topic]).topics[0].partitions.len()
}

/// The topics in the answer to a Metadata request for all.
fn listed(client: &mut Client) -> Vec<String> {
    let told = client.call(9, &MetadataRequest::default().with_topics(None));
    told.topics.iter().map(|topic| topic.name.as_ref().unwrap().to_string()).collect()
}
