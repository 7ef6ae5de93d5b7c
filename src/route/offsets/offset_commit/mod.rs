//! `OffsetCommit` 2–9: committed offsets of a group.
//!
//! [`answer`] serves the embedded cluster, [`relayed`] a member of the upstream cluster:
//!
//! 1. Check the membership, here and after every wait.
//! 2. Take the nacks out of the metadata, in which a consumer may name failed records
//!    (`marked.rs`).
//! 3. A withheld record is one that ended its consumers and is left out for now. If the commit
//!    passes it, the record becomes a dead letter.
//! 4. Lower an offset to the first record of its partition that is withheld still, or still to be
//!    retried in place (`order.mode: partition`); the client sees success.
//! 5. Store the offsets.
//!
//! **Invariant:** a commit waits for the nacks it passes. It goes through the engine's queue behind
//! every earlier nack, and is stored only when those are durable.

mod marked;
mod relayed;

use std::time::Duration;

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

use crate::broker::offsets::{CommitItem, ItemError};
use crate::clock::Clock;
use crate::group::{CommitCheck, GroupError, member_key};
use crate::model::{GroupId, MemberId, TopicName};
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, topic_of};
use crate::route::offsets::commit_part::{CommitPart, PartitionResult};
use crate::route::{Router, code};
use crate::wire::{RequestHead, ResponseError};

pub(in crate::route) use marked::{RefusedPartitions, is_marked};
pub(in crate::route) use relayed::{
    NamedPartition, commit_result, may_commit, passes_nacks, relayed,
};

/// Bound of a commit's wait for the nacks it passes and for the disk.
const COMMIT_WAIT_MAX: Duration = Duration::from_secs(5);

/// First version with member epochs, and `GROUP_ID_NOT_FOUND` for an unknown group (KIP-848).
const EPOCHS_SINCE: i16 = 9;

pub(in crate::route) async fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    mut request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let committer = Committer::of(router, head, &request);
    let group = committer.group.clone();
    if let Err(error) = committer.may(&request) {
        return committer.refused(&request, error);
    }
    if !committer.key.as_str().is_empty() {
        router.bind_member(conn, &group, committer.key.clone());
    }
    let deadline = CommitDeadline::begins(&router.clock);
    let marked = marked::take_markers(&mut request);
    let refused = marked::nack_here(router, conn, &group, &deadline, marked).await;
    if router.is_in_order(&group) {
        // A record that an earlier nack put back into its partition lowers this commit.
        let nacks = router.engine.nacks_durable(&group);
        if let Err(late) = deadline.bounds(commit_result(nacks)).await {
            return match committer.may(&request) {
                Err(error) => committer.refused(&request, error),
                Ok(()) => respond(&request, |_, _| late.code()),
            };
        }
    }
    if let Err(error) = committer.may(&request) {
        return committer.refused(&request, error);
    }
    let passing = router.passing_withheld(&group, storable(router, &request, &refused));
    deadline.waits(router.settle_withheld(&group, passing)).await;
    if let Err(error) = committer.may(&request) {
        return committer.refused(&request, error);
    }
    // Lowers offsets to a record that is withheld, or still to be retried in place.
    router.hold_back(&group, &mut request);
    let parts = parts(router, &request, &refused);
    let storing = store(router, &group, parts.iter().flatten(), || committer.may(&request));
    let stored = deadline.bounds(storing).await;
    if stored.is_ok() {
        note_stored(router, &group, &request, stored_in(&parts));
        router
            .report_progress(&group, parts.iter().flatten().filter_map(CommitPart::with_metadata));
    } else if let Err(error) = committer.may(&request) {
        return committer.refused(&request, error);
    }
    respond(&request, |topic, partition| {
        match parts.get(topic).and_then(|parts| parts.get(partition)) {
            Some(part) => part.code(stored),
            None => ResponseError::UnknownServerError.code(),
        }
    })
}

/// The committing member. Its membership is checked when the commit arrives and again after every
/// wait. A failed check wins over any other error, so that a member that was removed meanwhile
/// stores nothing.
struct Committer<'a> {
    router: &'a Router,
    group: GroupId,
    key: MemberId,
    check: CommitCheck,
}

impl<'a> Committer<'a> {
    fn of(router: &'a Router, head: &RequestHead, request: &OffsetCommitRequest) -> Self {
        let member_id = MemberId::new(&request.member_id);
        let instance_id = request.group_instance_id.as_ref().map(ToString::to_string);
        let key = member_key(&member_id, instance_id.as_deref());
        let generation = request.generation_id_or_member_epoch;
        let (transactional, has_epochs) = (false, head.version >= EPOCHS_SINCE);
        let check = CommitCheck { member_id, instance_id, generation, transactional, has_epochs };
        Self { router, group: group_of(&request.group_id), key, check }
    }

