//! The brokers that a client sees.

mod addresses;
mod node_listing;
mod replicas;
