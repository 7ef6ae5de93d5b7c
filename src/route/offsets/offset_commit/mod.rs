//! `OffsetCommit` 2–9: committed offsets of a group.
//!
//! The owner of the group stores the offsets, and decides whether the member may commit. Before:
//!
//! 1. Wait for the nacks that the commit passes.
//! 2. Take the nacks out of the metadata, in which a consumer may name failed records
//!    (`marked.rs`).
//! 3. A withheld record is one that ended its consumers and is left out for now. If the commit
//!    passes it, the record becomes a dead letter.
//! 4. Lower an offset to the first record of its partition that is withheld still, or still to be
//!    retried in place (`order.mode: partition`); the client sees success.
//!
//! **Invariant:** a commit waits for the nacks it passes. It goes through the engine's queue behind
//! every earlier nack, and is stored only when those are durable.

mod committer;
mod deadline;
mod marked;
mod storing;

use std::collections::BTreeMap;

use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

use crate::model::{GroupId, MemberId, TopicName};
use crate::route::convert::topic_of;
use crate::route::owner::OwnerCall;
use crate::route::{Router, code};
use crate::upstream::UpstreamError;
use crate::wire::ResponseError;

pub(in crate::route) use committer::{Committer, TransactionProducer, check_here};
pub(in crate::route) use deadline::CommitDeadline;
use marked::RefusedPartitions;
pub(in crate::route) use marked::is_marked;
pub(in crate::route) use storing::{storable, stored_parts};

/// Topic and partition in a request.
pub(in crate::route) type NamedPartition = (TopicName, i32);
/// Topic, partition and offset.
pub(in crate::route) type CommitOffset = (TopicName, i32, i64);

pub(in crate::route) async fn answer(
    mut call: OwnerCall<'_>,
    mut request: OffsetCommitRequest,
) -> Result<OffsetCommitResponse, UpstreamError> {
    let router = call.at.router;
    let committer = Committer::of(call.at, &request);
    let group = &committer.group;
    let deadline = CommitDeadline::of(call.at);
    if let Some(error) = committer.refusal_at_once(&call.owner, &request) {
        return Ok(refuse(router, &committer, &request, error));
    }
    if let Err(late) = deadline.passes_nacks(router, group, offsets(&request)).await {
        // A missing membership wins over the timeout, which would make the client try again.
        return Ok(match committer.refusal(&mut call, &request).await? {
            Some(error) => refuse(router, &committer, &request, error),
            None => respond(&request, |_| late.code()),
        });
    }
    let marked = marked::take_markers(&mut request);
    if !marked.is_empty()
        && let Some(error) = committer.refusal(&mut call, &request).await?
        && error != ResponseError::GroupAuthorizationFailed
    {
        return Ok(refuse(router, &committer, &request, error));
    }
    // A missing right is an error of each marker, with its log line.
    let refused = marked::nack(&mut call, group, &deadline, marked).await?;
    let commit = storable(&call, &request).filter(|(topic, partition, _)| {
        refused.is_empty() || !refused.contains_key(&(topic.clone(), *partition))
    });
    settle_passed(&mut call, &committer, &deadline, &request, commit).await?;
    // Lowers offsets to a record that is withheld, or still to be retried in place.
    router.hold_back(group, &mut request);
    if let Err(late) = deadline.settled(&call, group).await {
        return Ok(respond(&request, |_| late.code()));
    }
    let mut theirs = request.clone();
    leave_out(&mut theirs, &refused);
    // An answer without partitions proves no permission.
    let asks_nothing = theirs.topics.is_empty();
    let (mut codes, mut throttle_time_ms) = (PartitionCodes::new(), 0);
    let refusal = if asks_nothing {
        committer.refusal(&mut call, &request).await?
    } else {
        let response: OffsetCommitResponse = call.ask(&theirs).await?;
        let refusal = match verdict(&response) {
            MemberVerdict::Accepted => None,
            MemberVerdict::Refused(error) => Some(error),
            MemberVerdict::Unknown => committer.refusal(&mut call, &request).await?,
        };
        (codes, throttle_time_ms) = (codes_of(&response), response.throttle_time_ms);
        if call.is_behind() {
            note_stored_behind(router, &deadline, group, &theirs, &mut codes).await;
        }
        report(router, &committer, &theirs, &codes);
        refusal
    };
    match refusal {
        Some(error) => router.metrics.commit_failed(group.as_str(), &code::name(error)),
        None if committer.key.as_str().is_empty() => {}
        None => {
            let (conn, of) = (call.at.conn, (&committer.key, &committer.member_id));
            router.note_alive(conn, group, of);
            router.note_generation(conn, group, of, committer.generation);
        }
    }
    let mut whole = respond(&request, |named| {
        let own = refused.get(named).copied().or(refusal.filter(|_| asks_nothing));
        let code = own.map(|error| error.code()).or_else(|| codes.get(named).copied());
        code.unwrap_or(ResponseError::UnknownServerError.code())
    });
    whole.throttle_time_ms = throttle_time_ms;
    Ok(whole)
}

