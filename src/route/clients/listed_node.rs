//! Decides to which clients this node is listed as a broker.

use crate::model::TopicName;
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::clients::node_listing::ListingReason;

impl Router {
    /// Lists the node to a client that requested a topic of ours.
    pub(in crate::route) fn list_node(&self, conn: &Conn) {
        if self.upstream.is_some() && conn.request_ours() {
            self.node_listing.add(conn, ListingReason::TopicRequested);
        }
    }

    /// Lists the node to the client if one of its subscribed topics is ours.
    pub(in crate::route) fn list_node_to_subscriber<'a>(
        &self,
        conn: &Conn,
        mut topics: impl Iterator<Item = &'a TopicName>,
    ) {
        if topics.any(|topic| self.is_own(topic)) {
            self.list_node(conn);
        }
    }

    /// Records that a listing of all topics showed our topics to the client.
    pub(in crate::route) fn show_topics(&self, conn: &Conn) {
        self.node_listing.add(conn, ListingReason::TopicShown);
    }

    /// Whether an answer to this client lists the node, if the API does so for `reason`.
    pub(in crate::route) fn lists_node(&self, conn: &Conn, reason: ListingReason) -> bool {
        let is_known = || self.node_listing.reason(conn).is_some_and(|known| known >= reason);
        !self.node_clash() && (conn.requests_ours() || is_known())
    }
}
