//! TLS towards clients and brokers: admission, trust, log lines of refusals, and reloads.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

mod authority;
mod files;
mod heard;
mod listeners;
mod refused;
mod reload;
mod upstreams;
