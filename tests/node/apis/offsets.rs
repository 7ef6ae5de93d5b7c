//! Offsets: of partitions by name and by time, and committed offsets of groups.

use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{DeleteTopicsRequest, OffsetCommitRequest, OffsetFetchRequest};
use reprise::wire::ResponseError;

use crate::support::batch::TIME_MS;
use crate::support::client::s;
use crate::support::member::offset_fetch;
use crate::support::{Client, Member, Rec, Server};

fn with_topic() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.create("t", 2);
    (server, client)
}

#[test]
fn offsets_are_found_by_name_and_by_time() {
    let (_server, mut client) = with_topic();
    let at = |ms: i64| Rec::new("x").at(TIME_MS + ms);
    client.put("t", 0, &[at(10), at(30), at(20)]);
    client.put("t", 0, &[at(5), at(40)]);
    let cases = [
        (-1, 5, -1),
        (-2, 0, -1),
        (-3, 4, TIME_MS + 40),
        (0, 0, TIME_MS + 10),
        (TIME_MS + 10, 0, TIME_MS + 10),
        (TIME_MS + 11, 1, TIME_MS + 30),
        (TIME_MS + 31, 4, TIME_MS + 40),
        (TIME_MS + 41, -1, -1),
    ];
    for (asked, offset, time) in cases {
        assert_eq!(client.list_offset("t", 0, asked), (0, offset, time), "{asked}");
    }
    assert_eq!(client.list_offset("t", 1, -3), (0, -1, -1), "an empty partition");
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    assert_eq!(client.list_offset("t", 2, -1), (unknown, -1, -1));
    assert_eq!(client.list_offset("reprise.dlq.shop", 0, -1), (0, 0, -1), "no dead letter yet");
}

/// The metadata of a commit comes back byte for byte.
const METADATA: &str = "!again:x;é\u{0}\"{}\n base64==";

#[test]
fn commits_and_offset_fetches_keep_metadata_in_every_version() {
    let (server, mut client) = with_topic();
    let mut member = Member::new(&server, "g", &["t"]);
    member.join(&[("t", 2)]);
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    for version in 2..=9_i16 {
        let offset = i64::from(version) * 100;
        let mut request = member.commit_request("t", 1, offset, METADATA);
        let mut beyond = request.topics[0].partitions[0].clone();
        beyond.partition_index = 5;
        request.topics[0].partitions.push(beyond);
        let answer = member.client.call(version, &request);
        let codes: Vec<i16> = answer.topics[0].partitions.iter().map(|p| p.error_code).collect();
        assert_eq!(codes, [0, unknown], "v{version}");
        for fetch in 1..=7 {
            let found = offset_fetch(&mut client, fetch, "g", "t", 1);
            assert_eq!(found, (offset, Some(METADATA.to_owned()), 0), "v{version}, v{fetch}");
            let none = offset_fetch(&mut client, fetch, "g", "t", 0);
            assert_eq!(none, (-1, Some(String::new()), 0), "never committed");
        }
        request.generation_id_or_member_epoch += 1;
        let refused = member.client.call(version, &request);
        let error = refused.topics[0].partitions[0].error_code;
        assert_eq!(error, ResponseError::IllegalGeneration.code(), "v{version}");
    }
}

