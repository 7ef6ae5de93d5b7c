//! The group's next epoch and its target assignment.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::assignor::{self, PartitionCounts, Subscriber};
use crate::group::consumer::Consumer;
use crate::group::output::GroupOutput;

impl Consumer {
    /// Makes the next epoch and a new target.
    pub(super) fn retarget(&mut self) {
        self.epoch = self.epoch.saturating_add(1);
        self.is_changed = true;
        self.output.push_back(GroupOutput::Generation(self.epoch));
        let Self { topics, wanted, .. } = self;
        topics.retain(|name, _| wanted.contains_key(name));
        let counts: PartitionCounts =
            topics.values().map(|image| (image.id, image.partitions)).collect();
        let subscribers: Vec<Subscriber<'_>> = self
            .members
            .iter()
            .map(|(id, member)| Subscriber {
                name: member.instance_id.as_deref().unwrap_or(id.as_str()),
                topics: member
                    .topics
                    .iter()
                    .filter_map(|name| Some(topics.get(name)?.id))
                    .collect(),
                before: &member.target,
            })
            .collect();
        let targets: Vec<BTreeSet<_>> = assignor::assign(self.assignor(), &subscribers, &counts);
        for (member, target) in self.members.values_mut().zip(targets) {
            member.target = target;
        }
    }

    /// The assignor with the most votes; a tie goes to the first in alphabetical order.
    pub(super) fn assignor(&self) -> &str {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.members.values().filter_map(|member| member.assignor.as_deref()) {
            *votes.entry(name).or_default() += 1;
        }
        let most = votes.values().max().copied();
        let first = votes.into_iter().find(|(_, count)| Some(*count) == most);
        first.map_or(assignor::DEFAULT, |(name, _)| name)
    }
}
