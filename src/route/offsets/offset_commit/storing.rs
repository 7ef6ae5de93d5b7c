//! The embedded cluster stores committed offsets.

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

use crate::broker::offsets::{CommitItem, ItemError};
use crate::model::{GroupId, TopicName};
use crate::route::convert::{group_of, topic_of};
use crate::route::offsets::commit_part::CommitPart;
use crate::route::offsets::offset_commit::{CommitDeadline, CommitOffset, check_here, respond};
use crate::route::owner::{OwnedRequest, OwnerCall, RequestContext};
use crate::route::{Router, code};
use crate::wire::ResponseError;

impl OwnedRequest for OffsetCommitRequest {
    async fn answered_here(&self, at: RequestContext<'_>) -> OffsetCommitResponse {
        if let Err(error) = check_here(at, self, None) {
            return respond(self, |_| error.code());
        }
        let parts = stored_parts(at.router, self);
        let (group, items) = (group_of(&self.group_id), parts.iter().filter_map(CommitPart::item));
        let storing = store(at.router, &group, items.cloned().collect());
        let stored = CommitDeadline::of(at).bounds(storing).await;
        // A member that was removed meanwhile learns that first.
        if stored.is_err()
            && let Err(error) = check_here(at, self, None)
        {
            return respond(self, |_| error.code());
        }
        let mut parts = parts.iter();
        respond(self, |_| parts.next().map_or(0, |part| part.code(stored)))
    }
}

/// The effect on each partition of a request, in its order.
pub(in crate::route) fn stored_parts(
    router: &Router,
    request: &OffsetCommitRequest,
) -> Vec<CommitPart> {
    let of_topic = |topic: &OffsetCommitRequestTopic| {
        let name = topic_of(&topic.name);
        let partitions = topic.partitions.iter();
        partitions.map(|asked| part(router, &name, asked)).collect::<Vec<_>>()
    };
    request.topics.iter().flat_map(of_topic).collect()
}

/// The offsets that the owner stores if the member may commit, as far as is known beforehand.
pub(in crate::route) fn storable<'a>(
    call: &OwnerCall<'a>,
    request: &'a OffsetCommitRequest,
) -> impl Iterator<Item = CommitOffset> + use<'a> {
    let (router, is_here) = (call.at.router, !call.is_behind());
    request.topics.iter().flat_map(move |topic| {
        let name = topic_of(&topic.name);
        topic.partitions.iter().filter_map(move |asked| {
            let is_stored = !is_here || part(router, &name, asked).item().is_some();
            is_stored.then(|| (name.clone(), asked.partition_index, asked.committed_offset))
        })
    })
}

fn part(router: &Router, topic: &TopicName, asked: &OffsetCommitRequestPartition) -> CommitPart {
    let partitions = router.place(topic).map_or(0, |place| place.partitions());
    if !(0..partitions).contains(&asked.partition_index) {
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

/// Stores offsets, and reports them to the engine meanwhile.
async fn store(
    router: &Router,
    group: &GroupId,
    items: Vec<CommitItem>,
) -> Result<(), ResponseError> {
    if items.is_empty() {
        return Ok(());
    }
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
