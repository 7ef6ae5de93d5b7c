//! `OffsetFetch` 1–9: one group, or several since v8; member id and epoch since v9.
//!
//! A retry topic always has an offset, never −1. At −1 the client would apply `auto.offset.reset`,
//! and `latest` skips the retries.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse};

use crate::broker::offsets::CommittedOffset;
use crate::model::{GroupId, MemberId, TopicName, TopicPartition};
use crate::route::convert::{group_of, some_text, text, topic_of, wire_topic};
use crate::route::topics::topic_names::TopicKind;
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
        let found = found(router, &group, stable, asked).await;
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
        let found = found(router, &group, stable, topics).await;
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
    group: &GroupId,
    require_stable: bool,
    mut asked: Option<Vec<(TopicName, Vec<i32>)>>,
) -> TopicOffsets {
    let mut named = UniqueNames::default();
    for (topic, partitions) in asked.iter_mut().flatten() {
        partitions.retain(|partition| named.first((topic.clone(), *partition)));
    }
    let unstable =
        if require_stable { unstable(router, group, asked.as_deref()) } else { BTreeSet::new() };
    let mut topics = find(router, group, asked).await;
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
    group: &GroupId,
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
        let is_own_retry = router.retry_group(&topic).as_ref() == Some(group);
        let mut found = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let known = router.broker.offsets.committed(group, &topic, partition);
            let mut one = committed(partition, known);
            if is_own_retry {
                first_unread(router, &topic, &mut one);
            }
            found.push(one);
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

/// In front of a cluster: its answer, with the offsets from which retries and records that are not
/// settled are read again.
pub(in crate::route) async fn relayed(
    router: &Router,
    link: &mut Link,
    head: &RequestHead,
    request: OffsetFetchRequest,
) -> Result<OffsetFetchResponse, UpstreamError> {
    /// The topics before and since version 8 are of two types with the same fields.
    macro_rules! told_offsets {
        ($topics:expr) => {{
            let topics = $topics.iter_mut().map(|topic| {
                let told = topic.partitions.iter_mut().filter(|told| told.error_code == 0);
                let told = told.map(|told| ToldOffset {
                    partition: told.partition_index,
                    offset: &mut told.committed_offset,
                    metadata: told.metadata.as_deref(),
                });
                (topic_of(&topic.name), told.collect())
            });
            topics.collect()
        }};
    }
    let as_of = router.positions.as_of();
    let mut response = link.call(head, &request).await?;
    if head.version < BATCHED_SINCE {
        if !is_refused(head.version, &response) {
            let topics = told_offsets!(response.topics);
            told(router, &group_of(&request.group_id), as_of, topics).await;
        }
        return Ok(response);
    }
    for answer in response.groups.iter_mut().filter(|answer| answer.error_code == 0) {
        let topics = told_offsets!(answer.topics);
        told(router, &group_of(&answer.group_id), as_of, topics).await;
    }
    Ok(response)
}

/// A committed offset in an answer of the cluster.
struct ToldOffset<'a> {
    partition: i32,
    offset: &'a mut i64,
    metadata: Option<&'a str>,
}

/// Notes the offsets that the cluster tells, and then sets those that the client goes on from.
async fn told(
    router: &Router,
    group: &GroupId,
    as_of: u64,
    mut topics: Vec<(TopicName, Vec<ToldOffset<'_>>)>,
) {
    for (topic, told) in &mut topics {
        for told in told {
            *told.offset = router.first_retry(group, topic, *told.offset);
        }
    }
    let offsets = topics.iter().flat_map(|(topic, told)| {
        told.iter().map(|told| {
            let metadata = told.metadata.unwrap_or_default().to_owned();
            (topic.clone(), told.partition, *told.offset, metadata)
        })
    });
    seen(router, group, as_of, offsets.collect()).await;
    for (topic, told) in &mut topics {
        for told in told {
            *told.offset = router.goes_on(group, (topic, told.partition), *told.offset);
        }
    }
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
