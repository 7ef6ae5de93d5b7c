//! `SyncGroup` 0–5: the assignments of a classic group.

use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::group::{Sync, SyncResult, member_key};
use crate::model::MemberId;
use crate::retry::detector::AssignmentStep;
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, text};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

pub(in crate::route) async fn answer(
    router: &Router,
    conn: &Conn,
    request: SyncGroupRequest,
) -> SyncGroupResponse {
    let group = group_of(&request.group_id);
    let member_id = MemberId::new(&request.member_id);
    let instance_id = request.group_instance_id.as_ref().map(ToString::to_string);
    let key = member_key(&member_id, instance_id.as_deref());
    let assignments = request
        .assignments
        .into_iter()
        .map(|given| (MemberId::new(&given.member_id), given.assignment))
        .collect();
    let sync = Sync {
        member_id: member_id.clone(),
        instance_id,
        generation: request.generation_id,
        protocol_type: request.protocol_type.map(|text| text.to_string()),
        protocol: request.protocol_name.map(|text| text.to_string()),
        assignments,
    };
    let mut response = SyncGroupResponse::default();
    let synced = match router.broker.groups.sync(&group, sync).await {
        Ok(synced) => synced,
        Err(error) => {
            response.error_code = code::of_group(error).code();
            return response;
        }
    };
    router.bind_member(conn, &group, key.clone());
    let of = (&key, &member_id);
    router.assigned(conn, &group, of, request.generation_id, AssignmentStep::Assigned);
    let SyncResult { protocol_type, protocol, assignment, .. } = synced;
    response.protocol_type = protocol_type.as_deref().map(text);
    response.protocol_name = protocol.as_deref().map(text);
    response.assignment = assignment;
    response
}

/// In front of a cluster, its coordinator answers, and the sidecar learns that the member goes on.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: SyncGroupRequest,
) -> Result<SyncGroupResponse, UpstreamError> {
    let response = link.call(head, &request).await?;
    if response.error_code == 0 {
        let group = group_of(&request.group_id);
        let member_id = MemberId::new(&request.member_id);
        let key = member_key(&member_id, request.group_instance_id.as_deref());
        let of = (&key, &member_id);
        router.note_alive(conn, &group, of);
        router.missed(&group);
        router.assigned(conn, &group, of, request.generation_id, AssignmentStep::Assigned);
    }
    Ok(response)
}
