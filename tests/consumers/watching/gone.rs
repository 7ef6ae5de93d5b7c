//! Topics deleted or recreated while members are active: no knowledge of the old records applies to
//! the new ones.

use kafka_protocol::messages::{DeleteTopicsRequest, FetchRequest};

use crate::support::client::{fetch_request, s};
use crate::support::{Client, Member, Rec, Server};
use crate::watching::app::began;

both!(a_deleted_topic_passes_its_turn_to_the_next);

const BOTH: &[(&str, i32)] = &[("orders", 1), ("others", 1)];

fn delete(server: &Server, topic: &str) {
    let mut request = DeleteTopicsRequest::default();
    request.topic_names = vec![s(topic)];
    assert_eq!(server.client().call(4, &request).responses[0].error_code, 0);
}

/// Topics and record values in the answer to a Fetch from the beginning of these topics.
fn given(client: &mut Client, topics: &[&str]) -> Vec<(String, Vec<String>)> {
    let of = topics.iter().flat_map(|topic| fetch_request(topic, 0, 0, 0).topics);
    let request = fetch_request("", 0, 0, 5_000).with_topics(of.collect());
    let told = client.leader(topics[0]).call::<FetchRequest>(12, &request);
    let brought = told.responses.iter().map(|topic| {
        let records = topic.partitions[0].records.clone().unwrap();
        let values = crate::support::batch::unpack(&records);
        (topic.topic.to_string(), values.iter().map(crate::support::Got::text).collect())
    });
    brought.filter(|(_, values): &(_, Vec<String>)| !values.is_empty()).collect()
}

fn a_deleted_topic_passes_its_turn_to_the_next() {
    let server = Server::with("retry: {isolation_timeout: 100ms}");
    let mut tool = server.client();
    for (topic, partitions) in BOTH {
        tool.create(topic, *partitions);
        tool.put(topic, 0, &[Rec::new("a"), Rec::new("b")]);
    }
    began(&server, BOTH);
    let joined = || {
        let mut member = Member::new(&server, "shop", &["orders", "others"]);
        member.join(BOTH);
        member
    };
    for _ in 0..3 {
        let mut member = joined();
        let both = given(&mut member.client, &["orders", "others"]);
        assert_eq!(both.len(), 2, "{both:?}");
        assert_eq!(member.leave(), 0);
    }
    let mut member = joined();
    let (gone, one) = given(&mut member.client, &["orders", "others"]).remove(0);
    assert_eq!(one, ["a"], "one at a time");
    delete(&server, &gone);
    let other = if gone == "orders" { "others" } else { "orders" };
    let next = given(&mut member.client, &[other]);
    assert_eq!(next, [(other.to_owned(), vec!["a".to_owned()])]);
}
