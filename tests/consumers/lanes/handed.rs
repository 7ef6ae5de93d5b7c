//! Deliveries of retries: their time and number, acknowledgement, and return.

use std::time::Duration;

use kafka_protocol::messages::FetchRequest;
use reprise::wire::ResponseError;

use crate::support::batch::{plain, unpack};
use crate::support::client::fetch_request;
use crate::support::{Member, Rec, Server, instant, rebalance, until, wall_ms};

in_front!(
    a_due_retry_answers_a_waiting_fetch,
    the_oldest_due_comes_first_and_few_at_a_time,
    a_commit_acknowledges_only_earlier_deliveries,
    a_commit_by_a_stale_member_acknowledges_no_retry,
    a_repeated_fetch_below_the_end_repeats_its_deliveries,
    an_offset_beyond_the_slots_end_gets_an_empty_answer,
    each_retry_goes_to_one_member_only,
    an_unsettled_delivery_returns_after_the_consume_timeout,
    a_restarted_consumer_loses_no_timed_out_retry,
    open_retries_stay_with_their_member_over_a_restart
);

const PARTITIONS: &[(&str, i32)] = &[("reprise.retry.shop", 1)];

fn shop(yaml: &str) -> (Server, Member) {
    let server = Server::with(yaml);
    let mut member = Member::new(&server, "shop", &["reprise.retry.shop"]);
    member.join(PARTITIONS);
    (server, member)
}

fn nacks(count: i64) -> bytes::Bytes {
    let of = |n: i64| Rec::new(&n.to_string()).header("x-retry-origin", format!("orders-0@{n}"));
    plain(&(0..count).map(of).collect::<Vec<Rec>>())
}

