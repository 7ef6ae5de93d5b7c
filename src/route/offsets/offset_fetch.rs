//! `OffsetFetch` 1–9: one group, or several since v8; member id and epoch since v9.
//!
//! A retry topic always has an offset, never −1. At −1 the client would apply `auto.offset.reset`,
//! and `latest` skips the retries. A client without a retry partition gets offset 0 of the
//! snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse};

use crate::broker::offsets::CommittedOffset;
use crate::model::{GroupId, MemberId, TopicName, TopicPartition};
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, some_text, text, topic_of, wire_topic};
use crate::route::topics::topic_kind::TopicKind;
use crate::route::unique_names::{UniqueNames, once};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

/// First version with several groups in one request (KIP-709).
const BATCHED_SINCE: i16 = 8;
/// First version with an error for the whole request.
const ERROR_SINCE: i16 = 2;

/// Bound of the wait until the engine has recorded the cluster's offsets.
const NOTING: Duration = Duration::from_secs(5);

struct FoundOffset {
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: String,
    error: i16,
}

type TopicOffsets = Vec<(TopicName, Vec<FoundOffset>)>;

pub(in crate::route) async fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    let mut response = OffsetFetchResponse::default();
    if head.version < BATCHED_SINCE {
        let group = group_of(&request.group_id);
        let asked = request.topics.map(|topics| {
            topics.into_iter().map(|t| (topic_of(&t.name), t.partition_indexes)).collect()
        });
        let stable = request.require_stable;
        let found = found(router, conn, (&group, None), stable, asked).await;
        response.topics = found.into_iter().map(single).collect();
        return response;
    }
    for asked in once(request.groups, |of| of.group_id.clone()) {
        let group = group_of(&asked.group_id);
        let member = asked.member_id.as_deref().map(MemberId::new);
        let checked = router.broker.groups.fetch_check(&group, member.as_ref(), asked.member_epoch);
        if let Err(error) = checked {
            let mut refused = OffsetFetchResponseGroup::default();
            (refused.group_id, refused.error_code) = (asked.group_id, code::of_group(error).code());
            response.groups.push(refused);
            continue;
        }
        let topics = asked.topics.map(|topics| {
            topics.into_iter().map(|t| (topic_of(&t.name), t.partition_indexes)).collect()
        });
        let stable = request.require_stable;
        let found = found(router, conn, (&group, member), stable, topics).await;
        let mut answer = OffsetFetchResponseGroup::default();
        answer.group_id = asked.group_id;
        answer.topics = found.into_iter().map(batched).collect();
        response.groups.push(answer);
    }
    response
}

/// Withholds offsets that an open transaction may change: the client asks again (KIP-447). The
/// check comes before the read. Otherwise a transaction that ends in between would show its old
/// offset as stable.
async fn found(
    router: &Router,
    conn: &Conn,
    (group, member): (&GroupId, Option<MemberId>),
    require_stable: bool,
    mut asked: Option<Vec<(TopicName, Vec<i32>)>>,
) -> TopicOffsets {
    let mut named = UniqueNames::default();
    for (topic, partitions) in asked.iter_mut().flatten() {
        partitions.retain(|partition| named.first((topic.clone(), *partition)));
    }
    let unstable =
        if require_stable { unstable(router, group, asked.as_deref()) } else { BTreeSet::new() };
    let mut topics = find(router, conn, group, member, asked).await;
    for (topic, found) in &mut topics {
        for found in found {
            if unstable.contains(&(topic.clone(), found.partition)) {
                (found.offset, found.error) = (-1, ResponseError::UnstableOffsetCommit.code());
            } else {
                found.offset = router.goes_on(group, (topic, found.partition), found.offset);
            }
        }
    }
    topics
}

fn unstable(
    router: &Router,
    group: &GroupId,
    asked: Option<&[(TopicName, Vec<i32>)]>,
) -> BTreeSet<(TopicName, i32)> {
    let all = router.broker.offsets.fetch(group, asked).into_iter();
    let is_unstable =
        |(topic, partition): &(TopicName, i32)| router.broker.is_unstable(group, topic, *partition);
    all.map(|(topic, partition, _)| (topic, partition)).filter(is_unstable).collect()
}

