//! Evidence `commit-nack`: the effect of a marker in commit metadata, and the stored metadata.

use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
use kafka_protocol::protocol::StrBytes;
use reprise::wire::ResponseError;

use crate::support::client::s;
use crate::support::member::offset_fetch;
use crate::support::{Member, Rec, Server, until};

both!(
    a_commit_marker_retries_failed_records_and_commits_the_rest,
    a_failed_retry_is_named_by_its_own_topics_commit,
    a_commit_marker_may_set_level_delay_or_dead_letter,
    a_repeated_commit_marker_counts_once_at_any_time,
    failures_of_an_answered_commit_are_durable,
    an_invalid_commit_marker_refuses_only_its_partition,
    records_named_by_one_commit_are_bounded_in_memory,
    a_group_without_retries_gets_its_commit_marker_refused,
    a_marker_for_a_deleted_record_is_refused,
    an_offset_beyond_the_log_is_not_committed_past,
    a_commit_that_may_not_be_made_fails_nothing,
    every_other_metadata_is_the_clients_own_byte_for_byte
);

const PARTITIONS: &[(&str, i32)] = &[("orders", 2), ("reprise.retry.shop", 1)];

fn shop(yaml: &str) -> (Server, Member) {
    let server = Server::with(yaml);
    server.client().create("orders", 2);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(PARTITIONS);
    // Present times: retention would remove older records soon.
    let at = crate::support::wall_ms();
    let record = |n: i32| Rec::new(&format!("order {n}")).header("a", n.to_string()).at(at);
    member.client.put("orders", 0, &(0..10).map(record).collect::<Vec<_>>());
    (server, member)
}

/// Commits with this metadata. Returns the error code.
fn commit(member: &mut Member, topic: &str, offset: i64, metadata: &str) -> i16 {
    let request = member.commit_request(topic, 0, offset, metadata);
    member.client.call(9, &request).topics[0].partitions[0].error_code
}

/// Refused partitions with this reason.
fn refused(server: &Server, reason: &str) -> u64 {
    let of = format!("{{group=\"shop\",reason=\"{reason}\"}}");
    let count = server.metric(&format!("reprise_commit_markers_refused_total{of}"));
    count.to_string().parse().unwrap()
}

/// The group's committed offset of `orders-0` and its metadata, fetched by another client.
fn committed(server: &Server) -> (i64, Option<String>) {
    let (offset, metadata, error) = offset_fetch(&mut server.client(), 7, "shop", "orders", 0);
    assert_eq!(error, 0);
    (offset, metadata)
}

fn a_commit_marker_retries_failed_records_and_commits_the_rest() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(commit(&mut member, "orders", 5, "!retry:1,3;reason=no stock; none\0"), 0);
    assert_eq!(committed(&server), (5, Some(String::new())), "and nothing of ours is kept");
    let mut got = member.retries();
    until("both", || {
        if got.len() < 2 {
            let from = got[0].offset + 1;
            got.extend(member.retries_from(from));
        }
        got.len() == 2
    });
    let texts: Vec<String> = got.iter().map(crate::support::Got::text).collect();
    assert_eq!(texts, ["order 1", "order 3"]);
    assert_eq!(got[1].header("a").unwrap(), "3", "the origin's own headers");
    assert_eq!(got[1].header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@3");
    assert_eq!(got[1].header("x-retry-reason").unwrap(), "no stock; none");
    assert_eq!(got[1].header("x-retry-disposition").unwrap(), "rejected");
    assert_eq!(got[1].number("RECONSUME_TIME"), 1);
}

fn a_failed_retry_is_named_by_its_own_topics_commit() {
    let (_server, mut member) = shop("retry: {levels: 20ms, max_reconsume_times: 2}");
    assert_eq!(commit(&mut member, "orders", 2, "!retry:1"), 0);
    let first = member.retry_once();
    let again = format!("!retry:{}", first.offset);
    assert_eq!(commit(&mut member, "reprise.retry.shop", first.offset + 1, &again), 0);
    let second = member.retries_from(first.offset + 1).remove(0);
    assert_eq!((second.text().as_str(), second.number("RECONSUME_TIME")), ("order 1", 2));
    // an older delivery: the nack is known and counts nothing
    assert_eq!(commit(&mut member, "reprise.retry.shop", first.offset + 1, &again), 0);
    let last = format!("!retry:{};reason=enough", second.offset);
    assert_eq!(commit(&mut member, "reprise.retry.shop", second.offset + 1, &last), 0);
    let letters = member.client.read_all("reprise.dlq.shop");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].header("x-retry-disposition").unwrap(), "max_attempts");
    assert_eq!(letters[0].header("x-retry-reason").unwrap(), "enough");
    assert_eq!(member.position(), second.offset + 1);
}

