//! Kafka's own tools, and kcat, against the sidecar by itself. A target of its own, left out of a
//! plain `cargo test`, because it needs a JDK, Maven and kcat; `tests/clients/run tools` runs it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, with what it saw on stderr"
)]
#![expect(dead_code, reason = "main.rs and in_front.rs use the rest")]

mod client;
mod cluster;
mod login;
mod program;
mod scene;
mod sidecar;
mod stage;
mod wait;

mod tools;