async fn find(
    router: &Router,
    conn: &Conn,
    group: &GroupId,
    member: Option<MemberId>,
    asked: Option<Vec<(TopicName, Vec<i32>)>>,
) -> TopicOffsets {
    let Some(asked) = asked else {
        let mut topics: TopicOffsets = Vec::new();
        for (topic, partition, known) in router.broker.offsets.fetch(group, None) {
            let found = committed(partition, known);
            match topics.last_mut() {
                Some((last, partitions)) if *last == topic => partitions.push(found),
                _ => topics.push((topic, vec![found])),
            }
        }
        return topics;
    };
    let mut topics = Vec::with_capacity(asked.len());
    for (topic, partitions) in asked {
        let retry_owner = router.names.group_of_retry(&topic);
        let of_lane = retry_owner.as_ref().filter(|_| router.upstream.is_some());
        let is_own_retry = retry_owner.as_ref() == Some(group);
        let mut found = Vec::with_capacity(partitions.len());
        for partition in partitions {
            found.push(match of_lane {
                Some(owner) if owner == group => {
                    lane_position(router, conn, group, member.as_ref(), partition).await
                }
                // Another group's retry topic is read as a snapshot, from its start.
                Some(_) => at(partition, 0),
                None => {
                    let known = router.broker.offsets.committed(group, &topic, partition);
                    let mut found = committed(partition, known);
                    if is_own_retry {
                        first_unread(router, &topic, &mut found);
                    }
                    found
                }
            });
        }
        topics.push((topic, found));
    }
    let read = topics.iter().flat_map(|(topic, found)| {
        let of = |known: &FoundOffset| {
            (topic.clone(), known.partition, known.offset, known.metadata.clone())
        };
        found.iter().map(of).collect::<Vec<_>>()
    });
    router.offsets_read(group, read.collect::<Vec<_>>());
    let bare = |(topic, found): &(TopicName, Vec<FoundOffset>)| {
        let bare = found.iter().filter(|known| known.offset < 0);
        bare.map(|known| (topic.clone(), known.partition, 0)).collect::<Vec<_>>()
    };
    begins_anew(router, group, topics.iter().flat_map(bare)).await;
    topics
}

/// Records that the group has no committed offset here: it reads the partitions again, and a record
/// that failed before may fail again.
async fn begins_anew(
    router: &Router,
    group: &GroupId,
    bare: impl Iterator<Item = (TopicName, i32, i64)>,
) {
    let of = |(of, offset): (TopicPartition, i64)| (of.topic, of.partition, offset);
    let bare: Vec<_> = router.origin_offsets(bare).map(of).collect();
    if bare.is_empty() {
        return;
    }
    if let Err(error) = router.engine.origin_commits(group, bare).await {
        tracing::warn!(
            %group, %error,
            "R0421 the start of a group without offsets could not be journalled; check the disk"
        );
    }
}

/// Whether the cluster refused the whole request. Version 1 has that error at each partition.
fn is_refused(version: i16, response: &OffsetFetchResponse) -> bool {
    let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions).peekable();
    let is_in_parts = version < ERROR_SINCE && partitions.peek().is_some();
    response.error_code != 0 || is_in_parts && partitions.all(|one| one.error_code != 0)
}

/// In front of a cluster: its offsets come from the cluster, and ours are added to the answer.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    mut request: OffsetFetchRequest,
) -> Result<OffsetFetchResponse, UpstreamError> {
    if head.version < BATCHED_SINCE {
        let group = group_of(&request.group_id);
        let mut ours = Vec::new();
        if let Some(topics) = &mut request.topics {
            topics.retain(|t| !keep(router, &mut ours, &topic_of(&t.name), &t.partition_indexes));
        }
        let as_of = router.positions.as_of();
        let mut response = link.call(head, &request).await?;
        if is_refused(head.version, &response) {
            return Ok(response);
        }
        let told = response.topics.iter().flat_map(|topic| {
            let known = topic.partitions.iter().filter(|p| p.error_code == 0);
            known.map(|p| {
                let metadata = p.metadata.as_deref().unwrap_or_default().to_owned();
                (topic_of(&topic.name), p.partition_index, p.committed_offset, metadata)
            })
        });
        seen(router, &group, as_of, told.collect()).await;
        for topic in &mut response.topics {
            let name = topic_of(&topic.name);
            for told in topic.partitions.iter_mut().filter(|told| told.error_code == 0) {
                let of = (&name, told.partition_index);
                let offset = router.goes_on(&group, of, told.committed_offset);
                told.committed_offset = router.first_retry(&group, &name, offset);
            }
        }
        let found = find(router, conn, &group, None, Some(ours)).await;
        response.topics.extend(found.into_iter().map(single));
        return Ok(response);
    }
    let mut ours_of = BTreeMap::new();
    for asked in &mut request.groups {
        let mut ours = Vec::new();
        if let Some(topics) = &mut asked.topics {
            topics.retain(|t| !keep(router, &mut ours, &topic_of(&t.name), &t.partition_indexes));
        }
        let member = asked.member_id.as_deref().map(MemberId::new);
        let of = ours_of.entry(group_of(&asked.group_id)).or_insert((member, Vec::new()));
        of.1.extend(ours);
    }
    let as_of = router.positions.as_of();
    let mut response = link.call(head, &request).await?;
    for answer in response.groups.iter_mut().filter(|answer| answer.error_code == 0) {
        let group = group_of(&answer.group_id);
        let told = answer.topics.iter().flat_map(|topic| {
            let known = topic.partitions.iter().filter(|p| p.error_code == 0);
            known.map(|p| {
                let metadata = p.metadata.as_deref().unwrap_or_default().to_owned();
                (topic_of(&topic.name), p.partition_index, p.committed_offset, metadata)
            })
        });
        seen(router, &group, as_of, told.collect()).await;
        for topic in &mut answer.topics {
            let name = topic_of(&topic.name);
            for told in topic.partitions.iter_mut().filter(|told| told.error_code == 0) {
                let of = (&name, told.partition_index);
                let offset = router.goes_on(&group, of, told.committed_offset);
                told.committed_offset = router.first_retry(&group, &name, offset);
            }
        }
        let Some((member, ours)) = ours_of.remove(&group) else { continue };
        let found = find(router, conn, &group, member, Some(ours)).await;
        answer.topics.extend(found.into_iter().map(batched));
    }
    Ok(response)
}

