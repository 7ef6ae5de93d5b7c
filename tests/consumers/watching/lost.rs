//! Lost deliveries, each of which counts once. After three losses of the same four records, one
//! record is delivered at a time: an eighth of them. A rebalance is no loss.

use kafka_protocol::messages::DeleteTopicsRequest;
use reprise::wire::ResponseError;
use reprise::wire::batch::{Batch, records};

use crate::support::client::{Client, fetch_request, s};
use crate::support::{Consumer, Member, Server, rebalance, until};
use crate::watching::app::{began, orders};

both!(
    a_session_that_is_over,
    a_member_that_leaves_without_a_commit,
    but_not_one_that_leaves_with_everything_committed,
    a_dead_process_is_delivered_nothing,
    losses_of_a_restarting_static_member_count,
    a_commit_that_is_refused_for_good,
    an_unrequested_rejoin_counts_as_a_loss,
    a_rejoin_at_the_same_position_counts_no_loss,
    members_by_kip_848,
    losses_of_a_restarting_static_kip_848_member_count,
    a_recreated_topic_forgets_its_losses
);

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
const RECORDS: usize = 4;

fn shop() -> Server {
    let server = Server::with(
        "membership: {consumer_session_timeout: 500ms, consumer_heartbeat_interval: 100ms}\n\
         retry: {isolation_timeout: 100ms}",
    );
    orders(&server, 4);
    began(&server, ORDERS);
    server
}

/// Number of records in the answer to a Fetch from the beginning.
fn given(client: &mut Client) -> usize {
    let mut rest = client.fetch("orders", 0, 0, 5_000).records.unwrap();
    let mut count = 0;
    while let Ok(batch) = Batch::parse(&rest) {
        count += records(&batch, usize::MAX).unwrap().count();
        rest = rest.slice(batch.bytes.len()..);
    }
    count
}

fn member(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders"]);
    member.session_ms = 500;
    member
}

/// Number of records that the third member gets after two such losses, and the fourth after three.
fn after_losses(mut lose: impl FnMut(&Server)) -> [usize; 2] {
    [2, 3].map(|losses| {
        let server = shop();
        for _ in 0..losses {
            lose(&server);
        }
        let mut next = member(&server);
        next.join(ORDERS);
        given(&mut next.client)
    })
}

fn a_session_that_is_over() {
    let given = after_losses(|server| {
        let mut member = member(server);
        member.join(ORDERS);
        assert_eq!(given(&mut member.client), RECORDS);
    });
    assert_eq!(given, [RECORDS, 1]);
}

fn a_member_that_leaves_without_a_commit() {
    let given = after_losses(|server| {
        let mut member = member(server);
        member.join(ORDERS);
        assert_eq!(given(&mut member.client), RECORDS);
        assert_eq!(member.leave(), 0);
    });
    assert_eq!(given, [RECORDS, 1]);
}

fn but_not_one_that_leaves_with_everything_committed() {
    let server = shop();
    for _ in 0..5 {
        let mut member = member(&server);
        member.join(ORDERS);
        assert_eq!(given(&mut member.client), RECORDS);
        assert_eq!(member.commit("orders", 0, 4), 0);
        assert_eq!(member.leave(), 0);
    }
}

fn a_dead_process_is_delivered_nothing() {
    let server = shop();
    for _ in 0..3 {
        let mut member = member(&server);
        member.join(ORDERS);
        assert_eq!(given(&mut member.client), RECORDS);
        assert_eq!(member.leave(), 0);
    }
    let mut dies = member(&server);
    dies.join(ORDERS);
    assert_eq!(given(&mut dies.client), 1);
    // The next record is fetched already, and would be delivered in a moment.
    let _asked = dies.client.leader("orders").send(12, &fetch_request("orders", 0, 1, 5_000));
    drop(dies);
    let window = || server.json("/api/v1/explain?group=shop")["partitions"][0].clone();
    until("its session is over", || window()["member"].is_null());
    assert_eq!(window()["handed_out"], 1, "what it died of is the last it was given");
    let told = server.json("/api/v1/explain?group=shop")["suspects"][0].clone();
    assert_eq!((&told["stage"], &told["losses"]), (&"isolated".into(), &4.into()), "{told}");
    assert_eq!(told["offsets"], serde_json::json!(["orders-0@0"]));
    assert_eq!(told["next"], "delivered alone with the next Fetch of its partition");
}