/// Answers a commit of a member that the owner refuses.
fn refuse(
    router: &Router,
    committer: &Committer<'_>,
    request: &OffsetCommitRequest,
    error: ResponseError,
) -> OffsetCommitResponse {
    report_refusal(router, committer, request, error);
    respond(request, |_| error.code())
}

/// Reports a commit of a member that the owner refuses to the detector.
pub(in crate::route) fn report_refusal(
    router: &Router,
    committer: &Committer<'_>,
    request: &OffsetCommitRequest,
    error: ResponseError,
) {
    router.metrics.commit_failed(committer.group.as_str(), &code::name(error));
    let codes = offsets(request).map(|(topic, partition, _)| ((topic, partition), error.code()));
    report_refused(router, committer, request, &codes.collect());
}

/// Makes the withheld records that the commit passes dead letters, if the owner accepts the member.
/// A withheld record ended its consumers, and is left out for now.
pub(in crate::route) async fn settle_passed(
    call: &mut OwnerCall<'_>,
    committer: &Committer<'_>,
    deadline: &CommitDeadline<'_>,
    request: &OffsetCommitRequest,
    commit: impl Iterator<Item = CommitOffset>,
) -> Result<(), UpstreamError> {
    let (router, group) = (call.at.router, &committer.group);
    let passing = router.passing_withheld(group, commit);
    if !passing.is_empty() && committer.refusal(call, request).await?.is_none() {
        deadline.settle_withheld(router, group, passing).await;
    }
    Ok(())
}

/// Removes the refused partitions, which the owner is not asked about.
fn leave_out(request: &mut OffsetCommitRequest, refused: &RefusedPartitions) {
    for topic in request.topics.iter_mut().filter(|_| !refused.is_empty()) {
        let name = topic_of(&topic.name);
        let is_asked = |partition: i32| !refused.contains_key(&(name.clone(), partition));
        topic.partitions.retain(|asked| is_asked(asked.partition_index));
    }
    request.topics.retain(|topic| !topic.partitions.is_empty());
}

/// The verdict of the owner on the member of a commit.
enum MemberVerdict {
    /// An offset was stored.
    Accepted,
    Refused(ResponseError),
    /// A broker refuses topics before it looks at the member.
    Unknown,
}

fn verdict(response: &OffsetCommitResponse) -> MemberVerdict {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    let mut verdict = MemberVerdict::Unknown;
    for partition in partitions {
        match ResponseError::try_from_code(partition.error_code) {
            None => verdict = MemberVerdict::Accepted,
            Some(error) if is_of_topic(error) => {}
            Some(error) => return MemberVerdict::Refused(error),
        }
    }
    verdict
}

/// Whether an error concerns a topic or partition of a commit, and not its member.
fn is_of_topic(error: ResponseError) -> bool {
    matches!(
        error,
        ResponseError::UnknownTopicOrPartition
            | ResponseError::UnknownTopicId
            | ResponseError::TopicAuthorizationFailed
            | ResponseError::InvalidTopicException
            | ResponseError::OffsetMetadataTooLarge
    )
}

