//! `SyncGroup` 0–5: the leader's assignments without our private partition, and each member's with
//! it.
//!
//! The leader counts partition 0 of the retry topic like any other and assigns it to one member.
//! The sidecar removes it from every assignment and balances the rest. It appends the partition to
//! the answer of every member that subscribes to the retry topic: private to each, at the offsets
//! of its retry partition.

use bytes::Bytes;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::engine::EngineError;
use crate::group::{Sync, SyncResult, member_key};
use crate::model::{GroupId, MemberId, TopicName};
use crate::retry::detector::AssignmentStep;
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, text};
use crate::route::groups::retry_members::STREAMS;
use crate::route::groups::{balance, retry_members};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::assignment::{Assignment, Subscription};
use crate::wire::{RequestHead, ResponseError};

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
        assignments: local_without_lane(router, &group, assignments),
    };
    let synced = match router.broker.groups.sync(&group, sync).await {
        Ok(synced) => synced,
        Err(error) => return refused(code::of_group(error)),
    };
    router.bind_member(conn, &group, key.clone());
    router.assigned(
        conn,
        &group,
        (&key, &member_id),
        request.generation_id,
        AssignmentStep::Assigned,
    );
    let member = SyncedMember {
        metadata: router.broker.groups.subscription(&group, &member_id).unwrap_or_default(),
        protocol: synced.protocol.clone().unwrap_or_default(),
        member_id,
        key,
    };
    match with_lane(router, &group, &member, &synced.assignment).await {
        Ok(assignment) => accepted(synced, assignment),
        Err(error) => {
            tracing::warn!(
                %group, member = %member.member_id, %error,
                "R0422 a member gets no retry partition: its client tries again; check the disk"
            );
            refused(code::of_commit(&error))
        }
    }
}

/// In front of a cluster, its coordinator stores the assignments, without our topics.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    mut request: SyncGroupRequest,
) -> Result<SyncGroupResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    let member_id = MemberId::new(&request.member_id);
    let key = member_key(&member_id, request.group_instance_id.as_deref());
    if !router.has_lane(&group) {
        // The names belong to the cluster. Retries that the member had return to the queue.
        router.engine.leave(&group, key);
        return link.call(head, &request).await;
    }
    let protocol = router.members.protocol(&group);
    let given = std::mem::take(&mut request.assignments);
    let given = given.into_iter().map(|to| (MemberId::new(&to.member_id), to.assignment));
    let led = |member: &MemberId| router.members.led(&group, member);
    let ours = |topic: &str| router.is_own(&TopicName::new(topic));
    let assignments = without_ours(&protocol, ours, led, given.collect());
    request.assignments = assignments.into_iter().map(to_wire).collect();
    let mut response = link.call(head, &request).await?;
    if response.error_code != 0 {
        return Ok(response);
    }
    router.note_alive(conn, &group, (&key, &member_id));
    router.missed(&group);
    router.assigned(
        conn,
        &group,
        (&key, &member_id),
        request.generation_id,
        AssignmentStep::Assigned,
    );
    let metadata = router.members.subscription(&group, &key).unwrap_or_default();
    let member = SyncedMember { member_id, key, protocol, metadata };
    match with_lane(router, &group, &member, &response.assignment).await {
        Ok(assignment) => response.assignment = with_others(router, &group, &member, &assignment),
        Err(error) => {
            tracing::warn!(
                %group, member = %member.member_id, %error,
                "R0422 a member gets no retry partition: its client tries again; check the disk"
            );
            response.error_code = code::of_commit(&error).code();
        }
    }
    Ok(response)
}

fn to_wire((member, assignment): (MemberId, Bytes)) -> SyncGroupRequestAssignment {
    let mut given = SyncGroupRequestAssignment::default();
    given.member_id = text(member.as_str());
    given.assignment = assignment;
    given
}

/// A member with the assignment of its coordinator.
struct SyncedMember {
    member_id: MemberId,
    /// The key of its retry partition: stable for static members.
    key: MemberId,
    protocol: String,
    /// The subscription metadata of its join.
    metadata: Bytes,
}

