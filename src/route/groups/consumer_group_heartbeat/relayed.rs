//! `ConsumerGroupHeartbeat` in front of a cluster: its coordinator assigns and never learns of the
//! retry topic. The member's private partition is appended to the assignment in the answer.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, MetadataRequest,
};

use crate::engine::EngineError;
use crate::model::{GroupId, MemberId, TopicName};
use crate::retry::detector::AssignmentStep;
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, topic_of};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::assignment::Subscription;
use crate::wire::{Api, RequestHead};

/// Member epoch of a member that joins.
const JOINS: i32 = 0;
/// Member epoch of a member that leaves for good; −2 is a static member that will be back.
const LEAVES: i32 = -1;
/// The lowest Metadata version with the cluster id and `allow_auto_topic_creation`.
const METADATA: i16 = 4;

pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    mut request: ConsumerGroupHeartbeatRequest,
) -> Result<ConsumerGroupHeartbeatResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    know_the_cluster(router, link, head).await?;
    let ours = |name: &TopicName| router.is_own(name);
    let topics = request.subscribed_topic_names.as_ref();
    let topics = topics.map(|names| names.iter().map(topic_of).collect::<Vec<TopicName>>());
    router.list_node_to_subscriber(conn, topics.iter().flatten());
    if let Some(names) = &mut request.subscribed_topic_names {
        names.retain(|name| !ours(&topic_of(name)));
    }
    if let Some(owned) = &mut request.topic_partitions {
        owned.retain(|topic| router.names.name_of(topic.topic_id).is_none_or(|name| !ours(&name)));
    }
    let mut response: ConsumerGroupHeartbeatResponse = link.call(head, &request).await?;
    let member = MemberId::new(response.member_id.as_ref().unwrap_or(&request.member_id));
    let key = router.members.key_of(&group, &member, request.instance_id.as_deref());
    match ResponseError::try_from_code(response.error_code) {
        None if request.member_epoch == LEAVES => router.gone_from(&group, &key, true),
        None if request.member_epoch < 0 => {}
        None => {
            router.note_alive(conn, &group, (&key, &member));
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
            if request.member_epoch == JOINS {
                router.members.joins(&group, &key);
                router.look_for_conflicts_of(link, head, &group).await?;
            } else if topics.is_none()
                && response.assignment.is_some()
                && is_unheard_of(router, &group, &key)
            {
                return Ok(super::asked_again());
            }
            if let Some(topics) = topics {
                let metadata = Subscription::to(topics).to_bytes();
                if router.members.subscribes(&group, &key, metadata) {
                    router.detectors.change_owners();
                    router.compare_readers(&group, &key);
                }
            }
            match with_ours(router, &group, key, response.assignment.take()).await {
                Ok(assignment) => response.assignment = assignment,
                Err(error) => {
                    tracing::warn!(
                        %group, %error,
                        "R0422 a member gets no retry partition: its client tries again; check the \
                         disk"
                    );
                    return Ok(super::refused(code::of_commit(&error), &error));
                }
            }
        }
        Some(ResponseError::UnknownMemberId) => router.gone_from(&group, &key, false),
        // A fenced member rejoins with its own member id.
        Some(_) => {}
    }
    Ok(response)
}

/// Whether the sidecar must ask for the member's subscription, to know its topics of ours. A
/// restart lost the subscription, the client does not repeat it, and the group reads dead letters.
/// Each member is asked once: a member that subscribes to a pattern never names topics.
fn is_unheard_of(router: &Router, group: &GroupId, key: &MemberId) -> bool {
    router.broker.offsets.has(group)
        && router.members.wants(group, key).is_none()
        && router.members.joins(group, key)
}

/// Ids of our topics derive from the cluster id, and a client may heartbeat before its first
/// Metadata.
async fn know_the_cluster(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
) -> Result<(), UpstreamError> {
    if router.names.knows_cluster() {
        return Ok(());
    }
    let mut request = MetadataRequest::default().with_topics(Some(Vec::new()));
    request.allow_auto_topic_creation = false;
    let told = link.call_at(Api::Metadata, METADATA, head, &request).await?;
    if let Some(cluster_id) = told.cluster_id {
        router.names.of_cluster(&cluster_id);
    }
    Ok(())
}

/// Builds the member's assignment: the coordinator's, its private partition, and those of our other
/// topics that no other member here holds. It is also sent when only our part changed.
///
/// **Invariant:** a heartbeat that changes nothing asks nothing of the engine: a slow disk here
/// must not cost a member its membership in the cluster's group.
async fn with_ours(
    router: &Router,
    group: &GroupId,
    key: MemberId,
    told: Option<Assignment>,
) -> Result<Option<Assignment>, EngineError> {
    let retry = router.names.retry_topic(group);
    let now = router.clock.now().mono;
    let wanted = match router.members.wants(group, &key) {
        Some(mut wanted) => {
            wanted.retain(|topic| {
                let held = *topic == retry || router.members.claim(group, &key, topic, now);
                held && router.is_own(topic)
            });
            wanted
        }
        // A client does not repeat its subscription after a restart of the sidecar: it keeps its
        // assignment, and its retry partition stays reserved.
        None if told.is_none() => return Ok(None),
        None => {
            let slot = router.engine.slot_of(group, key.clone()).await?;
            slot.map(|_| retry.clone()).into_iter().collect()
        }
    };
    let is_news = router.members.holds_ours(group, &key, &wanted);
    if let Some(told) = &told {
        router.members.holds(group, &key, told.topic_partitions.clone());
    }
    if told.is_none() && !is_news {
        return Ok(None);
    }
    let held = told.map(|told| told.topic_partitions).or_else(|| router.members.held(group, &key));
    let Some(mut topics) = held else { return Ok(None) };
    if wanted.contains(&retry) {
        router.engine.join(group, key).await?;
        router.names.register(group);
    } else {
        router.engine.leave(group, key);
    }
    for name in wanted {
        let id = router.names.topic_id(&name);
        topics.push(TopicPartitions::default().with_topic_id(id).with_partitions(vec![0]));
    }
    Ok(Some(Assignment::default().with_topic_partitions(topics)))
}
