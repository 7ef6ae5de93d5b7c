//! `TxnOffsetCommit` 0–5: offsets that count when the transaction commits (`end_txn.rs`).

use std::collections::BTreeMap;

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    OffsetCommitRequest, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};

use crate::broker::transactions::Joining;
use crate::group::CommitCheck;
use crate::model::{GroupId, MemberId, TopicName};
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, topic_of};
use crate::route::offsets::commit_part::CommitPart;
use crate::route::offsets::offset_commit::{
    CommitDeadline, NamedPartition, RefusedPartitions, commit_result, is_marked, may_commit,
    may_here, part, passes_nacks, storable,
};
use crate::route::transactions::pending_transactions::{CommitRefusal, TransactionCommit};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

/// First version that needs no `AddOffsetsToTxn` before (KIP-890).
const IMPLIED_SINCE: i16 = 5;
/// First version with `TRANSACTION_ABORTABLE` for an invalid state (KIP-890).
const ABORTABLE_SINCE: i16 = 4;

pub(in crate::route) async fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let group = group_of(&request.group_id);
    let refused = |error: ResponseError| {
        router.metrics.commit_failed(group.as_str(), &code::name(error));
        respond(&request, |_| error.code())
    };
    if let Err(error) = may(router, &group, &request) {
        return refused(error);
    }
    let deadline = CommitDeadline::begins(&router.clock);
    // Queued behind every earlier nack: the commit waits for those that it passes.
    let nacks = router.engine.nacks_durable(&group);
    let waited = deadline.bounds(commit_result(nacks)).await;
    // A lost membership wins over any result of the wait.
    if let Err(error) = may(router, &group, &request) {
        return refused(error);
    }
    if let Err(late) = waited {
        return respond(&request, |_| late.code());
    }
    let plain = as_commit(&request);
    if is_marked(&plain) {
        refuse_marked(router, conn, &group);
        return respond(&request, |_| ResponseError::InvalidTxnState.code());
    }
    let none_refused = RefusedPartitions::new();
    let to_store = || storable(router, &plain, &none_refused);
    let passing = router.passing_withheld(&group, to_store());
    deadline.waits(router.settle_withheld(&group, passing)).await;
    if router.passes_awaited(&group, to_store()) {
        return respond(&request, |_| ResponseError::IllegalGeneration.code());
    }
    let mut parts = BTreeMap::new();
    for topic in &plain.topics {
        let name = topic_of(&topic.name);
        let of = |asked| part(router, &name, asked);
        let partitions = topic.partitions.iter();
        parts.extend(partitions.map(|asked| ((name.clone(), asked.partition_index), of(asked))));
    }
    let kept = deadline.bounds(keep(router, head.version, &request, group, &parts)).await;
    let kept = kept.map_or_else(|error| error.code(), |()| 0);
    respond(&request, |named| match parts.get(named) {
        Some(CommitPart::Refuse(error)) => error.code(),
        Some(_) => kept,
        None => ResponseError::UnknownServerError.code(),
    })
}

/// Adds the offsets to the transaction.
async fn keep(
    router: &Router,
    version: i16,
    request: &TxnOffsetCommitRequest,
    group: GroupId,
    parts: &BTreeMap<NamedPartition, CommitPart>,
) -> Result<(), ResponseError> {
    let nowhere = |part: &CommitPart| {
        matches!(part, CommitPart::Refuse(ResponseError::UnknownTopicOrPartition))
    };
    if parts.values().all(nowhere) {
        // No transaction begins for unknown partitions alone, as in Kafka.
        return Ok(());
    }
    let id = request.transactional_id.as_str();
    let by = (request.producer_id.0, request.producer_epoch);
    let implied = version >= IMPLIED_SINCE;
    let of = |error| match code::of_coordinator(&error, false) {
        ResponseError::InvalidTxnState if version >= ABORTABLE_SINCE => {
            ResponseError::TransactionAbortable
        }
        error => error,
    };
    let items = parts.values().filter_map(|part| match part {
        CommitPart::Store(item) => Some(item.clone()),
        CommitPart::Refuse(_) => None,
    });
    let items: Vec<_> = items.collect();
    let has_items = !items.is_empty();
    let joining = Joining { group: Some(group.clone()), items, ..Joining::default() };
    let seq = router.broker.commit_in_transaction(id, by, joining, implied).map_err(of)?;
    if has_items {
        router.broker.groups.keep_simple(&group);
    }
    router.broker.durable(seq).await.map_err(of)
}