    fn may(&self, request: &OffsetCommitRequest) -> PartitionResult {
        let named = offsets(request).map(|(topic, partition, _)| (topic, partition));
        let may = may_here(self.router, &self.group, &self.check, named);
        may.map_err(|error| match error {
            ResponseError::GroupIdNotFound if !self.check.has_epochs => {
                ResponseError::IllegalGeneration
            }
            error => error,
        })
    }

    /// Answers a refused commit and reports it to the detector.
    fn refused(&self, request: &OffsetCommitRequest, error: ResponseError) -> OffsetCommitResponse {
        let Self { router, group, key, check, .. } = self;
        router.metrics.commit_failed(group.as_str(), &code::name(error));
        let refused = offsets(request).map(|offset| (offset, error));
        router.commit_refused(group, (key, &check.member_id), refused);
        respond(request, |_, _| error.code())
    }
}

/// Whether the group lets a member commit these partitions. A KIP-848 member may still name an
/// older epoch: it commits partitions that it has had since then.
pub(in crate::route) fn may_here(
    router: &Router,
    group: &GroupId,
    check: &CommitCheck,
    named: impl Iterator<Item = (TopicName, i32)>,
) -> PartitionResult {
    let groups = &router.broker.groups;
    let checked = groups.commit_check(group, check.clone());
    if checked == Err(GroupError::StaleMemberEpoch) {
        let named: Vec<_> = named.collect();
        if groups.has_had(group, &check.member_id, check.generation, &named) {
            return Ok(());
        }
    }
    checked.map_err(code::of_group)
}

/// The effect on each partition of a request, by topic.
fn parts(
    router: &Router,
    request: &OffsetCommitRequest,
    refused: &RefusedPartitions,
) -> Vec<Vec<CommitPart>> {
    let of_topic = |topic: &OffsetCommitRequestTopic| {
        let name = topic_of(&topic.name);
        let of = |asked: &OffsetCommitRequestPartition| match refusal(
            refused,
            &name,
            asked.partition_index,
        ) {
            Some(error) => CommitPart::Refuse(error),
            None => part(router, &name, asked),
        };
        topic.partitions.iter().map(of).collect()
    };
    request.topics.iter().map(of_topic).collect()
}

/// The error of a partition whose metadata was refused.
fn refusal(
    refused: &RefusedPartitions,
    topic: &TopicName,
    partition: i32,
) -> Option<ResponseError> {
    if refused.is_empty() {
        return None;
    }
    refused.get(&(topic.clone(), partition)).copied()
}

/// The offsets of a request, without the partitions that are refused.
fn unrefused(
    request: &OffsetCommitRequest,
    refused: &RefusedPartitions,
) -> impl Iterator<Item = (TopicName, i32, i64)> {
    offsets(request).filter(|(topic, partition, _)| refusal(refused, topic, *partition).is_none())
}

/// The offsets that are stored if the member may commit: none of a refused partition.
pub(in crate::route) fn storable<'a>(
    router: &'a Router,
    request: &'a OffsetCommitRequest,
    refused: &'a RefusedPartitions,
) -> impl Iterator<Item = (TopicName, i32, i64)> + 'a {
    request.topics.iter().flat_map(move |topic| {
        let name = topic_of(&topic.name);
        let stored = move |asked: &OffsetCommitRequestPartition| match refusal(
            refused,
            &name,
            asked.partition_index,
        ) {
            Some(_) => None,
            None => part(router, &name, asked).stored(),
        };
        topic.partitions.iter().filter_map(stored)
    })
}

/// The time bound of one commit, for all its waits together. Heartbeats wait behind the commit on
/// the same connection.
pub(in crate::route) struct CommitDeadline<'a> {
    clock: &'a Clock,
    began: Duration,
}

impl<'a> CommitDeadline<'a> {
    pub(in crate::route) fn begins(clock: &'a Clock) -> Self {
        Self { clock, began: clock.elapsed() }
    }

    /// The rest of the time.
    fn left(&self) -> Duration {
        COMMIT_WAIT_MAX.saturating_sub(self.clock.elapsed().saturating_sub(self.began))
    }

    /// Waits for a part no longer than the rest of the time. A withheld record that is not settled
    /// by then holds the commit back.
    pub(in crate::route) async fn waits(&self, part: impl Future<Output = ()>) {
        // A late part is no error: the caller looks at the state afterwards.
        let _ = tokio::time::timeout(self.left(), part).await;
    }

