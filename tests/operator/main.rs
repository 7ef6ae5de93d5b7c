//! A sidecar as its operator sees it: configuration, commands, the admin port and its page,
//! signals, certificates, damaged disks.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

mod admin;
mod bad_disk;
#[path = "../upstream/broker.rs"]
mod broker;
mod check;
mod conditions;
mod config;
mod demo;
#[path = "../support/example.rs"]
mod example;
mod jobs;
mod letter_transfer;
mod operate;
mod page;
mod readme;
mod secrets;
mod sending;
mod signals;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod tls;
