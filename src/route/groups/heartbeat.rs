//! `Heartbeat` 0–4: keeps a member alive, and tells it to rejoin.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::group::Heartbeat;
use crate::model::MemberId;
use crate::route::code;
use crate::route::convert::group_of;
use crate::route::owner::{GroupOwner, OwnedRequest, OwnerCall, RequestContext};
use crate::route::topics::topic_names::WHILE_CONSUMED_MS;
use crate::upstream::UpstreamError;

pub(in crate::route) async fn answer(
    mut call: OwnerCall<'_>,
    request: HeartbeatRequest,
) -> Result<HeartbeatResponse, UpstreamError> {
    let (router, conn) = (call.at.router, call.at.conn);
    let group = group_of(&request.group_id);
    let member_id = MemberId::new(&request.member_id);
    let key = router.key_of(&group, &member_id, request.group_instance_id.as_deref());
    let mut response = call.ask(&request).await?;
    let Some(error) = ResponseError::try_from_code(response.error_code) else {
        router.note_alive(conn, &group, (&key, &member_id));
        router.note_generation(conn, &group, (&key, &member_id), request.generation_id);
        if let GroupOwner::Cluster(link) = &mut call.owner {
            let topics = router.members.wants(&group, &key).unwrap_or_default();
            router.look_at_ids(conn, link, call.at.head, topics, WHILE_CONSUMED_MS).await?;
        }
        response.error_code = router.calls_back(&group, &key).map_or(0, |error| error.code());
        return Ok(response);
    };
    router.called(&group, &key);
    match error {
        ResponseError::RebalanceInProgress => {
            router.note_alive(conn, &group, (&key, &member_id));
        }
        // A fenced static member is not lost: another process has its instance id.
        ResponseError::UnknownMemberId => router.unknown(&group, &key),
        _ => {}
    }
    Ok(response)
}

impl OwnedRequest for HeartbeatRequest {
    async fn answered_here(&self, at: RequestContext<'_>) -> HeartbeatResponse {
        let beat = Heartbeat {
            member_id: MemberId::new(&self.member_id),
            instance_id: self.group_instance_id.as_ref().map(ToString::to_string),
            generation: self.generation_id,
        };
        let beaten = at.router.broker.groups.heartbeat(&group_of(&self.group_id), beat);
        let error_code = beaten.map_or_else(|error| code::of_group(error).code(), |()| 0);
        HeartbeatResponse::default().with_error_code(error_code)
    }
}
