//! A connection over TCP, plain or under TLS, in halves; certificates and keys from PEM files.
//!
//! ```text
//! listener ─▶ ServerTls::accept ─┐
//!                                ├─▶ ReadHalf, WriteHalf ◀─ plain
//! broker ◀─ ClientTls::connect ──┘
//! ```
//! **Invariant:** a broker's certificate is always checked for the name that was dialled.
//!
//! **Bounds.** The budget limits bytes far below the ends of their types, and each read has a
//! largest size.

mod ahead;
mod budget;
mod client_tls;
mod error;
mod halves;
mod intake;
mod pem;
mod server_tls;
mod suites;
mod tls_half;
mod validity;

pub use budget::{Admission, Budget, Charge, READ_BYTES_MIN};
pub use client_tls::{ClientTls, PeerSeen};
pub use error::{AcceptError, ConnectError, refused_by_peer};
pub use halves::{ReadHalf, WriteHalf, at_once, plain};
pub use intake::ReadBuffer;
pub use pem::FileProblem;
pub use server_tls::ServerTls;
pub use tls_half::TlsHalf;
pub use validity::ValidUntil;
