//! `order.mode: partition`: a partition waits for its nacked record, whatever the kind of nack and
//! whatever is committed meanwhile.

use bytes::Bytes;
use kafka_protocol::messages::DeleteRecordsRequest;
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use reprise::config::RetryDelivery;
use reprise::retry::OrderMode;
use reprise::wire::ResponseError;
use reprise::wire::batch::{Batch, records};
use serde_json::json;

use crate::support::client::s;
use crate::support::consumer::Consumer;
use crate::support::member::offset_fetch;
use crate::support::{Member, Rec, Server, until};
use crate::watching::app::dead_letters;

both!(
    nothing_passes_a_failed_record_before_it_was_handled,
    the_last_ordered_retry_becomes_a_dead_letter,
    commit_markers_and_admin_nacks_work_in_order_mode,
    a_commit_that_came_first_does_not_pass_it_either,
    an_absent_member_is_waited_for_or_rewound,
    a_member_by_kip_848_is_called_back_by_fencing,
    a_partition_does_not_wait_for_a_deleted_record,
    a_fetch_past_a_deleted_record_ends_its_wait,
    a_nacked_record_without_bytes_is_refused,
    a_partition_does_not_wait_for_an_undelivered_record,
    a_withheld_reset_redelivers_no_settled_record,
    leaving_order_mode_neither_waits_nor_loses_records,
    a_group_without_retries_waits_for_nothing
);

pub(crate) const PARTITIONS: &[(&str, i32)] = &[("orders", 1)];
/// The record that fails.
pub(crate) const FAILED: i64 = 1;

pub(crate) fn rules(more: &str, order: &str) -> String {
    format!(
        "retry: {{levels: 1h, isolation_timeout: 5s{more}, \
         order: {{mode: partition, interval: 50ms{order}}}}}"
    )
}

/// Four records, all of them delivered to one member.
pub(crate) fn shop(yaml: &str) -> (Server, Member) {
    let server = Server::with(yaml);
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(PARTITIONS);
    let records: Vec<Rec> = (0..4).map(|n| Rec::new(&n.to_string())).collect();
    member.client.put("orders", 0, &records);
    assert_eq!(read(&mut member, 0, 1_000), [0, 1, 2, 3]);
    (server, member)
}

/// Offsets in the answer to one Fetch.
pub(crate) fn read(member: &mut Member, from: i64, wait_ms: i32) -> Vec<i64> {
    let given = member.client.fetch("orders", 0, from, wait_ms);
    assert_eq!(given.error_code, 0);
    let mut offsets = offsets(given.records.unwrap());
    // A client drops the records of a batch below its fetch offset.
    offsets.retain(|offset| *offset >= from);
    offsets
}

/// Offsets of the records in an answer; batches with cut records have gaps.
pub(crate) fn offsets(mut rest: Bytes) -> Vec<i64> {
    let mut offsets = Vec::new();
    while let Ok(batch) = Batch::parse(&rest) {
        batch.check_crc().unwrap();
        let all = records(&batch, usize::MAX).unwrap();
        offsets.extend(all.map(|record| record.unwrap().offset));
        rest = rest.slice(batch.bytes.len()..);
    }
    offsets
}

/// Waits for records from an offset on, and returns their offsets.
pub(crate) fn given(member: &mut Member, from: i64) -> Vec<i64> {
    let mut got = Vec::new();
    until("records", || {
        assert_eq!(member.heartbeat(), 0);
        got = read(member, from, 400);
        !got.is_empty()
    });
    got
}

fn nack(member: &mut Member) {
    let answer = member.client.nack("shop", "orders-0@1", Rec::new("x"));
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
}

/// Suspects, and the counted failures of each.
pub(crate) fn charged(server: &Server) -> Vec<(i64, u64)> {
    let told = server.json("/api/v1/explain?group=shop");
    let suspects = told["partitions"][0]["suspects"].as_array().cloned().unwrap_or_default();
    let times = |suspect: &serde_json::Value| suspect["reconsume_times"].as_u64().unwrap();
    suspects.iter().map(|known| (known["offset"].as_i64().unwrap(), times(known))).collect()
}

