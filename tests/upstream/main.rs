//! A sidecar in front of a cluster: relayed frames, requests that it reads on the way, and broker
//! faults. The cluster is another sidecar by itself, or a program that answers as a test says.
//! `tests/clients/run --upstream kafka` uses a real Kafka.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod anew;
mod broker;
mod dead_letters;
mod door;
mod faults;
mod groups;
mod healthy;
mod imported;
mod kafka;
mod listing;
mod nacks;
mod older;
mod passing;
mod relay;
mod retry_faults;
mod security;
mod sending;
mod silent;
mod topics_behind;
mod transactions;
mod watched;
mod withheld;
