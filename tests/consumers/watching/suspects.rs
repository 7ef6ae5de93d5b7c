//! Consumers that fail without a nack: each crashes or seeks back.

use std::time::Duration;

use crate::support::batch::unpack;
use crate::support::client::fetch_request;
use crate::support::{Got, Member, Rec, Server, instant};
use crate::watching::app::began;

both!(
    records_go_one_by_one_after_three_lost_members,
    a_partition_that_went_back_waits_while_others_flow
);

/// The time for which a partition is held.
const HOLD: Duration = Duration::from_millis(300);
const SETTINGS: &str =
    "retry: {on_seek_back: retry, order: {interval: 300ms}, isolation_timeout: 10s}";

/// Partitions of `orders` with `records` records each.
fn filled(partitions: i32, records: usize) -> Server {
    let server = Server::with(SETTINGS);
    let mut tool = server.client();
    tool.create("orders", partitions);
    for index in 0..partitions {
        for n in 0..records {
            tool.put("orders", index, &[Rec::new(&format!("{index}/{n}"))]);
        }
    }
    server
}

pub(crate) fn joined(server: &Server, partitions: i32) -> Member {
    let mut member = Member::new(server, "shop", &["orders"]);
    member.join(&[("orders", partitions)]);
    member
}

/// Values of the records in the answer to one Fetch of partition 0.
pub(crate) fn fetched(member: &mut Member, from: i64) -> Vec<String> {
    let data = member.client.fetch("orders", 0, from, 5_000);
    assert_eq!(data.error_code, 0);
    unpack(&data.records.unwrap()).iter().map(Got::text).collect()
}

fn records_go_one_by_one_after_three_lost_members() {
    let server = filled(1, 4);
    began(&server, &[("orders", 1)]);
    let all = ["0/0", "0/1", "0/2", "0/3"];
    for died in 0..3 {
        let mut member = joined(&server, 1);
        assert_eq!(fetched(&mut member, 0), all, "{died}: as everyone");
        assert_eq!(member.leave(), 0);
    }
    let mut member = joined(&server, 1);
    for (next, offset) in all.iter().zip(0..) {
        assert_eq!(fetched(&mut member, offset), [*next], "alone");
        assert_eq!(member.commit("orders", 0, offset + 1), 0);
    }
    server.client().put("orders", 0, &[Rec::new("a"), Rec::new("b")]);
    assert_eq!(fetched(&mut member, 4), ["a", "b"], "all of it is behind");
}

fn a_partition_that_went_back_waits_while_others_flow() {
    let server = filled(2, 4);
    let mut member = joined(&server, 2);
    let all = ["0/0", "0/1", "0/2", "0/3"];
    assert_eq!(fetched(&mut member, 0), all);
    assert_eq!(member.commit("orders", 0, 1), 0);
    // The member goes back to record 1, and fetches the other partition as well.
    let mut both = fetch_request("orders", 0, 1, 5_000);
    let mut other = both.topics[0].partitions[0].clone();
    (other.partition, other.fetch_offset) = (1, 0);
    both.topics[0].partitions.push(other);
    let began = instant();
    let told = member.client.leader("orders").call(12, &both);
    let partitions = &told.responses[0].partitions;
    let of = |index: usize| unpack(&partitions[index].records.clone().unwrap()).len();
    assert_eq!((of(0), of(1)), (0, 4), "the first is held, the other is not");
    assert_eq!(member.commit("orders", 1, 4), 0, "nothing else is out");
    let mut given = fetched(&mut member, 1);
    if given.is_empty() {
        // The first Fetch had waited, so the sidecar left the record to the next one.
        given = fetched(&mut member, 1);
    }
    assert_eq!(given, ["0/1", "0/2", "0/3"], "after its hold");
    assert!(began.elapsed() >= HOLD);
}
