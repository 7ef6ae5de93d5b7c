//! One sidecar by itself, as clients see it: every API and version, and the promises of RocketMQ
//! and Kafka that it keeps.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

mod apis;
mod delayed;
mod golden;
mod orders;
mod parity;
#[path = "../support/mod.rs"]
mod support;
