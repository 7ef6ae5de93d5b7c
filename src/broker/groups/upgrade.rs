//! Conversion of a group with members from one protocol to the other. The coordinator parses the
//! `Subscription` and `Assignment` that consumers exchange inside the classic protocol.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::{
    Classic, ClassicMember, ConsumerMember, ConsumerState, MemberState, ParsedSubscription,
    Protocol, TargetTopic, TopicIdPartition, TopicIdPartitions, TopicImage,
};
use crate::model::{TopicId, TopicName};
use crate::wire::assignment::{self, Assignment, Subscription};

/// Converts a classic group into a consumer group. A member's target is what the leader assigned.
/// The member also keeps what it owned at its last join, and revokes the surplus at its next join.
/// Without an assignment, the owned partitions are the target.
///
/// Returns `None` if the group has no members or their metadata cannot be parsed. `None` also if an
/// assignment has user data, because the upgrade would lose that.
pub(super) fn upgraded(
    group: &Classic,
    image: impl Fn(&TopicName) -> Option<TopicImage>,
) -> Option<ConsumerState> {
    let (epoch, known) = group.consumers()?;
    let mut state = ConsumerState { epoch, ..ConsumerState::default() };
    let mut topics: BTreeMap<TopicName, TopicImage> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let mut members = Vec::new();
    for (kept, metadata) in known {
        let said = Subscription::parse(&metadata).ok()?;
        let given = Assignment::parse(&kept.assignment).ok()?;
        if given.user_data.as_ref().is_some_and(|data| !data.is_empty()) {
            return None;
        }
        let wanted: BTreeSet<TopicName> = said.topics.into_iter().collect();
        let images = wanted.iter().filter_map(|name| Some((name.clone(), image(name)?)));
        topics.extend(images);
        let mut given = partitions(&given.partitions, &image);
        given.retain(|one| taken.insert(*one));
        let held = partitions(&said.owned.unwrap_or_default(), &image);
        state.classic.push(ClassicMember {
            member_id: kept.member_id.clone(),
            session_timeout_ms: kept.session_timeout_ms,
            protocols: kept.protocols.clone(),
        });
        members.push((kept, wanted, given, held));
    }
    for (kept, wanted, given, held) in members {
        // A partition that the leader assigned to one member is not owned by another.
        let more = held.into_iter().filter(|one| taken.insert(*one));
        let assigned: BTreeSet<TopicIdPartition> = given.iter().copied().chain(more).collect();
        let target = if kept.assignment.is_empty() { assigned.clone() } else { given };
        state.members.push(member(epoch, kept, wanted, (by_topic(target), by_topic(assigned))));
    }
    let topic = |(name, image): (TopicName, TopicImage)| TargetTopic {
        name,
        id: image.id,
        partitions: image.partitions,
    };
    state.topics = topics.into_iter().map(topic).collect();
    Some(state)
}

fn member(
    epoch: i32,
    kept: MemberState,
    wanted: BTreeSet<TopicName>,
    (target, assigned): (Vec<TopicIdPartitions>, Vec<TopicIdPartitions>),
) -> ConsumerMember {
    ConsumerMember {
        member_id: kept.member_id,
        instance_id: kept.instance_id,
        rack_id: None,
        client_id: kept.client_id,
        client_host: kept.client_host,
        rebalance_timeout_ms: kept.rebalance_timeout_ms,
        assignor: None,
        topics: wanted.into_iter().collect(),
        epoch,
        epoch_before: epoch,
        target,
        assigned,
        revoking: Vec::new(),
    }
}

/// Parses a classic consumer's subscription; `None` if it cannot be parsed. `names` are the group's
/// other topics.
pub(super) fn consuming(
    protocols: &[Protocol],
    names: impl IntoIterator<Item = TopicName>,
    image: impl Fn(&TopicName) -> Option<TopicImage>,
) -> Option<ParsedSubscription> {
    let said = Subscription::parse(&protocols.first()?.metadata).ok()?;
    let topics: BTreeSet<TopicName> = said.topics.into_iter().collect();
    let names = topics.iter().cloned().chain(names);
    let cluster: BTreeMap<TopicName, Option<TopicImage>> = names
        .map(|name| {
            let image = image(&name);
            (name, image)
        })
        .collect();
    let known = |name: &TopicName| cluster.get(name).copied().flatten().or_else(|| image(name));
    let owned = partitions(&said.owned.unwrap_or_default(), known);
    Some(ParsedSubscription { topics, owned, cluster })
}

/// Encodes a member's partitions as a classic `Assignment`.
pub(super) fn assignment(held: BTreeMap<TopicName, Vec<i32>>) -> bytes::Bytes {
    let mut given = Assignment::empty();
    let of = |(topic, partitions)| assignment::TopicPartitions { topic, partitions };
    given.partitions = held.into_iter().map(of).collect();
    given.to_bytes()
}

/// The partitions whose topic exists.
fn partitions(
    named: &[assignment::TopicPartitions],
    image: impl Fn(&TopicName) -> Option<TopicImage>,
) -> BTreeSet<TopicIdPartition> {
    let mut all = BTreeSet::new();
    for of in named {
        let Some(image) = image(&of.topic) else { continue };
        let there = of.partitions.iter().filter(|index| (0..image.partitions).contains(*index));
        all.extend(there.map(|index| TopicIdPartition { topic: image.id, index: *index }));
    }
    all
}

fn by_topic(all: impl IntoIterator<Item = TopicIdPartition>) -> Vec<TopicIdPartitions> {
    let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
    for one in all {
        topics.entry(one.topic).or_default().push(one.index);
    }
    let of = |(topic, partitions)| TopicIdPartitions { topic, partitions };
    topics.into_iter().map(of).collect()
}
