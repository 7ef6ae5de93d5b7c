//! Partitions that are added, records that are deleted, and the bytes that topics take.

use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::{
    CreatePartitionsRequest, DeleteRecordsRequest, DescribeLogDirsRequest,
};
use reprise::wire::ResponseError;

use crate::apis::settings::keep_for_ever;
use crate::support::client::s;
use crate::support::{Client, Consumer, Rec, Server, settle};

fn grown(name: &str, count: i32) -> CreatePartitionsTopic {
    let mut topic = CreatePartitionsTopic::default();
    (topic.name, topic.count, topic.assignments) = (s(name), count, None);
    topic
}

/// A topic with an assignment of its new partitions.
fn placed(name: &str, count: i32, brokers: &[i32]) -> CreatePartitionsTopic {
    let mut topic = grown(name, count);
    let on = |broker: &i32| {
        CreatePartitionsAssignment::default().with_broker_ids(vec![(*broker).into()])
    };
    topic.assignments = Some(brokers.iter().map(on).collect());
    topic
}

/// Creates partitions. Returns the error of each topic by name.
fn grow(
    client: &mut Client,
    version: i16,
    topics: Vec<CreatePartitionsTopic>,
) -> Vec<(String, i16)> {
    let request = CreatePartitionsRequest::default().with_topics(topics);
    let answer = client.call(version, &request);
    for result in &answer.results {
        let says = result.error_message.as_ref().is_some_and(|words| words.len() > 9);
        assert_eq!(says, result.error_code != 0, "{result:?}");
    }
    answer.results.iter().map(|one| (one.name.to_string(), one.error_code)).collect()
}

fn partitions(client: &mut Client, topic: &str) -> usize {
    client.metadata(9, &[topic]).topics[0].partitions.len()
}

#[test]
fn partitions_are_added_in_every_version_with_kafkas_errors() {
    let server = Server::start();
    let mut client = server.client();
    let here = server.node_id();
    for version in 0..=3 {
        let name = format!("t{version}");
        client.create(&name, 2);
        let before = client.put(&name, 1, &[Rec::new("x")]);
        assert_eq!(before, 0);
        let mut only = CreatePartitionsRequest::default().with_topics(vec![grown(&name, 5)]);
        only.validate_only = true;
        assert_eq!(client.call(version, &only).results[0].error_code, 0);
        assert_eq!(partitions(&mut client, &name), 2, "v{version}: only looked at");

        assert_eq!(grow(&mut client, version, vec![grown(&name, 4)]), [(name.clone(), 0)]);
        assert_eq!(partitions(&mut client, &name), 4, "v{version}");
        let with = placed(&name, 6, &[here, here]);
        assert_eq!(grow(&mut client, version, vec![with])[0].1, 0);
        assert_eq!(client.put(&name, 5, &[Rec::new("new")]), 0, "v{version}: at once usable");
        assert_eq!(client.put(&name, 1, &[Rec::new("y")]), 1, "v{version}: the old ones go on");

        let no = |error: ResponseError| error.code();
        for (asked, error) in [
            (grown(&name, 6), no(ResponseError::InvalidPartitions)),
            (grown(&name, 5), no(ResponseError::InvalidPartitions)),
            (grown(&name, -1), no(ResponseError::InvalidPartitions)),
            (grown(&name, 10_001), no(ResponseError::InvalidPartitions)),
            (grown("nowhere", 3), no(ResponseError::UnknownTopicOrPartition)),
            (grown("reprise.dlq.shop", 3), no(ResponseError::PolicyViolation)),
            (placed(&name, 8, &[here]), no(ResponseError::InvalidReplicaAssignment)),
            (placed(&name, 7, &[here + 1]), no(ResponseError::InvalidReplicaAssignment)),
        ] {
            let said = format!("v{version} {asked:?}");
            assert_eq!(grow(&mut client, version, vec![asked])[0].1, error, "{said}");
        }
        let twice = vec![grown(&name, 7), grown("nowhere", 3), grown(&name, 8)];
        let codes = grow(&mut client, version, twice);
        let invalid = ResponseError::InvalidRequest.code();
        let unknown = ResponseError::UnknownTopicOrPartition.code();
        assert_eq!(codes, [("nowhere".to_owned(), unknown), (name.clone(), invalid)]);
        assert_eq!(partitions(&mut client, &name), 6, "v{version}: nothing of that was done");
    }
}

