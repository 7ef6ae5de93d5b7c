//! `ConsumerGroupHeartbeat` 0–1 (KIP-848): membership and assignments of the consumer protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use uuid::Uuid;

use crate::broker::PatternError;
use crate::group::{ConsumerHeartbeat, TopicIdPartition, TopicImage};
use crate::model::{ClientId, GroupId, MemberId, TopicId, TopicName};
use crate::retry::detector::AssignmentStep;
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, some_text, topic_of};
use crate::route::owner::{OwnedRequest, OwnerCall, RequestContext};
use crate::route::{Router, code};
use crate::upstream::UpstreamError;
use crate::wire::{RequestHead, ResponseError};

/// Member epoch of a member that joins.
const JOINS: i32 = 0;
/// Member epoch of a member that leaves for good; −2 is a static member that will be back.
const LEAVES: i32 = -1;
/// First version whose clients make their own member id; before, the coordinator makes it.
const OWN_ID_SINCE: i16 = 1;

pub(in crate::route) async fn answer(
    mut call: OwnerCall<'_>,
    request: ConsumerGroupHeartbeatRequest,
) -> Result<ConsumerGroupHeartbeatResponse, UpstreamError> {
    let (router, conn) = (call.at.router, call.at.conn);
    let group = group_of(&request.group_id);
    let instance_id = request.instance_id.as_deref();
    // The key of a static member that is named by its member id alone is unknown once it is gone.
    let key = router.key_of(&group, &MemberId::new(&request.member_id), instance_id);
    let response = call.ask(&request).await?;
    let member = MemberId::new(response.member_id.as_ref().unwrap_or(&request.member_id));
    match ResponseError::try_from_code(response.error_code) {
        None if request.member_epoch == LEAVES => router.left(&group, &key, Some(&member)),
        None if request.member_epoch < JOINS => {}
        None => {
            let key = router.key_of(&group, &member, instance_id);
            router.note_alive(conn, &group, (&key, &member));
            router.members.has_epochs(&group, &key);
            if response.assignment.is_some() {
                for gone in router.members.quiet(&group, router.clock.now().mono) {
                    router.lost(&group, &gone, None, false);
                }
            }
            if let Some(names) = &request.subscribed_topic_names {
                router.note_subscription(&group, &key, names.iter().map(topic_of).collect());
            }
            let (of, epoch) = ((&key, &member), response.member_epoch);
            router.assigned(conn, &group, of, epoch, AssignmentStep::Assigned);
            if request.member_epoch > JOINS && router.calls_back(&group, &key).is_some() {
                return Ok(called_back());
            }
        }
        Some(ResponseError::UnknownMemberId) => router.unknown(&group, &key),
        // A fenced member rejoins with its own member id.
        Some(_) => {}
    }
    Ok(response)
}

impl OwnedRequest for ConsumerGroupHeartbeatRequest {
    async fn answered_here(&self, at: RequestContext<'_>) -> ConsumerGroupHeartbeatResponse {
        let RequestContext { router, conn, head, .. } = at;
        let group = group_of(&self.group_id);
        let beat = beat(conn, head, self.clone());
        let leaves = beat.epoch < JOINS;
        let known = |name: &TopicName| image(router, name, &group);
        let matching = |pattern: &str| matching(router, pattern);
        let pattern = beat.pattern.as_deref().filter(|one| !one.is_empty());
        if let Some(Err(error)) = pattern.map(matching) {
            if conn.refuses(&group) {
                let client = conn.client();
                tracing::warn!(
                    %group, %client, %error,
                    "R0600 subscription pattern refused: the member gets no partitions; correct it"
                );
            }
            return refused(ResponseError::InvalidRegularExpression, &error);
        }
        let matched = |pattern: &str| matching(pattern).ok();
        let groups = &router.broker.groups;
        let alive = match groups.consumer_heartbeat(&group, beat, known, matched).await {
            Ok(alive) => alive,
            Err(error) => return refused(code::of_group(error), &error),
        };
        let mut response = ConsumerGroupHeartbeatResponse::default();
        response.member_id = some_text(alive.member_id.as_str());
        response.member_epoch = alive.epoch;
        if leaves {
            return response;
        }
        let interval_ms = i32::try_from(alive.heartbeat_interval_ms);
        response.heartbeat_interval_ms = interval_ms.unwrap_or(i32::MAX);
        response.assignment = alive.assignment.map(|partitions| told(&partitions));
        response
    }
}

