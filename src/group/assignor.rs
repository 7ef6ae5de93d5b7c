//! Server-side assignors of consumer groups (KIP-848).

mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};

use crate::group::partition::TopicIdPartition;
use crate::model::TopicId;

/// The assignor of a group whose members name none.
pub(super) const DEFAULT: &str = UNIFORM;
const UNIFORM: &str = "uniform";
const RANGE: &str = "range";

/// One member as the assignors see it.
#[derive(Debug)]
pub(super) struct Subscriber<'a> {
    /// Instance id, or member id without one; the sort key, so that a static member keeps its
    /// position.
    pub(super) name: &'a str,
    /// Subscribed topics that exist.
    pub(super) topics: BTreeSet<TopicId>,
    /// The member's previous target.
    pub(super) before: &'a BTreeSet<TopicIdPartition>,
}

/// Partition counts by topic.
pub(super) type PartitionCounts = BTreeMap<TopicId, i32>;

/// Whether there is an assignor of that name.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, UNIFORM | RANGE)
}

/// The target of each of `members`, in their order. Every partition of a subscribed topic goes to
/// exactly one of the topic's subscribers.
pub(super) fn assign(
    name: &str,
    members: &[Subscriber<'_>],
    topics: &PartitionCounts,
) -> Vec<BTreeSet<TopicIdPartition>> {
    match name {
        RANGE => range::assign(members, topics),
        _ => uniform::assign(members, topics),
    }
}

#[cfg(test)]
mod tests;
