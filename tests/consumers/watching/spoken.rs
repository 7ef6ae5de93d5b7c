//! Suspects that their consumer nacks in the end.

use crate::support::member::offset_fetch;
use crate::support::{Member, Rec, Server, until};
use crate::watching::app::{App, dead_letters, orders};

both!(
    a_commit_marker_ends_suspicion_and_carries_the_count,
    done_metadata_ends_the_suspicion,
    a_nack_ends_the_suspicion,
    nacks_and_progress_before_a_restart_clear_their_suspects
);

const RULES: &str = "retry: {levels: 1h, max_reconsume_times: 5, isolation_timeout: 3s, \
                     in_place_limit: 5, give_up_after: 500ms, on_seek_back: retry, \
                     order: {interval: 50ms}}";

/// Crashes the application by record 2 until one failure counts. Returns the next consumer.
fn charged_once(server: &Server) -> Member {
    orders(server, 8);
    App::new(server, 2).dies(5);
    let mut member = Member::new(server, "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    let position = member.position_of("orders", 0);
    assert_eq!(position, 2, "all before it is done");
    assert_eq!(suspects(server), [(2, 1)]);
    member
}

/// Suspects of `orders-0`, and the counted failures of each.
fn suspects(server: &Server) -> Vec<(i64, u64)> {
    let told = server.json("/api/v1/explain?group=shop");
    let windows = told["partitions"].as_array().unwrap();
    let suspects = windows.iter().flat_map(|of| of["suspects"].as_array().unwrap());
    let of = |suspect: &serde_json::Value| {
        let times = suspect["reconsume_times"].as_u64().unwrap();
        (suspect["offset"].as_i64().unwrap(), times)
    };
    suspects.map(of).collect()
}

fn judge(says: impl Fn(&mut Member)) {
    let server = Server::with(RULES);
    let mut member = charged_once(&server);
    says(&mut member);
    assert_eq!(suspects(&server), [], "no suspect any more");
    let waiting = server.pending("shop");
    assert_eq!(waiting.len(), 1);
    assert_eq!(
        (&waiting[0]["origin"], &waiting[0]["reconsume_times"]),
        (&"orders-0@2".into(), &2.into())
    );
    assert_eq!(member.commit("orders", 0, 3), 0);
    assert_eq!(dead_letters(&server).len(), 0);
}

fn a_commit_marker_ends_suspicion_and_carries_the_count() {
    judge(|member| {
        let request = member.commit_request("orders", 0, 2, "!retry:2");
        assert_eq!(member.client.call(9, &request).topics[0].partitions[0].error_code, 0);
    });
}

fn done_metadata_ends_the_suspicion() {
    let server = Server::with(RULES);
    let mut member = charged_once(&server);
    until("it is given, alone", || {
        !member.client.fetch("orders", 0, 2, 100).records.unwrap().is_empty()
    });
    // The Parallel Consumer's metadata: of the two records from 1 on, the second is done.
    let done = "bAACAgA=";
    let request = member.commit_request("orders", 0, 1, done);
    assert_eq!(member.client.call(9, &request).topics[0].partitions[0].error_code, 0);
    assert_eq!(suspects(&server), []);
    let stored = offset_fetch(&mut server.client(), 7, "shop", "orders", 0);
    assert_eq!(stored, (1, Some(done.to_owned()), 0), "byte for byte");
    assert_eq!(dead_letters(&server).len(), 0);
}

fn a_nack_ends_the_suspicion() {
    judge(|member| {
        assert_eq!(member.client.nack("shop", "orders-0@2", Rec::new("2")).error_code, 0);
    });
}

/// Suspects after a restart, once a member has gone back to each record in turn. A member before it
/// got five records, and `says` something of them.
fn suspects_after_a_restart(says: impl Fn(&mut Member)) -> Vec<i64> {
    let mut server = Server::with(RULES);
    orders(&server, 5);
    let join = |server: &Server| {
        let mut member = Member::new(server, "shop", &["orders"]);
        member.join(&[("orders", 1)]);
        assert!(!member.client.fetch("orders", 0, 0, 5_000).records.unwrap().is_empty());
        member
    };
    let mut member = join(&server);
    assert_eq!(member.commit("orders", 0, 1), 0);
    says(&mut member);
    assert_eq!(member.leave(), 0);
    drop(member);
    server.restart();
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    assert_eq!(member.position_of("orders", 0), 1);
    assert!(!member.client.fetch("orders", 0, 1, 5_000).records.unwrap().is_empty());
    for offset in [3, 2, 1] {
        member.client.fetch("orders", 0, offset, 0);
    }
    let told = server.json("/api/v1/explain?group=shop");
    let first = |set: &serde_json::Value| {
        let (_, offsets) = set["offsets"][0].as_str().unwrap().split_once('@').unwrap();
        offsets.split('.').next().unwrap().parse().unwrap()
    };
    let mut firsts: Vec<i64> = told["suspects"].as_array().unwrap().iter().map(first).collect();
    firsts.sort_unstable();
    firsts
}

fn nacks_and_progress_before_a_restart_clear_their_suspects() {
    assert_eq!(suspects_after_a_restart(|_| {}), [1, 2, 3]);
    let nacked = suspects_after_a_restart(|member| {
        assert_eq!(member.client.nack("shop", "orders-0@2", Rec::new("2")).error_code, 0);
    });
    assert_eq!(nacked, [1, 3], "it has an entry");
    let done = suspects_after_a_restart(|member| {
        let request = member.commit_request("orders", 0, 1, "bAACAgA=");
        assert_eq!(member.client.call(9, &request).topics[0].partitions[0].error_code, 0);
    });
    assert_eq!(done, [1, 3], "it is done");
}
