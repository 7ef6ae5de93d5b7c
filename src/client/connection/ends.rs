//! The line of the log about a connection that is closed: one each, with the reason.

use std::fmt::Display;

use crate::client::cause::Cause;
use crate::client::connection::Connection;
use crate::upstream::UpstreamError;

impl Connection {
    /// It is closed for a fault, which is told unless too many were.
    pub(in crate::client) fn closes(&self, cause: Cause, why: &dyn Display) {
        let (conn, peer, client) = (self.conn.id, self.conn.peer, self.conn.client());
        self.notices.tell(cause, |more| {
            tracing::warn!(conn, %peer, %client, "connection closed: {why}{more}");
        });
    }

    /// Its client has done what ends it.
    pub(super) fn at_fault(&self, why: &str) -> Cause {
        let is_known = self.conn.session.is_known();
        let cause = if is_known { Cause::Protocol } else { Cause::Unauthenticated };
        self.closes(cause, &why);
        cause
    }

    /// It has ended for this cause. Of most of them the line was written where they were found.
    pub(in crate::client) fn ended(&self, cause: Cause) {
        let (conn, peer, client) = (self.conn.id, self.conn.peer, self.conn.client());
        match cause {
            Cause::Slow => self.closes(
                cause,
                &"a request, a TLS handshake or a login was not whole in time (limits.handshake, \
                  limits.upload_rate_min)",
            ),
            Cause::Stalled => self.closes(cause, &"nothing of an answer was read for limits.idle"),
            // So do healthy clients end.
            Cause::Idle => self.notices.tell(cause, |more| {
                tracing::info!(
                    conn, %peer, %client, "connection closed: nothing came for limits.idle{more}"
                );
            }),
            _ => tracing::debug!(conn, %peer, %client, ?cause, "connection closed"),
        }
    }

    /// The broker behind it is gone, or lies.
    pub(in crate::client) fn upstream_lost(&self, error: &UpstreamError) -> Cause {
        match error {
            // How an idle connection ends, or a broker that restarts: no news.
            // Nor is a broker that cannot be reached: that was said, once.
            UpstreamError::Closed | UpstreamError::Connect { .. } => {
                let (conn, peer, client) = (self.conn.id, self.conn.peer, self.conn.client());
                tracing::debug!(conn, %peer, %client, "connection closed: {error}");
            }
            error => self.closes(Cause::Upstream, error),
        }
        Cause::Upstream
    }
}
