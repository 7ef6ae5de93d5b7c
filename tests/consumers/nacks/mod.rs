//! Produce to a retry topic: the effect of each nack, and its retry.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

mod anew;
mod bad;
mod batches;
mod bound;
mod ladder;
mod large;
mod marked;
mod named;
mod posted;
mod reload;
mod renamed;
mod taken;
