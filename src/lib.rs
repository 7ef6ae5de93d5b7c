//! A sidecar that speaks the Kafka protocol and adds `RocketMQ`'s retries and dead letters.
//!
//! ```text
//!            requests ───────────────────────────────────────────▶
//! Kafka      ┌────────┐  ┌──────┐  ┌───────┐   ┌────────┐   ┌───────┐
//! client ───▶│ client │─▶│ wire │─▶│ route │──▶│ engine │──▶│ retry │   pure
//!            │ socket │  │bytes │  │ one   │   │ 1 owner│   └───────┘
//!            │ order  │  │⇄types│  │ file  │   └───┬────┘
//!            └────────┘  └──────┘  │ per   │       ▼
//!                                  │ API   │   ┌─────────┐
//!                                  │       │   │ journal │  commit log · indexes · fsync
//!                                  │       │   └─────────┘
//!                                  │       │       ▲
//!                                  │       │   ┌───┴────┐   ┌───────┐
//!                                  │       │──▶│ broker │──▶│ group │   pure
//!                                  │       │   └────────┘   └───────┘
//!                                  │       │   ┌──────────┐
//!                                  └───────┘──▶│ upstream │──▶ a real cluster, or none
//!                                              └──────────┘
//! ```
//! Replies are return values; redeliveries are pulled by the next Fetch; nothing calls backwards.
#![cfg_attr(test, allow(clippy::as_conversions, reason = "tests build small literal values"))]

// tests/support/btree_entries.rs names the crate as integration tests do.
#[cfg(test)]
extern crate self as reprise;

pub mod clock;
pub mod model;
pub mod observe;

pub mod api;
pub mod group;
pub mod journal;
pub mod retry;
pub mod sasl;
pub mod socket;
pub mod wire;

pub mod broker;
pub mod engine;
pub mod upstream;

pub mod route;

pub mod client;

pub mod config;

pub mod operations;

pub mod admin;

pub mod cli;
pub mod server;

pub mod demo;
