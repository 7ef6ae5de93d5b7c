//! Consumers that know nothing of retries: to which member a Fetch is attributed, and that healthy
//! consumers notice nothing.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod app;
mod claims;
mod failing;
mod fetch_owner;
mod gone;
mod healthy;
mod idle;
mod in_batches;
mod input;
mod lost;
mod missed;
mod ordered;
mod outage;
mod spoken;
mod stalled;
mod suspects;
mod tested;
mod transactions;
