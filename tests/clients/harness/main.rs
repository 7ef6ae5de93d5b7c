//! Real Kafka clients against the shipped binary, one scenario each, one judge.
//!
//! `cargo test` runs the clients that need nothing but a Rust toolchain, a C compiler and make;
//! `tests/clients/run` runs all of them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, with what it saw on stderr"
)]
#![expect(dead_code, reason = "runtimes.rs uses the rest")]

#[macro_use]
mod list;

mod changing;
mod expect;
mod judge;
mod matrix;
mod order;
mod ordered;
mod plays;
#[path = "../../support/port.rs"]
mod port;
mod rig;
mod scenario;
mod spoken;
mod transacting;
mod turn;
mod wordless;

scenarios!(librdkafka, LIBRDKAFKA:
    records sharing restarts protocols static_member metadata ordered crashes seeks transactions);
scenarios!(librdkafka_848, LIBRDKAFKA_848:
    records sharing restarts protocols static_member metadata ordered crashes seeks);
scenarios!(librdkafka_cooperative, LIBRDKAFKA_COOPERATIVE: sharing restarts ordered);