fn nothing_passes_a_failed_record_before_it_was_handled() {
    let (server, mut member) = shop(&rules("", ""));
    assert_eq!(member.commit("orders", 0, 1), 0);
    nack(&mut member);
    nack(&mut member);
    assert_eq!(charged(&server), [(FAILED, 1)], "said twice, counted once");
    assert_eq!(member.commit("orders", 0, 4), 0, "what came behind it may be done");
    assert_eq!(member.position_of("orders", 0), FAILED, "but it is not passed");
    member.client.put("orders", 0, &[Rec::new("4")]);
    assert!(read(&mut member, 4, 300).is_empty(), "nothing behind it is given");
    assert_eq!(given(&mut member, FAILED), [FAILED], "it goes alone");
    assert_eq!(member.commit("orders", 0, 2), 0);
    assert_eq!(member.position_of("orders", 0), 2);
    assert_eq!(given(&mut member, 2), [2, 3, 4]);
    assert_eq!(charged(&server), []);
    assert_eq!(member.commit("orders", 0, 5), 0);
    assert_eq!(member.position_of("orders", 0), 5);
    assert!(server.pending("shop").is_empty(), "it never was an entry");
}

fn the_last_ordered_retry_becomes_a_dead_letter() {
    let (mut server, mut member) = shop(&rules(", max_reconsume_times: 2", ""));
    assert_eq!(member.commit("orders", 0, 1), 0);
    for times in 1..=2 {
        nack(&mut member);
        assert_eq!(charged(&server), [(FAILED, times)]);
        server.restart();
        member.client = server.client();
        member.join(PARTITIONS);
        assert_eq!(charged(&server), [(FAILED, times)], "a restart forgets no failure");
        assert_eq!(given(&mut member, FAILED), [FAILED]);
    }
    nack(&mut member);
    let dead = dead_letters(&server);
    assert_eq!((dead.len(), dead[0].reconsume_times()), (1, 3));
    assert_eq!(dead[0].header("x-retry-disposition").unwrap(), "max_attempts");
    assert_eq!(given(&mut member, FAILED), [2, 3], "who comes back to it goes on behind it");
    assert_eq!(member.commit("orders", 0, 4), 0);
    assert_eq!(member.position_of("orders", 0), 4);
}

fn commit_markers_and_admin_nacks_work_in_order_mode() {
    let (server, mut member) = shop(&rules("", ""));
    for times in 1..=2 {
        let request = member.commit_request("orders", 0, 4, "!retry:1;reason=no stock");
        let answer = member.client.call(9, &request);
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        assert_eq!(charged(&server), [(FAILED, times)], "each delivery may fail");
        assert_eq!(member.position_of("orders", 0), FAILED);
        assert_eq!(given(&mut member, FAILED), [FAILED]);
    }
    let body = json!({"group": "shop", "topic": "orders", "partition": 0, "offset": FAILED});
    let (status, told) = server.post("/api/v1/nack", &body.to_string());
    assert_eq!((status, &told["outcome"]), (200, &"in_place".into()), "{told}");
    assert_eq!(charged(&server), [(FAILED, 3)]);
    assert_eq!(given(&mut member, FAILED), [FAILED]);
    let mut ended = body;
    ended["dlq"] = true.into();
    let (status, told) = server.post("/api/v1/nack", &ended.to_string());
    assert_eq!((status, &told["outcome"]), (200, &"dead".into()), "{told}");
    assert_eq!(dead_letters(&server)[0].reconsume_times(), 4);
    assert_eq!(given(&mut member, FAILED), [2, 3]);
}

fn a_commit_that_came_first_does_not_pass_it_either() {
    let (server, mut member) = shop(&rules("", ""));
    assert_eq!(member.commit("orders", 0, 4), 0);
    nack(&mut member);
    assert_eq!(member.position_of("orders", 0), FAILED, "who begins anew begins with it");
    assert_eq!(offset_fetch(&mut server.client(), 7, "shop", "orders", 0).0, FAILED);
    assert_eq!(member.leave(), 0);
    let mut next = Member::new(&server, "shop", &["orders"]);
    next.join(PARTITIONS);
    assert_eq!(next.position_of("orders", 0), FAILED);
    assert_eq!(given(&mut next, FAILED), [FAILED]);
    assert_eq!(next.commit("orders", 0, 2), 0);
    assert_eq!(given(&mut next, 2), [2, 3]);
}

