//! `JoinGroup` 0–9: membership of classic groups.

use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use uuid::Uuid;

use crate::group::{JoinRefusal, JoinRequest, JoinResult, Protocol, member_key};
use crate::model::{ClientId, MemberId, TopicName};
use crate::retry::detector::AssignmentStep;
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, text};
use crate::route::groups::consumer_group_heartbeat::image;
use crate::route::groups::membership_cache::MemberJoin;
use crate::route::topics::topic_names::AT_JOIN_MS;
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

/// KIP-394: a new dynamic member first receives its member id.
const KNOWN_MEMBER_SINCE: i16 = 4;
/// KIP-814: the leader of a stable group may be told to skip the assignment.
const SKIP_ASSIGNMENT_SINCE: i16 = 9;
/// First version whose answer may have a null protocol type.
const PROTOCOL_TYPE_SINCE: i16 = 7;

pub(in crate::route) async fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: JoinGroupRequest,
) -> JoinGroupResponse {
    let group = group_of(&request.group_id);
    let client_id = head.client_id.clone().unwrap_or_else(|| ClientId::new(""));
    let instance_id = request.group_instance_id.as_ref().map(ToString::to_string);
    let stem = instance_id.as_deref().unwrap_or(client_id.as_str());
    let session_timeout_ms = u64::try_from(request.session_timeout_ms).unwrap_or(0);
    let join = JoinRequest {
        member_id: MemberId::new(&request.member_id),
        fresh_id: MemberId::from(format!("{stem}-{}", Uuid::new_v4())),
        instance_id: instance_id.clone(),
        client_id: client_id.clone(),
        client_host: conn.host(),
        session_timeout_ms,
        rebalance_timeout_ms: u64::try_from(request.rebalance_timeout_ms)
            .unwrap_or(session_timeout_ms),
        protocol_type: request.protocol_type.to_string(),
        protocols: request
            .protocols
            .into_iter()
            .map(|of| Protocol { name: of.name.to_string(), metadata: of.metadata })
            .collect(),
        require_known_member_id: head.version >= KNOWN_MEMBER_SINCE,
        can_skip_assignment: head.version >= SKIP_ASSIGNMENT_SINCE,
        consuming: None,
    };
    let known = |name: &TopicName| image(router, name, &group);
    join.protocols.iter().for_each(|protocol| router.make_subscribed(&group, &protocol.metadata));
    match router.broker.groups.join(&group, join, known).await {
        Ok(joined) => {
            let key = member_key(&joined.member_id, instance_id.as_deref());
            router.assigned(
                conn,
                &group,
                (&key, &joined.member_id),
                joined.generation,
                AssignmentStep::Joined,
            );
            router.bind_member(conn, &group, key.clone());
            router.compare_readers(&group, &key);
            accepted(head.version, joined)
        }
        Err(refusal) => refused(head.version, &refusal),
    }
}

/// In front of a cluster, its coordinator answers, and the sidecar learns the members.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: JoinGroupRequest,
) -> Result<JoinGroupResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    let response = link.call(head, &request).await?;
    if response.error_code != 0 {
        return Ok(response);
    }
    let member_id = MemberId::new(&response.member_id);
    let key = member_key(&member_id, request.group_instance_id.as_deref());
    let chosen = response.protocol_name.as_deref().unwrap_or_default();
    let own = request.protocols.iter().find(|protocol| protocol.name.as_str() == chosen);
    let led = response.members.iter();
    let joined = MemberJoin {
        key: key.clone(),
        metadata: own.map(|protocol| protocol.metadata.clone()).unwrap_or_default(),
        session_ms: u64::try_from(request.session_timeout_ms).unwrap_or(0),
        led: led.map(|m| (MemberId::new(&m.member_id), m.metadata.clone())).collect(),
    };
    router.members.joined(&group, joined, router.clock.now().mono);
    if !response.members.is_empty() {
        let names = response.members.iter().flat_map(|member| {
            let id = MemberId::new(&member.member_id);
            [member_key(&id, member.group_instance_id.as_deref()), id]
        });
        router.gone_but(&group, &names.collect());
    }
    router.assigned(
        conn,
        &group,
        (&key, &member_id),
        response.generation_id,
        AssignmentStep::Joined,
    );
    router.note_alive(conn, &group, (&key, &member_id));
    router.compare_readers(&group, &key);
    let topics = router.members.wants(&group, &key).unwrap_or_default();
    router.look_at_ids(conn, link, head, topics, AT_JOIN_MS).await?;
    Ok(response)
}

fn accepted(version: i16, joined: JoinResult) -> JoinGroupResponse {
    let mut response = JoinGroupResponse::default();
    response.generation_id = joined.generation;
    if version >= PROTOCOL_TYPE_SINCE {
        response.protocol_type = joined.protocol_type.as_deref().map(text);
    }
    response.protocol_name = Some(text(joined.protocol.as_deref().unwrap_or("")));
    response.leader = text(joined.leader.as_str());
    response.skip_assignment = joined.skip_assignment;
    response.member_id = text(joined.member_id.as_str());
    response.members = joined
        .members
        .into_iter()
        .map(|member| {
            let mut answer = JoinGroupResponseMember::default();
            answer.member_id = text(member.member_id.as_str());
            answer.group_instance_id = member.instance_id.as_deref().map(text);
            answer.metadata = member.metadata;
            answer
        })
        .collect();
    response
}

fn refused(version: i16, refusal: &JoinRefusal) -> JoinGroupResponse {
    let mut response = JoinGroupResponse::default();
    response.error_code = code::of_group(refusal.error).code();
    response.generation_id = -1;
    response.member_id = text(refusal.member_id.as_str());
    // Below v7 the name is not nullable.
    response.protocol_name = (version < PROTOCOL_TYPE_SINCE).then(|| text(""));
    response
}
