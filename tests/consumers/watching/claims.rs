//! Partitions with more than one claimant: a member that reads another's partition, one of another
//! generation, a static member's former process, members of two groups on one connection. The
//! sidecar cannot tell which of them works, so no failure counts, and all get every record.

use reprise::wire::ResponseError;

use crate::support::{Client, Member, Rec, Server, rebalance, until};
use crate::watching::app::{dead_letters, orders};
use crate::watching::ordered::read;

both!(
    a_non_owner_reading_and_committing_causes_no_suspicion,
    members_leaving_in_turn_cause_no_suspicion,
    commits_of_other_generations_beside_those_that_count,
    a_fenced_static_process_causes_no_dead_letter,
    two_groups_on_one_connection_stay_separate
);

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
const RECORDS: i64 = 8;
const NOTHING: [i64; 0] = [];

/// A hold in this server outlasts the test.
fn shop() -> Server {
    let server = Server::with(
        "retry: {on_seek_back: retry, order: {interval: 30s}, isolation_timeout: 30s}",
    );
    orders(&server, RECORDS);
    server
}

fn member(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders"]);
    member.session_ms = 60_000;
    member
}

fn rest(from: i64) -> Vec<i64> {
    (from..RECORDS).collect()
}

/// Lost deliveries of the group, and suspects of `orders-0`.
fn known(server: &Server) -> (u64, usize) {
    let told = server.json("/api/v1/explain?group=shop");
    let losses = told["suspects"].as_array().unwrap().iter().map(|set| set["losses"].as_u64());
    let suspects = told["partitions"][0]["suspects"].as_array().unwrap().len();
    (losses.flatten().max().unwrap_or(0), suspects)
}

fn a_non_owner_reading_and_committing_causes_no_suspicion() {
    let server = shop();
    let (mut owner, mut other) = (member(&server), member(&server));
    rebalance(&mut [&mut owner, &mut other], ORDERS);
    // Each fetches records again that the other got in between, and that it got itself before.
    for at in 0..RECORDS {
        for reader in [&mut owner, &mut other] {
            assert_eq!(read(reader, at, 5_000), rest(at), "as everyone");
        }
        assert_eq!(owner.commit("orders", 0, at + 1), 0);
        assert_eq!(other.commit("orders", 0, at), 0);
    }
    assert_eq!(known(&server), (0, 0));
}

fn members_leaving_in_turn_cause_no_suspicion() {
    let server = shop();
    let mut owner = member(&server);
    owner.join(ORDERS);
    for at in 0..RECORDS {
        assert_eq!(read(&mut owner, at, 5_000), rest(at));
        let mut other = member(&server);
        rebalance(&mut [&mut owner, &mut other], ORDERS);
        assert_eq!(read(&mut other, at, 5_000), rest(at));
        assert_eq!(other.leave(), 0);
        let called = ResponseError::RebalanceInProgress.code();
        until("the rebalance", || owner.heartbeat() == called);
        rebalance(&mut [&mut owner], ORDERS);
        // The other member has left the group, and still fetches.
        assert_eq!(read(&mut other, at, 5_000), rest(at));
        assert_eq!(owner.commit("orders", 0, at + 1), 0);
    }
    let (lost, suspects) = known(&server);
    assert!(lost <= 1 && suspects == 0, "{lost} lost, {suspects} suspects");
}

fn commits_of_other_generations_beside_those_that_count() {
    let server = shop();
    let mut owner = member(&server);
    owner.join(ORDERS);
    for end in RECORDS..RECORDS + 5 {
        assert!(!read(&mut owner, if end > RECORDS { end - 1 } else { 0 }, 5_000).is_empty());
        let current = owner.generation;
        for wrong in [current - 1, current + 1, i32::MAX, -7] {
            owner.generation = wrong;
            let error = owner.commit("orders", 0, end);
            assert_eq!(error, ResponseError::IllegalGeneration.code(), "{wrong}");
        }
        owner.generation = current;
        assert_eq!(owner.commit("orders", 0, end), 0, "what counts");
        owner.client.put("orders", 0, &[Rec::new("more")]);
        rebalance(&mut [&mut owner], ORDERS);
    }
    assert_eq!(known(&server), (0, 0));
}

fn a_fenced_static_process_causes_no_dead_letter() {
    let server = shop();
    let mut former = member(&server).fixed("one");
    former.join(ORDERS);
    assert_eq!(read(&mut former, 0, 5_000), rest(0));
    let mut present = member(&server).fixed("one");
    present.join(ORDERS);
    for _ in 0..5 {
        assert_eq!(read(&mut present, 0, 5_000), rest(0));
        assert_eq!(read(&mut former, 0, 5_000), rest(0));
        let fenced = former.commit("orders", 0, RECORDS);
        assert_eq!(fenced, ResponseError::FencedInstanceId.code());
    }
    assert_eq!(known(&server), (1, 0), "lost with its former process, once");
    assert_eq!(present.commit("orders", 0, RECORDS), 0);
    assert_eq!(dead_letters(&server).len(), 0);
}

/// Makes a member use that connection.
fn on<T>(shared: &mut Client, member: &mut Member, speak: impl FnOnce(&mut Member) -> T) -> T {
    std::mem::swap(shared, &mut member.client);
    let said = speak(member);
    std::mem::swap(shared, &mut member.client);
    said
}

fn two_groups_on_one_connection_stay_separate() {
    let server = shop();
    let mut shared = server.client();
    let (mut shop, mut audit) = (member(&server), Member::new(&server, "audit", &["orders"]));
    on(&mut shared, &mut shop, |shop| shop.join(ORDERS));
    on(&mut shared, &mut audit, |audit| audit.join(ORDERS));
    for at in 1..RECORDS {
        for member in [&mut shop, &mut audit] {
            on(&mut shared, member, |member| {
                assert_eq!(read(member, at, 5_000), rest(at), "nobody knows whose it is");
            });
        }
        assert_eq!(on(&mut shared, &mut shop, |shop| shop.commit("orders", 0, at)), 0);
        assert_eq!(on(&mut shared, &mut audit, |audit| audit.commit("orders", 0, 1)), 0);
    }
    let positions = [&mut shop, &mut audit]
        .map(|member| on(&mut shared, member, |member| member.position_of("orders", 0)));
    assert_eq!(positions, [RECORDS - 1, 1]);
    assert_eq!(on(&mut shared, &mut audit, Member::leave), 0);
    on(&mut shared, &mut shop, |shop| {
        assert_eq!(shop.commit("orders", 0, 1), 0);
        assert_eq!(read(shop, 1, 5_000), rest(1));
        assert_eq!(read(shop, 1, 0), NOTHING, "by itself it is known again, and held");
    });
}