fn an_absent_member_is_waited_for_or_rewound() {
    let (_server, mut member) = shop(&rules("", ""));
    nack(&mut member);
    assert_eq!(member.position_of("orders", 0), 0, "nothing is committed: from where it began");
    for _ in 0..5 {
        assert!(read(&mut member, 4, 50).is_empty());
        assert_eq!(member.heartbeat(), 0, "rewind: off");
    }
    let (_server, mut member) = shop(&rules("", ", rewind: rebalance"));
    assert_eq!(member.heartbeat(), 0, "nothing has failed");
    nack(&mut member);
    until("it is called back", || {
        assert!(read(&mut member, 4, 50).is_empty());
        member.heartbeat() == ResponseError::RebalanceInProgress.code()
    });
    assert_eq!(member.heartbeat(), 0, "once: it has time to come");
    // Clients commit before they give their partitions back.
    assert_eq!(member.commit("orders", 0, 4), 0);
    member.join(PARTITIONS);
    assert_eq!(member.position_of("orders", 0), FAILED);
    assert_eq!(given(&mut member, FAILED), [FAILED]);
    assert_eq!(member.commit("orders", 0, 2), 0);
    assert_eq!(given(&mut member, 2), [2, 3]);
    assert_eq!(member.heartbeat(), 0);
}

fn a_member_by_kip_848_is_called_back_by_fencing() {
    let server = Server::with(&rules("", ", rewind: rebalance"));
    server.client().create("orders", 1);
    let mut member = Consumer::new(&server, "shop", &["orders"]);
    member.enter();
    member.client.put("orders", 0, &[Rec::new("0"), Rec::new("1"), Rec::new("2")]);
    until("the records", || !read(&mut member, 0, 400).is_empty());
    assert_eq!(member.commit("orders", 0, 1), 0);
    nack(&mut member);
    let beat = member.quiet_request();
    until("it is called back", || {
        read(&mut member, 3, 50);
        member.client.call(1, &beat).error_code == ResponseError::FencedMemberEpoch.code()
    });
    member.enter();
    assert_eq!(member.position_of("orders", 0), FAILED);
    until("the failed one", || read(&mut member, FAILED, 400) == [FAILED]);
}

/// Deletes the records below an offset from the log.
fn delete_below(member: &mut Member, offset: i64) {
    let partition = DeleteRecordsPartition::default().with_offset(offset);
    let mut topic = DeleteRecordsTopic::default();
    (topic.name, topic.partitions) = (s("orders"), vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]);
    let answer = member.client.leader("orders").call(1, &request);
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
}

fn a_partition_does_not_wait_for_a_deleted_record() {
    let (server, mut member) = shop(&rules("", ""));
    assert_eq!(member.commit("orders", 0, 1), 0);
    nack(&mut member);
    delete_below(&mut member, 3);
    let out_of_range = ResponseError::OffsetOutOfRange.code();
    until("the error", || member.client.fetch("orders", 0, FAILED, 100).error_code == out_of_range);
    assert_eq!(given(&mut member, 3), [3], "where the client goes on then");
    assert_eq!(charged(&server), []);
    assert_eq!(member.commit("orders", 0, 4), 0);
    assert_eq!(member.position_of("orders", 0), 4);
}

fn a_fetch_past_a_deleted_record_ends_its_wait() {
    let (server, mut member) = shop(&rules("", ""));
    assert_eq!(member.commit("orders", 0, 1), 0);
    nack(&mut member);
    member.client.put("orders", 0, &[Rec::new("4")]);
    assert!(read(&mut member, 4, 300).is_empty(), "it waits");
    delete_below(&mut member, 3);
    assert_eq!(given(&mut member, 4), [4]);
    assert_eq!(charged(&server), []);
    assert_eq!(member.commit("orders", 0, 5), 0);
    assert_eq!(member.position_of("orders", 0), 5);
}

fn a_nacked_record_without_bytes_is_refused() {
    let (server, mut member) = shop(&rules("", ""));
    delete_below(&mut member, 3);
    let named = Rec::new("").header("x-retry-by-reference", "true");
    let answer = member.client.nack("shop", "orders-0@1", named);
    assert_eq!(answer.error_code, ResponseError::InvalidRecord.code());
    assert_eq!(charged(&server), []);
}

