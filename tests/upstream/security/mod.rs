//! Logins at the cluster, and access to retries.

mod login;
mod rights;
mod sasl;
