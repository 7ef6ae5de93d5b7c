//! The suspects against a model of consumers: no healthy consumer is delayed, a poison record is
//! isolated, and an outage makes no dead letter.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a model: small numbers, and a test fails by panicking"
)]

mod laws;
mod script;
mod world;