#[test]
fn added_partitions_survive_a_kill() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    let id = client.metadata(12, &["orders"]).topics[0].topic_id;
    assert_eq!(grow(&mut client, 3, vec![grown("orders", 3)])[0].1, 0);
    assert_eq!(client.put("orders", 2, &[Rec::new("x")]), 0);
    let after = server.killed();
    let mut client = after.client();
    assert_eq!(partitions(&mut client, "orders"), 3);
    assert_eq!(client.metadata(12, &["orders"]).topics[0].topic_id, id);
    assert_eq!(client.put("orders", 2, &[Rec::new("y")]), 1);
}

#[test]
fn kip_848_members_are_assigned_added_partitions() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 2);
    let mut member = Consumer::new(&server, "shop", &["orders"]);
    member.enter();
    settle(&mut [&mut member]);
    assert_eq!(member.orders(), [0, 1]);
    assert_eq!(grow(&mut client, 3, vec![grown("orders", 4)])[0].1, 0);
    settle(&mut [&mut member]);
    assert_eq!(member.orders(), [0, 1, 2, 3]);
}

/// Deletes records. Returns the low watermark and the error of each partition.
fn delete(
    client: &mut Client,
    version: i16,
    topic: &str,
    before: &[(i32, i64)],
) -> Vec<(i64, i16)> {
    let partition = |(index, offset): &(i32, i64)| {
        DeleteRecordsPartition::default().with_partition_index(*index).with_offset(*offset)
    };
    let mut asked = DeleteRecordsTopic::default();
    (asked.name, asked.partitions) = (s(topic), before.iter().map(partition).collect());
    let request = DeleteRecordsRequest::default().with_topics(vec![asked]);
    let answer = client.call(version, &request);
    let results = answer.topics[0].partitions.iter();
    results.map(|one| (one.low_watermark, one.error_code)).collect()
}

#[test]
fn records_are_deleted_up_to_an_offset_in_every_version() {
    let server = Server::start();
    let mut client = server.client();
    client.nack("shop", "orders-0@0", Rec::new("x").header("x-retry-level", "-1"));
    for version in 0..=2 {
        let name = format!("t{version}");
        client.create(&name, 3);
        for (index, batches) in [(0, 5), (1, 3)] {
            for _ in 0..batches {
                client.put(&name, index, &[Rec::new("a"), Rec::new("b")]);
            }
        }
        let out = ResponseError::OffsetOutOfRange.code();
        let unknown = ResponseError::UnknownTopicOrPartition.code();
        let asked = [(0, 3), (1, -1), (2, -1), (0, 11), (0, -2), (7, 0)];
        let done = [(3, 0), (6, 0), (0, 0), (-1, out), (-1, out), (-1, unknown)];
        assert_eq!(delete(&mut client, version, &name, &asked), done, "v{version}");
        assert_eq!(delete(&mut client, version, &name, &[(0, 1)]), [(3, 0)], "never back");
        assert_eq!(delete(&mut client, version, &name, &[(0, 10)]), [(10, 0)], "all of it");
        assert_eq!(client.list_offset(&name, 1, -2).1, 6, "v{version}: where it begins");
        assert_eq!(client.fetch(&name, 1, 5, 0).error_code, out, "v{version}: gone");
        assert_eq!(client.put(&name, 1, &[Rec::new("new")]), 6, "offsets go on");

        let unknown = [(-1, ResponseError::UnknownTopicOrPartition.code())];
        assert_eq!(delete(&mut client, version, "nowhere", &[(0, -1)]), unknown);
        let empty = [(0, 0)];
        assert_eq!(delete(&mut client, version, "reprise.retry.shop", &[(0, -1)]), empty);
        let letters = "reprise.dlq.shop";
        assert_eq!(delete(&mut client, version, letters, &[(0, -1)]), [(1, 0)], "v{version}");
    }
    assert_eq!(client.list_offset("reprise.dlq.shop", 0, -2).1, 1, "no letter is left");
}

