//! `uniform`: equal numbers of partitions per member, with as few moves as possible.
//!
//! A member keeps its previous partitions. Unowned partitions go to the subscriber with the fewest.
//! Then partitions move from a member that has at least two more than another subscriber of the
//! topic.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::assignor::{PartitionCounts, Subscriber};
use crate::group::partition::TopicIdPartition;
use crate::model::TopicId;

pub(super) fn assign(
    members: &[Subscriber<'_>],
    topics: &PartitionCounts,
) -> Vec<BTreeSet<TopicIdPartition>> {
    let mut loads = Loads::new(members);
    let mut owners: BTreeMap<TopicIdPartition, usize> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        for partition in member.before {
            let exists = topics.get(&partition.topic).is_some_and(|n| partition.index < *n);
            let wanted = exists && member.topics.contains(&partition.topic);
            if wanted && !owners.contains_key(partition) {
                owners.insert(*partition, index);
                loads.change(index, |load| load + 1);
            }
        }
    }
    for (topic, count) in topics {
        for index in 0..*count {
            let partition = TopicIdPartition { topic: *topic, index };
            if owners.contains_key(&partition) {
                continue;
            }
            let Some((_, taker)) = loads.lightest(topic) else { break };
            owners.insert(partition, taker);
            loads.change(taker, |load| load + 1);
        }
    }
    while even_out(&mut owners, &mut loads) {}
    let mut given = vec![BTreeSet::new(); members.len()];
    for (partition, owner) in owners {
        if let Some(given) = given.get_mut(owner) {
            given.insert(partition);
        }
    }
    given
}

/// Runs one pass; returns whether a partition moved. Each move brings two loads closer, so the
/// passes end.
fn even_out(owners: &mut BTreeMap<TopicIdPartition, usize>, loads: &mut Loads) -> bool {
    let mut moved = false;
    for (partition, owner) in owners {
        let Some((least, taker)) = loads.lightest(&partition.topic) else { continue };
        if least + 1 < loads.of(*owner) {
            loads.change(*owner, |load| load.saturating_sub(1));
            loads.change(taker, |load| load + 1);
            *owner = taker;
            moved = true;
        }
    }
    moved
}

/// Number of partitions of each member; members with equal subscriptions share one queue.
struct Loads {
    /// Load and class of each member.
    members: Vec<(usize, usize)>,
    classes: Vec<Class>,
}

struct Class {
    topics: BTreeSet<TopicId>,
    /// Load and member, lightest first.
    queue: BTreeSet<(usize, usize)>,
}

impl Loads {
    fn new(members: &[Subscriber<'_>]) -> Self {
        let mut known: BTreeMap<&BTreeSet<TopicId>, usize> = BTreeMap::new();
        let mut loads = Self { members: Vec::with_capacity(members.len()), classes: Vec::new() };
        for (index, member) in members.iter().enumerate() {
            let class = *known.entry(&member.topics).or_insert(loads.classes.len());
            if class == loads.classes.len() {
                let class = Class { topics: member.topics.clone(), queue: BTreeSet::new() };
                loads.classes.push(class);
            }
            loads.members.push((0, class));
            if let Some(class) = loads.classes.get_mut(class) {
                class.queue.insert((0, index));
            }
        }
        loads
    }

    fn of(&self, member: usize) -> usize {
        self.members.get(member).map_or(0, |(load, _)| *load)
    }

    /// The subscriber of `topic` with the fewest partitions: its load and index.
    fn lightest(&self, topic: &TopicId) -> Option<(usize, usize)> {
        let takers = self.classes.iter().filter(|class| class.topics.contains(topic));
        takers.filter_map(|class| class.queue.first()).min().copied()
    }

    fn change(&mut self, member: usize, change: impl Fn(usize) -> usize) {
        let Some((load, class)) = self.members.get_mut(member) else { return };
        let Some(class) = self.classes.get_mut(*class) else { return };
        class.queue.remove(&(*load, member));
        *load = change(*load);
        class.queue.insert((*load, member));
    }
}