fn a_partition_does_not_wait_for_an_undelivered_record() {
    let (server, mut member) = shop(&rules("", ""));
    let answer = member.client.nack("shop", "orders-0@6", Rec::new("elsewhere"));
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    assert_eq!(charged(&server), []);
    assert_eq!(server.pending("shop").len(), 1, "it waits in the queue");
    let records: Vec<Rec> = (4..8).map(|n| Rec::new(&n.to_string())).collect();
    member.client.put("orders", 0, &records);
    assert_eq!(given(&mut member, 4), [4, 5, 6, 7], "together, and all of them");
}

fn a_withheld_reset_redelivers_no_settled_record() {
    let (server, mut member) = shop(&rules("", ""));
    assert_eq!(member.commit("orders", 0, 1), 0);
    nack(&mut member);
    let body =
        json!({"group": "shop", "topic": "orders", "partition": 0, "offset": 2, "dlq": true});
    let (status, told) = server.post("/api/v1/nack", &body.to_string());
    assert_eq!((status, &told["outcome"]), (200, &"dead".into()), "{told}");
    assert_eq!(member.leave(), 0);
    let mut tool = Member::new(&server, "shop", &[]);
    assert_eq!(tool.commit("orders", 0, 4), 0);
    let mut next = Member::new(&server, "shop", &["orders"]);
    next.join(PARTITIONS);
    assert_eq!(next.position_of("orders", 0), FAILED, "not beyond it");
    assert_eq!(given(&mut next, FAILED), [FAILED]);
    assert_eq!(next.commit("orders", 0, 2), 0);
    assert_eq!(given(&mut next, 2), [3], "2 is a dead letter");
}

/// Turns the order off, so that no partition waits.
fn turned_off(delivery: RetryDelivery) -> impl Fn(&mut reprise::config::Config) {
    move |config| (config.retry.delivery, config.retry.order.mode) = (delivery, OrderMode::Off)
}

fn leaving_order_mode_neither_waits_nor_loses_records() {
    for delivery in [RetryDelivery::Topic, RetryDelivery::Auto] {
        for restarts in [false, true] {
            let (mut server, mut member) = shop(&rules("", ""));
            assert_eq!(member.commit("orders", 0, 1), 0);
            nack(&mut member);
            if restarts {
                server.restart_with(turned_off(delivery));
                member.client = server.client();
                member.join(PARTITIONS);
            } else {
                server.reload_with(turned_off(delivery));
            }
            assert_eq!(member.commit("orders", 0, 4), 0);
            assert_eq!(
                member.position_of("orders", 0),
                4,
                "{delivery:?}, {restarts}: it is passed"
            );
            let mut kept = Vec::new();
            until("an entry", || {
                kept = server.pending("shop");
                !kept.is_empty()
            });
            let (origin, times) = (&kept[0]["origin"], &kept[0]["reconsume_times"]);
            assert_eq!((kept.len(), times), (1, &1.into()), "charged when it was said");
            assert_eq!(origin, "orders-0@1");
            assert!(dead_letters(&server).is_empty());
            assert_eq!(member.commit("orders", 0, 4), 0);
            assert_eq!(charged(&server), [], "it is no suspect now");
        }
    }
}

fn a_group_without_retries_waits_for_nothing() {
    for restarts in [false, true] {
        let (mut server, mut member) = shop(&rules("", ""));
        assert_eq!(member.commit("orders", 0, 1), 0);
        nack(&mut member);
        assert_eq!(member.commit("orders", 0, 4), 0);
        if restarts {
            server.restart_with(turned_off(RetryDelivery::Off));
            member.client = server.client();
            member.join(PARTITIONS);
        } else {
            server.reload_with(turned_off(RetryDelivery::Off));
        }
        assert_eq!(member.position_of("orders", 0), FAILED, "who begins anew is given it again");
        assert_eq!(read(&mut member, 1, 400), [1, 2, 3]);
        assert_eq!(member.commit("orders", 0, 4), 0);
        assert_eq!(member.position_of("orders", 0), 4);
        assert_eq!(charged(&server), [], "there is no queue to keep it for");
    }
}
