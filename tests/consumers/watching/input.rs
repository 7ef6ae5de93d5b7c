//! Commits that no sane consumer makes: no failure counts, no hold ends, and no record is lost.

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use reprise::wire::ResponseError;

use crate::support::client::s;
use crate::support::{Member, Rec, Server, wall_ms};
use crate::watching::app::{dead_letters, goes_back_until_dead, orders};
use crate::watching::ordered::read;

both!(
    a_negative_commit_is_a_reset_and_no_failure,
    a_commit_beyond_the_log_is_accepted_without_inferred_failures,
    commits_of_unknown_partitions_are_refused_alone,
    a_refused_commit_marker_changes_nothing,
    a_record_marked_before_its_delivery_is_still_delivered
);

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
/// Offset of the dead letter, which no commit has passed.
const DEAD: i64 = 2;
const NOTHING: [i64; 0] = [];

fn joined(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders"]);
    member.join(ORDERS);
    member
}

/// Records before and behind a dead letter, and the member that went back to it.
fn one_dead() -> (Server, Member) {
    let server = Server::with(
        "retry: {levels: 20ms, max_reconsume_times: 1, isolation_timeout: 3s, \
         in_place_limit: 2, give_up_after: 500ms, on_seek_back: retry, order: {interval: 50ms}}",
    );
    orders(&server, DEAD + 1);
    let mut member = joined(&server);
    assert_eq!(member.commit("orders", 0, DEAD), 0);
    goes_back_until_dead(&server, &mut member, DEAD);
    let more: Vec<Rec> = (3..7).map(|n| Rec::new(&n.to_string()).at(wall_ms())).collect();
    member.client.put("orders", 0, &more);
    (server, member)
}

/// Eight records, and a member that went back to record 1, which is held.
fn one_held() -> (Server, Member) {
    let server = Server::with("retry: {levels: 20ms, on_seek_back: retry, order: {interval: 30s}}");
    orders(&server, 8);
    let mut member = joined(&server);
    assert_eq!(read(&mut member, 0, 5_000).len(), 8);
    assert_eq!(member.commit("orders", 0, 1), 0);
    assert_eq!(read(&mut member, 1, 0), NOTHING);
    (server, member)
}

/// A tracked partition: its number, its committed offset, and its suspects with their failures.
type TrackedPartition = (i64, Option<i64>, Vec<(i64, u64)>);

fn known(server: &Server) -> Vec<TrackedPartition> {
    let told = server.json("/api/v1/explain?group=shop");
    // The first suspect of each set.
    let first = |set: &serde_json::Value| {
        let (_, offsets) = set["offsets"][0].as_str().unwrap().split_once('@').unwrap();
        let first = offsets.split('.').next().unwrap().parse::<i64>().unwrap();
        (first, set["failures"].as_u64().unwrap())
    };
    let suspects: Vec<_> = told["suspects"].as_array().unwrap().iter().map(first).collect();
    let partitions = told["partitions"].as_array().unwrap().iter().map(|window| {
        let suspects = suspects.clone();
        let committed = window["committed"].as_i64();
        (window["partition"].as_i64().unwrap(), committed, suspects)
    });
    partitions.collect()
}

fn all(from: i64, end: i64) -> Vec<i64> {
    (from..end).collect()
}

fn a_negative_commit_is_a_reset_and_no_failure() {
    for none in [-1, -2] {
        let (server, mut member) = one_dead();
        assert_eq!(member.commit("orders", 0, none), 0);
        assert_eq!(read(&mut member, DEAD, 5_000), all(DEAD + 1, 7), "its member goes on");
        assert_eq!(member.leave(), 0);
        let mut next = joined(&server);
        assert!(next.position_of("orders", 0) < 0, "{none}: it begins where it is told to");
        assert_eq!(read(&mut next, 0, 5_000), all(0, 7), "{none}: nothing is left out of a replay");
        assert_eq!(read(&mut next, 0, 5_000), all(0, 7), "nor is that held");
        assert_eq!(dead_letters(&server).len(), 1);
    }
}

