//! The tests of `watching`, with the sidecar in front of a cluster.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../upstream/broker.rs"]
mod broker;
#[path = "../upstream/older.rs"]
mod older;
#[path = "../upstream/relay.rs"]
#[expect(dead_code, reason = "others ask who is greeted")]
mod relay;
#[path = "../support/mod.rs"]
mod support;

mod anew;
mod app;
mod claims;
mod elsewhere;
mod failing;
mod fetch_owner;
mod gone;
mod healthy;
mod idle;
mod in_batches;
mod input;
mod lost;
mod missed;
mod ordered;
mod outage;
mod silent;
mod spoken;
mod stalled;
mod suspects;
mod transactions;
