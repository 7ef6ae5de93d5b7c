//! Why a connection ended, as its metric tells.

use std::io;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The client closed it.
    Client,
    /// The sidecar stops.
    Stop,
    /// Nothing came for `limits.idle`.
    Idle,
    /// A request, a TLS handshake or a login was not whole in its time.
    Slow,
    /// Nothing of an answer was taken for `limits.idle`.
    Stalled,
    /// No TLS handshake on a listener that wants one, or a failed one.
    Tls,
    /// A login that failed, or none where one is wanted.
    Unauthenticated,
    /// Bytes that are no Kafka request.
    Protocol,
    /// A read or write failed.
    Io,
    /// Over a limit before anything was read.
    Limit,
    /// No file descriptors are left for it.
    Files,
    /// Not from this host.
    NotLoopback,
    /// The broker behind cannot be reached or has gone.
    Upstream,
}

impl Cause {
    /// Why reading or writing failed: a client that is gone is no fault.
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
