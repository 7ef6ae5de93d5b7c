//! Every API at every advertised version: answered, decodable, with content.

use std::collections::BTreeMap;

use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Request};
use reprise::wire::{Api, ResponseError};

use crate::support::batch::plain;
use crate::support::client::{fetch_request, produce_request, s};
use crate::support::{Client, Member, Rec, Server};

/// Calls `each` at every version of the API that is served.
fn every<R: Request>(mut each: impl FnMut(i16)) {
    let (min, max) = Api::from_key(R::KEY).unwrap().served();
    for version in min..=max {
        each(version);
    }
}

/// A server with a topic of three partitions, two records in the first, and a member.
fn shop() -> (Server, Client, Member) {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 3);
    client.put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 3), ("reprise.retry.shop", 1)]);
    (server, client, member)
}

fn orders_id(client: &mut Client) -> uuid::Uuid {
    client.metadata(12, &["orders"]).topics[0].topic_id
}

#[test]
fn api_versions_lists_the_served_versions_and_produce_from_0() {
    let server = Server::start();
    let mut client = server.client();
    every::<ApiVersionsRequest>(|version| {
        let mut request = ApiVersionsRequest::default();
        if version >= 3 {
            (request.client_software_name, request.client_software_version) = (s("t"), s("1"));
        }
        let answer = client.call(version, &request);
        assert_eq!(answer.error_code, 0);
        let told: BTreeMap<i16, (i16, i16)> =
            answer.api_keys.iter().map(|k| (k.api_key, (k.min_version, k.max_version))).collect();
        let all = served().map(|api| (api.key(), api.advertised())).collect();
        assert_eq!(told, all);
        assert_eq!(told[&0], (0, 13), "KAFKA-18659");
        assert_eq!(told[&18], (0, 4), "version 5 carries the cluster id");
    });
}

fn served() -> impl Iterator<Item = Api> {
    Api::ALL.iter().copied()
}

#[test]
fn an_unknown_api_versions_version_is_answered_in_version_0() {
    let server = Server::start();
    let mut client = server.client();
    for version in (5..100).chain([i16::MAX, -1]) {
        // key 18, version, correlation id 7, no client id, an empty tag section
        let [high, low] = version.to_be_bytes();
        client.raw(&[0, 0, 0, 11, 0, 18, high, low, 0, 0, 0, 7, 0xff, 0xff, 0]);
        let mut frame = client.frame().unwrap();
        assert_eq!(frame[..4], 7_i32.to_be_bytes(), "{version}");
        let mut body = frame.split_off(4);
        let answer = ApiVersionsResponse::decode(&mut body, 0).unwrap();
        assert!(body.is_empty());
        assert_eq!(answer.error_code, ResponseError::UnsupportedVersion.code());
        assert_eq!(answer.api_keys.len(), served().count());
    }
    assert_eq!(client.metadata(9, &[]).brokers.len(), 1, "the connection goes on");
}

#[test]
fn metadata_is_whole_in_every_version() {
    let (server, mut client, _member) = shop();
    every::<MetadataRequest>(|version| {
        let answer = client.metadata(version, &["orders", "reprise.retry.shop"]);
        assert_eq!(answer.brokers[0].node_id, server.node_id());
        let of = |t: &metadata_response::MetadataResponseTopic| (t.error_code, t.partitions.len());
        let topics: Vec<_> = answer.topics.iter().map(of).collect();
        assert_eq!(topics, [(0, 3), (0, 1)], "v{version}");
        assert_eq!(answer.topics[0].partitions[2].leader_id, server.node_id());
        assert_eq!(answer.cluster_id.is_some(), version >= 2);
        assert_eq!(answer.topics[0].topic_id.is_nil(), version < 10);

        // all topics: an empty list in version 0, no list later
        let mut all = MetadataRequest::default();
        all.topics = (version == 0).then(Vec::new);
        let all = client.call(version, &all).topics.into_iter();
        let names: Vec<String> = all.map(|t| t.name.unwrap().to_string()).collect();
        assert_eq!(names, ["orders", "reprise.retry.shop"], "v{version}");

        // an invalid topic name is an error of that topic alone
        let bad = client.metadata(version, &["no spaces", "orders"]);
        let codes: Vec<i16> = bad.topics.iter().map(|t| t.error_code).collect();
        assert_eq!(codes, [ResponseError::InvalidTopicException.code(), 0], "v{version}");
    });
}