#[test]
fn a_partition_starts_at_a_deletion_inside_a_batch() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("a"), Rec::new("b"), Rec::new("c")]);
    assert_eq!(delete(&mut client, 2, "orders", &[(0, 2)]), [(2, 0)]);
    for server in [&server, &server.killed()] {
        let mut client = server.client();
        assert_eq!(client.list_offset("orders", 0, -2).1, 2);
        let refused = client.fetch("orders", 0, 1, 0);
        assert_eq!(refused.error_code, ResponseError::OffsetOutOfRange.code());
        let data = client.fetch("orders", 0, 2, 0);
        assert_eq!((data.error_code, data.log_start_offset), (0, 2));
    }
}

#[test]
fn records_are_found_by_time_among_those_that_are_left() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    keep_for_ever(&mut client, "orders");
    let at = |time: i64| Rec::new("x").at(time);
    client.put("orders", 0, &[at(1000), at(9000), at(2000), at(1500)]);
    client.put("orders", 0, &[at(1700)]);
    client.put("orders", 0, &[at(5000)]);
    let mut found = |time: i64| {
        let (error, offset, time) = client.list_offset("orders", 0, time);
        assert_eq!(error, 0);
        (offset, time)
    };
    assert_eq!([found(1000), found(1600), found(-3)], [(0, 1000), (1, 9000), (1, 9000)]);
    assert_eq!(delete(&mut server.client(), 2, "orders", &[(0, 2)]), [(2, 0)]);
    assert_eq!([found(1000), found(1600)], [(2, 2000), (2, 2000)], "what is deleted is not found");
    assert_eq!(found(3000), (5, 5000), "not in what is left of the first batch, nor in the next");
    assert_eq!(found(8000), (-1, -1), "the only one is deleted");
    assert_eq!(found(-3), (2, 2000), "of the batch that had the latest");
}

#[test]
fn log_dirs_are_described_in_every_version() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 2);
    client.put("orders", 1, &[Rec::new("x")]);
    client.nack("shop", "orders-0@0", Rec::new("x").header("x-retry-level", "-1"));
    for version in 1..=4 {
        let all = client.call(version, &DescribeLogDirsRequest::default().with_topics(None));
        assert_eq!((all.error_code, all.results.len()), (0, 1), "v{version}");
        let dir = &all.results[0];
        assert_eq!((dir.error_code, dir.usable_bytes > 0), (0, version >= 4));
        let names: Vec<&str> = dir.topics.iter().map(|topic| topic.name.as_str()).collect();
        let expected = ["orders", "reprise.dlq.shop", "reprise.retry.shop"];
        assert_eq!(names, expected, "v{version}");
        let sizes: Vec<(i32, bool)> = dir.topics[0]
            .partitions
            .iter()
            .map(|one| (one.partition_index, one.partition_size > 0))
            .collect();
        assert_eq!(sizes, [(0, false), (1, true)], "v{version}");

        let asked = |name: &str, partitions: Vec<i32>| {
            DescribableLogDirTopic::default().with_topic(s(name)).with_partitions(partitions)
        };
        let some = vec![asked("orders", vec![1, 9]), asked("nowhere", vec![0])];
        let some = DescribeLogDirsRequest::default().with_topics(Some(some));
        let topics = client.call(version, &some).results.remove(0).topics;
        assert_eq!((topics.len(), topics[0].partitions.len()), (1, 1), "v{version}");
    }
}
