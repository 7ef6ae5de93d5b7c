//! The tests of the retry-topic lane, with the sidecar in front of a cluster.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod assigned;
mod consumers;
mod handed;
mod replayed;
mod seen;
mod single;