/// The topics of a pattern. A retry topic is subscribed to by its name.
fn matching(router: &Router, pattern: &str) -> Result<Arc<BTreeSet<TopicName>>, PatternError> {
    let found = router.broker.matching(pattern)?;
    let is_retry = |name: &&TopicName| router.group_served_here(name).is_some();
    if !found.iter().any(|name| is_retry(&name)) {
        return Ok(found);
    }
    Ok(Arc::new(found.iter().filter(|name| !is_retry(name)).cloned().collect()))
}

/// Fences the member: it gives up its partitions, rejoins with its own member id and continues from
/// the committed offsets.
fn called_back() -> ConsumerGroupHeartbeatResponse {
    refused(ResponseError::FencedMemberEpoch, &"go on from the committed offsets (order.rewind)")
}

fn refused(error: ResponseError, why: &impl ToString) -> ConsumerGroupHeartbeatResponse {
    let mut response = ConsumerGroupHeartbeatResponse::default();
    response.error_code = error.code();
    response.error_message = some_text(&why.to_string());
    response
}

/// Converts the request for the coordinator.
fn beat(
    conn: &Conn,
    head: &RequestHead,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerHeartbeat {
    let optional =
        |text: Option<_>| text.map(|text: kafka_protocol::protocol::StrBytes| text.to_string());
    let nameless = request.member_id.is_empty() && request.member_epoch == 0;
    let member_id = if nameless && head.version < OWN_ID_SINCE {
        MemberId::from(Uuid::new_v4().to_string())
    } else {
        MemberId::new(&request.member_id)
    };
    let owned = request.topic_partitions.map(|topics| {
        let one_by_one = topics.into_iter().flat_map(|of| {
            let topic = TopicId(of.topic_id.into_bytes());
            of.partitions.into_iter().map(move |index| TopicIdPartition { topic, index })
        });
        one_by_one.collect::<BTreeSet<TopicIdPartition>>()
    });
    ConsumerHeartbeat {
        member_id,
        epoch: request.member_epoch,
        instance_id: optional(request.instance_id),
        rack_id: optional(request.rack_id),
        client_id: head.client_id.clone().unwrap_or_else(|| ClientId::new("")),
        client_host: conn.host(),
        rebalance_timeout_ms: u64::try_from(request.rebalance_timeout_ms).ok(),
        topics: request.subscribed_topic_names.map(|names| names.iter().map(topic_of).collect()),
        pattern: optional(request.subscribed_topic_regex),
        assignor: optional(request.server_assignor),
        owned,
        cluster: BTreeMap::new(),
        matching: BTreeMap::new(),
    }
}

/// The id and partition count of a topic for the coordinator.
pub(super) fn image(router: &Router, name: &TopicName, group: &GroupId) -> Option<TopicImage> {
    let place = router.place_for_member(name, group)?;
    let id = TopicId(router.id_of(name, &place).into_bytes());
    Some(TopicImage { id, partitions: place.partitions() })
}

fn told(partitions: &BTreeSet<TopicIdPartition>) -> Assignment {
    let mut topics: Vec<TopicPartitions> = Vec::new();
    for partition in partitions {
        let id = Uuid::from_bytes(partition.topic.0);
        match topics.last_mut().filter(|last| last.topic_id == id) {
            Some(last) => last.partitions.push(partition.index),
            None => topics.push(
                TopicPartitions::default().with_topic_id(id).with_partitions(vec![partition.index]),
            ),
        }
    }
    Assignment::default().with_topic_partitions(topics)
}