fn a_commit_marker_may_set_level_delay_or_dead_letter() {
    let (server, mut member) = shop("retry: {levels: 1h 2h}");
    assert_eq!(commit(&mut member, "orders", 1, "!retry:0;level=2"), 0);
    assert_eq!(commit(&mut member, "orders", 2, "!retry:1;delay=15m"), 0);
    assert_eq!(commit(&mut member, "orders", 3, "!retry:2;dlq"), 0);
    let waiting = server.json("/api/v1/retries?group=shop");
    let waiting = waiting["items"].as_array().unwrap();
    let of = |origin: &str| waiting.iter().find(|entry| entry["origin"] == origin).unwrap();
    let due_in = |origin: &str| {
        let due = of(origin)["due_ms"].as_i64().unwrap();
        (due - crate::support::wall_ms() + 30_000) / 60_000
    };
    assert_eq!((due_in("orders-0@0"), due_in("orders-0@1")), (120, 15));
    let letters = member.client.read_all("reprise.dlq.shop");
    assert_eq!(letters[0].header("x-retry-disposition").unwrap(), "explicit_dlq");
    assert_eq!(letters[0].header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@2");
}

fn a_repeated_commit_marker_counts_once_at_any_time() {
    let (server, mut member) = shop("retry: {levels: 20ms, consume_timeout: 3s}");
    let same = |member: &mut Member| assert_eq!(commit(member, "orders", 5, "!retry:1"), 0);
    same(&mut member);
    let got = member.retry_once();
    same(&mut member);
    member.done(got.offset + 1);
    // other retries show that time passes: the first entry is forgotten after three seconds
    for n in 0..5 {
        let clock = Rec::new("clock").header("x-retry-delay-ms", "1000");
        assert_eq!(member.client.nack("shop", &format!("clock-0@{n}"), clock).error_code, 0);
        let clock = member.retry_once();
        assert_eq!((clock.text().as_str(), clock.number("RECONSUME_TIME")), ("clock", 1));
        member.done(clock.offset + 1);
        same(&mut member);
    }
    assert!(server.pending("shop").is_empty(), "nothing waits");
    // the group commits an earlier offset, and then the marker again: another failure
    assert_eq!(commit(&mut member, "orders", 0, ""), 0);
    same(&mut member);
    let again = member.retry_once();
    assert_eq!((again.text().as_str(), again.number("RECONSUME_TIME")), ("order 1", 1));
}

fn failures_of_an_answered_commit_are_durable() {
    let (server, mut member) = shop("retry: {levels: 1h}");
    assert_eq!(commit(&mut member, "orders", 5, "!retry:1,2,4"), 0);
    let after = server.killed();
    assert_eq!(after.pending("shop").len(), 3);
    assert_eq!(committed(&after).0, 5);
}

fn an_invalid_commit_marker_refuses_only_its_partition() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    let (invalid, large) =
        (ResponseError::InvalidCommitOffsetSize, ResponseError::OffsetMetadataTooLarge);
    let long = format!("!retry:1;reason={}", "r".repeat(4096));
    let other_place = "!retry:1125899906842624";
    for (n, (metadata, error, reason)) in (1..).zip([
        ("!retry:", invalid, "malformed"),
        ("!retry:1;soon", invalid, "malformed"),
        ("!retry:1,99", invalid, "unknown_record"),
        ("!retry:1;delay=367d", invalid, "unknown_record"),
        (other_place, invalid, "unknown_record"),
        (long.as_str(), large, "too_large"),
    ]) {
        let mut request = member.commit_request("orders", 0, 5, metadata);
        let mut beside = OffsetCommitRequestPartition::default();
        (beside.partition_index, beside.committed_offset) = (1, n);
        beside.committed_metadata = Some(s("mine"));
        request.topics[0].partitions.push(beside);
        let before = refused(&server, reason);
        let answer = member.client.call(9, &request);
        let codes: Vec<i16> = answer.topics[0].partitions.iter().map(|p| p.error_code).collect();
        assert_eq!(codes, [error.code(), 0], "{metadata:.40}");
        assert_eq!(refused(&server, reason), before + 1, "{metadata:.40}");
        assert_eq!(committed(&server).0, -1, "{metadata:.40}");
        let beside = offset_fetch(&mut server.client(), 7, "shop", "orders", 1);
        assert_eq!(beside, (n, Some("mine".to_owned()), 0));
    }
    assert!(server.pending("shop").is_empty());
    assert_eq!(
        commit(&mut member, "reprise.retry.shop", 0, "!retry:0"),
        invalid.code(),
        "no hand-out"
    );
    let unknown = ResponseError::UnknownTopicOrPartition;
    let expected = if crate::support::in_front() { invalid } else { unknown };
    let elses = commit(&mut member, "reprise.retry.else", 0, "!retry:0");
    assert_eq!(elses, expected.code(), "another group's");
}