fn losses_of_a_restarting_static_member_count() {
    let given = [2, 3].map(|losses| {
        let server = shop();
        let start = || {
            let mut member = member(&server).fixed("one");
            member.session_ms = 60_000;
            member.join(ORDERS);
            member
        };
        for _ in 0..losses {
            assert_eq!(given(&mut start().client), RECORDS);
        }
        given(&mut start().client)
    });
    assert_eq!(given, [RECORDS, 1]);
}

/// A second member joins and leaves, so that the first one rejoins twice.
fn shaken(server: &Server, member: &mut Member) {
    let before = member.generation;
    let mut other = self::member(server);
    rebalance(&mut [&mut *member, &mut other], ORDERS);
    assert_eq!(other.leave(), 0);
    until("the rebalance", || member.heartbeat() == ResponseError::RebalanceInProgress.code());
    rebalance(&mut [&mut *member], ORDERS);
    assert!(member.generation >= before + 2);
}

fn a_commit_that_is_refused_for_good() {
    let given = |refused: bool| {
        let server = shop();
        let mut member = member(&server);
        member.session_ms = 60_000;
        member.join(ORDERS);
        for _ in 0..3 {
            assert_eq!(given(&mut member.client), RECORDS);
            let before = member.generation;
            shaken(&server, &mut member);
            if refused {
                let now = std::mem::replace(&mut member.generation, before);
                let error = member.commit("orders", 0, 4);
                assert_eq!(error, ResponseError::IllegalGeneration.code());
                member.generation = now;
            }
        }
        given(&mut member.client)
    };
    assert_eq!([given(false), given(true)], [RECORDS, 1]);
}

fn an_unrequested_rejoin_counts_as_a_loss() {
    let given = [2, 3].map(|losses| {
        let server = shop();
        let mut member = member(&server);
        member.session_ms = 60_000;
        member.join(ORDERS);
        for _ in 0..losses {
            assert_eq!(member.heartbeat(), 0);
            assert_eq!(given(&mut member.client), RECORDS);
            rebalance(&mut [&mut member], ORDERS);
        }
        given(&mut member.client)
    });
    assert_eq!(given, [RECORDS, 1]);
}

fn a_rejoin_at_the_same_position_counts_no_loss() {
    let server = shop();
    let mut member = member(&server);
    member.session_ms = 60_000;
    member.join(ORDERS);
    assert_eq!(given(&mut member.client), RECORDS);
    for _ in 0..5 {
        rebalance(&mut [&mut member], ORDERS);
        let data = member.client.fetch("orders", 0, 4, 0);
        assert_eq!(data.error_code, 0);
    }
    let known = server.json("/api/v1/explain?group=shop");
    assert_eq!(known["suspects"], serde_json::json!([]));
}

/// Waits until the member owns the partition.
fn entered(mut member: Consumer) -> Consumer {
    member.enter();
    until("it holds the partition", || {
        member.acknowledge();
        member.orders() == [0]
    });
    member
}

fn members_by_kip_848() {
    for leaves in [false, true] {
        let given = [2, 3].map(|losses| {
            let server = shop();
            let enter = || entered(Consumer::new(&server, "shop", &["orders"]));
            for _ in 0..losses {
                let mut member = enter();
                assert_eq!(given(&mut member.client), RECORDS);
                if leaves {
                    member.go(-1);
                }
            }
            given(&mut enter().client)
        });
        assert_eq!(given, [RECORDS, 1], "leaves: {leaves}");
    }
}

fn losses_of_a_restarting_static_kip_848_member_count() {
    let given = [2, 3].map(|losses| {
        let server = shop();
        let enter = || entered(Consumer::new(&server, "shop", &["orders"]).fixed("one"));
        for _ in 0..losses {
            let mut member = enter();
            assert_eq!(given(&mut member.client), RECORDS);
            // The static member announces its return, so the coordinator keeps its partitions
            // (epoch −2).
            member.go(-2);
        }
        given(&mut enter().client)
    });
    assert_eq!(given, [RECORDS, 1]);
}

fn a_recreated_topic_forgets_its_losses() {
    let server = shop();
    server.client().metadata(12, &["orders"]);
    for _ in 0..3 {
        let mut member = member(&server);
        member.join(ORDERS);
        assert_eq!(given(&mut member.client), RECORDS);
        assert_eq!(member.leave(), 0);
    }
    let mut request = DeleteTopicsRequest::default();
    request.topic_names = vec![s("orders")];
    assert_eq!(server.client().call(4, &request).responses[0].error_code, 0);
    orders(&server, 4);
    server.client().metadata(12, &["orders"]);
    let mut next = member(&server);
    next.join(ORDERS);
    assert_eq!(given(&mut next.client), RECORDS);
}
