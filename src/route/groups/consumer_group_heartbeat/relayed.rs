//! `ConsumerGroupHeartbeat` in front of a cluster: its coordinator assigns, and the sidecar learns
//! the member.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use crate::model::{MemberId, TopicName};
use crate::retry::detector::AssignmentStep;
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, topic_of};
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;
use crate::wire::assignment::Subscription;

/// Member epoch of a member that joins.
const JOINS: i32 = 0;
/// Member epoch of a member that leaves for good; −2 is a static member that will be back.
const LEAVES: i32 = -1;

pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: ConsumerGroupHeartbeatRequest,
) -> Result<ConsumerGroupHeartbeatResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    let response: ConsumerGroupHeartbeatResponse = link.call(head, &request).await?;
    let member = MemberId::new(response.member_id.as_ref().unwrap_or(&request.member_id));
    let key = router.members.key_of(&group, &member, request.instance_id.as_deref());
    match ResponseError::try_from_code(response.error_code) {
        None if request.member_epoch == LEAVES => router.gone_from(&group, &key, true),
        None if request.member_epoch < 0 => {}
        None => {
            router.note_alive(conn, &group, (&key, &member));
            router.members.has_epochs(&group, &key);
            if response.assignment.is_some() {
                for gone in router.members.quiet(&group, router.clock.now().mono) {
                    router.lost(&group, &gone, None, false);
                }
            }
            if request.member_epoch > JOINS && router.calls_back(&group, &key).is_some() {
                return Ok(super::called_back());
            }
            let epoch = response.member_epoch;
            router.assigned(conn, &group, (&key, &member), epoch, AssignmentStep::Assigned);
            if let Some(names) = &request.subscribed_topic_names {
                let topics: Vec<TopicName> = names.iter().map(topic_of).collect();
                let metadata = Subscription::to(topics).to_bytes();
                if router.members.subscribes(&group, &key, metadata) {
                    router.detectors.change_owners();
                    router.compare_readers(&group, &key);
                }
            }
        }
        Some(ResponseError::UnknownMemberId) => router.gone_from(&group, &key, false),
        // A fenced member rejoins with its own member id.
        Some(_) => {}
    }
    Ok(response)
}