fn records_named_by_one_commit_are_bounded_in_memory() {
    let (server, mut member) = shop("retry: {levels: 1h}");
    let large = member.client.put("orders", 0, &[Rec::new(&"v".repeat(900_000))]);
    let times = |n: usize| format!("!retry:{}", vec![large.to_string(); n].join(","));
    let invalid = ResponseError::InvalidCommitOffsetSize.code();
    member.client.put("orders", 1, &[Rec::new("small")]);
    let mut request = member.commit_request("orders", 0, 11, &times(80));
    let mut beside = OffsetCommitRequestPartition::default();
    (beside.partition_index, beside.committed_offset) = (1, 1);
    beside.committed_metadata = Some(s("!retry:0"));
    request.topics[0].partitions.push(beside);
    let answer = member.client.call(9, &request);
    let codes: Vec<i16> = answer.topics[0].partitions.iter().map(|p| p.error_code).collect();
    assert_eq!(codes, [invalid, 0], "the records of a refused partition do not count");
    assert_eq!(refused(&server, "too_large"), 1);
    assert_eq!(server.pending("shop").len(), 1);
    assert_eq!(commit(&mut member, "orders", 11, &times(20)), 0);
    let waiting = server.pending("shop");
    assert_eq!(waiting.len(), 2, "one record, however often it is named");
    assert_eq!(waiting[1]["reconsume_times"], 1);
}

fn a_group_without_retries_gets_its_commit_marker_refused() {
    let server = Server::with("retry: {delivery: off}");
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    member.client.put("orders", 0, &[Rec::new("a")]);
    let invalid = ResponseError::InvalidCommitOffsetSize.code();
    assert_eq!(commit(&mut member, "orders", 1, "!retry:0"), invalid);
    assert_eq!(refused(&server, "retries_off"), 1);
    assert_eq!(commit(&mut member, "orders", 1, ""), 0);
}

fn a_marker_for_a_deleted_record_is_refused() {
    let server = Server::with("topics: {list: [{name: old}]}");
    let mut member = Member::new(&server, "shop", &["old"]);
    member.join(&[("old", 1)]);
    member.client.put("old", 0, &[Rec::new("a")]);
    member.client.delete_records("old", 0, 1);
    let invalid = ResponseError::InvalidCommitOffsetSize.code();
    assert_eq!(commit(&mut member, "old", 1, "!retry:0"), invalid);
    assert_eq!(commit(&mut member, "old", 1, ""), 0, "the way out");
}

fn an_offset_beyond_the_log_is_not_committed_past() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    // a new leader may not know its last record yet, so the sidecar fetches it again
    let (invalid, later) =
        (ResponseError::InvalidCommitOffsetSize, ResponseError::CoordinatorNotAvailable);
    let expected = if crate::support::in_front() { later } else { invalid };
    assert_eq!(commit(&mut member, "orders", 11, "!retry:10"), expected.code());
    assert_eq!(committed(&server).0, -1);
    assert_eq!(member.heartbeat(), 0, "the connection is as good as before");
    member.client.put("orders", 0, &[Rec::new("late")]);
    assert_eq!(commit(&mut member, "orders", 11, "!retry:10"), 0);
    assert_eq!(member.retry_once().text(), "late");
}

fn a_commit_that_may_not_be_made_fails_nothing() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    let unknown = commit(&mut member, "nowhere", 5, "!retry:1");
    let (topic, bytes) =
        (ResponseError::UnknownTopicOrPartition, ResponseError::InvalidCommitOffsetSize);
    // the sidecar fetches the record from the cluster first, and finds none
    let expected = if crate::support::in_front() { bytes } else { topic };
    assert_eq!(unknown, expected.code());
    assert!(server.pending("shop").is_empty());
}

/// Metadata of real clients, and texts that resemble our marker.
const OPAQUE: &[&str] = &[
    "",
    "kgo-1f0c2b1e-6d2a-4f7b-8a57-0d9d8b8a3f11",
    "AgAAAYzk3Yw=",
    "bwAAAAUWAA==",
    "bwAAAAUWAA",
    "!RETRY:1",
    " !retry:1",
    "retry:1",
    "é\u{0}\"{}\n!retry:1",
    "null",
];

fn every_other_metadata_is_the_clients_own_byte_for_byte() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    let long = "x".repeat(4096);
    for (metadata, n) in OPAQUE.iter().copied().chain([long.as_str()]).zip(1..) {
        for version in [2, 5, 9] {
            let request = member.commit_request("orders", 0, n, metadata);
            let answer = member.client.call(version, &request);
            assert_eq!(answer.topics[0].partitions[0].error_code, 0, "{metadata:.40}");
            assert_eq!(committed(&server), (n, Some(metadata.to_owned())), "{metadata:.40}");
        }
    }
    let mut request = member.commit_request("orders", 0, 9, "");
    request.topics[0].partitions[0].committed_metadata = None::<StrBytes>;
    assert_eq!(member.client.call(9, &request).topics[0].partitions[0].error_code, 0);
    assert_eq!(committed(&server), (9, Some(String::new())), "as Kafka answers null");
    assert!(server.pending("shop").is_empty());
}
