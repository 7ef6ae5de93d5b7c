//! Random scripts for healthy consumers, with the real clients. A target of its own, left out of a
//! plain `cargo test`, because it needs a JDK and Maven; `tests/clients/run healthy` runs it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, with what it saw on stderr"
)]
#![expect(dead_code, reason = "main.rs and in_front.rs use the rest")]

#[path = "../../support/port.rs"]
mod port;

mod healthy;
mod rig;