fn a_commit_beyond_the_log_is_accepted_without_inferred_failures() {
    for far in [1_000_000, 1 << 50, i64::MAX] {
        let (server, mut member) = one_held();
        assert_eq!(member.commit("orders", 0, far), 0);
        assert_eq!(known(&server), [(0, Some(far), vec![])], "it has passed whatever was held");
        assert_eq!(member.position_of("orders", 0), far);
        let beyond = member.client.fetch("orders", 0, far, 0);
        assert_eq!(beyond.error_code, ResponseError::OffsetOutOfRange.code());
        for _ in 0..3 {
            assert_eq!(read(&mut member, 0, 5_000), all(0, 8), "as everyone is told to");
        }
        assert_eq!(known(&server), [(0, Some(far), vec![])]);
        assert_eq!(member.commit("orders", 0, 1), 0);
        assert_eq!(read(&mut member, 1, 0), NOTHING, "{far}: whoever fails after that is seen to");
        assert_eq!(known(&server), [(0, Some(1), vec![(1, 0)])]);
        assert_eq!(dead_letters(&server).len(), 0);
    }
}

fn commits_of_unknown_partitions_are_refused_alone() {
    let (server, mut member) = one_held();
    let at = |index: i32| {
        let at = OffsetCommitRequestPartition::default().with_partition_index(index);
        at.with_committed_offset(5).with_committed_metadata(Some(s("")))
    };
    let mut request = member.commit_request("orders", 0, 2, "");
    request.topics[0].partitions.extend([7, -1, i32::MAX, i32::MIN].map(at));
    let nowhere = OffsetCommitRequestTopic::default().with_name(s("nowhere"));
    request.topics.push(nowhere.with_partitions(vec![at(0)]));
    let answer = member.client.call(9, &request);
    let codes = answer.topics.iter().flat_map(|topic| &topic.partitions).map(|p| p.error_code);
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    assert_eq!(codes.collect::<Vec<i16>>(), [0, unknown, unknown, unknown, unknown, unknown]);
    assert_eq!(known(&server), [(0, Some(2), vec![])], "and nothing of those is watched");
    assert_eq!(read(&mut member, 2, 5_000), all(2, 8));
}

fn a_refused_commit_marker_changes_nothing() {
    let (server, mut member) = one_held();
    let long = format!("!retry:1;reason={}", "r".repeat(4096));
    let never = format!("!retry:{}", 1_i64 << 50);
    for metadata in ["!retry:", "!retry:1;soon", "!retry:-1", "!retry:1,99", &never, &long] {
        let request = member.commit_request("orders", 0, 5, metadata);
        let error = member.client.call(9, &request).topics[0].partitions[0].error_code;
        assert_ne!(error, 0, "{metadata:.40}");
        assert_eq!(known(&server), [(0, Some(1), vec![(1, 0)])], "{metadata:.40}");
        assert_eq!(read(&mut member, 1, 0), NOTHING, "{metadata:.40}: it is held as before");
    }
    assert!(server.pending("shop").is_empty());
    assert_eq!(member.commit("orders", 0, 2), 0);
    assert_eq!(read(&mut member, 2, 5_000), all(2, 8));
}

fn a_record_marked_before_its_delivery_is_still_delivered() {
    let (server, mut member) = one_held();
    let more = member.client.put("orders", 0, &[Rec::new("8"), Rec::new("9"), Rec::new("10")]);
    let request = member.commit_request("orders", 0, 2, &format!("!retry:{}", more + 1));
    assert_eq!(member.client.call(9, &request).topics[0].partitions[0].error_code, 0);
    assert_eq!(server.pending("shop").len(), 1, "it failed, as it was said");
    assert_eq!(read(&mut member, 2, 5_000), all(2, more + 3));
    assert_eq!(member.commit("orders", 0, more + 1), 0);
    for _ in 0..4 {
        let given = read(&mut member, more + 1, 5_000);
        assert_eq!(given, [more + 1, more + 2], "it has an entry, and is no suspect");
    }
    assert_eq!(known(&server), [(0, Some(more + 1), vec![])]);
    assert_eq!(dead_letters(&server).len(), 0);
}
