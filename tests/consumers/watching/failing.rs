//! Records that crash every consumer, or that no consumer gets past: each becomes a dead letter,
//! and its neighbours are consumed.

use crate::support::batch::{Around, batch};
use crate::support::client::fetch_request;
use crate::support::{Member, Rec, Server, in_front, wall_ms};
use crate::watching::app::{App, Failing, dead_letters, goes_back_until_dead, orders, orders_more};

both!(
    only_the_crashing_record_becomes_a_dead_letter,
    only_the_undecodable_batch_becomes_a_dead_letter,
    a_crashed_records_history_survives_a_restart,
    the_last_record_ends_once_another_one_follows,
    clients_unable_to_read_empty_batches_get_none,
    a_record_crashing_a_static_member_becomes_a_dead_letter,
    crash_counts_survive_a_restart,
    after_a_restart_going_back_is_seen_before_any_commit,
    two_deaths_charge_nothing,
    a_record_sought_repeatedly_is_isolated_then_a_dead_letter,
    seek_backs_are_observed_by_default,
    a_record_that_ends_its_consumers_holds_nothing
);

const RULES: &str = "retry: {levels: 20ms, max_reconsume_times: 1, isolation_timeout: 3s, \
                     in_place_limit: 2, give_up_after: 500ms, on_seek_back: retry, \
                     order: {interval: 50ms}}";

fn all_but(poison: i64, count: i64) -> Vec<i64> {
    (0..count).filter(|offset| *offset != poison).collect()
}

fn only_the_crashing_record_becomes_a_dead_letter() {
    let server = Server::with(RULES);
    orders(&server, 12);
    let mut app = App::new(&server, 5);
    app.run(Failing::Crash, 12);
    assert_eq!(app.done, all_but(5, 12));
    let dead = dead_letters(&server);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(
        (dead[0].text(), dead[0].header("x-retry-disposition").unwrap()),
        ("5".to_owned(), "crashed".to_owned())
    );
    assert_eq!(dead[0].header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@5");
}

fn only_the_undecodable_batch_becomes_a_dead_letter() {
    let mut server = Server::with(RULES);
    orders(&server, 4);
    let rec = |n: i64| Rec::new(&n.to_string()).at(wall_ms());
    let packed = Around { attributes: 1, ..Around::default() };
    let bad = batch(&[rec(4), rec(5), rec(6)], packed);
    // The batch claims gzip compression, and is not compressed.
    server.stored("orders", &bad);
    let mut tool = server.client();
    tool.put("orders", 0, &[rec(7), rec(8)]);
    let mut app = App::new(&server, 4);
    app.run(Failing::Crash, 9);
    assert_eq!(app.done, [0, 1, 2, 3, 7, 8]);
    let dead = dead_letters(&server);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0].header("x-retry-disposition").unwrap(), "undecodable");
    assert_eq!(dead[0].value.as_ref().unwrap()[16..], bad[16..], "all of it but its place");
    server.restart();
    assert_eq!(dead_letters(&server), dead);
}

fn a_crashed_records_history_survives_a_restart() {
    let mut server = Server::with(RULES);
    orders(&server, 6);
    App::new(&server, 2).run(Failing::Crash, 6);
    assert_eq!(dead_letters(&server).len(), 1);
    let told = |server: &Server| {
        let told = server.json("/api/v1/explain?record=orders-0@2&group=shop");
        let says = |past: &serde_json::Value| past["says"].as_str().unwrap().to_owned();
        told["past"].as_array().unwrap().iter().map(says).collect::<Vec<String>>()
    };
    let past = told(&server);
    let place = |what: &str| past.iter().position(|says| says == what).unwrap();
    let lost = place("a hand-out it was part of was lost with its member, 2 in a row");
    let charged = place("a failure is inferred: crashed");
    let dead = place(if in_front() {
        "it is a record of its dead-letter topic: a dead letter (crashed)"
    } else {
        "its member was lost with it: a dead letter (crashed)"
    });
    assert!(lost < charged && charged < dead, "{past:#?}");
    server.restart();
    assert_eq!(told(&server), past);
    let other = server.get("/api/v1/explain?record=orders-0@3&group=shop");
    assert!(!other.contains("inferred"), "its neighbour: {other}");
}

fn the_last_record_ends_once_another_one_follows() {
    let server = Server::with(RULES);
    orders(&server, 6);
    App::new(&server, 5).dies(5);
    assert_eq!(dead_letters(&server).len(), 0, "nothing else tells that it is the record");
    server.client().put("orders", 0, &[Rec::new("6").at(wall_ms())]);
    let mut app = App::new(&server, 5);
    app.run(Failing::Crash, 7);
    assert_eq!(dead_letters(&server).len(), 1);
}

