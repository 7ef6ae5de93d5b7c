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
mod expect;
mod judge;
mod matrix;
mod order;
mod ordered;
#[path = "../../support/port.rs"]
mod port;
mod rig;
mod scenario;
mod spoken;
mod transacting;
mod turn;
mod wordless;

scenarios!(java, JAVA:
    records sharing restarts protocols static_member metadata ordered crashes seeks transactions);
scenarios!(java_848, JAVA_848:
    records sharing restarts protocols static_member metadata ordered crashes seeks);
scenarios!(java_range, JAVA_RANGE: sharing restarts);
scenarios!(java_sticky, JAVA_STICKY: sharing restarts);
scenarios!(java_cooperative, JAVA_COOPERATIVE: sharing restarts ordered);
