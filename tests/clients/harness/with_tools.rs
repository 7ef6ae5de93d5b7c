//! Tests of a sidecar without a cluster beyond the scenarios: Kafka's own tools, kcat, kaf,
//! kafka-python's tools, Kafka Streams, and logins. A target of its own, left out of a plain `cargo
//! test`, because it needs them; `tests/clients/run tools` runs it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, with what it saw on stderr"
)]
#![expect(dead_code, reason = "main.rs and in_front.rs use the rest")]

mod expect;
mod judge;
mod kcat;
mod order;
#[path = "../../support/port.rs"]
mod port;
mod rig;
mod turn;

mod tools;
mod users;