    /// Refuses a part that is not durable in time. A timeout undoes nothing: the client repeats the
    /// commit, and a repeat changes nothing that the first one did.
    pub(in crate::route) async fn bounds<T>(
        &self,
        part: impl Future<Output = Result<T, ResponseError>>,
    ) -> Result<T, ResponseError> {
        let done = tokio::time::timeout(self.left(), part).await;
        done.unwrap_or(Err(ResponseError::CoordinatorNotAvailable))
    }
}

pub(in crate::route) fn part(
    router: &Router,
    topic: &TopicName,
    asked: &OffsetCommitRequestPartition,
) -> CommitPart {
    let partitions = router.place(topic).map(|place| place.partitions());
    if !partitions.is_some_and(|count| (0..count).contains(&asked.partition_index)) {
        return CommitPart::Refuse(ResponseError::UnknownTopicOrPartition);
    }
    let metadata = asked.committed_metadata.as_ref().map(ToString::to_string);
    let item = CommitItem {
        topic: topic.clone(),
        partition: asked.partition_index,
        offset: asked.committed_offset,
        leader_epoch: asked.committed_leader_epoch,
        metadata: metadata.unwrap_or_default(),
    };
    match item.check() {
        Ok(()) => CommitPart::Store(item),
        Err(ItemError::MetadataTooLarge) => {
            CommitPart::Refuse(ResponseError::OffsetMetadataTooLarge)
        }
        Err(ItemError::InvalidTopic) => CommitPart::Refuse(ResponseError::InvalidTopicException),
    }
}

/// Stores offsets behind every earlier nack. `may` checks the membership again after the wait.
async fn store(
    router: &Router,
    group: &GroupId,
    parts: impl Iterator<Item = &CommitPart>,
    may: impl FnOnce() -> PartitionResult,
) -> Result<(), ResponseError> {
    let items: Vec<CommitItem> = parts
        .filter_map(
            |part| if let CommitPart::Store(item) = part { Some(item.clone()) } else { None },
        )
        .collect();
    if items.is_empty() {
        return Ok(());
    }
    commit_result(router.engine.nacks_durable(group)).await?;
    may()?;
    let offsets = items.iter().map(|i| (i.topic.clone(), i.partition, i.offset)).collect();
    router.broker.groups.keep_simple(group);
    let now = router.clock.now().wall;
    let kept = router.broker.offsets.commit(group, now, items);
    let kept = kept.map_err(|_| ResponseError::CoordinatorNotAvailable)?;
    let told = router.engine.origin_commits(group, offsets);
    let (told, durable) = tokio::join!(told, router.broker.offsets.durable(kept.seq));
    told.map_err(|error| code::of_commit(&error))?;
    durable.map_err(|_| ResponseError::CoordinatorNotAvailable)
}

/// Reports the stored offsets of a commit to the group's failure detector.
fn note_stored(
    router: &Router,
    group: &GroupId,
    request: &OffsetCommitRequest,
    offsets: impl IntoIterator<Item = (TopicName, i32, i64)>,
) {
    if request.member_id.is_empty() {
        // A commit from outside the group is an offset reset: no record was processed.
        router.was_reset(group, offsets);
    } else {
        router.commit_stored(group, offsets);
    }
}

/// The offsets that are stored.
fn stored_in(parts: &[Vec<CommitPart>]) -> impl Iterator<Item = (TopicName, i32, i64)> {
    parts.iter().flatten().filter_map(CommitPart::stored)
}

/// The offsets in a request.
fn offsets(request: &OffsetCommitRequest) -> impl Iterator<Item = (TopicName, i32, i64)> {
    request.topics.iter().flat_map(|topic| {
        let name = topic_of(&topic.name);
        let partitions = topic.partitions.iter();
        partitions.map(move |p| (name.clone(), p.partition_index, p.committed_offset))
    })
}

fn respond(
    request: &OffsetCommitRequest,
    error: impl Fn(usize, usize) -> i16,
) -> OffsetCommitResponse {
    let mut response = OffsetCommitResponse::default();
    for (t, asked) in request.topics.iter().enumerate() {
        let mut topic = OffsetCommitResponseTopic::default();
        topic.name = asked.name.clone();
        for (p, asked) in asked.partitions.iter().enumerate() {
            let mut partition = OffsetCommitResponsePartition::default();
            partition.partition_index = asked.partition_index;
            partition.error_code = error(t, p);
            topic.partitions.push(partition);
        }
        response.topics.push(topic);
    }
    response
}
