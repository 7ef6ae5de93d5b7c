//! Authentication: both sides of SCRAM, PLAIN, and the users of an embedded cluster. Pure: messages
//! in, messages out.
//!
//! ```text
//! a broker ◀─ ClientExchange ─ password          (the sidecar's own connections)
//! a client ─▶ ServerExchange ─ Users ─ Verifier  (no password is kept)
//! ```

mod client;
mod hash;
mod mechanism;
mod plain;
mod scram;
mod server;
mod users;
mod verifier;

pub use client::{ClientExchange, ClientFinal, ScramError};
pub use hash::Hash;
pub use mechanism::Mechanism;
pub use server::{LoginError, SaslStep, ServerExchange};
pub use users::{UserName, Users, UsersError};
pub use verifier::{ITERATIONS, ITERATIONS_MAX, Verifier, VerifierError};
