//! Logins, ACLs, and access to retries.

pub(super) mod acls;
pub(super) mod authorized_operations;
pub mod rights;
pub(super) mod sasl_authenticate;
pub(super) mod sasl_handshake;
pub mod session;
pub(super) mod user_scram_credentials;
