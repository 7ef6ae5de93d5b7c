//! Behaviour of RocketMQ, case by case, and that of this sidecar. Each served case has a test over
//! the wire, and the same rows make the table of `docs/rocketmq.md`.
//!
//! `PARITY_RENEW=1 cargo test --test node parity` rewrites the table.

mod dead;
mod disk;
mod failing;
mod groups;
mod killed;
mod ladder;
mod later;
mod ordered;
mod process;
mod row;
mod shop;
mod stays;
mod table;
mod topics;
