//! Nacks and topics of a group in front of a cluster: the client needs READ on the group.
//!
//! The sidecar asks the cluster on the client's connection, so that the cluster checks the
//! principal that authenticated there. The broker closes a connection that has not authenticated.
//! Heartbeat is the cheapest request that needs READ. Any broker checks READ before it looks for
//! the group, and a heartbeat of an unknown member changes nothing.

use std::collections::BTreeSet;

use kafka_protocol::messages::{HeartbeatRequest, ProduceRequest, TopicName as WireTopic};
use uuid::Uuid;

use crate::model::{GroupId, RetryPair};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::{topic_of, wire_group};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead, ResponseError, decode};

/// The Heartbeat version that every broker from 2.1 to 4.x serves.
const HEARTBEAT: i16 = 0;
/// A member id that no group has.
const NOBODY: &str = "-";

impl Router {
    /// Owners of retry topics that a Produce names, with READ on the group unknown on this
    /// connection or the topic not open.
    pub fn unready(&self, conn: &Conn, head: &RequestHead) -> BTreeSet<RetryPair> {
        if self.upstream.is_none() {
            return BTreeSet::new();
        }
        let topics = named(head).into_iter();
        let topics = topics.filter_map(|(name, id)| self.named(&topic_of(&name), id).ok());
        let pairs = topics.filter_map(|name| self.names.retry_pair(&name));
        let is_ready = |pair: &RetryPair| match conn.may_read(&pair.group) {
            None => false,
            Some(may_read) => !may_read || self.topics_behind.partitions(pair).is_some(),
        };
        pairs.filter(|pair| !is_ready(pair)).collect()
    }

    /// Opens the retry topics of those pairs whose group the client may READ.
    pub async fn make_ready(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        pairs: BTreeSet<RetryPair>,
    ) -> Result<(), UpstreamError> {
        for pair in pairs {
            let may_read = self.may_read(conn, (link, head), &pair.group).await?;
            if may_read && self.has_retry_topic(&pair.group) {
                self.open_behind(&pair).await;
            }
        }
        Ok(())
    }

    /// Whether the client may READ the group. The cluster is asked once on each connection.
    pub(in crate::route) async fn may_read(
        &self,
        conn: &Conn,
        (link, head): (&mut Link, &RequestHead),
        group: &GroupId,
    ) -> Result<bool, UpstreamError> {
        if let Some(known) = conn.may_read(group) {
            return Ok(known);
        }
        let mut beat = HeartbeatRequest::default();
        beat.group_id = wire_group(group);
        beat.generation_id = -1;
        beat.member_id = crate::route::convert::text(NOBODY);
        let answer = link.call_at(Api::Heartbeat, HEARTBEAT, head, &beat).await?;
        let denied = ResponseError::GroupAuthorizationFailed.code() == answer.error_code;
        if denied {
            let (peer, client) = (conn.peer, conn.client());
            tracing::warn!(
                %group, %peer, %client,
                "R0220 the cluster denies this client READ on the group: its nacks are refused, \
                 and no topic is made for it; add the ACL"
            );
        }
        conn.learn_right(group, !denied);
        Ok(!denied)
    }
}

/// Topics in a Produce, by name or by id.
fn named(head: &RequestHead) -> Vec<(WireTopic, Uuid)> {
    if head.api != Api::Produce {
        return Vec::new();
    }
    // The handler of the API reports a malformed request.
    let topics = decode::<ProduceRequest>(head).map(|r| r.topic_data).unwrap_or_default();
    topics.into_iter().map(|topic| (topic.name, topic.topic_id)).collect()
}
