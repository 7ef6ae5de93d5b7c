//! What members of consumer groups (KIP-848) ask.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::broker::groups::cell::Cell;
use crate::broker::groups::{GroupKind, Groups};
use crate::group::{
    Alive, Answer, Consumer, ConsumerDescription, ConsumerHeartbeat, GroupError, Input, JOINS,
    TopicImage,
};
use crate::model::{GroupId, MemberId, TopicName};

impl Groups {
    /// `ConsumerGroupHeartbeat`: answers when what it tells is durable. `image` says what a topic
    /// is at the moment, `matching` which topics match a pattern; `cluster` and `matching` of the
    /// heartbeat come from them. A member of a group that is not there is unknown and joins again:
    /// Kafka's `GROUP_ID_NOT_FOUND` ends a client.
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
        let upgrade = |cell: &mut Cell, now| {
            if upgrades {
                cell.upgrade(self.inner.consumer, now, &image);
            }
        };
        let beat = Box::new(beat);
        let input = |token| Input::ConsumerHeartbeat(token, beat);
        let asked = self.ask_after(group, kind, upgrade, input);
        match self.wait(asked).await? {
            Answer::ConsumerHeartbeat(result) => result,
            _ => Err(GroupError::CoordinatorNotAvailable),
        }
    }

    /// May this client read the group's offsets? Only members of a consumer group are asked.
    pub fn fetch_check(
        &self,
        group: &GroupId,
        member: Option<&MemberId>,
        epoch: i32,
    ) -> Result<(), GroupError> {
        let checked = self.consumer(group, |known| Some(known.fetch_check(member, epoch)));
        checked.unwrap_or(Ok(()))
    }

    /// Whether a member has had all these partitions ever since that epoch of before its own.
    pub fn has_had(
        &self,
        group: &GroupId,
        member: &MemberId,
        epoch: i32,
        partitions: &[(TopicName, i32)],
    ) -> bool {
        self.consumer(group, |known| known.has_had(member, epoch, partitions.iter()))
    }

    /// One consumer group; none if no member ever joined.
    pub fn describe_consumer(&self, group: &GroupId) -> Option<ConsumerDescription> {
        self.consumer(group, |known| Some(known.describe()))
    }

    /// Whether a member of a consumer group subscribes to `topic`.
    pub fn subscribes(&self, group: &GroupId, member: &MemberId, topic: &TopicName) -> bool {
        self.consumer(group, |known| known.subscribes(member, topic))
    }

    /// The name of a consumer group's member that outlives a static member's process.
    pub fn key_of(&self, group: &GroupId, member: &MemberId) -> Option<MemberId> {
        self.consumer(group, |known| known.key_of(member))
    }

    /// Topics that members of a consumer group subscribe to.
    pub(super) fn topics_of(&self, group: &GroupId) -> Vec<TopicName> {
        self.consumer(group, |known| known.wanted().cloned().collect())
    }

    /// Patterns that members of a consumer group subscribe by.
    fn patterns_of(&self, group: &GroupId) -> BTreeSet<String> {
        self.consumer(group, |known| known.patterns().cloned().collect())
    }

    /// Looks at a consumer group; nothing where there is none.
    fn consumer<T: Default>(&self, group: &GroupId, look: impl FnOnce(&Consumer) -> T) -> T {
        let state = self.lock();
        let known = state.cells.get(group).and_then(|cell| cell.machine.as_consumer());
        known.map(look).unwrap_or_default()
    }
}
