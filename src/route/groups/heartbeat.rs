//! `Heartbeat` 0–4: keeps a member alive, and tells it to rejoin.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::group::{Heartbeat, member_key};
use crate::model::MemberId;
use crate::route::clients::conn::Conn;
use crate::route::convert::group_of;
use crate::route::topics::topic_names::WHILE_CONSUMED_MS;
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

pub(in crate::route) fn answer(
    router: &Router,
    conn: &Conn,
    request: HeartbeatRequest,
) -> HeartbeatResponse {
    let group = group_of(&request.group_id);
    let member_id = MemberId::new(&request.member_id);
    let instance_id = request.group_instance_id.map(|id| id.to_string());
    let key = member_key(&member_id, instance_id.as_deref());
    let beat = Heartbeat { member_id, instance_id, generation: request.generation_id };
    let mut response = HeartbeatResponse::default();
    match router.broker.groups.heartbeat(&group, beat) {
        Ok(()) => {
            router.bind_member(conn, &group, key.clone());
            response.error_code = router.calls_back(&group, &key).map_or(0, |error| error.code());
        }
        Err(error) => {
            router.called(&group, &key);
            response.error_code = code::of_group(error).code();
        }
    }
    response
}

/// In front of a cluster, its coordinator answers, and the sidecar learns from the answer.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: HeartbeatRequest,
) -> Result<HeartbeatResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    let member_id = MemberId::new(&request.member_id);
    let key = member_key(&member_id, request.group_instance_id.as_deref());
    let mut response = link.call(head, &request).await?;
    if response.error_code != 0 {
        router.called(&group, &key);
    }
    match ResponseError::try_from_code(response.error_code) {
        None => {
            router.note_alive(conn, &group, (&key, &member_id));
            router.note_generation(conn, &group, (&key, &member_id), request.generation_id);
        }
        Some(ResponseError::RebalanceInProgress) => {
            router.note_alive(conn, &group, (&key, &member_id));
        }
        // A fenced static member is not lost: another process has its instance id.
        Some(ResponseError::UnknownMemberId) => router.gone_from(&group, &key, false),
        Some(_) => {}
    }
    if response.error_code == 0 {
        let topics = router.members.wants(&group, &key).unwrap_or_default();
        router.look_at_ids(conn, link, head, topics, WHILE_CONSUMED_MS).await?;
        response.error_code = router.calls_back(&group, &key).map_or(0, |error| error.code());
    }
    Ok(response)
}