fn local_without_lane(
    router: &Router,
    group: &GroupId,
    assignments: Vec<(MemberId, Bytes)>,
) -> Vec<(MemberId, Bytes)> {
    if !router.has_lane_by_member(group) {
        return assignments;
    }
    let seen = router.broker.groups.describe(group);
    let protocol = seen.and_then(|seen| seen.protocol).unwrap_or_default();
    let subscription = |member: &MemberId| router.broker.groups.subscription(group, member);
    let retry = router.names.retry_topic(group);
    without_ours(&protocol, |topic| topic == retry.as_str(), subscription, assignments)
}

/// Removes our topics from the leader's assignments and balances the rest.
fn without_ours(
    protocol: &str,
    is_ours: impl Fn(&str) -> bool,
    subscription: impl Fn(&MemberId) -> Option<Bytes>,
    assignments: Vec<(MemberId, Bytes)>,
) -> Vec<(MemberId, Bytes)> {
    if assignments.is_empty() || protocol == STREAMS {
        return assignments;
    }
    let mut parsed = Vec::with_capacity(assignments.len());
    for (member, bytes) in &assignments {
        match Assignment::parse(bytes) {
            Ok(assignment) => parsed.push((member.clone(), assignment)),
            // A group with other assignments than consumers' keeps them unchanged.
            Err(_) => return assignments,
        }
    }
    let held = |assignment: &Assignment| {
        assignment.partitions.iter().any(|held| is_ours(held.topic.as_str()))
    };
    if !parsed.iter().any(|(_, assignment)| held(assignment)) {
        return assignments;
    }
    for (_, assignment) in &mut parsed {
        assignment.strip(&is_ours);
    }
    balance::even_out(protocol, subscription, &mut parsed);
    parsed.into_iter().map(|(member, assignment)| (member, assignment.to_bytes())).collect()
}

/// Adds the member's private partition to its assignment if it subscribes to the retry topic.
async fn with_lane(
    router: &Router,
    group: &GroupId,
    member: &SyncedMember,
    given: &Bytes,
) -> Result<Bytes, EngineError> {
    let retry = router.names.retry_topic(group);
    if !router.has_private_lanes() {
        return Ok(given.clone());
    }
    if !router.has_lane(group) || !retry_members::subscribes(&member.metadata, &retry) {
        // A static member may be redeployed without the retry topic: its retries return to the
        // group's queue.
        router.engine.leave(group, member.key.clone());
        return Ok(given.clone());
    }
    if member.protocol == STREAMS {
        tracing::warn!(
            %group, topic = %retry,
            "R0601 a Kafka Streams application subscribes to a retry topic and gets no retries: \
             consume the topic with a plain consumer"
        );
        return Ok(given.clone());
    }
    let mut assignment = match Assignment::parse(given) {
        Ok(assignment) => assignment,
        Err(_) if given.is_empty() => Assignment::empty(),
        Err(_) => return Ok(given.clone()),
    };
    router.engine.join(group, member.key.clone()).await?;
    router.names.register(group);
    assignment.append(&retry, 0);
    Ok(assignment.to_bytes())
}

/// Adds our topics that only one member may have (dead letters, retries of other groups), unless
/// another member here has them. The cluster does not see these assignments.
fn with_others(router: &Router, group: &GroupId, member: &SyncedMember, given: &Bytes) -> Bytes {
    let retry = router.names.retry_topic(group);
    let wanted = Subscription::parse(&member.metadata).map(|known| known.topics);
    let mut others = wanted.unwrap_or_default();
    others.retain(|topic| {
        let now = router.clock.now().mono;
        *topic != retry
            && router.is_own(topic)
            && router.members.claim(group, &member.key, topic, now)
    });
    if others.is_empty() || member.protocol == STREAMS {
        return given.clone();
    }
    let Ok(mut assignment) = Assignment::parse(given) else { return given.clone() };
    for topic in &others {
        assignment.append(topic, 0);
    }
    assignment.to_bytes()
}

fn accepted(synced: SyncResult, assignment: Bytes) -> SyncGroupResponse {
    let mut response = SyncGroupResponse::default();
    response.protocol_type = synced.protocol_type.as_deref().map(text);
    response.protocol_name = synced.protocol.as_deref().map(text);
    response.assignment = assignment;
    response
}

fn refused(error: ResponseError) -> SyncGroupResponse {
    let mut response = SyncGroupResponse::default();
    response.error_code = error.code();
    response
}
