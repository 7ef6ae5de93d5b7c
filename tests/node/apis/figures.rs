//! Gauges and counters: each changes with what it counts.

use crate::support::{Member, Rec, Server, until, wall_ms};

/// The value of a series, with three decimals.
fn milli(server: &Server, series: &str) -> String {
    format!("{:.3}", server.metric(series))
}

/// A nack that asks for a dead letter at once.
fn letter(value: &str) -> Rec {
    Rec::new(value).header("x-retry-level", "-1")
}

#[test]
fn a_failed_journal_write_is_counted() {
    let server = Server::told("retry: {levels: 20ms}");
    let mut client = server.client();
    client.create("orders", 1);
    let failed = "reprise_journal_write_errors_total";
    assert_eq!(milli(&server, failed), "0.000");
    server.disk().fail_nth_sync(1);
    let answer = client.produce("orders", 0, crate::support::batch::plain(&[Rec::new("a")]));
    assert_ne!(answer.error_code, 0, "it is not acknowledged");
    until("it is counted", || milli(&server, failed) == "1.000");
}

#[test]
fn the_oldest_dead_letters_age_counts_from_its_last_failure() {
    let server = Server::start();
    let mut client = server.client();
    let series = "reprise_dlq_oldest_timestamp_seconds{group=\"shop\"}";
    let origin = |offset| format!("orders-0@{offset}");
    assert_eq!(client.nack("shop", &origin(0), letter("a")).error_code, 0);
    let first = server.metric(series);
    let now_s = f64::from(u32::try_from(wall_ms() / 1000).unwrap());
    assert!((now_s - first).abs() < 60.0, "{first} at {now_s}");
    assert_eq!(client.nack("shop", &origin(1), letter("b")).error_code, 0);
    assert_eq!(milli(&server, series), format!("{first:.3}"), "the first one is still there");
}

#[test]
fn the_oldest_hand_out_has_an_age() {
    let server = Server::told("retry: {levels: 20ms}");
    let mut member = Member::new(&server, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    let series = "reprise_unread_oldest_seconds{group=\"shop\"}";
    for offset in 0..2 {
        let origin = format!("orders-0@{offset}");
        assert_eq!(member.client.nack("shop", &origin, Rec::new("x")).error_code, 0);
    }
    server.pass(20);
    assert_eq!(milli(&server, series), "0.000", "nothing is out");
    let out = member.retries();
    assert_eq!(out.len(), 2);
    server.pass(5_000);
    assert_eq!(milli(&server, series), "5.000");
    member.done(out[1].offset + 1);
    assert_eq!(milli(&server, series), "0.000");
}
