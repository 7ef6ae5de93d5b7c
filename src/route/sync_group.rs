//! SyncGroup 0–5: the leader's assignments without our private partition, each member's with it.
//!
//! The leader counts partition 0 of the retry topic like any other and gives it to somebody. It is
//! taken out of every assignment and appended to the answer of every member that subscribes to the
//! retry topic: private to each, at the offsets of its slot. What that skewed is evened out.

use bytes::Bytes;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::engine::EngineError;
use crate::group::{Sync, Synced, member_key};
use crate::model::{GroupId, MemberId, TopicName};
use crate::route::conn::Conn;
use crate::route::convert::{group_of, text};
use crate::route::{Router, code, lane, spread};
use crate::wire::ResponseError;
use crate::wire::assignment::Assignment;

/// Assignor of Kafka Streams: it throws when assignment and task count differ.
const STREAMS: &str = "stream";

pub(super) async fn answer(
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
        assignments: without_lane(router, &group, assignments),
    };
    let synced = match router.broker.groups.sync(&group, sync).await {
        Ok(synced) => synced,
        Err(error) => return refused(code::of_group(error)),
    };
    router.speaks_for(conn, &group, key.clone());
    match with_lane(router, &group, &member_id, key, &synced).await {
        Ok(assignment) => accepted(synced, assignment),
        Err(error) => {
            tracing::warn!(%group, member = %member_id, %error, "no lane for a member");
            refused(code::of_commit(&error))
        }
    }
}

/// The leader's assignments with the retry topic taken out and the rest evened out.
fn without_lane(
    router: &Router,
    group: &GroupId,
    assignments: Vec<(MemberId, Bytes)>,
) -> Vec<(MemberId, Bytes)> {
    let seen = router.broker.groups.describe(group);
    let protocol = seen.as_ref().and_then(|seen| seen.protocol.clone()).unwrap_or_default();
    if assignments.is_empty() || protocol == STREAMS {
        return assignments;
    }
    let retry = router.names.retry_topic(group);
    let mut parsed = Vec::with_capacity(assignments.len());
    for (member, bytes) in &assignments {
        match Assignment::parse(bytes) {
            Ok(assignment) => parsed.push((member.clone(), assignment)),
            // Not a consumer's assignment: the whole group is left alone.
            Err(_) => return assignments,
        }
    }
    let held = |assignment: &Assignment| assignment.partitions.iter().any(|p| p.topic == retry);
    if !parsed.iter().any(|(_, assignment)| held(assignment)) {
        return assignments;
    }
    for (_, assignment) in &mut parsed {
        assignment.strip(|topic| topic == retry.as_str());
    }
    // A description tells subscriptions of a stable group only; this one is about to be.
    let mut members = seen.map(|seen| seen.members).unwrap_or_default();
    for member in &mut members {
        let subscription = router.broker.groups.subscription(group, &member.member_id);
        member.metadata = subscription.unwrap_or_default();
    }
    spread::even_out(&protocol, &members, &mut parsed);
    parsed.into_iter().map(|(member, assignment)| (member, assignment.to_bytes())).collect()
}

/// A member's assignment with its private partition, if it subscribes to the retry topic.
async fn with_lane(
    router: &Router,
    group: &GroupId,
    member: &MemberId,
    key: MemberId,
    synced: &Synced,
) -> Result<Bytes, EngineError> {
    let retry = router.names.retry_topic(group);
    if !takes_part(router, group, member, &retry) {
        // A static member keeps its name when it is deployed anew without the retry topic: what it
        // held goes back to the group's queue.
        router.engine.leave(group, key);
        return Ok(synced.assignment.clone());
    }
    if synced.protocol.as_deref() == Some(STREAMS) {
        tracing::warn!(
            %group, topic = %retry,
            "a Kafka Streams application subscribes to a retry topic: Streams cannot take part in \
             this lane, it gets no retries"
        );
        return Ok(synced.assignment.clone());
    }
    let mut assignment = match Assignment::parse(&synced.assignment) {
        Ok(assignment) => assignment,
        Err(_) if synced.assignment.is_empty() => Assignment::empty(),
        Err(_) => return Ok(synced.assignment.clone()),
    };
    router.engine.join(group, key).await?;
    router.names.meet(group);
    assignment.append(&retry, 0);
    Ok(assignment.to_bytes())
}

fn takes_part(router: &Router, group: &GroupId, member: &MemberId, retry: &TopicName) -> bool {
    let metadata = router.broker.groups.subscription(group, member);
    router.has_lane(group) && metadata.is_some_and(|known| lane::subscribes(&known, retry))
}

fn accepted(synced: Synced, assignment: Bytes) -> SyncGroupResponse {
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
