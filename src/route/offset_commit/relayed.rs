//! OffsetCommit in front of a cluster: ordinary offsets are the cluster's, and its coordinator says
//! whether the member may commit at all.

use std::collections::BTreeMap;

use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    HeartbeatRequest, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
};

use crate::engine::EngineError;
use crate::model::{GroupId, MemberId, TopicName};
use crate::route::conn::Conn;
use crate::route::convert::{group_of, topic_of};
use crate::route::offset_commit::marked::{self, Refused};
use crate::route::offset_commit::{
    Part, Patience, lane_part, offsets, part, refusal, resets, respond, store,
};
use crate::route::{Router, code};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead, ResponseError};

/// The first Heartbeat that names the instance (KIP-345).
const STATIC_MEMBERS_SINCE: i16 = 3;
/// The first OffsetCommit and OffsetFetch that name a member's epoch (KIP-848).
const EPOCHS_SINCE: i16 = 9;
/// The first TxnOffsetCommit that only brokers have which serve those.
const TXN_EPOCHS_SINCE: i16 = 5;

/// A partition as a request names it.
pub(in crate::route) type Named = (TopicName, i32);

pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    mut request: OffsetCommitRequest,
) -> Result<OffsetCommitResponse, UpstreamError> {
    let group = group_of(&request.group_id);
    let patience = Patience::begins(&router.clock);
    if let Err(late) = patience.bounds(passes_nacks(router, &group, offsets(&request))).await {
        // Who may not commit at all is told that, not to try again.
        let error = may_commit(router, conn, link, head, &request).await?.unwrap_or(late);
        return Ok(respond(&request, |_, _| error.code()));
    }
    let marked = marked::taken_off(&mut request);
    let refused = marked::relayed(router, conn, (link, head), &group, &patience, marked).await?;
    router.settle_withheld(&group, &request).await;
    router.hold_back(&group, &mut request);
    if let Err(late) = patience.bounds(noted(router.engine.settled(&group))).await {
        return Ok(respond(&request, |_, _| late.code()));
    }
    let mut ours = own_parts(router, &group, &request);
    let mut theirs = request.clone();
    theirs.topics.retain(|topic| !is_ours(router, &topic_of(&topic.name)));
    without(&mut theirs, &mut ours, &refused);
    // A topic without partitions would be answered by nothing, which is no permission.
    let asks_nothing = theirs.topics.iter().all(|topic| topic.partitions.is_empty());
    let member = MemberId::new(&request.member_id);
    let instance_id = request.group_instance_id.as_deref();
    let key = router.members.key_of(&group, &member, instance_id);
    let (response, refusal) = if asks_nothing {
        let refusal = may_commit(router, conn, link, head, &request).await?;
        (OffsetCommitResponse::default(), refusal)
    } else {
        let resets = resets(router, &group, &theirs, offsets(&theirs));
        let mut response = link.call(head, &theirs).await?;
        let refusal = first_error(&response);
        stored(router, &patience, &group, &theirs, &mut response).await;
        if resets.is_empty() || refusal.is_some() {
            tell_watch(router, &group, &key, &theirs, &response);
        } else {
            // Nobody's member: no record was handled.
            router.was_reset(&group, resets);
        }
        (response, refusal)
    };
    match refusal {
        Some(error) => router.metrics.commit_failed(group.as_str(), &code::name(error)),
        None if member.as_str().is_empty() => {}
        None => {
            router.heard_of(conn, &group, (&key, &member));
            let generation = request.generation_id_or_member_epoch;
            router.goes_on_with(conn, &group, (&key, &member), generation);
        }
    }
    // Offsets of dead letters are kept here: nothing of ours appears in the cluster.
    let (lane, kept) = match refusal {
        Some(error) => (Err(error), Err(error)),
        // Nobody but a member is ever handed anything there.
        None if request.member_id.is_empty() => (
            Err(ResponseError::UnknownMemberId),
            patience.bounds(store(router, &group, ours.values(), || Ok(()))).await,
        ),
        None => (
            patience.bounds(lane_part(router, &group, ours.values())).await,
            patience.bounds(store(router, &group, ours.values(), || Ok(()))).await,
        ),
    };
    Ok(merge(&request, &response, |named| ours.get(named).map(|part| part.code(lane, kept))))
}

pub(in crate::route) fn is_ours(router: &Router, topic: &TopicName) -> bool {
    router.is_own(&router.names.canonical(topic))
}

/// What the request says of topics of ours.
pub(in crate::route) fn own_parts(
    router: &Router,
    group: &GroupId,
    request: &OffsetCommitRequest,
) -> BTreeMap<Named, Part> {
    let mut ours = BTreeMap::new();
    for topic in &request.topics {
        let name = topic_of(&topic.name);
        if is_ours(router, &name) {
            let part = |asked| part(router, group, &name, asked);
            let parts = topic.partitions.iter();
            ours.extend(parts.map(|asked| ((name.clone(), asked.partition_index), part(asked))));
        }
    }
    ours
}

