//! The log line of a closed connection, with the reason.

use std::fmt::Display;

use crate::client::close_cause::CloseCause;
use crate::client::connection::Connection;
use crate::upstream::UpstreamError;

impl Connection {
    /// Logs that the connection is closed for a fault, within the log rate limit.
    pub(in crate::client) fn closes(&self, cause: CloseCause, why: &dyn Display) {
        let (conn, peer, client) = (self.conn.id, self.conn.peer, self.conn.client());
        self.notices.tell(cause, |more| {
            tracing::warn!(conn, %peer, %client, "R0100 connection closed: {why}{more}");
        });
    }

    /// Logs a fault of the client and returns its cause.
    pub(super) fn at_fault(&self, why: &str) -> CloseCause {
        let is_known = self.conn.session.is_known();
        let cause = if is_known { CloseCause::Protocol } else { CloseCause::Unauthenticated };
        self.closes(cause, &why);
        cause
    }

    /// Logs the end of the connection, for causes that are not logged where they are found.
    pub(in crate::client) fn ended(&self, cause: CloseCause) {
        let (conn, peer, client) = (self.conn.id, self.conn.peer, self.conn.client());
        match cause {
            CloseCause::Slow => self.closes(
                cause,
                &"a request, a TLS handshake or a login was not whole in time (limits.handshake, \
                  limits.upload_rate_min)",
            ),
            CloseCause::Stalled => {
                self.closes(cause, &"nothing of an answer was read for limits.idle");
            }
            // Healthy clients end in this way as well.
            CloseCause::Idle => self.notices.tell(cause, |more| {
                tracing::info!(
                    conn, %peer, %client, "connection closed: nothing came for limits.idle{more}"
                );
            }),
            _ => tracing::debug!(conn, %peer, %client, ?cause, "connection closed"),
        }
    }

    /// The connection to the broker is lost, or the broker breaks the protocol.
    pub(in crate::client) fn upstream_lost(&self, error: &UpstreamError) -> CloseCause {
        match error {
            // An idle connection or a restart of the broker ends like this. An unreachable broker
            // has a log line of its own.
            UpstreamError::Closed | UpstreamError::Connect { .. } => {
                let (conn, peer, client) = (self.conn.id, self.conn.peer, self.conn.client());
                tracing::debug!(conn, %peer, %client, "connection closed: {error}");
            }
            error => self.closes(CloseCause::Upstream, error),
        }
        CloseCause::Upstream
    }
}
