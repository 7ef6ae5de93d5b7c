//! What a RocketMQ does, case by case, and what this sidecar does instead or alike: a test for each
//! case that is served, over the wire; and the table of `docs/rocketmq.md`, made of the same rows.
//!
//! `PARITY_RENEW=1 cargo test --test parity` writes the table anew.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod dead;
mod disk;
mod failing;
mod groups;
mod killed;
mod ladder;
mod later;
mod ordered;
mod process;
mod row;
mod shop;
mod stays;
mod table;
mod topics;
