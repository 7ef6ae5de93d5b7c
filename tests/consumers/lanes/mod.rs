//! The retry topic of a group, as members and other clients see it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

mod assigned;
mod consumers;
mod handed;
mod keyed;
mod members;
mod replayed;
mod seen;
mod single;
mod states;
