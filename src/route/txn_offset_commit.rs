//! TxnOffsetCommit 0–5, in front of a cluster: offsets of our topics are held here until the
//! transaction ends (`end_txn.rs`), all others are the cluster's.

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    OffsetCommitRequest, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};

use crate::model::MemberId;
use crate::route::conn::Conn;
use crate::route::convert::{group_of, topic_of};
use crate::route::offset_commit::{
    Named, Part, Patience, is_marked, is_ours, may_commit, noted, own_parts,
};
use crate::route::transactions::Commit;
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{RequestHead, ResponseError};

pub(super) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: TxnOffsetCommitRequest,
) -> Result<TxnOffsetCommitResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    let patience = Patience::begins(&router.clock);
    // Behind every nack that came before: a commit that passes one is not let through earlier.
    let nacks = router.engine.origin_commits(&group, Vec::new());
    if let Err(error) = patience.bounds(noted(nacks)).await {
        return Ok(respond(&request, |_| error.code()));
    }
    let plain = as_commit(&request);
    if is_marked(&plain) {
        tracing::warn!(
            %group, client = %conn.client(),
            "offsets of a transaction cannot say in their metadata what failed: commit them \
             outside, or produce to the group's retry topic"
        );
        return Ok(respond(&request, |_| ResponseError::InvalidTxnState.code()));
    }
    let ours = own_parts(router, &group, &plain);
    let mut theirs = request.clone();
    theirs.topics.retain(|topic| !is_ours(router, &topic_of(&topic.name)));
    let asks_nothing = theirs.topics.iter().all(|topic| topic.partitions.is_empty());
    let response = if asks_nothing && !ours.is_empty() {
        if let Some(error) = may_commit(router, conn, link, head, &plain).await? {
            return Ok(respond(&request, |_| error.code()));
        }
        TxnOffsetCommitResponse::default()
    } else {
        link.call(head, &theirs).await?
    };
    let code_of = |named: &Named| {
        let topic = response.topics.iter().find(|topic| topic_of(&topic.name) == named.0);
        let mut partitions = topic.iter().flat_map(|topic| &topic.partitions);
        partitions.find(|p| p.partition_index == named.1).map(|p| p.error_code)
    };
    let member = MemberId::new(&request.member_id);
    let key = router.members.name_of(&group, &member, request.group_instance_id.as_deref());
    let refused = offsets(&theirs).into_iter().filter_map(|offset| {
        let code = code_of(&(offset.0.clone(), offset.1))?;
        Some((offset, ResponseError::try_from_code(code)?))
    });
    router.commit_refused(&group, (&key, &member), refused);
    let refusal = response.topics.iter().flat_map(|topic| &topic.partitions);
    let refusal = refusal.map(|p| p.error_code).find(|code| *code != 0);
    let kept = if let Some(error) = refusal {
        error
    } else {
        let by = (request.producer_id.0, request.producer_epoch);
        let theirs = offsets(&theirs);
        let commit = Commit { group, ours: ours.clone(), theirs };
        let done = hold(router, request.transactional_id.as_str(), by, commit);
        patience.bounds(done).await.map_or_else(|error| error.code(), |()| 0)
    };
    Ok(respond(&request, |named| match ours.get(named) {
        Some(Part::Refuse(error)) => error.code(),
        Some(_) => kept,
        None => code_of(named).unwrap_or(ResponseError::UnknownServerError.code()),
    }))
}

/// The same commit outside a transaction.
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

fn offsets(request: &TxnOffsetCommitRequest) -> Vec<(crate::model::TopicName, i32, i64)> {
    let mut offsets = Vec::new();
    for topic in &request.topics {
        let name = topic_of(&topic.name);
        let partitions = topic.partitions.iter();
        offsets.extend(partitions.map(|p| (name.clone(), p.partition_index, p.committed_offset)));
    }
    offsets
}

async fn hold(
    router: &Router,
    id: &str,
    by: (i64, i16),
    commit: Commit,
) -> Result<(), ResponseError> {
    for part in commit.ours.values() {
        if let Part::Lane(up_to) = part {
            let may = router.engine.may_commit_lane(&commit.group, *up_to).await;
            may.map_err(|error| code::of_commit(&error))?;
        }
    }
    let (taken, over) = router.transactions.hold(id, by, router.clock.now().mono, commit);
    if let Some(over) = over {
        over.abort(router);
    }
    if taken {
        return Ok(());
    }
    tracing::warn!(id, "too many transactions with offsets of retry topics are open at once");
    Err(ResponseError::CoordinatorNotAvailable)
}

fn respond(
    request: &TxnOffsetCommitRequest,
    error: impl Fn(&Named) -> i16,
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
