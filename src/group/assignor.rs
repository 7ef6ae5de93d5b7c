//! Who gets which partition of a consumer group (KIP-848): the assignors of the server's side.

mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};

use crate::group::partition::TopicPartition;
use crate::model::TopicId;

/// The assignor of a group whose members name none.
pub(super) const DEFAULT: &str = UNIFORM;
const UNIFORM: &str = "uniform";
const RANGE: &str = "range";

/// What an assignor is told of one member.
#[derive(Debug)]
pub(super) struct Subscriber<'a> {
    /// Its instance id, else its member id: what keeps its place in an order.
    pub(super) name: &'a str,
    /// What it subscribes to, as far as it exists.
    pub(super) topics: BTreeSet<TopicId>,
    /// What it was to have before.
    pub(super) before: &'a BTreeSet<TopicPartition>,
}

/// Topics and their partitions.
pub(super) type Counts = BTreeMap<TopicId, i32>;

/// Whether there is an assignor of that name.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, UNIFORM | RANGE)
}

/// What each of `members` is to have, in their order. Every partition of a topic somebody
/// subscribes to is given to exactly one of its subscribers.
pub(super) fn assign(
    name: &str,
    members: &[Subscriber<'_>],
    topics: &Counts,
) -> Vec<BTreeSet<TopicPartition>> {
    match name {
        RANGE => range::assign(members, topics),
        _ => uniform::assign(members, topics),
    }
}

#[cfg(test)]
mod tests;
