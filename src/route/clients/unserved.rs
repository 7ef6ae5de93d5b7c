//! Answers to requests of APIs and versions that this build does not serve.

use crate::route::clients::api_versions;
use crate::route::clients::conn::Conn;
use crate::route::{Reply, Router};
use crate::wire::unserved;

impl Router {
    /// Answers an ApiVersions request of an unknown version.
    pub fn unsupported_api_versions(&self, correlation_id: i32) -> Reply {
        match api_versions::unsupported(correlation_id, self.upstream.is_some()) {
            Ok(frame) => Reply::Frame(frame),
            Err(error) => Reply::Close(error.to_string()),
        }
    }

    /// Answers a request of an unserved API. `None`: the protocol has no answer, or the client has
    /// not logged in.
    pub fn unserved(&self, conn: &Conn, key: (i16, i16), correlation_id: i32) -> Option<Reply> {
        if !conn.session.is_known() {
            return None;
        }
        let (api_key, version) = key;
        let frame = unserved::refusal(api_key, version, correlation_id)?;
        self.metrics.request_error("unknown", "unsupported_version");
        Some(Reply::Frame(frame))
    }
}
