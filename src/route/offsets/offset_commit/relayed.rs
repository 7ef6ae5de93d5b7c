//! `OffsetCommit` in front of a cluster: the cluster stores the offsets, and its coordinator
//! decides whether the member may commit. An error of one topic refuses no member.

use std::collections::BTreeMap;

use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    HeartbeatRequest, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
};

use crate::engine::EngineError;
use crate::model::{GroupId, MemberId, TopicName};
use crate::route::clients::conn::Conn;
use crate::route::convert::{group_of, topic_of};
use crate::route::offsets::offset_commit::marked::{self, RefusedPartitions};
use crate::route::offsets::offset_commit::{
    CommitDeadline, note_stored, offsets, refusal, respond, unrefused,
};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead, ResponseError};

/// The first Heartbeat version with an instance id (KIP-345).
const STATIC_MEMBERS_SINCE: i16 = 3;
/// The first OffsetCommit and OffsetFetch version with a member epoch (KIP-848).
const EPOCHS_SINCE: i16 = 9;
/// The first TxnOffsetCommit version that only brokers with member epochs serve.
const TXN_EPOCHS_SINCE: i16 = 5;

/// Topic and partition in a request.
pub(in crate::route) type NamedPartition = (TopicName, i32);

pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    mut request: OffsetCommitRequest,
) -> Result<OffsetCommitResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    let deadline = CommitDeadline::begins(&router.clock);
    if let Err(late) = deadline.bounds(passes_nacks(router, &group, offsets(&request))).await {
        // A missing membership wins over the timeout, which would make the client try again.
        let error = may_commit(router, conn, link, head, &request).await?.unwrap_or(late);
        return Ok(respond(&request, |_, _| error.code()));
    }
    let marked = marked::take_markers(&mut request);
    if !marked.is_empty()
        && let Some(error) = may_commit(router, conn, link, head, &request).await?
        && error != ResponseError::GroupAuthorizationFailed
    {
        return Ok(refuse(router, &group, &request, error));
    }
    // A missing right is an error of each marker, with its log line.
    let refused =
        marked::nack_relayed(router, conn, (link, head), &group, &deadline, marked).await?;
    let commit = unrefused(&request, &refused);
    settle_passed(router, conn, (&mut *link, head), &deadline, &request, commit).await?;
    // Lowers offsets to a record that is withheld, or still to be retried in place.
    router.hold_back(&group, &mut request);
    if let Err(late) = deadline.bounds(commit_result(router.engine.settled(&group))).await {
        return Ok(respond(&request, |_, _| late.code()));
    }
    let mut theirs = request.clone();
    leave_out(&mut theirs, &refused);
    // The cluster answers a request without partitions with nothing, which proves no permission.
    let asks_nothing = theirs.topics.is_empty();
    let member = MemberId::new(&request.member_id);
    let instance_id = request.group_instance_id.as_deref();
    let key = router.members.key_of(&group, &member, instance_id);
    let (response, refusal) = if asks_nothing {
        let refusal = may_commit(router, conn, link, head, &request).await?;
        (OffsetCommitResponse::default(), refusal)
    } else {
        let mut response = link.call(head, &theirs).await?;
        let refusal = match verdict(&response) {
            MemberVerdict::Accepted => None,
            MemberVerdict::Refused(error) => Some(error),
            MemberVerdict::Unknown => may_commit(router, conn, link, head, &request).await?,
        };
        stored(router, &deadline, &group, &theirs, &mut response).await;
        report_to_detector(router, &group, &key, &theirs, &response);
        (response, refusal)
    };
    match refusal {
        Some(error) => router.metrics.commit_failed(group.as_str(), &code::name(error)),
        None if member.as_str().is_empty() => {}
        None => {
            router.note_alive(conn, &group, (&key, &member));
            let generation = request.generation_id_or_member_epoch;
            router.note_generation(conn, &group, (&key, &member), generation);
        }
    }
    let code = |named: &NamedPartition| {
        let own = refused.get(named).copied().or(refusal.filter(|_| asks_nothing));
        own.map(|error| error.code())
    };
    Ok(merge(&request, &response, code))
}

/// Answers a commit of a member that the cluster refuses, and reports it to the detector.
fn refuse(
    router: &Router,
    group: &GroupId,
    request: &OffsetCommitRequest,
    error: ResponseError,
) -> OffsetCommitResponse {
    router.metrics.commit_failed(group.as_str(), &code::name(error));
    let member = MemberId::new(&request.member_id);
    let key = router.members.key_of(group, &member, request.group_instance_id.as_deref());
    let refused = offsets(request).map(|offset| (offset, error));
    router.commit_refused(group, (&key, &member), refused);
    respond(request, |_, _| error.code())
}

