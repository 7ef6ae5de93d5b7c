//! Detection in virtual time, against models of consumers.

#[path = "../support/btree_entries.rs"]
pub mod btree_entries;
mod inference;
mod outage;
mod suspects;
