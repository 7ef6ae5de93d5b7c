//! Nacks of records of the cluster.

mod commit_nacks;
mod commit_waits;
mod member_connections;
mod produced;
mod read_back;