/// Makes the withheld records that the commit passes dead letters, if the cluster accepts the
/// member. A withheld record ended its consumers, and is left out for now.
async fn settle_passed(
    router: &Router,
    conn: &Conn,
    (link, head): (&mut Link, &RequestHead),
    deadline: &CommitDeadline<'_>,
    request: &OffsetCommitRequest,
    commit: impl Iterator<Item = (TopicName, i32, i64)>,
) -> Result<(), UpstreamError> {
    let group = group_of(&request.group_id);
    let passing = router.passing_withheld(&group, commit);
    if !passing.is_empty() && may_commit(router, conn, link, head, request).await?.is_none() {
        deadline.waits(router.settle_withheld(&group, passing)).await;
    }
    Ok(())
}

/// Removes the refused partitions, so that they are not relayed.
fn leave_out(request: &mut OffsetCommitRequest, refused: &RefusedPartitions) {
    for topic in request.topics.iter_mut().filter(|_| !refused.is_empty()) {
        let name = topic_of(&topic.name);
        topic.partitions.retain(|asked| refusal(refused, &name, asked.partition_index).is_none());
    }
    request.topics.retain(|topic| !topic.partitions.is_empty());
}

/// The verdict of the cluster on the member of a commit.
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

/// Asks the coordinator about a commit of which nothing is relayed. A heartbeat checks the member
/// of a classic group and changes nothing else. A KIP-848 member has no such heartbeat: an
/// OffsetFetch of no topics in its name checks its epoch. A client without a membership needs READ.
pub(in crate::route) async fn may_commit(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: &OffsetCommitRequest,
) -> Result<Option<ResponseError>, UpstreamError> {
    let (group, member) = (group_of(&request.group_id), MemberId::new(&request.member_id));
    if request.member_id.is_empty() {
        let denied = !router.may_read(conn, (&mut *link, head), &group).await?;
        return Ok(denied.then_some(ResponseError::GroupAuthorizationFailed));
    }
    let epoch = request.generation_id_or_member_epoch;
    let key = router.members.key_of(&group, &member, request.group_instance_id.as_deref());
    if router.members.has_epoch(&group, &key) {
        return fetch_refusal(link, head, request, epoch).await;
    }
    let mut beat = HeartbeatRequest::default();
    beat.group_id = request.group_id.clone();
    beat.generation_id = epoch;
    beat.member_id = request.member_id.clone();
    beat.group_instance_id = request.group_instance_id.clone();
    let version = if beat.group_instance_id.is_some() { STATIC_MEMBERS_SINCE } else { 0 };
    let answer = link.call_at(Api::Heartbeat, version, head, &beat).await?;
    let refusal = ResponseError::try_from_code(answer.error_code);
    match refusal {
        // The coordinator accepts commits of the current generation during a rebalance.
        Some(ResponseError::RebalanceInProgress) => Ok(None),
        // After a restart the sidecar does not know the group's protocol. Only a KIP-848 group
        // refuses an impossible epoch.
        Some(ResponseError::UnknownMemberId | ResponseError::GroupIdNotFound)
            if knows_epochs(head)
                && fetch_refusal(link, head, request, i32::MAX).await?.is_some() =>
        {
            fetch_refusal(link, head, request, epoch).await
        }
        refusal => Ok(refusal),
    }
}

/// Whether the broker of this request supports member epochs.
fn knows_epochs(head: &RequestHead) -> bool {
    match head.api {
        Api::TxnOffsetCommit => head.version >= TXN_EPOCHS_SINCE,
        _ => head.version >= EPOCHS_SINCE,
    }
}

/// The error of an OffsetFetch in that member epoch; `None`: the member may read the offsets.
async fn fetch_refusal(
    link: &mut Link,
    head: &RequestHead,
    request: &OffsetCommitRequest,
    epoch: i32,
) -> Result<Option<ResponseError>, UpstreamError> {
    let mut asked = OffsetFetchRequestGroup::default();
    asked.group_id = request.group_id.clone();
    asked.member_id = Some(request.member_id.clone());
    asked.member_epoch = epoch;
    asked.topics = Some(Vec::new());
    let fetch = OffsetFetchRequest::default().with_groups(vec![asked]);
    let answer = link.call_at(Api::OffsetFetch, EPOCHS_SINCE, head, &fetch).await?;
    let code = answer.groups.first().map_or(0, |group| group.error_code);
    Ok(ResponseError::try_from_code(code))
}