fn a_due_retry_answers_a_waiting_fetch() {
    let (server, mut member) = shop("retry: {levels: 400ms}");
    let from = member.position();
    let began = instant();
    let sent = member.client.send(12, &fetch_request("reprise.retry.shop", 0, from, 15_000));
    let mut producer = server.client();
    let nacked = instant();
    assert_eq!(producer.nack("shop", "orders-0@1", Rec::new("x")).error_code, 0);
    assert!(member.client.is_silent(), "not due yet");
    let answer = member.client.receive::<FetchRequest>(sent);
    let took = nacked.elapsed();
    let got = unpack(answer.responses[0].partitions[0].records.as_ref().unwrap());
    assert_eq!(got.len(), 1);
    assert!(took >= Duration::from_millis(400), "early: after {took:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "not by the due time");
    assert!(wall_ms() >= got[0].number("x-retry-due-ms"));
}

fn the_oldest_due_comes_first_and_few_at_a_time() {
    let (_server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(member.client.produce("reprise.retry.shop", 0, nacks(40)).error_code, 0);
    let mut seen = Vec::new();
    while seen.len() < 40 {
        let from = member.position();
        let got = member.retries_from(from);
        assert!(got.len() <= 16, "{} at once", got.len());
        let offsets: Vec<i64> = got.iter().map(|record| record.offset).collect();
        let end = from + i64::try_from(got.len()).unwrap();
        assert_eq!(offsets, (from..end).collect::<Vec<i64>>(), "without a gap");
        seen.extend(got.iter().map(|record| record.text().parse::<i64>().unwrap()));
        member.done(end);
    }
    assert_eq!(seen, (0..40).collect::<Vec<i64>>());
}

fn a_commit_acknowledges_only_earlier_deliveries() {
    let (server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(member.client.produce("reprise.retry.shop", 0, nacks(5)).error_code, 0);
    let from = member.position();
    let mut got = Vec::new();
    while got.len() < 5 {
        got.extend(member.retries_from(from + i64::try_from(got.len()).unwrap()));
    }
    assert_eq!(member.position(), from, "nothing is acknowledged yet");
    member.done(from + 2);
    assert_eq!(member.position(), from + 2);
    member.done(from + 1);
    assert_eq!(member.position(), from + 2, "backwards has no effect");
    let beyond = member.commit("reprise.retry.shop", 0, from + 6);
    assert_eq!(beyond, ResponseError::OffsetOutOfRange.code(), "never handed out");
    assert_eq!(member.position(), from + 2);
    let inflight = server.json("/api/v1/groups/shop")["inflight"].clone();
    assert_eq!(inflight, 3);
    member.done(from + 5);
    assert_eq!(server.json("/api/v1/groups/shop")["inflight"], 0);
    let acked = "reprise_records_acked_total{group=\"shop\",topic=\"reprise.retry.shop\"}";
    assert!(server.metric(acked) >= 5.0);
}

fn a_commit_by_a_stale_member_acknowledges_no_retry() {
    let (_server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(member.client.produce("reprise.retry.shop", 0, nacks(1)).error_code, 0);
    let got = member.retry_once();
    member.generation += 1;
    let refused = member.commit("reprise.retry.shop", 0, got.offset + 1);
    assert_eq!(refused, ResponseError::IllegalGeneration.code());
    member.generation -= 1;
    assert_eq!(member.position(), got.offset);
}

fn a_repeated_fetch_below_the_end_repeats_its_deliveries() {
    let (_server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(member.client.produce("reprise.retry.shop", 0, nacks(1)).error_code, 0);
    let first = member.retry_once();
    assert_eq!(member.retry_once(), first, "a client that lost the answer asks again");
    let data = member.fetch_lane(first.offset + 1, 0);
    assert!(data.records.unwrap().is_empty());
    assert_eq!(data.high_watermark, first.offset + 1, "the next offset");
}

fn an_offset_beyond_the_slots_end_gets_an_empty_answer() {
    let (_server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(member.client.produce("reprise.retry.shop", 0, nacks(1)).error_code, 0);
    let from = member.position();
    let free = (1_i64 << 50) | (77 << 34) | 5;
    for offset in [from + 9, free] {
        let data = member.fetch_lane(offset, 0);
        assert_eq!((data.error_code, data.high_watermark), (0, offset));
        assert!(data.records.unwrap().is_empty());
    }
}

fn each_retry_goes_to_one_member_only() {
    let (server, mut a) = shop("retry: {levels: 20ms}");
    let mut b = Member::new(&server, "shop", &["reprise.retry.shop"]);
    rebalance(&mut [&mut a, &mut b], PARTITIONS);
    let mut producer = server.client();
    assert_eq!(producer.produce("reprise.retry.shop", 0, nacks(60)).error_code, 0);
    let mut seen = Vec::new();
    let mut next = [a.position(), b.position()];
    let began = instant();
    while seen.len() < 60 {
        assert!(began.elapsed() < crate::support::PATIENCE, "{} of 60", seen.len());
        for (member, next) in [&mut a, &mut b].into_iter().zip(&mut next) {
            let got = unpack(&member.fetch_lane(*next, 100).records.unwrap());
            *next += i64::try_from(got.len()).unwrap();
            seen.extend(got.iter().map(|record| record.text().parse::<i64>().unwrap()));
            member.done(*next);
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..60).collect::<Vec<i64>>());
}

fn an_unsettled_delivery_returns_after_the_consume_timeout() {
    let (_server, mut member) = shop("retry: {levels: 20ms, consume_timeout: 1s}");
    assert_eq!(member.client.produce("reprise.retry.shop", 0, nacks(1)).error_code, 0);
    let handed = instant();
    let first = member.retry_once();
    let second = member.retries_from(first.offset + 1).remove(0);
    assert!(handed.elapsed() >= Duration::from_secs(2), "the timeout and the back-off");
    assert_eq!(second.number("RECONSUME_TIME"), 1, "nothing is charged");
    assert_eq!(second.text(), first.text());
    member.done(second.offset + 1);
}

fn a_restarted_consumer_loses_no_timed_out_retry() {
    let (server, mut member) = shop("retry: {levels: 20ms, consume_timeout: 1s}");
    assert_eq!(member.client.produce("reprise.retry.shop", 0, nacks(1)).error_code, 0);
    let first = member.retry_once();
    let state = || server.json("/api/v1/retries?group=shop")["items"][0]["state"].clone();
    until("the consume timeout is over", || state() != "inflight");
    // The consumer restarted under its id, and has forgotten the delivery.
    let from = member.position();
    member.client.nack("shop", "orders-0@77", Rec::new("another"));
    let mut seen = Vec::new();
    let mut next = from;
    while !seen.contains(&first.text()) {
        for got in member.retries_from(next) {
            next = got.offset + 1;
            seen.push(got.text());
        }
        member.done(next);
    }
}

fn open_retries_stay_with_their_member_over_a_restart() {
    let (mut server, mut member) = shop("retry: {levels: 20ms}");
    assert_eq!(member.client.produce("reprise.retry.shop", 0, nacks(3)).error_code, 0);
    let from = member.position();
    let mut got = Vec::new();
    while got.len() < 3 {
        got.extend(member.retries_from(from + i64::try_from(got.len()).unwrap()));
    }
    member.done(from + 1);
    server.restart();
    member.client = server.client();
    assert_eq!(member.heartbeat(), 0);
    assert_eq!(member.position(), from + 1, "what was acknowledged is done");
    assert_eq!(member.retries(), got[1..], "what was open is handed out again, as it was");
    let nack =
        member.client.nack("shop", &format!("reprise.retry.shop-0@{}", from + 1), Rec::new("x"));
    assert_eq!(nack.error_code, 0);
    member.done(from + 3);
    let again = member.retries_from(from + 3).remove(0);
    assert_eq!(again.number("RECONSUME_TIME"), 2, "the count goes on");
}
