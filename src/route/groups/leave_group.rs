//! `LeaveGroup` 0–5: one member, or several since v3 (KIP-345).

use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use crate::group::{GroupError, LeaveRequest, LeaveResult, Leaver};
use crate::model::MemberId;
use crate::route::code;
use crate::route::convert::{group_of, text};
use crate::route::owner::{OwnedRequest, OwnerCall, RequestContext};
use crate::upstream::UpstreamError;

/// First version with several members in one request.
const BATCHED_SINCE: i16 = 3;

pub(in crate::route) async fn answer(
    mut call: OwnerCall<'_>,
    request: LeaveGroupRequest,
) -> Result<LeaveGroupResponse, UpstreamError> {
    let (router, group) = (call.at.router, group_of(&request.group_id));
    let is_batched = call.at.head.version >= BATCHED_SINCE;
    // The key of a static member that is named by its member id alone is unknown once it is gone.
    let leavers = leavers(call.at.head.version, &request).into_iter().map(|leaver| {
        let key = router.key_of(&group, &leaver.member_id, leaver.instance_id.as_deref());
        (leaver, key)
    });
    let leavers: Vec<_> = leavers.collect();
    let response = call.ask(&request).await?;
    if response.error_code != 0 {
        return Ok(response);
    }
    for (leaver, key) in leavers {
        let is_it = |told: &&MemberResponse| {
            told.member_id.as_str() == leaver.member_id.as_str()
                && told.group_instance_id.as_deref() == leaver.instance_id.as_deref()
        };
        let told = response.members.iter().find(is_it);
        if !is_batched || told.is_some_and(|told| told.error_code == 0) {
            let member_id = Some(&leaver.member_id).filter(|id| !id.as_str().is_empty());
            router.left(&group, &key, member_id);
        }
    }
    Ok(response)
}

fn leavers(version: i16, request: &LeaveGroupRequest) -> Vec<Leaver> {
    if version < BATCHED_SINCE {
        let member_id = MemberId::new(&request.member_id);
        return vec![Leaver { member_id, instance_id: None, reason: None }];
    }
    let members = request.members.iter().map(|member| Leaver {
        member_id: MemberId::new(&member.member_id),
        instance_id: member.group_instance_id.as_ref().map(ToString::to_string),
        reason: member.reason.as_ref().map(ToString::to_string),
    });
    members.collect()
}

impl OwnedRequest for LeaveGroupRequest {
    async fn answered_here(&self, at: RequestContext<'_>) -> LeaveGroupResponse {
        let members = leavers(at.head.version, self);
        let left =
            at.router.broker.groups.leave(&group_of(&self.group_id), LeaveRequest { members });
        respond(at.head.version, left)
    }
}

fn respond(version: i16, left: Result<Vec<LeaveResult>, GroupError>) -> LeaveGroupResponse {
    let mut response = LeaveGroupResponse::default();
    match left {
        Err(error) => response.error_code = code::of_group(error).code(),
        Ok(left) if version >= BATCHED_SINCE => {
            response.members = left.into_iter().map(member).collect();
        }
        Ok(left) => {
            let error = left.into_iter().find_map(|left| left.result.err());
            response.error_code = error.map_or(0, |error| code::of_group(error).code());
        }
    }
    response
}

fn member(left: LeaveResult) -> MemberResponse {
    let mut answer = MemberResponse::default();
    answer.member_id = text(left.member_id.as_str());
    answer.group_instance_id = left.instance_id.as_deref().map(text);
    answer.error_code = left.result.err().map_or(0, |error| code::of_group(error).code());
    answer
}