#[test]
fn metadata_by_topic_id_finds_topics_and_refuses_unknown_ids() {
    let (_server, mut client, _member) = shop();
    let id = orders_id(&mut client);
    for version in 10..=13 {
        let of = |id| {
            metadata_request::MetadataRequestTopic::default().with_name(None).with_topic_id(id)
        };
        let unknown = uuid::Uuid::from_u128(5);
        let request = MetadataRequest::default().with_topics(Some(vec![of(id), of(unknown)]));
        let answer = client.call(version, &request);
        let found = &answer.topics[0];
        assert_eq!(found.name.as_ref().unwrap().as_str(), "orders", "v{version}");
        assert_eq!((found.error_code, found.topic_id), (0, id));
        assert_eq!(answer.topics[1].error_code, ResponseError::UnknownTopicId.code());
        assert_eq!(answer.topics[1].topic_id, unknown);
        assert_eq!(answer.topics[1].name.is_none(), version >= 12, "null is not for v{version}");
    }
}

#[test]
fn produce_is_answered_in_every_version_from_3() {
    let (_server, mut client, _member) = shop();
    let id = orders_id(&mut client);
    let mut next = 0;
    every::<ProduceRequest>(|version| {
        for (index, error) in [(1, 0), (9, ResponseError::UnknownTopicOrPartition.code())] {
            let mut request = produce_request("orders", index, plain(&[Rec::new("x")]), -1);
            if version >= 13 {
                (request.topic_data[0].name, request.topic_data[0].topic_id) = (s(""), id);
            }
            let answer = client.call(version, &request);
            let one = &answer.responses[0].partition_responses[0];
            assert_eq!((one.index, one.error_code), (index, error), "v{version}");
            if error == 0 {
                assert_eq!((one.base_offset, one.log_append_time_ms), (next, -1));
                next += 1;
            }
        }
        // a refusal with a message and the indexes of the bad records
        let mut request = produce_request("reprise.retry.shop", 0, plain(&[bad_nack()]), 1);
        if version >= 13 {
            request.topic_data[0].name = s("");
            request.topic_data[0].topic_id =
                client.metadata(12, &["reprise.retry.shop"]).topics[0].topic_id;
        }
        let answer = client.call(version, &request);
        let one = &answer.responses[0].partition_responses[0];
        assert_eq!(one.error_code, ResponseError::InvalidRecord.code(), "v{version}");
        assert_eq!(one.record_errors.len(), usize::from(version >= 8));
        assert_eq!(one.error_message.is_some(), version >= 8);
    });
}

fn bad_nack() -> Rec {
    Rec::new("x").header("x-retry-origin", "nonsense")
}

