//! The edge: sockets, reply order, limits.
//!
//! ```text
//! listener ─▶ accept ─▶ connection (one task each)
//!   token      limits     frame ─▶ route ─▶ replies, in request order
//! ```

mod accept;
mod alarm;
mod cause;
mod connection;
mod due;
mod files;
mod inbox;
mod leaving;
mod listener;
mod notice;
mod outgoing;
mod pace;
mod seats;

use std::time::Duration;

pub use accept::{Acceptor, accept};
pub use files::Files;
pub use leaving::Leaving;
pub use listener::{BindError, DOORS_MAX, Listener, ListenerSpec};

/// Limits of the client side.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections in all.
    pub connections: usize,
    /// Open connections from one address; addresses of this host are not counted apart.
    pub per_ip: usize,
    /// Bytes of one request.
    pub frame_bytes: usize,
    /// Bytes of a connection's first request: nobody is known before it.
    pub first_frame_bytes: usize,
    /// For each so many bytes of a request that have come it may take a second more.
    pub upload_rate_min: usize,
    /// A connection that sends nothing, or takes nothing of an answer, for so long is closed
    /// (Kafka: `connections.max.idle.ms`).
    pub idle: Duration,
    /// A request that has begun must be whole within this, when it is small; one whose client has
    /// gone is worked on for so long.
    pub handshake: Duration,
}
