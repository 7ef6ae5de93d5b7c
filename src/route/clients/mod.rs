//! Connections of clients: their state, addresses and broker ports, and the brokers each one sees.

pub(super) mod api_versions;
pub(super) mod broker_addresses;
pub mod broker_ports;
pub mod client_address;
pub mod conn;
pub mod member_connections;
pub(super) mod member_requests;
