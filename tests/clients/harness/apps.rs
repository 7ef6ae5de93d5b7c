//! Tests of applications without reprise code, each failing on a record as its framework lets it,
//! and the table of their signals. A target of its own, left out of a plain `cargo test`, because
//! it needs their runtimes; `tests/clients/run signals` runs it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, with what it saw on stderr"
)]
#![expect(dead_code, reason = "main.rs and in_front.rs use the rest")]

mod order;
#[path = "../../support/port.rs"]
mod port;
mod rig;
mod wordless;

mod signals;
