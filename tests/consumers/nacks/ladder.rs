//! Content and time of retries: complete headers, levels, exact delays, the last level.

use serde_json::Value;

use crate::support::batch::plain;
use crate::support::{Got, Member, Rec, Server, in_front, until, wall_ms};

both!(
    a_records_history_is_found_by_origin_and_by_delivery,
    a_redelivery_keeps_all_bytes_and_appends_its_headers,
    a_dead_letter_says_everything_that_happened,
    levels_and_exact_delays_are_taken_literally,
    level_minus_one_goes_to_the_dead_letters_at_once,
    an_exact_delay_is_kept_and_never_cut_short,
    limit_0_means_dead_letter_and_minus_1_means_16,
    without_dead_letters_the_exhausted_are_counted_and_dropped,
    a_record_without_an_origin_is_a_delayed_first_delivery
);

const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

fn shop(yaml: &str) -> (Server, Member) {
    let server = Server::with(yaml);
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(PARTITIONS);
    (server, member)
}

fn names(got: &Got, from: usize) -> Vec<String> {
    let headers = got.headers[from..].iter();
    headers.map(|(name, _)| String::from_utf8(name.to_vec()).unwrap()).collect()
}

fn a_records_history_is_found_by_origin_and_by_delivery() {
    let (server, mut member) = shop("retry: {levels: 30ms, max_reconsume_times: 1}");
    let offset = member.client.put("orders", 0, &[Rec::new("zero"), Rec::new("one")]);
    assert_eq!(offset, 0);
    let nack = |reason| Rec::new("one").header("x-retry-reason", reason);
    assert_eq!(member.client.nack("shop", "orders-0@1", nack("no stock")).error_code, 0);
    let place = format!("reprise.retry.shop-0@{}", member.retry_once().offset);
    assert_eq!(member.client.nack("shop", &place, nack("still none")).error_code, 0);
    let told = |record: &str| {
        let told = server.json(&format!("/api/v1/explain?record={record}"));
        told["past"].as_array().unwrap().clone()
    };
    member.client.read_all("reprise.dlq.shop");
    let past = told("orders-0@1");
    let of = |key: &str| {
        past.iter().map(|past| past[key].as_str().unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    let failed = "the application says that it failed";
    let given = format!("released into its retry topic: attempt 2 as {place}");
    let back = format!("{failed}: it comes back after 30 ms (level 1)");
    let dead = "a dead letter (max_attempts)";
    if in_front() {
        let waits = format!("{failed}: blocked: the dead letters do not take it yet");
        let written = format!("it is a record of its dead-letter topic: {dead}");
        assert_eq!(of("says"), [back, given, waits, written]);
        assert_eq!(of("evidence"), ["nack", "hand_out", "nack", "letter_written"]);
    } else {
        assert_eq!(of("says"), [back, given, format!("{failed}: {dead}")]);
        assert_eq!(of("evidence"), ["nack", "hand_out", "nack"]);
    }
    assert_eq!(of("error")[..3], ["no stock", "-", "still none"]);
    assert!(of("group").iter().all(|group| group == "shop"));
    assert_eq!(told(&place), past);
}

fn a_redelivery_keeps_all_bytes_and_appends_its_headers() {
    let (_server, mut member) = shop("retry: {levels: 30ms, max_reconsume_times: 3}");
    let offset = member.client.put("orders", 0, &[Rec::odd()]);
    let before = wall_ms();
    let reason = "stock is empty";
    let nack = Rec::odd().header("x-retry-reason", reason);
    assert_eq!(member.client.nack("shop", &format!("orders-0@{offset}"), nack).error_code, 0);
    let after = wall_ms();
    let got = member.retry_once();
    let arrived = wall_ms();
    let sent = Rec::odd();
    assert_eq!((&got.key, &got.value, got.time_ms), (&sent.key, &sent.value, sent.time_ms));
    assert_eq!(got.headers[..5], sent.headers, "duplicates, nulls and odd bytes, in order");
    let expected = [
        "RECONSUME_TIME",
        "MAX_RECONSUME_TIMES",
        "RETRY_TOPIC",
        "ORIGIN_MESSAGE_ID",
        "x-retry-attempt",
        "x-retry-delivery",
        "x-retry-disposition",
        "x-retry-due-ms",
        "x-retry-first-failed-ms",
        "x-retry-last-failed-ms",
        "x-retry-redrive-count",
        "x-retry-reason",
    ];
    assert_eq!(names(&got, 5), expected);
    for (name, value) in [
        ("RECONSUME_TIME", "1"),
        ("MAX_RECONSUME_TIMES", "3"),
        ("RETRY_TOPIC", "orders"),
        ("ORIGIN_MESSAGE_ID", "orders-0@0"),
        ("x-retry-attempt", "2"),
        ("x-retry-disposition", "rejected"),
        ("x-retry-redrive-count", "0"),
        ("x-retry-reason", reason),
    ] {
        assert_eq!(got.header(name).as_deref(), Some(value), "{name}");
    }
    let failed = got.number("x-retry-first-failed-ms");
    // the sidecar counts whole milliseconds from its start: at most two behind the system's clock
    assert!((before - 2..=after).contains(&failed), "{before} {failed} {after}");
    assert_eq!(got.number("x-retry-last-failed-ms"), failed);
    assert_eq!(got.number("x-retry-due-ms"), failed + 30);
    assert!(arrived >= failed + 30, "early");
}

fn a_dead_letter_says_everything_that_happened() {
    let began = wall_ms();
    let (_server, mut member) = shop("retry: {levels: 20ms, max_reconsume_times: 2}");
    let offset = member.client.put("orders", 0, &[Rec::odd()]);
    let mut origin = format!("orders-0@{offset}");
    for n in 1..=3_i64 {
        let record = Rec::odd().header("x-retry-reason", format!("reason {n}"));
        assert_eq!(member.client.nack("shop", &origin, record).error_code, 0);
        if n <= 2 {
            let got = member.retry_once();
            assert_eq!(got.number("RECONSUME_TIME"), n);
            assert_eq!(got.number("x-retry-attempt"), n + 1);
            assert_eq!(got.header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@0");
            origin = format!("reprise.retry.shop-0@{}", got.offset);
            member.done(got.offset + 1);
        }
    }
    let mut letters = member.client.read_all("reprise.dlq.shop");
    let got = letters.remove(0);
    assert!(letters.is_empty());
    let sent = Rec::odd();
    assert_eq!((&got.key, &got.value), (&sent.key, &sent.value));
    if in_front() {
        got.assert_appended_since(began, sent.time_ms);
    } else {
        assert_eq!(got.time_ms, sent.time_ms);
    }
    assert_eq!(got.headers[..5], sent.headers);
    for (name, value) in [
        ("RECONSUME_TIME", "3"),
        ("MAX_RECONSUME_TIMES", "2"),
        ("RETRY_TOPIC", "orders"),
        ("ORIGIN_MESSAGE_ID", "orders-0@0"),
        ("x-retry-attempt", "3"),
        ("x-retry-disposition", "max_attempts"),
        ("x-retry-reason", "reason 3"),
        ("x-retry-redrive-count", "0"),
        ("__dlq.errors.topic", "orders"),
        ("__dlq.errors.partition", "0"),
        ("__dlq.errors.offset", "0"),
        ("__dlq.errors.group", "shop"),
        ("__dlq.errors.delivery.count", "3"),
        ("__dlq.errors.message", "reason 3"),
    ] {
        assert_eq!(got.header(name).as_deref(), Some(value), "{name}");
    }
    let (first, last) =
        (got.number("x-retry-first-failed-ms"), got.number("x-retry-last-failed-ms"));
    assert!(last >= first + 40, "two waits of 20 ms lie between");
    let history = got.header("x-retry-history").unwrap();
    let words: Vec<&str> = history.split(';').map(|item| item.split_once(':').unwrap().1).collect();
    assert_eq!(words, ["rejected", "rejected", "max_attempts"]);
    assert!(history.starts_with(&first.to_string()) && history.contains(&last.to_string()));
    let of_the_copy = usize::from(in_front());
    assert_eq!(got.headers.len(), 5 + 18 + of_the_copy, "and nothing else: {:?}", names(&got, 5));
}

/// Sends a nack with these headers. Returns the retry as the admin port lists it.
fn scheduled(server: &Server, n: i64, headers: &[(&str, &str)]) -> Value {
    let mut record = Rec::new("x");
    for (name, value) in headers {
        record = record.header(name, value);
    }
    let origin = format!("orders-0@{n}");
    let answer = server.client().nack("shop", &origin, record);
    assert_eq!(answer.error_code, 0, "{headers:?}: {:?}", answer.error_message);
    let mut waiting = server.pending("shop").into_iter();
    waiting.find(|retry| retry["origin"] == origin.as_str()).unwrap()
}

fn levels_and_exact_delays_are_taken_literally() {
    // delays of hours: no retry becomes due during the test
    let server = Server::with("retry: {levels: 1h 2h 3h 4h 5h}");
    let hour = 3_600_000;
    for (n, (headers, delay_ms)) in (0..).zip([
        (&[][..], 3 * hour),
        (&[("x-retry-level", "0")], 3 * hour),
        (&[("x-retry-level", "5")], 5 * hour),
        (&[("x-retry-level", "1")], hour),
        (&[("x-retry-level", "99")], 5 * hour),
        (&[("x-retry-delay-ms", "7200001")], 7_200_001),
        (&[("x-retry-level", "1"), ("x-retry-delay-ms", "600000")], 600_000),
    ]) {
        let one = scheduled(&server, n, headers);
        assert_eq!(one["reconsume_times"], 1);
        let wait = one["due_ms"].as_i64().unwrap() - one["last_failed_ms"].as_i64().unwrap();
        assert_eq!(wait, delay_ms, "{headers:?}");
    }
}

fn level_minus_one_goes_to_the_dead_letters_at_once() {
    let (server, mut member) = shop("retry: {levels: 1h}");
    let record = Rec::new("x").header("x-retry-level", "-1");
    assert_eq!(member.client.nack("shop", "orders-0@5", record).error_code, 0);
    let letters = member.client.read_all("reprise.dlq.shop");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].header("x-retry-disposition").unwrap(), "explicit_dlq");
    assert_eq!(letters[0].number("RECONSUME_TIME"), 1);
    let series =
        "reprise_dlq_records_total{group=\"shop\",reason=\"explicit_dlq\",topic=\"orders\"}";
    until("the counter", || server.metric(series) >= 1.0);
}

fn an_exact_delay_is_kept_and_never_cut_short() {
    let (_server, mut member) = shop("retry: {levels: 1h}");
    let record = Rec::new("x").header("x-retry-delay-ms", "150");
    let before = wall_ms();
    assert_eq!(member.client.nack("shop", "orders-0@5", record).error_code, 0);
    let got = member.retry_once();
    assert!(wall_ms() >= before + 150);
    assert_eq!(got.number("x-retry-due-ms"), got.number("x-retry-last-failed-ms") + 150);
}

fn limit_0_means_dead_letter_and_minus_1_means_16() {
    let (_server, mut member) = shop("retry: {levels: 20ms, max_reconsume_times: 0}");
    assert_eq!(member.client.nack("shop", "orders-0@5", Rec::new("x")).error_code, 0);
    let letters = member.client.read_all("reprise.dlq.shop");
    assert_eq!(letters[0].header("x-retry-disposition").unwrap(), "max_attempts");
    assert_eq!(letters[0].number("RECONSUME_TIME"), 1);
    assert_eq!(letters[0].number("MAX_RECONSUME_TIMES"), 0);

    let (_server, mut member) = shop("retry: {levels: 20ms, max_reconsume_times: -1}");
    assert_eq!(member.client.nack("shop", "orders-0@5", Rec::new("x")).error_code, 0);
    assert_eq!(member.retry_once().number("MAX_RECONSUME_TIMES"), 16);
}

fn without_dead_letters_the_exhausted_are_counted_and_dropped() {
    let yaml = "retry: {levels: 20ms, max_reconsume_times: 0, dead_letters: {keep: false}}";
    let (server, mut member) = shop(yaml);
    assert_eq!(member.client.nack("shop", "orders-0@5", Rec::new("x")).error_code, 0);
    let series = "reprise_discarded_total{group=\"shop\",topic=\"orders\"}";
    until("the counter", || server.metric(series) >= 1.0);
    assert!(member.client.read_all("reprise.dlq.shop").is_empty());
    assert!(server.pending("shop").is_empty());
}

fn a_record_without_an_origin_is_a_delayed_first_delivery() {
    let (_server, mut member) = shop("retry: {levels: 30ms}");
    let sent = Rec::odd().header("x-retry-delay-ms", "40");
    let answer = member.client.produce("reprise.retry.shop", 0, plain(&[sent]));
    assert_eq!(answer.error_code, 0);
    let got = member.retry_once();
    assert_eq!(got.number("RECONSUME_TIME"), 0, "nothing has failed");
    assert_eq!(got.number("x-retry-attempt"), 1);
    assert_eq!(got.headers[..5], Rec::odd().headers);
    assert_eq!((got.header("RETRY_TOPIC"), got.header("ORIGIN_MESSAGE_ID")), (None, None));
}
