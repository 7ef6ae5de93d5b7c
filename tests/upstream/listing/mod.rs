//! The brokers that a client sees.

mod addresses;
