//! The retry-topic lane: what members and everyone else see of a group's retry topic.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod assigned;
mod consumers;
mod handed;
mod keyed;
mod replayed;
mod seen;
mod single;
mod states;