#[test]
fn produce_0_to_2_is_advertised_but_closes_the_connection() {
    let (server, _client, _member) = shop();
    for version in 0..=2_u8 {
        let mut client = server.client();
        // key 0, version, correlation id 1, client id "t", acks 1, timeout 0, no topics
        client.raw(&[0, 0, 0, 21, 0, 0, 0, version, 0, 0, 0, 1, 0, 1, b't']);
        client.raw(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(client.frame(), None, "v{version}");
    }
}

#[test]
fn fetch_returns_records_and_errors_in_every_version() {
    let (_server, mut client, _member) = shop();
    let id = orders_id(&mut client);
    every::<FetchRequest>(|version| {
        for (index, offset, error, records) in [
            (0, 0, 0, 2),
            (0, 2, 0, 0),
            (0, 99, ResponseError::OffsetOutOfRange.code(), 0),
            (7, 0, ResponseError::UnknownTopicOrPartition.code(), 0),
        ] {
            let mut request = fetch_request("orders", index, offset, 0);
            if version >= 13 {
                (request.topics[0].topic, request.topics[0].topic_id) = (s(""), id);
            }
            let answer = client.call(version, &request);
            assert_eq!((answer.error_code, answer.session_id), (0, 0));
            let topic = &answer.responses[0];
            if version >= 13 {
                assert_eq!(topic.topic_id, id);
            } else {
                assert_eq!(topic.topic.as_str(), "orders");
            }
            let one = &topic.partitions[0];
            assert_eq!((one.partition_index, one.error_code), (index, error), "v{version}");
            let got = crate::support::batch::unpack(one.records.as_ref().unwrap());
            assert_eq!(got.len(), records, "v{version}");
            if error == 0 {
                assert_eq!((one.high_watermark, one.last_stable_offset), (2, 2));
            }
        }
    });
}

#[test]
fn list_offsets_is_answered_in_every_version() {
    let (_server, mut client, _member) = shop();
    every::<ListOffsetsRequest>(|version| {
        let latest = client.list_offset_at(version, "orders", 0, -1);
        assert_eq!((latest.error_code, latest.offset), (0, 2), "v{version}");
        assert_eq!(latest.leader_epoch, if version >= 4 { 0 } else { -1 });
        let none = client.list_offset_at(version, "nowhere", 0, -2);
        assert_eq!(none.error_code, ResponseError::UnknownTopicOrPartition.code());
        assert_eq!((none.offset, none.timestamp, none.leader_epoch), (-1, -1, -1));
        let listed = client.list_offset_at(version, "reprise.retry.shop", 0, -2);
        assert_eq!((listed.error_code, listed.offset), (0, 0), "v{version}");
        let unknown = ResponseError::UnsupportedVersion.code();
        for (word, since, offset) in [(-3, 7, 0), (-4, 8, 0), (-5, 9, -1), (-6, i16::MAX, -1)] {
            let told = client.list_offset_at(version, "orders", 0, word);
            let expected = if since <= version { (0, offset) } else { (unknown, -1) };
            assert_eq!((told.error_code, told.offset), expected, "v{version}: {word}");
        }
    });
}

#[test]
fn offset_for_leader_epoch_is_answered_in_every_version() {
    use offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
    let (_server, mut client, _member) = shop();
    every::<OffsetForLeaderEpochRequest>(|version| {
        let of = |index, epoch| {
            let partition = OffsetForLeaderPartition::default().with_partition(index);
            partition.with_leader_epoch(epoch)
        };
        let topic = OffsetForLeaderTopic::default()
            .with_topic(s("orders"))
            .with_partitions(vec![of(0, 0), of(9, 0)]);
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
        let answer = client.call(version, &request);
        let found = &answer.topics[0].partitions;
        assert_eq!((found[0].error_code, found[0].leader_epoch, found[0].end_offset), (0, 0, 2));
        assert_eq!(found[1].error_code, ResponseError::UnknownTopicOrPartition.code());
    });
}

#[test]
fn find_coordinator_names_this_node_in_every_version() {
    let (server, mut client, _member) = shop();
    let refused = ResponseError::InvalidRequest.code();
    every::<FindCoordinatorRequest>(|version| {
        for (key_type, error) in [(0, 0), (1, 0), (2, refused)] {
            if version == 0 && key_type != 0 {
                continue;
            }
            let mut request = FindCoordinatorRequest::default().with_key_type(key_type);
            if version >= 4 {
                request.coordinator_keys = vec![s("shop"), s("bar")];
            } else {
                request.key = s("shop");
            }
            let answer = client.call(version, &request);
            let node = if error == 0 { server.node_id() } else { -1 };
            if version >= 4 {
                assert_eq!(answer.coordinators.len(), 2);
                let one = &answer.coordinators[1];
                assert_eq!((one.key.as_str(), one.error_code), ("bar", error), "v{version}");
                assert_eq!(one.node_id, node);
                assert_eq!(one.error_message.as_ref().is_some_and(|m| m.len() > 9), error != 0);
            } else {
                assert_eq!((answer.error_code, answer.node_id.0), (error, node), "v{version}");
            }
        }
    });
}

#[test]
fn init_producer_id_gives_fresh_ids_and_next_epochs() {
    let server = Server::start();
    let mut client = server.client();
    let mut seen = std::collections::BTreeSet::new();
    let mut named = None;
    every::<InitProducerIdRequest>(|version| {
        let mut request = InitProducerIdRequest::default().with_transactional_id(None);
        let answer = client.call(version, &request);
        assert_eq!((answer.error_code, answer.producer_epoch), (0, 0), "v{version}");
        assert!(answer.producer_id.0 >= 0 && seen.insert(answer.producer_id.0));
        (request.transactional_id, request.transaction_timeout_ms) = (Some(s("tx")), 1_000);
        let answer = client.call(version, &request);
        let named = *named.get_or_insert(answer.producer_id.0);
        assert!(answer.error_code == 0 && !seen.contains(&named));
        assert_eq!((answer.producer_id.0, answer.producer_epoch), (named, version), "v{version}");
    });
}