/// Whether the producer owns the transaction, and the group lets the member commit.
fn may(
    router: &Router,
    group: &GroupId,
    request: &TxnOffsetCommitRequest,
) -> Result<(), ResponseError> {
    let by = (request.producer_id.0, request.producer_epoch);
    let speaks = router.broker.transactions.speaks(request.transactional_id.as_str(), by);
    speaks.map_err(|error| code::of_coordinator(&error.into(), false))?;
    check_member(router, group, request)
}

/// Whether the group lets this member commit. A request without a member is not checked (before
/// KIP-447).
fn check_member(
    router: &Router,
    group: &GroupId,
    request: &TxnOffsetCommitRequest,
) -> Result<(), ResponseError> {
    if !group.is_legal() {
        return Err(ResponseError::InvalidGroupId);
    }
    let instance_id = request.group_instance_id.as_ref().map(ToString::to_string);
    if request.member_id.is_empty() && request.generation_id < 0 && instance_id.is_none() {
        return Ok(());
    }
    let member_id = MemberId::new(&request.member_id);
    let generation = request.generation_id;
    let (transactional, has_epochs) = (true, true);
    let check = CommitCheck { member_id, instance_id, generation, transactional, has_epochs };
    let named = offsets(request).map(|(topic, partition, _)| (topic, partition));
    may_here(router, group, &check, named).map_err(known_to_producers)
}

/// Maps a stale member epoch to `ILLEGAL_GENERATION`, as in Kafka: producers abort after it. An
/// error that they do not know would end them.
fn known_to_producers(error: ResponseError) -> ResponseError {
    match error {
        ResponseError::StaleMemberEpoch => ResponseError::IllegalGeneration,
        error => error,
    }
}

/// Logs the refusal once for each group.
fn refuse_marked(router: &Router, conn: &Conn, group: &GroupId) {
    if router.markers.warns(group.as_str(), "a commit", "transactional") {
        tracing::warn!(
            %group, client = %conn.client(),
            "R0603 offsets of a transaction cannot carry nacks in their metadata: commit them \
             outside, or produce to the group's retry topic; more of this kind are only counted \
             (reprise_request_errors_total)"
        );
    }
}