/// Reports the offsets that the cluster has stored to the engine. If the engine fails, the commit
/// is refused although it is stored, and the client repeats it. The embedded cluster reports
/// offsets as it stores them.
async fn note_stored_behind(
    router: &Router,
    deadline: &CommitDeadline<'_>,
    group: &GroupId,
    asked: &OffsetCommitRequest,
    codes: &mut PartitionCodes,
) {
    let is_news = |(topic, partition, offset): &CommitOffset| {
        codes.get(&(topic.clone(), *partition)) == Some(&0)
            && router.positions.differs(group, topic, *partition, *offset)
    };
    let news = offsets(asked).filter(is_news).collect();
    if let Err(error) = deadline.engine(router.note(group, news)).await {
        codes.values_mut().filter(|code| **code == 0).for_each(|code| *code = error.code());
    }
}

/// The error codes in an answer.
pub(in crate::route) type PartitionCodes = BTreeMap<NamedPartition, i16>;

fn codes_of(response: &OffsetCommitResponse) -> PartitionCodes {
    let topics = response.topics.iter().flat_map(|topic| {
        let name = topic_of(&topic.name);
        let partitions = topic.partitions.iter();
        partitions.map(move |p| ((name.clone(), p.partition_index), p.error_code))
    });
    topics.collect()
}

/// Reports the stored and the refused offsets to the group's failure detector.
fn report(
    router: &Router,
    committer: &Committer<'_>,
    asked: &OffsetCommitRequest,
    codes: &PartitionCodes,
) {
    let group = &committer.group;
    let is_stored =
        |(topic, partition, _): &CommitOffset| codes.get(&(topic.clone(), *partition)) == Some(&0);
    let stored: Vec<_> = offsets(asked).filter(is_stored).collect();
    router.transactions.drop_superseded(group, &stored);
    report_stored(router, group, Some(&committer.member_id), stored);
    for topic in &asked.topics {
        let name = topic_of(&topic.name);
        let explained = topic.partitions.iter().filter_map(|asked| {
            let metadata = asked.committed_metadata.as_deref().filter(|text| !text.is_empty())?;
            let offset = (name.clone(), asked.partition_index, asked.committed_offset);
            is_stored(&offset).then_some((&name, offset.1, offset.2, metadata))
        });
        router.report_progress(group, explained);
    }
    report_refused(router, committer, asked, codes);
}

/// Reports the refused offsets to the group's failure detector.
pub(in crate::route) fn report_refused(
    router: &Router,
    committer: &Committer<'_>,
    asked: &OffsetCommitRequest,
    codes: &PartitionCodes,
) {
    let refused = offsets(asked).filter_map(|offset| {
        let code = codes.get(&(offset.0.clone(), offset.1))?;
        Some((offset, ResponseError::try_from_code(*code)?))
    });
    router.commit_refused(&committer.group, (&committer.key, &committer.member_id), refused);
}

/// Reports stored offsets to the group's failure detector; `None`: the member is unknown.
pub(in crate::route) fn report_stored(
    router: &Router,
    group: &GroupId,
    member_id: Option<&MemberId>,
    offsets: Vec<CommitOffset>,
) {
    if member_id.is_some_and(|id| id.as_str().is_empty()) {
        // A commit from outside the group is an offset reset: no record was processed.
        router.was_reset(group, offsets);
    } else {
        router.commit_stored(group, offsets);
    }
}

/// The offsets in a request.
pub(in crate::route) fn offsets(
    request: &OffsetCommitRequest,
) -> impl Iterator<Item = CommitOffset> {
    request.topics.iter().flat_map(|topic| {
        let name = topic_of(&topic.name);
        let partitions = topic.partitions.iter();
        partitions.map(move |p| (name.clone(), p.partition_index, p.committed_offset))
    })
}

fn respond(
    request: &OffsetCommitRequest,
    mut error: impl FnMut(&NamedPartition) -> i16,
) -> OffsetCommitResponse {
    let mut response = OffsetCommitResponse::default();
    for asked in &request.topics {
        let mut topic = OffsetCommitResponseTopic::default();
        topic.name = asked.name.clone();
        let name = topic_of(&asked.name);
        for asked in &asked.partitions {
            let mut partition = OffsetCommitResponsePartition::default();
            partition.partition_index = asked.partition_index;
            partition.error_code = error(&(name.clone(), asked.partition_index));
            topic.partitions.push(partition);
        }
        response.topics.push(topic);
    }
    response
}
