//! A change of `names` with an existing data directory: its retries and dead letters are served by
//! the new names.

use kafka_protocol::messages::OffsetCommitRequest;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use reprise::config::Config;
use reprise::wire::ResponseError;

use crate::support::batch::{Got, plain, unpack};
use crate::support::client::{fetch_request, produce_request, s};
use crate::support::member::offset_fetch;
use crate::support::{Client, Member, Rec, Server};

both!(
    dead_letters_and_their_offsets_follow_a_rename,
    a_config_line_brings_the_former_names_back,
    pending_retries_come_back_by_the_new_retry_topic
);

/// The former default names.
const FORMER: &str = "retry: {levels: 20ms}\n\
    names: {retry: 'retry.{group}', dead_letters: 'dlq.{group}'}";

fn by_default(config: &mut Config) {
    config.names = Config::default().names;
}

fn by_former(config: &mut Config) {
    "retry.{group}".clone_into(&mut config.names.retry);
    "dlq.{group}".clone_into(&mut config.names.dead_letters);
}

/// Sends a nack to this node; with `is_dead`, the record becomes a dead letter at once.
fn nack(client: &mut Client, topic: &str, offset: i64, is_dead: bool) {
    let mut record = Rec::new(&format!("v{offset}"));
    record = record.header("x-retry-origin", format!("orders-0@{offset}"));
    if is_dead {
        record = record.header("x-retry-level", "-1");
    }
    let told = client.call(9, &produce_request(topic, 0, plain(&[record]), -1));
    assert_eq!(told.responses[0].partition_responses[0].error_code, 0, "{topic}");
}

/// Records of partition 0 from `from` on, and the error code, from this node.
fn read(client: &mut Client, topic: &str, from: i64) -> (i16, Vec<String>) {
    let told = client.call(12, &fetch_request(topic, 0, from, 0));
    let partition = &told.responses[0].partitions[0];
    let records = partition.records.as_ref().map(unpack).unwrap_or_default();
    (partition.error_code, records.iter().map(Got::text).collect())
}

fn commit(client: &mut Client, group: &str, topic: &str, offset: i64) {
    let mut partition = OffsetCommitRequestPartition::default();
    (partition.partition_index, partition.committed_offset) = (0, offset);
    partition.committed_metadata = Some(s("note"));
    let topic =
        OffsetCommitRequestTopic::default().with_name(s(topic)).with_partitions(vec![partition]);
    let mut request = OffsetCommitRequest::default();
    (request.group_id, request.topics) = (s(group), vec![topic]);
    request.generation_id_or_member_epoch = -1;
    assert_eq!(client.call(8, &request).topics[0].partitions[0].error_code, 0);
}

fn dead_letters_and_their_offsets_follow_a_rename() {
    let mut server = Server::with(FORMER);
    let mut client = server.client();
    client.create("orders", 1);
    nack(&mut client, "retry.shop", 0, true);
    nack(&mut client, "retry.shop", 1, true);
    assert_eq!(read(&mut client, "dlq.shop", 0), (0, vec!["v0".to_owned(), "v1".to_owned()]));
    commit(&mut client, "readers", "dlq.shop", 1);

    server.restart_with(by_default);
    let mut client = server.client();
    let shop = server.json("/api/v1/groups/shop");
    assert_eq!(
        (&shop["dead_letters"], &shop["dead_letter_topic"]),
        (&2.into(), &"reprise.dlq.shop".into())
    );
    let both = vec!["v0".to_owned(), "v1".to_owned()];
    assert_eq!(read(&mut client, "reprise.dlq.shop", 0), (0, both));
    let position = offset_fetch(&mut client, 7, "readers", "reprise.dlq.shop", 0);
    assert_eq!(position, (1, Some("note".to_owned()), 0));
    nack(&mut client, "reprise.retry.shop", 2, true);
    assert_eq!(read(&mut client, "reprise.dlq.shop", 2), (0, vec!["v2".to_owned()]));
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    assert_eq!(read(&mut client, "dlq.shop", 0).0, unknown);
    commit(&mut client, "readers", "reprise.dlq.shop", 3);

    // A start with the same configuration moves no records.
    server.restart();
    let mut client = server.client();
    let position = offset_fetch(&mut client, 7, "readers", "reprise.dlq.shop", 0);
    assert_eq!(position, (3, Some("note".to_owned()), 0));
    assert_eq!(read(&mut client, "reprise.dlq.shop", 0).1.len(), 3);
}

fn a_config_line_brings_the_former_names_back() {
    let mut server = Server::with(FORMER);
    let mut client = server.client();
    client.create("orders", 1);
    nack(&mut client, "retry.shop", 0, true);
    server.restart_with(by_default);
    let mut client = server.client();
    nack(&mut client, "reprise.retry.shop", 1, true);
    nack(&mut client, "reprise.retry.store", 2, true);
    commit(&mut client, "readers", "reprise.dlq.shop", 1);

    server.restart_with(by_former);
    let mut client = server.client();
    assert_eq!(read(&mut client, "dlq.shop", 0), (0, vec!["v0".to_owned(), "v1".to_owned()]));
    assert_eq!(read(&mut client, "dlq.store", 0), (0, vec!["v2".to_owned()]), "begun since");
    assert_eq!(offset_fetch(&mut client, 7, "readers", "dlq.shop", 0).0, 1);
    nack(&mut client, "retry.store", 3, true);
    assert_eq!(server.json("/api/v1/groups/store")["dead_letters"], 2);
}

fn pending_retries_come_back_by_the_new_retry_topic() {
    let mut server = Server::with("retry: {levels: 20ms}\nnames: {retry: 'retry.{group}'}");
    let mut client = server.client();
    client.create("orders", 1);
    nack(&mut client, "retry.shop", 0, false);
    server.restart_with(by_default);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    assert_eq!(member.retry_once().text(), "v0");
}
