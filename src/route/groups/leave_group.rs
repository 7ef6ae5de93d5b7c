//! `LeaveGroup` 0–5: one member, or several since v3 (KIP-345).

use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use crate::group::{GroupError, LeaveRequest, LeaveResult, Leaver};
use crate::model::MemberId;
use crate::route::convert::{group_of, text};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

/// First version with several members in one request.
const BATCHED_SINCE: i16 = 3;

pub(in crate::route) fn answer(
    router: &Router,
    head: &RequestHead,
    request: LeaveGroupRequest,
) -> LeaveGroupResponse {
    let group = group_of(&request.group_id);
    let members = if head.version >= BATCHED_SINCE {
        request
            .members
            .into_iter()
            .map(|member| Leaver {
                member_id: MemberId::new(&member.member_id),
                instance_id: member.group_instance_id.map(|id| id.to_string()),
                reason: member.reason.map(|reason| reason.to_string()),
            })
            .collect()
    } else {
        let member_id = MemberId::new(&request.member_id);
        vec![Leaver { member_id, instance_id: None, reason: None }]
    };
    let left = router.broker.groups.leave(&group, LeaveRequest { members });
    for left in left.iter().flatten() {
        if let Ok(key) = &left.result {
            let member_id = Some(&left.member_id).filter(|id| !id.as_str().is_empty());
            router.left(&group, key, member_id);
        }
    }
    respond(head.version, left)
}

/// In front of a cluster: members that its coordinator removed are removed here.
pub(in crate::route) async fn relayed(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
    request: LeaveGroupRequest,
) -> Result<LeaveGroupResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    let response = link.call(head, &request).await?;
    if response.error_code != 0 {
        return Ok(response);
    }
    let gone = |member_id: &str, instance_id: Option<&str>| {
        let key = router.members.key_of(&group, &MemberId::new(member_id), instance_id);
        router.gone_from(&group, &key, true);
    };
    if head.version < BATCHED_SINCE {
        gone(&request.member_id, None);
    }
    for left in response.members.iter().filter(|left| left.error_code == 0) {
        gone(&left.member_id, left.group_instance_id.as_deref());
    }
    Ok(response)
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