/// Records the offsets that the cluster has stored. If the engine fails, the commit is refused
/// although it is stored, and the client repeats it.
async fn stored(
    router: &Router,
    deadline: &CommitDeadline<'_>,
    group: &GroupId,
    asked: &OffsetCommitRequest,
    response: &mut OffsetCommitResponse,
) {
    let mut news = Vec::new();
    for topic in &asked.topics {
        let name = topic_of(&topic.name);
        let answers = response.topics.iter().filter(|answer| answer.name == topic.name);
        let answers: Vec<_> = answers.flat_map(|answer| &answer.partitions).collect();
        for partition in &topic.partitions {
            let (index, offset) = (partition.partition_index, partition.committed_offset);
            let mut answer = answers.iter().filter(|answer| answer.partition_index == index);
            let is_stored = answer.next().is_some_and(|answer| answer.error_code == 0);
            if is_stored && router.positions.differs(group, &name, index, offset) {
                news.push((name.clone(), index, offset));
            }
        }
    }
    let noted = deadline.bounds(commit_result(router.note(group, news))).await;
    if let Err(error) = noted {
        for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            if partition.error_code == 0 {
                partition.error_code = error.code();
            }
        }
    }
}

/// Reports the stored and the refused offsets to the group's failure detector.
fn report_to_detector(
    router: &Router,
    group: &GroupId,
    key: &MemberId,
    asked: &OffsetCommitRequest,
    response: &OffsetCommitResponse,
) {
    let mut codes = BTreeMap::new();
    for topic in &response.topics {
        let name = topic_of(&topic.name);
        let answers = topic.partitions.iter();
        codes.extend(answers.map(|p| ((name.clone(), p.partition_index), p.error_code)));
    }
    let code = |offset: &(TopicName, i32, i64)| codes.get(&(offset.0.clone(), offset.1)).copied();
    let stored: Vec<_> = offsets(asked).filter(|offset| code(offset) == Some(0)).collect();
    router.transactions.drop_superseded(group, &stored);
    note_stored(router, group, asked, stored);
    for topic in &asked.topics {
        let name = topic_of(&topic.name);
        let explained = topic.partitions.iter().filter_map(|asked| {
            let metadata = asked.committed_metadata.as_deref().filter(|text| !text.is_empty())?;
            let offset = (name.clone(), asked.partition_index, asked.committed_offset);
            (code(&offset) == Some(0)).then_some((&name, offset.1, offset.2, metadata))
        });
        router.report_progress(group, explained);
    }
    let refused = offsets(asked).filter_map(|offset| {
        let error = ResponseError::try_from_code(code(&offset)?)?;
        Some((offset, error))
    });
    router.commit_refused(group, (key, &MemberId::new(&asked.member_id)), refused);
}

/// Waits for every nack before the commit: first for nacks whose records are read back from the
/// cluster, then for those in the engine's queue.
pub(in crate::route) async fn passes_nacks(
    router: &Router,
    group: &GroupId,
    commit: impl Iterator<Item = (TopicName, i32, i64)>,
) -> Result<(), ResponseError> {
    let reading = router.origins.reading();
    if !reading.is_idle() {
        let commit: Vec<_> = router.origin_offsets(commit).collect();
        reading.passed_by(group, &commit).await;
    }
    commit_result(router.engine.nacks_durable(group)).await
}

/// Waits for the engine, and maps its error to the error of a commit.
pub(in crate::route) async fn commit_result(
    answer: impl Future<Output = Result<(), EngineError>>,
) -> Result<(), ResponseError> {
    answer.await.map_err(|error| code::of_commit(&error))
}

/// The answer for all requested partitions, in the order of the request.
fn merge(
    request: &OffsetCommitRequest,
    response: &OffsetCommitResponse,
    refused: impl Fn(&NamedPartition) -> Option<i16>,
) -> OffsetCommitResponse {
    let mut theirs = BTreeMap::new();
    for topic in &response.topics {
        let name = topic_of(&topic.name);
        let answers = topic.partitions.iter();
        theirs.extend(answers.map(|p| ((name.clone(), p.partition_index), p.error_code)));
    }
    let code = |named: &NamedPartition| {
        let forgotten = ResponseError::UnknownServerError.code();
        refused(named).or_else(|| theirs.get(named).copied()).unwrap_or(forgotten)
    };
    let mut whole = respond(request, |topic, partition| {
        let topic = request.topics.get(topic);
        let index = topic.and_then(|topic| topic.partitions.get(partition));
        let named = topic.zip(index).map(|(t, p)| (topic_of(&t.name), p.partition_index));
        named.map_or(0, |named| code(&named))
    });
    whole.throttle_time_ms = response.throttle_time_ms;
    whole
}