/// kafka-python up to 2.0.2 throws at an answer with empty batches only.
fn clients_unable_to_read_empty_batches_get_none() {
    let server = Server::with(RULES);
    orders(&server, 6);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    assert_eq!(member.commit("orders", 0, 5), 0);
    goes_back_until_dead(&server, &mut member, 5);
    let mut bytes = |version, offset, wait_ms| {
        let asked = fetch_request("orders", 0, offset, wait_ms);
        member.client.fetch_by(version, &asked).records.unwrap_or_default().len()
    };
    assert_eq!(bytes(4, 5, 100), 0);
    let empty = bytes(5, 5, 100);
    assert_eq!(empty, 61, "a header, by which others go on");
    server.client().put("orders", 0, &[Rec::new("6")]);
    assert!(bytes(4, 5, 100) > empty, "what comes behind it is given to all");
}

fn a_record_crashing_a_static_member_becomes_a_dead_letter() {
    let server = Server::with(RULES);
    orders(&server, 8);
    let mut app = App::new(&server, 2).fixed("one");
    app.run(Failing::Crash, 8);
    assert_eq!(app.done, all_but(2, 8));
    assert_eq!(dead_letters(&server).len(), 1);
}

fn crash_counts_survive_a_restart() {
    let mut server = Server::with(RULES);
    orders(&server, 8);
    App::new(&server, 2).dies(3);
    server.restart();
    let mut app = App::new(&server, 2);
    app.run(Failing::Crash, 8);
    assert_eq!(app.done, all_but(2, 8));
    assert_eq!(dead_letters(&server).len(), 1);
    // A count that began again would take six or more deliveries. A loss undetected before the
    // restart does not count.
    assert!(app.deliveries[&2] <= 5, "{:?}", app.deliveries);
}

fn after_a_restart_going_back_is_seen_before_any_commit() {
    let mut server = Server::with("retry: {on_seek_back: retry, order: {interval: 30s}}");
    orders(&server, 8);
    App::new(&server, -1).run(Failing::Crash, 4);
    server.restart();
    orders_more(&server);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    let position = member.position_of("orders", 0);
    assert!(position >= 4);
    let given = member.client.fetch("orders", 0, position, 100).records.unwrap();
    assert!(!given.is_empty());
    let again = member.client.fetch("orders", 0, position, 100).records.unwrap();
    assert!(again.is_empty(), "held: the group is known to have committed below it");
}

fn two_deaths_charge_nothing() {
    let server = Server::with(RULES);
    orders(&server, 8);
    App::new(&server, 2).dies(2);
    let mut app = App::new(&server, -1);
    app.run(Failing::Crash, 8);
    assert_eq!(app.done, (0..8).collect::<Vec<i64>>());
    assert_eq!(dead_letters(&server).len(), 0);
}

fn a_record_sought_repeatedly_is_isolated_then_a_dead_letter() {
    let server = Server::with(
        "retry: {levels: 20ms, give_up_after: 200ms, isolation_timeout: 100ms, in_place_limit: 3, \
         on_seek_back: retry, order: {interval: 50ms}}",
    );
    orders(&server, 12);
    let mut app = App::new(&server, 5);
    app.run(Failing::SeekBack, 12);
    assert_eq!(app.done, all_but(5, 12));
    let dead = dead_letters(&server);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(
        (dead[0].text(), dead[0].header("x-retry-disposition").unwrap()),
        ("5".to_owned(), "seek_back".to_owned())
    );
    assert!(app.deliveries[&5] > 6, "three returns, then alone: {:?}", app.deliveries);
}

fn seek_backs_are_observed_by_default() {
    let server = Server::with("retry: {levels: 20ms}");
    orders(&server, 8);
    let mut app = App::new(&server, 2);
    for _ in 0..12 {
        app.run(Failing::SeekBack, 2);
    }
    assert_eq!(dead_letters(&server).len(), 0);
    assert!(app.deliveries[&2] >= 12, "{:?}", app.deliveries);
    let story = server.json("/api/v1/explain?group=shop");
    let seek_backs = &story["partitions"][0]["seek_backs"];
    assert_eq!(seek_backs[0]["offset"], 2, "{story}");
    let times = seek_backs[0]["times"].as_u64().unwrap();
    assert!(times >= 11, "{story}");
    let series = format!("reprise_seek_backs_total{{group=\"shop\"}} {times}\n");
    assert!(server.get("/metrics").contains(&series), "{times}");
}

fn a_record_that_ends_its_consumers_holds_nothing() {
    let server = Server::with(
        "retry: {levels: 20ms, max_reconsume_times: 3, isolation_timeout: 3s, \
                 give_up_after: 500ms, order: {interval: 20ms}}",
    );
    orders(&server, 8);
    let mut app = App::new(&server, 2).subscribed_to("reprise.retry.shop");
    app.run(Failing::Crash, 8);
    assert_eq!(app.done, all_but(2, 8));
    let dead = dead_letters(&server);
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@2");
}