#[test]
fn offset_fetch_8_returns_several_groups_and_all_offsets() {
    let (_server, mut client) = with_topic();
    for group in ["g", "h"] {
        for index in [0, 1] {
            let answer = client.call(9, &lone_commit(group, index, 40 + i64::from(index)));
            assert_eq!(answer.topics[0].partitions[0].error_code, 0, "no member: anyone may");
        }
    }
    for version in [8, 9] {
        let mut one = OffsetFetchRequestTopics::default();
        (one.name, one.partition_indexes) = (s("t"), vec![1]);
        let of = |group: &str, topics| {
            OffsetFetchRequestGroup::default().with_group_id(s(group)).with_topics(topics)
        };
        let groups = vec![of("g", Some(vec![one])), of("h", None), of("nobody", None)];
        let answer = client.call(version, &OffsetFetchRequest::default().with_groups(groups));
        let offsets: Vec<Vec<(i32, i64)>> = answer
            .groups
            .iter()
            .map(|g| g.topics.iter().flat_map(|t| &t.partitions))
            .map(|ps| ps.map(|p| (p.partition_index, p.committed_offset)).collect())
            .collect();
        assert_eq!(offsets, [vec![(1, 41)], vec![(0, 40), (1, 41)], vec![]], "v{version}");
        let codes: Vec<i16> = answer.groups.iter().map(|group| group.error_code).collect();
        assert_eq!(codes, [0, 0, 0]);
    }
    for version in 2..=7 {
        let request = OffsetFetchRequest::default().with_group_id(s("h")).with_topics(None);
        let answer = client.call(version, &request);
        assert_eq!(answer.topics[0].partitions.len(), 2, "v{version}");
    }
}

fn lone_commit(group: &str, index: i32, offset: i64) -> OffsetCommitRequest {
    use kafka_protocol::messages::offset_commit_request as c;
    let mut partition = c::OffsetCommitRequestPartition::default();
    (partition.partition_index, partition.committed_offset) = (index, offset);
    partition.committed_metadata = None;
    let mut topic = c::OffsetCommitRequestTopic::default();
    (topic.name, topic.partitions) = (s("t"), vec![partition]);
    let mut request = OffsetCommitRequest::default();
    (request.group_id, request.topics) = (s(group), vec![topic]);
    request.generation_id_or_member_epoch = -1;
    request
}

#[test]
fn metadata_has_a_bound_and_survives_a_restart() {
    let (mut server, mut client) = with_topic();
    let mut request = lone_commit("g", 0, 1);
    let metadata = |len: usize| Some(s(&"m".repeat(len)));
    for (len, error) in [(4096, 0), (4097, ResponseError::OffsetMetadataTooLarge.code())] {
        request.topics[0].partitions[0].committed_metadata = metadata(len);
        let answer = client.call(9, &request);
        assert_eq!(answer.topics[0].partitions[0].error_code, error, "{len} bytes");
    }
    server.restart();
    let (offset, kept, error) = offset_fetch(&mut server.client(), 7, "g", "t", 0);
    assert_eq!((offset, kept.unwrap().len(), error), (1, 4096, 0));
}

#[test]
fn a_recreated_topic_is_read_from_its_beginning() {
    let (mut server, mut client) = with_topic();
    assert_eq!(client.call(9, &lone_commit("g", 0, 40)).topics[0].partitions[0].error_code, 0);
    assert_eq!(offset_fetch(&mut client, 7, "g", "t", 0).0, 40);
    let request = DeleteTopicsRequest::default().with_topic_names(vec![s("t")]);
    assert_eq!(client.call(5, &request).responses[0].error_code, 0);
    client.create("t", 1);
    assert_eq!(offset_fetch(&mut client, 7, "g", "t", 0).0, -1, "the old offset went with it");
    server.restart();
    assert_eq!(offset_fetch(&mut server.client(), 7, "g", "t", 0).0, -1);
}

#[test]
fn a_retry_topic_has_one_partition_to_commit() {
    let server = Server::with("retry: {levels: 20ms}");
    server.client().create("t", 1);
    let mut member = Member::new(&server, "shop", &["t", "reprise.retry.shop"]);
    member.join(&[("t", 1), ("reprise.retry.shop", 1)]);
    member.client.put("t", 0, &[Rec::new("x")]);
    member.client.nack("shop", "t-0@0", Rec::new("x"));
    let retry = member.retry_once();
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    for partition in [1, -1] {
        assert_eq!(member.commit("reprise.retry.shop", partition, retry.offset + 1), unknown);
    }
    assert_eq!(member.position(), retry.offset, "nothing is acknowledged");
    assert_eq!(member.commit("reprise.retry.shop", 0, retry.offset + 1), 0);
    assert_eq!(member.position(), retry.offset + 1);
}
