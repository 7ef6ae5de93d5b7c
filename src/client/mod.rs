//! The client side: sockets, order of answers, limits.
//!
//! ```text
//! listener ─▶ accept ─▶ connection (one task each)
//!   token      limits     frame ─▶ route ─▶ replies, in request order
//! ```
//!
//! **Bounds.** The configuration limits connections and bytes far below the ends of their types. A
//! deadline that saturates is none.

mod accept;
mod close_cause;
mod connection;
mod connection_permits;
mod files;
mod idle_timer;
mod leave_signal;
mod listener;
mod log_rate_limit;
mod outgoing;
mod pending_responses;
mod read_deadline;
mod request_reader;

use std::time::Duration;

pub use accept::{Acceptor, accept};
pub use files::Files;
pub use leave_signal::LeaveSignal;
pub use listener::{BindError, DOORS_MAX, Listener, ListenerSpec};

/// Limits of the client side.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Open connections in all.
    pub connections: usize,
    /// Open connections from one address; loopback addresses are not limited.
    pub per_ip: usize,
    /// Bytes of one request.
    pub frame_bytes: usize,
    /// Bytes of a connection's first request: the client has not logged in yet.
    pub first_frame_bytes: usize,
    /// Bytes of a request per second: each such amount allows a second more.
    pub upload_rate_min: usize,
    /// Time without a request, or without reading an answer, after which a connection is closed
    /// (Kafka's `connections.max.idle.ms`).
    pub idle: Duration,
    /// Time in which a small request must arrive whole, and for which work goes on after its client
    /// has gone.
    pub handshake: Duration,
}
