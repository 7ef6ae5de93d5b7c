//! The reason why a connection ended, for its metric.

use std::io;

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CloseCause {
    /// The client closed it.
    Client,
    /// The sidecar stops.
    Stop,
    /// No request for `limits.idle`.
    Idle,
    /// A request, a TLS handshake or a login was not complete in time.
    Slow,
    /// The client read nothing of an answer for `limits.idle`.
    Stalled,
    /// The TLS handshake failed, or the client sent something else.
    Tls,
    /// The login failed, or a request came before it.
    Unauthenticated,
    /// The bytes are not a Kafka request.
    Protocol,
    /// A read or write failed.
    Io,
    /// A limit was reached before the first read.
    Limit,
    /// No file descriptors are left.
    Files,
    /// The connection is from another host.
    NotLoopback,
    /// The broker cannot be reached or has closed its connection.
    Upstream,
}

impl CloseCause {
    /// The cause of a failed read or write: a client that closes the connection is no fault.
    pub(super) fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Client,
            _ => Self::Io,
        }
    }

    /// The value of the metric's label.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Stop => "stop",
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Stalled => "stalled",
            Self::Tls => "tls",
            Self::Unauthenticated => "unauthenticated",
            Self::Protocol => "protocol",
            Self::Io => "io",
            Self::Limit => "limit",
            Self::Files => "files",
            Self::NotLoopback => "not_loopback",
            Self::Upstream => "upstream",
        }
    }
}
