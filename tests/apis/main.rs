//! Every API at every advertised version, over TCP, and what each one promises.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod changes;
mod consumers;
mod fetch;
mod forgotten;
mod groups;
mod memory;
mod offsets;
mod produce;
mod settings;
mod versions;
