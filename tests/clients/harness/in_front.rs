//! Scenarios that only a real cluster can play, with every client and without one. A target of its
//! own, left out of a plain `cargo test`; `tests/clients/run --upstream kafka` runs it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, with what it saw on stderr"
)]
#![expect(dead_code, reason = "main.rs uses the rest")]

#[macro_use]
mod list;

mod expect;
mod front;
mod judge;
mod kcat;
mod matrix;
mod order;
mod rig;
#[path = "../../support/mod.rs"]
mod support;
mod transacting;
mod turn;

mod afterwards;

use support::port;

scenarios!(in front: java, JAVA);
scenarios!(in front: java_848, JAVA_848);
scenarios!(in front: librdkafka, LIBRDKAFKA);
scenarios!(in front: librdkafka_848, LIBRDKAFKA_848);
