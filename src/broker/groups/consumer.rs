//! Requests of members of consumer groups (KIP-848).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::broker::groups::cell::GroupCell;
use crate::broker::groups::{GroupKind, Groups};
use crate::group::{
    Alive, Consumer, ConsumerDescription, ConsumerHeartbeat, GroupAnswer, GroupError, GroupInput,
    JOINS, TopicImage,
};
use crate::model::{GroupId, MemberId, TopicName};

impl Groups {
    /// `ConsumerGroupHeartbeat`: answers when the answered state is durable. `image` looks a topic
    /// up, and `matching` finds the topics of a pattern. The method fills `cluster` and `matching`
    /// of `beat` from them. A missing group answers `UNKNOWN_MEMBER_ID`, so the client joins again;
    /// Kafka's `GROUP_ID_NOT_FOUND` would end the client.
    pub async fn consumer_heartbeat(
        &self,
        group: &GroupId,
        mut beat: ConsumerHeartbeat,
        image: impl Fn(&TopicName) -> Option<TopicImage>,
        matching: impl Fn(&str) -> Option<Arc<BTreeSet<TopicName>>>,
    ) -> Result<Alive, GroupError> {
        let mut patterns = self.patterns_of(group);
        patterns.extend(beat.pattern.clone().filter(|pattern| !pattern.is_empty()));
        let matched = patterns.into_iter().filter_map(|one| matching(&one).map(|all| (one, all)));
        beat.matching = matched.collect();
        let mut names = beat.topics.clone().unwrap_or_default();
        names.extend(beat.matching.values().flat_map(|all| all.iter().cloned()));
        names.extend(self.topics_of(group));
        let known = |name: TopicName| {
            let image = image(&name);
            (name, image)
        };
        beat.cluster = names.into_iter().map(known).collect();
        let kind = (beat.epoch == JOINS).then_some(GroupKind::Consumer);
        let upgrades = kind.is_some() && beat.check().is_ok();
        let upgrade = |cell: &mut GroupCell, now| {
            if upgrades {
                cell.upgrade(self.inner.consumer, now, &image);
            }
        };
        let beat = Box::new(beat);
        let input = |token| GroupInput::ConsumerHeartbeat(token, beat);
        let asked = self.ask_after(group, kind, upgrade, input);
        match self.wait(asked).await? {
            GroupAnswer::ConsumerHeartbeat(result) => result,
            _ => Err(GroupError::CoordinatorNotAvailable),
        }
    }

    /// Checks whether a client may fetch the group's offsets. Only consumer groups check the
    /// member.
    pub fn fetch_check(
        &self,
        group: &GroupId,
        member: Option<&MemberId>,
        epoch: i32,
    ) -> Result<(), GroupError> {
        let checked = self.consumer(group, |known| Some(known.fetch_check(member, epoch)));
        checked.unwrap_or(Ok(()))
    }

    /// Whether the member has owned all `partitions` without a break since `epoch`, an earlier
    /// epoch of its own.
    pub fn has_had(
        &self,
        group: &GroupId,
        member: &MemberId,
        epoch: i32,
        partitions: &[(TopicName, i32)],
    ) -> bool {
        self.consumer(group, |known| known.has_had(member, epoch, partitions.iter()))
    }

    /// One consumer group; `None` if the group does not exist or has the other kind.
    pub fn describe_consumer(&self, group: &GroupId) -> Option<ConsumerDescription> {
        self.consumer(group, |known| Some(known.describe()))
    }

    /// Whether a member of a consumer group subscribes to `topic`.
    pub fn subscribes(&self, group: &GroupId, member: &MemberId, topic: &TopicName) -> bool {
        self.consumer(group, |known| known.subscribes(member, topic))
    }

    /// Topics that members of a consumer group subscribe to.
    pub(super) fn topics_of(&self, group: &GroupId) -> Vec<TopicName> {
        self.consumer(group, |known| known.wanted().cloned().collect())
    }

    /// Patterns that members of a consumer group subscribe by.
    fn patterns_of(&self, group: &GroupId) -> BTreeSet<String> {
        self.consumer(group, |known| known.patterns().cloned().collect())
    }

    /// Runs `look` on a consumer group; the default value if there is no such group.
    fn consumer<T: Default>(&self, group: &GroupId, look: impl FnOnce(&Consumer) -> T) -> T {
        let state = self.lock();
        let known = state.cells.get(group).and_then(|cell| cell.machine.as_consumer());
        known.map(look).unwrap_or_default()
    }
}
