//! Logins, ACLs, and access to retries.

pub(super) mod alter_user_scram_credentials;
pub(super) mod authorized_operations;
pub(super) mod create_acls;
pub(super) mod delete_acls;
pub(super) mod describe_acls;
pub(super) mod describe_user_scram_credentials;
pub mod rights;
pub(super) mod sasl_authenticate;
pub(super) mod sasl_handshake;
pub mod session;