/// Moves a topic of ours to `ours`; whether it was one.
fn keep(
    router: &Router,
    ours: &mut Vec<(TopicName, Vec<i32>)>,
    topic: &TopicName,
    partitions: &[i32],
) -> bool {
    let is_ours = router.is_own(topic);
    if is_ours {
        ours.push((topic.clone(), partitions.to_vec()));
    }
    is_ours
}

/// Reports new offsets from the cluster to the engine. An offset of −1 counts as 0: the offsets
/// were deleted, perhaps with the topic.
async fn seen(
    router: &Router,
    group: &GroupId,
    as_of: u64,
    mut told: Vec<(TopicName, i32, i64, String)>,
) {
    told.retain(|(topic, partition, offset, _)| {
        !router.positions.is_overtaken(as_of, group, (topic, *partition), *offset)
    });
    router.offsets_read(group, told.iter().cloned());
    let offsets = told.into_iter().map(|(topic, partition, offset, _)| (topic, partition, offset));
    let mut told: Vec<(TopicName, i32, i64)> = offsets.collect();
    for (.., offset) in &mut told {
        *offset = (*offset).max(0);
    }
    told.retain(|(topic, partition, offset)| {
        router.positions.differs(group, topic, *partition, *offset)
    });
    let noting = router.note(group, told);
    let error = match tokio::time::timeout(NOTING, noting).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(elapsed) => elapsed.to_string(),
    };
    tracing::warn!(
        %group, %error,
        "R0421 committed offsets of the cluster could not be journalled; check the disk"
    );
}

/// The offset at which the client continues in its retry partition.
async fn lane_position(
    router: &Router,
    conn: &Conn,
    group: &GroupId,
    member: Option<&MemberId>,
    partition: i32,
) -> FoundOffset {
    let slot = match member {
        Some(member) => {
            let key = router.broker.groups.key_of(group, member);
            let key = key.unwrap_or_else(|| router.members.key_of(group, member, None));
            router.engine.resume(group, key).await.ok().flatten()
        }
        None => None,
    };
    let slot = match slot {
        Some(slot) => Ok(Some(slot)),
        None => match router.member_of(conn, group) {
            Some(member) => router.engine.resume(group, member).await,
            None => Ok(None),
        },
    };
    let (offset, error) = match slot {
        Ok(slot) => (slot.map_or(0, |slot| slot.position.to_kafka()), 0),
        Err(_) => (-1, ResponseError::CoordinatorNotAvailable.code()),
    };
    FoundOffset { partition, offset, leader_epoch: -1, metadata: String::new(), error }
}

/// A retry topic without a committed offset begins at its start: `auto.offset.reset=latest` would
/// skip its retries. The same holds for an offset outside its log.
fn first_unread(router: &Router, topic: &TopicName, found: &mut FoundOffset) {
    let Some(TopicKind::Local(topic)) = router.place(topic) else { return };
    let Some(partition) = topic.partition(found.partition) else { return };
    let bounds = router.broker.bounds(partition);
    if !(bounds.start..=bounds.next).contains(&found.offset) {
        found.offset = bounds.start;
    }
}

fn at(partition: i32, offset: i64) -> FoundOffset {
    FoundOffset { partition, offset, leader_epoch: -1, metadata: String::new(), error: 0 }
}

fn committed(partition: i32, known: Option<CommittedOffset>) -> FoundOffset {
    match known {
        Some(known) => FoundOffset {
            partition,
            offset: known.offset,
            leader_epoch: known.leader_epoch,
            metadata: known.metadata,
            error: 0,
        },
        None => at(partition, -1),
    }
}

fn single((topic, found): (TopicName, Vec<FoundOffset>)) -> OffsetFetchResponseTopic {
    let mut answer = OffsetFetchResponseTopic::default();
    answer.name = wire_topic(&topic);
    answer.partitions = found
        .into_iter()
        .map(|found| {
            let mut partition = OffsetFetchResponsePartition::default();
            partition.partition_index = found.partition;
            partition.committed_offset = found.offset;
            partition.committed_leader_epoch = found.leader_epoch;
            partition.metadata = Some(text(&found.metadata));
            partition.error_code = found.error;
            partition
        })
        .collect();
    answer
}

fn batched((topic, found): (TopicName, Vec<FoundOffset>)) -> OffsetFetchResponseTopics {
    let mut answer = OffsetFetchResponseTopics::default();
    answer.name = wire_topic(&topic);
    answer.partitions = found
        .into_iter()
        .map(|found| {
            let mut partition = OffsetFetchResponsePartitions::default();
            partition.partition_index = found.partition;
            partition.committed_offset = found.offset;
            partition.committed_leader_epoch = found.leader_epoch;
            partition.metadata = some_text(&found.metadata);
            partition.error_code = found.error;
            partition
        })
        .collect();
    answer
}
