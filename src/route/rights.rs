//! Who may touch a group's retries in front of a cluster: whoever the cluster lets READ the group.
//!
//! The cluster is asked on the client's own connection, so that it judges the principal that
//! authenticated there; a connection that has not authenticated is closed by the broker. Heartbeat
//! is the cheapest question that needs READ: any broker checks that before it looks for the group,
//! and a member that does not exist changes nothing.

use std::collections::BTreeSet;

use kafka_protocol::messages::{
    FetchRequest, HeartbeatRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest,
    ProduceRequest, TopicName as WireTopic,
};
use uuid::Uuid;

use crate::model::GroupId;
use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::convert::{topic_of, wire_group};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead, ResponseError, decode};

/// What every broker from 2.1 to 4.x serves.
const HEARTBEAT: i16 = 0;
/// A member no group has.
const NOBODY: &str = "-";

impl Router {
    /// Groups whose topics this request names and whose right is not known on this connection.
    pub fn unasked(&self, conn: &Conn, head: &RequestHead) -> BTreeSet<GroupId> {
        if self.upstream.is_none() {
            return BTreeSet::new();
        }
        let topics = named(head).into_iter();
        let topics = topics.filter_map(|(name, id)| self.named(&topic_of(&name), id).ok());
        let groups = topics.filter_map(|name| self.names.group_of(&name));
        groups.filter(|group| conn.may_read(group).is_none()).collect()
    }

    /// Asks the cluster for these rights.
    pub async fn ask_rights(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        groups: BTreeSet<GroupId>,
    ) -> Result<(), UpstreamError> {
        for group in groups {
            let mut beat = HeartbeatRequest::default();
            beat.group_id = wire_group(&group);
            beat.generation_id = -1;
            beat.member_id = crate::route::convert::text(NOBODY);
            let answer = link.call_at(Api::Heartbeat, HEARTBEAT, head, &beat).await?;
            let denied = ResponseError::GroupAuthorizationFailed.code() == answer.error_code;
            if denied {
                let (peer, client) = (conn.peer, conn.client());
                tracing::warn!(
                    %group, %peer, %client,
                    "the cluster does not let this client READ the group: its retries stay closed"
                );
            }
            conn.learn_right(&group, !denied);
        }
        Ok(())
    }
}

/// Topics a request to this node names, by name or by id.
fn named(head: &RequestHead) -> Vec<(WireTopic, Uuid)> {
    match head.api {
        Api::Produce => decode::<ProduceRequest>(head)
            .map(|r| r.topic_data.into_iter().map(|t| (t.name, t.topic_id)).collect()),
        Api::Fetch => decode::<FetchRequest>(head)
            .map(|r| r.topics.into_iter().map(|t| (t.topic, t.topic_id)).collect()),
        Api::ListOffsets => decode::<ListOffsetsRequest>(head)
            .map(|r| r.topics.into_iter().map(|t| (t.name, Uuid::nil())).collect()),
        Api::OffsetForLeaderEpoch => decode::<OffsetForLeaderEpochRequest>(head)
            .map(|r| r.topics.into_iter().map(|t| (t.topic, Uuid::nil())).collect()),
        _ => return Vec::new(),
    }
    // What is wrong with it is told when it is answered.
    .unwrap_or_default()
}
