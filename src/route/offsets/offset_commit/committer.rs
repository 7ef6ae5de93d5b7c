//! The member or client that commits offsets, and whether the owner of its group lets it.

use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{HeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest};

use crate::group::{CommitCheck, GroupError};
use crate::model::{GroupId, MemberId};
use crate::route::code;
use crate::route::convert::group_of;
use crate::route::offsets::commit_part::PartitionResult;
use crate::route::offsets::offset_commit::offsets;
use crate::route::owner::{GroupOwner, OwnerCall, RequestContext};
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead, ResponseError};

/// The first Heartbeat version with an instance id (KIP-345).
const STATIC_MEMBERS_SINCE: i16 = 3;
/// The first OffsetCommit and OffsetFetch version with a member epoch (KIP-848).
const EPOCHS_SINCE: i16 = 9;
/// The first TxnOffsetCommit version that only brokers with member epochs serve.
const TXN_EPOCHS_SINCE: i16 = 5;

/// Transactional id, and the id and epoch of its producer.
pub(in crate::route) type TransactionProducer = (String, (i64, i16));

/// The committer of an OffsetCommit or TxnOffsetCommit.
pub(in crate::route) struct Committer<'a> {
    at: RequestContext<'a>,
    pub(in crate::route) group: GroupId,
    /// The member's `member_key`.
    pub(in crate::route) key: MemberId,
    pub(in crate::route) member_id: MemberId,
    pub(in crate::route) generation: i32,
    transaction: Option<TransactionProducer>,
}

impl<'a> Committer<'a> {
    pub(in crate::route) fn of(at: RequestContext<'a>, request: &OffsetCommitRequest) -> Self {
        let (group, member_id) = (group_of(&request.group_id), MemberId::new(&request.member_id));
        let key = at.router.key_of(&group, &member_id, request.group_instance_id.as_deref());
        let generation = request.generation_id_or_member_epoch;
        Self { at, group, key, member_id, generation, transaction: None }
    }

    pub(in crate::route) fn of_transaction(
        at: RequestContext<'a>,
        request: &OffsetCommitRequest,
        transaction: TransactionProducer,
    ) -> Self {
        Self { transaction: Some(transaction), ..Self::of(at, request) }
    }

    /// A refusal by the embedded cluster, which is asked before any wait.
    pub(in crate::route) fn refusal_at_once(
        &self,
        owner: &GroupOwner<'_>,
        request: &OffsetCommitRequest,
    ) -> Option<ResponseError> {
        match owner {
            GroupOwner::Node => check_here(self.at, request, self.transaction.as_ref()).err(),
            GroupOwner::Cluster(_) => None,
        }
    }

    /// The error with which the owner of the group refuses commits of this member.
    pub(in crate::route) async fn refusal(
        &self,
        call: &mut OwnerCall<'_>,
        request: &OffsetCommitRequest,
    ) -> Result<Option<ResponseError>, UpstreamError> {
        match &mut call.owner {
            GroupOwner::Node => Ok(self.refusal_at_once(&call.owner, request)),
            GroupOwner::Cluster(link) => self.refusal_behind(link, request).await,
        }
    }

    /// Asks the coordinator of the cluster behind. A heartbeat checks the member of a classic group
    /// and changes nothing else. A KIP-848 member has no such heartbeat: an OffsetFetch of no
    /// topics in its name checks its epoch. A client without a membership needs READ.
    async fn refusal_behind(
        &self,
        link: &mut Link,
        request: &OffsetCommitRequest,
    ) -> Result<Option<ResponseError>, UpstreamError> {
        let RequestContext { router, conn, head, .. } = self.at;
        if request.member_id.is_empty() {
            let denied = !router.may_read(conn, (&mut *link, head), &self.group).await?;
            return Ok(denied.then_some(ResponseError::GroupAuthorizationFailed));
        }
        if router.members.has_epoch(&self.group, &self.key) {
            return fetch_refusal(link, head, request, self.generation).await;
        }
        let mut beat = HeartbeatRequest::default();
        beat.group_id = request.group_id.clone();
        beat.generation_id = self.generation;
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
                fetch_refusal(link, head, request, self.generation).await
            }
            refusal => Ok(refusal),
        }
    }
}

/// Whether the embedded cluster lets the member commit. A KIP-848 member may still name an older
/// epoch: it commits partitions that it has had since then.
pub(in crate::route) fn check_here(
    at: RequestContext<'_>,
    request: &OffsetCommitRequest,
    transaction: Option<&TransactionProducer>,
) -> PartitionResult {
    let (broker, group) = (&at.router.broker, group_of(&request.group_id));
    let transactional = transaction.is_some();
    if let Some((id, producer)) = transaction {
        let speaks = broker.transactions.speaks(id, *producer);
        speaks.map_err(|error| code::of_coordinator(&error.into(), false))?;
        if !group.is_legal() {
            return Err(ResponseError::InvalidGroupId);
        }
        let is_outside = request.member_id.is_empty() && request.group_instance_id.is_none();
        if is_outside && request.generation_id_or_member_epoch < 0 {
            // A request without a member is not checked (before KIP-447).
            return Ok(());
        }
    }
    let check = CommitCheck {
        member_id: MemberId::new(&request.member_id),
        instance_id: request.group_instance_id.as_ref().map(ToString::to_string),
        generation: request.generation_id_or_member_epoch,
        transactional,
        has_epochs: transactional || at.head.version >= EPOCHS_SINCE,
    };
    let checked = broker.groups.commit_check(&group, check.clone());
    if checked == Err(GroupError::StaleMemberEpoch) {
        let named = offsets(request).map(|(topic, partition, _)| (topic, partition));
        let named: Vec<_> = named.collect();
        if broker.groups.has_had(&group, &check.member_id, check.generation, &named) {
            return Ok(());
        }
    }
    checked.map_err(|error| match code::of_group(error) {
        ResponseError::GroupIdNotFound if !check.has_epochs => ResponseError::IllegalGeneration,
        // Producers abort after it, as in Kafka. An error that they do not know ends them.
        ResponseError::StaleMemberEpoch if transactional => ResponseError::IllegalGeneration,
        error => error,
    })
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