/// What is refused for its metadata is neither stored here nor sent on.
fn without(theirs: &mut OffsetCommitRequest, ours: &mut BTreeMap<Named, Part>, refused: &Refused) {
    if refused.is_empty() {
        return;
    }
    for topic in &mut theirs.topics {
        let name = topic_of(&topic.name);
        topic.partitions.retain(|asked| refusal(refused, &name, asked).is_none());
    }
    theirs.topics.retain(|topic| !topic.partitions.is_empty());
    ours.extend(refused.iter().map(|(named, error)| (named.clone(), Part::Refuse(*error))));
}

fn first_error(response: &OffsetCommitResponse) -> Option<ResponseError> {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    let mut errors = partitions.map(|p| ResponseError::try_from_code(p.error_code));
    errors.find_map(|error| error)
}

/// Nothing of the commit is the cluster's: whether the member is still one is asked by a heartbeat,
/// which tells its coordinator nothing else. A member by KIP-848 has no such heartbeat: in its name
/// no offsets are asked for. Who commits without a membership needs READ.
pub(in crate::route) async fn may_commit(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: &OffsetCommitRequest,
) -> Result<Option<ResponseError>, UpstreamError> {
    let (group, member) = (group_of(&request.group_id), MemberId::new(&request.member_id));
    if request.member_id.is_empty() {
        if conn.may_read(&group).is_none() {
            router.ask_rights(conn, link, head, [group.clone()].into()).await?;
        }
        let denied = conn.may_read(&group) != Some(true);
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
        // A commit is taken while the group rebalances, as long as the generation is the member's.
        Some(ResponseError::RebalanceInProgress) => Ok(None),
        // After a restart of ours nothing is known of it yet. Only a group by KIP-848 minds an
        // epoch that cannot be.
        Some(ResponseError::UnknownMemberId | ResponseError::GroupIdNotFound)
            if knows_epochs(head)
                && fetch_refusal(link, head, request, i32::MAX).await?.is_some() =>
        {
            fetch_refusal(link, head, request, epoch).await
        }
        refusal => Ok(refusal),
    }
}

/// Whether the broker that serves this request has heard of members' epochs.
fn knows_epochs(head: &RequestHead) -> bool {
    match head.api {
        Api::TxnOffsetCommit => head.version >= TXN_EPOCHS_SINCE,
        _ => head.version >= EPOCHS_SINCE,
    }
}

/// Why a member in that epoch may not read the group's offsets; `None`: it may.
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

/// What the cluster has stored is what the group has committed. A commit the engine could not note
/// is refused although it is stored: the client repeats it.
async fn stored(
    router: &Router,
    patience: &Patience<'_>,
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
            if is_stored && router.positions.is_news(group, &name, index, offset) {
                news.push((name.clone(), index, offset));
            }
        }
    }
    let noted = patience.bounds(noted(router.note(group, news))).await;
    if let Err(error) = noted {
        for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            if partition.error_code == 0 {
                partition.error_code = error.code();
            }
        }
    }
}

/// The detector hears what the cluster has stored and what it refuses.
fn tell_watch(
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
    router.transactions.overtake(group, &stored);
    router.commit_stored(group, stored);
    for topic in &asked.topics {
        let name = topic_of(&topic.name);
        let explained = topic.partitions.iter().filter_map(|asked| {
            let metadata = asked.committed_metadata.as_deref().filter(|text| !text.is_empty())?;
            let offset = (name.clone(), asked.partition_index, asked.committed_offset);
            (code(&offset) == Some(0)).then_some((&name, offset.1, offset.2, metadata))
        });
        router.commit_explained(group, explained);
    }
    let refused = offsets(asked).filter_map(|offset| {
        let error = ResponseError::try_from_code(code(&offset)?)?;
        Some((offset, error))
    });
    router.commit_refused(group, (key, &MemberId::new(&asked.member_id)), refused);
}

/// Waits for every nack that has come before a commit: those whose records are read back, then
/// those in the engine's queue.
pub(in crate::route) async fn passes_nacks(
    router: &Router,
    group: &GroupId,
    commit: impl Iterator<Item = (TopicName, i32, i64)>,
) -> Result<(), ResponseError> {
    let reading = router.origins.reading();
    if !reading.is_idle() {
        let commit: Vec<_> = router.real(commit).collect();
        reading.passed_by(group, &commit).await;
    }
    noted(router.engine.origin_commits(group, Vec::new())).await
}

pub(in crate::route) async fn noted(
    noting: impl Future<Output = Result<(), EngineError>>,
) -> Result<(), ResponseError> {
    noting.await.map_err(|error| code::of_commit(&error))
}

/// Everything that was asked, in its order, whoever answered it.
fn merge(
    request: &OffsetCommitRequest,
    response: &OffsetCommitResponse,
    ours: impl Fn(&Named) -> Option<i16>,
) -> OffsetCommitResponse {
    let mut theirs = BTreeMap::new();
    for topic in &response.topics {
        let name = topic_of(&topic.name);
        let answers = topic.partitions.iter();
        theirs.extend(answers.map(|p| ((name.clone(), p.partition_index), p.error_code)));
    }
    let code = |named: &Named| {
        let forgotten = ResponseError::UnknownServerError.code();
        ours(named).or_else(|| theirs.get(named).copied()).unwrap_or(forgotten)
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
