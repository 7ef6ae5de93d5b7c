//! Hostile clients: slow ones, half closed ones, random bytes, made-up names. Other clients are not
//! affected, no record is lost, and the process goes on.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../hostile_frames/cases.rs"]
#[expect(dead_code, reason = "of another test, used in part")]
mod cases;
#[path = "../../benches/support/sidecar.rs"]
mod sidecar;
#[path = "../support/mod.rs"]
mod support;

mod again;
mod batches;
mod bombs;
mod bounded;
mod crowd;
mod files;
mod flood;
mod half_closed;
mod limits;
mod mutations;
mod names;
mod pipelined;
mod slow;

use support::Client;

/// A connection to the topic's leader: in front of a cluster, its broker.
fn at_leader(mut client: Client, topic: &str) -> Client {
    let told = client.metadata(9, &[topic]);
    let leader = told.topics[0].partitions[0].leader_id;
    client.connect_to(told.brokers.iter().find(|broker| broker.node_id == leader).unwrap())
}