/// In front of a cluster: it stores the offsets, and the sidecar notes them until the end of the
/// transaction.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: TxnOffsetCommitRequest,
) -> Result<TxnOffsetCommitResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    let deadline = CommitDeadline::begins(&router.clock);
    let plain = as_commit(&request);
    if let Err(late) = deadline.bounds(passes_nacks(router, &group, offsets(&request))).await {
        // A missing membership wins over the timeout, which would make the client try again.
        let error = may_commit(router, conn, link, head, &plain).await?.unwrap_or(late);
        return Ok(respond(&request, |_| error.code()));
    }
    if is_marked(&plain) {
        refuse_marked(router, conn, &group);
        return Ok(respond(&request, |_| ResponseError::InvalidTxnState.code()));
    }
    let withheld = router.passing_withheld(&group, offsets(&request));
    if withheld.is_empty() && router.passes_awaited(&group, offsets(&request)) {
        return Ok(respond(&request, |_| ResponseError::IllegalGeneration.code()));
    }
    let response: TxnOffsetCommitResponse = link.call(head, &request).await?;
    let code_of = |named: &NamedPartition| {
        let topic = response.topics.iter().find(|topic| topic_of(&topic.name) == named.0);
        let mut partitions = topic.iter().flat_map(|topic| &topic.partitions);
        partitions.find(|p| p.partition_index == named.1).map(|p| p.error_code)
    };
    let member = MemberId::new(&request.member_id);
    let key = router.members.key_of(&group, &member, request.group_instance_id.as_deref());
    let refused = offsets(&request).filter_map(|offset| {
        let code = code_of(&(offset.0.clone(), offset.1))?;
        Some((offset, ResponseError::try_from_code(code)?))
    });
    router.commit_refused(&group, (&key, &member), refused);
    let refusal = response.topics.iter().flat_map(|topic| &topic.partitions);
    let refusal = refusal.map(|p| p.error_code).find(|code| *code != 0);
    if refusal.is_none() {
        // Nothing counts before the transaction commits, and a producer aborts after an error.
        deadline.waits(router.settle_withheld(&group, withheld)).await;
        if router.passes_awaited(&group, offsets(&request)) {
            return Ok(respond(&request, |_| ResponseError::IllegalGeneration.code()));
        }
        if let Err(late) = deadline.bounds(commit_result(router.engine.settled(&group))).await {
            return Ok(respond(&request, |_| late.code()));
        }
    }
    if refusal.is_none() {
        let by = (request.producer_id.0, request.producer_epoch);
        let commit = TransactionCommit { group, offsets: offsets(&request).collect() };
        hold(router, request.transactional_id.as_str(), by, commit).await;
    }
    Ok(response)
}

/// The request as an OffsetCommit.
fn as_commit(request: &TxnOffsetCommitRequest) -> OffsetCommitRequest {
    let mut plain = OffsetCommitRequest::default();
    plain.group_id = request.group_id.clone();
    plain.generation_id_or_member_epoch = request.generation_id;
    plain.member_id = request.member_id.clone();
    plain.group_instance_id.clone_from(&request.group_instance_id);
    for asked in &request.topics {
        let mut topic = OffsetCommitRequestTopic::default();
        topic.name = asked.name.clone();
        for asked in &asked.partitions {
            let mut partition = OffsetCommitRequestPartition::default();
            partition.partition_index = asked.partition_index;
            partition.committed_offset = asked.committed_offset;
            partition.committed_leader_epoch = asked.committed_leader_epoch;
            partition.committed_metadata.clone_from(&asked.committed_metadata);
            topic.partitions.push(partition);
        }
        plain.topics.push(topic);
    }
    plain
}

fn offsets(request: &TxnOffsetCommitRequest) -> impl Iterator<Item = (TopicName, i32, i64)> {
    request.topics.iter().flat_map(|topic| {
        let name = topic_of(&topic.name);
        let partitions = topic.partitions.iter();
        partitions.map(move |p| (name.clone(), p.partition_index, p.committed_offset))
    })
}

/// Notes the offsets until the transaction ends. Offsets that are not noted are known again with
/// the group's next commit or OffsetFetch.
async fn hold(router: &Router, id: &str, by: (i64, i16), commit: TransactionCommit) {
    let held = router.transactions.hold(id, by, router.clock.now().mono, commit);
    router.try_to_tell_ends(id).await;
    if held == Err(CommitRefusal::TooMany) {
        tracing::warn!(
            transactional_id = id,
            "R0605 too many transactions with offsets are open: those of this one are not noted; \
             end the others"
        );
    }
}

fn respond(
    request: &TxnOffsetCommitRequest,
    error: impl Fn(&NamedPartition) -> i16,
) -> TxnOffsetCommitResponse {
    let mut response = TxnOffsetCommitResponse::default();
    for asked in &request.topics {
        let mut topic = TxnOffsetCommitResponseTopic::default();
        topic.name = asked.name.clone();
        let name = topic_of(&asked.name);
        for asked in &asked.partitions {
            let mut partition = TxnOffsetCommitResponsePartition::default();
            partition.partition_index = asked.partition_index;
            partition.error_code = error(&(name.clone(), asked.partition_index));
            topic.partitions.push(partition);
        }
        response.topics.push(topic);
    }
    response
}
