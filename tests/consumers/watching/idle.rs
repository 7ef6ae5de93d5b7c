//! A dead letter at the end of an idle partition, which no commit has passed. No member gets it any
//! more, and no client polls without a pause.

use std::time::Duration;

use crate::support::client::fetch_request;
use crate::support::{Member, Rec, Server, instant};
use crate::watching::app::{dead_letters, goes_back_until_dead, orders};
use crate::watching::ordered::read;

both!(
    an_idle_partition_is_fetched_at_most_twice_a_second,
    restarts_do_not_redeliver_a_skipped_last_record
);

const ORDERS: &[(&str, i32)] = &[("orders", 1)];
const LAST: i64 = 5;
const NOTHING: [i64; 0] = [];
/// `fetch.max.wait.ms`, the default of most clients.
const WAIT: Duration = Duration::from_millis(500);
/// The sidecar waits in whole milliseconds.
const TICK: Duration = Duration::from_millis(2);
/// Fetches that are timed.
const FETCHES: u32 = 3;

fn joined(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders"]);
    member.join(ORDERS);
    assert_eq!(member.position_of("orders", 0), LAST);
    member
}

fn idle() -> (Server, Member) {
    let server = Server::with(
        "retry: {levels: 20ms, max_reconsume_times: 1, in_place_limit: 2, on_seek_back: retry, \
         isolation_timeout: 3s, order: {interval: 50ms}}",
    );
    orders(&server, LAST + 1);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(ORDERS);
    assert_eq!(member.commit("orders", 0, LAST), 0);
    goes_back_until_dead(&server, &mut member, LAST);
    (server, member)
}

/// Checks that every Fetch waits for the client's full time, at the position and behind an empty
/// batch.
fn waits(member: &mut Member) {
    for offset in [LAST, LAST + 1] {
        let began = instant();
        for _ in 0..FETCHES {
            let asked =
                fetch_request("orders", 0, offset, i32::try_from(WAIT.as_millis()).unwrap());
            for version in [4, 12] {
                let data = member.client.fetch_by(version, &asked);
                assert_eq!(data.error_code, 0);
            }
            assert_eq!(read(member, offset, 0), NOTHING);
        }
        let took = began.elapsed();
        assert!(took + TICK * 2 * FETCHES >= WAIT * 2 * FETCHES, "at {offset}: {took:?}");
    }
}

fn an_idle_partition_is_fetched_at_most_twice_a_second() {
    let (_server, mut member) = idle();
    waits(&mut member);
}

fn restarts_do_not_redeliver_a_skipped_last_record() {
    let (mut server, mut member) = idle();
    assert_eq!(member.leave(), 0);
    for is_killed in [false, true] {
        if is_killed {
            // A new sidecar takes the present data directory; the former one has no clients any
            // more.
            server = server.killed();
        } else {
            server.restart();
        }
        let mut member = joined(&server);
        waits(&mut member);
        assert_eq!(dead_letters(&server).len(), 1);
        assert_eq!(member.leave(), 0);
    }
    let mut member = joined(&server);
    member.client.put("orders", 0, &[Rec::new("next")]);
    assert_eq!(read(&mut member, LAST, 5_000), [LAST + 1], "what comes is given");
}
