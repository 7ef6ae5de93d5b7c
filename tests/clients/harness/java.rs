//! The scenarios with the Java client. A target of its own, left out of a plain `cargo test`,
//! because it needs a JDK and Maven; `tests/clients/run` runs it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, with what it saw on stderr"
)]
#![expect(dead_code, reason = "in_front.rs uses the rest")]

#[macro_use]
mod list;

mod changing;
mod client;
mod cluster;
mod expect;
mod judge;
mod login;
mod order;
mod program;
mod scenario;
mod scene;
mod sidecar;
mod spoken;
mod stage;
mod turn;
mod wait;
mod wordless;

scenarios!(java, Java);
scenarios!(java_848, Java848);
