//! `TxnOffsetCommit` 0–5: offsets that count when the transaction commits (`end_txn.rs`).

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
use crate::model::GroupId;
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, topic_of};
use crate::route::offsets::commit_part::CommitPart;
use crate::route::offsets::offset_commit::{
    CommitDeadline, Committer, NamedPartition, PartitionCodes, TransactionProducer, check_here,
    is_marked, offsets, report_refusal, report_refused, settle_passed, storable, stored_parts,
};
use crate::route::owner::{OwnedRequest, OwnerCall, RequestContext};
use crate::route::transactions::pending_transactions::{CommitRefusal, TransactionCommit};
use crate::route::{Router, code};
use crate::upstream::UpstreamError;
use crate::wire::ResponseError;

/// First version that needs no `AddOffsetsToTxn` before (KIP-890).
const IMPLIED_SINCE: i16 = 5;
/// First version with `TRANSACTION_ABORTABLE` for an invalid state (KIP-890).
const ABORTABLE_SINCE: i16 = 4;

pub(in crate::route) async fn answer(
    mut call: OwnerCall<'_>,
    request: TxnOffsetCommitRequest,
) -> Result<TxnOffsetCommitResponse, UpstreamError> {
    let (router, plain) = (call.at.router, as_commit(&request));
    let committer = Committer::of_transaction(call.at, &plain, producer(&request));
    let (group, deadline) = (&committer.group, CommitDeadline::of(call.at));
    if let Some(error) = committer.refusal_at_once(&call.owner, &plain) {
        report_refusal(router, &committer, &plain, error);
        return Ok(respond(&request, |_| error.code()));
    }
    if let Err(late) = deadline.passes_nacks(router, group, offsets(&plain)).await {
        // A missing membership wins over the timeout, which would make the client try again.
        let error = committer.refusal(&mut call, &plain).await?.unwrap_or(late);
        return Ok(respond(&request, |_| error.code()));
    }
    if is_marked(&plain) {
        refuse_marked(router, call.at.conn, group);
        return Ok(respond(&request, |_| ResponseError::InvalidTxnState.code()));
    }
    // Only the embedded cluster tells beforehand whether the producer is fenced.
    let settles_first =
        !call.is_behind() || router.passing_withheld(group, offsets(&plain)).is_empty();
    if settles_first && let Some(error) = settle(&mut call, &committer, &deadline, &plain).await? {
        return Ok(respond(&request, |_| error.code()));
    }
    let response: TxnOffsetCommitResponse = call.ask(&request).await?;
    let codes = codes_of(&response);
    report_refused(router, &committer, &plain, &codes);
    if let Some(error) = codes.values().find_map(|code| ResponseError::try_from_code(*code)) {
        router.metrics.commit_failed(group.as_str(), &code::name(error));
        return Ok(response);
    }
    // Nothing counts before the transaction commits, and a producer aborts after an error.
    if !settles_first && let Some(error) = settle(&mut call, &committer, &deadline, &plain).await? {
        return Ok(respond(&request, |_| error.code()));
    }
    // The embedded cluster tells the offsets at the end of the transaction.
    if call.is_behind() {
        let (id, by) = producer(&request);
        let offsets = offsets(&plain).collect();
        hold(router, &id, by, TransactionCommit { group: group.clone(), offsets }).await;
    }
    Ok(response)
}

/// Settles the withheld records that the commit passes. Returns the error of a commit that passes a
/// record which its partition waits for, or one that is not durable in time.
async fn settle(
    call: &mut OwnerCall<'_>,
    committer: &Committer<'_>,
    deadline: &CommitDeadline<'_>,
    plain: &OffsetCommitRequest,
) -> Result<Option<ResponseError>, UpstreamError> {
    let (router, group) = (call.at.router, &committer.group);
    let commit = storable(call, plain);
    settle_passed(call, committer, deadline, plain, commit).await?;
    if router.passes_awaited(group, storable(call, plain)) {
        return Ok(Some(ResponseError::IllegalGeneration));
    }
    Ok(deadline.settled(call, group).await.err())
}

impl OwnedRequest for TxnOffsetCommitRequest {
    /// Adds the offsets to the transaction.
    async fn answered_here(&self, at: RequestContext<'_>) -> TxnOffsetCommitResponse {
        let plain = as_commit(self);
        let by = producer(self);
        if let Err(error) = check_here(at, &plain, Some(&by)) {
            return respond(self, |_| error.code());
        }
        let parts = stored_parts(at.router, &plain);
        let group = group_of(&self.group_id);
        let keeping = keep(at, by, &group, &parts);
        let kept = CommitDeadline::of(at).bounds(keeping).await;
        let mut parts = parts.iter();
        respond(self, |_| parts.next().map_or(0, |part| part.code(kept)))
    }
}

async fn keep(
    at: RequestContext<'_>,
    (id, by): TransactionProducer,
    group: &GroupId,
    parts: &[CommitPart],
) -> Result<(), ResponseError> {
    let nowhere = |part: &CommitPart| {
        matches!(part, CommitPart::Refuse(ResponseError::UnknownTopicOrPartition))
    };
    if parts.iter().all(nowhere) {
        // No transaction begins for unknown partitions alone, as in Kafka.
        return Ok(());
    }
    let (broker, version) = (&at.router.broker, at.head.version);
    let implied = version >= IMPLIED_SINCE;
    let of = |error| match code::of_coordinator(&error, false) {
        ResponseError::InvalidTxnState if version >= ABORTABLE_SINCE => {
            ResponseError::TransactionAbortable
        }
        error => error,
    };
    let items: Vec<_> = parts.iter().filter_map(CommitPart::item).cloned().collect();
    let has_items = !items.is_empty();
    let joining = Joining { group: Some(group.clone()), items, ..Joining::default() };
    let seq = broker.commit_in_transaction(&id, by, joining, implied).map_err(of)?;
    if has_items {
        broker.groups.keep_simple(group);
    }
    broker.durable(seq).await.map_err(of)
}

fn producer(request: &TxnOffsetCommitRequest) -> TransactionProducer {
    let by = (request.producer_id.0, request.producer_epoch);
    (request.transactional_id.to_string(), by)
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

fn codes_of(response: &TxnOffsetCommitResponse) -> PartitionCodes {
    let topics = response.topics.iter().flat_map(|topic| {
        let name = topic_of(&topic.name);
        let partitions = topic.partitions.iter();
        partitions.map(move |p| ((name.clone(), p.partition_index), p.error_code))
    });
    topics.collect()
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
    mut error: impl FnMut(&NamedPartition) -> i16,
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
