//! `range`: contiguous runs of each topic, over its subscribers in order. Partitions with the same
//! index in different topics go to the same member.

use std::collections::BTreeSet;

use crate::group::assignor::{PartitionCounts, Subscriber};
use crate::group::partition::TopicIdPartition;

pub(super) fn assign(
    members: &[Subscriber<'_>],
    topics: &PartitionCounts,
) -> Vec<BTreeSet<TopicIdPartition>> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| members.get(*index).map(|member| member.name));
    let mut given = vec![BTreeSet::new(); members.len()];
    for (topic, count) in topics {
        let subscribes = |index: &&usize| {
            members.get(**index).is_some_and(|member| member.topics.contains(topic))
        };
        let takers: Vec<usize> = order.iter().filter(subscribes).copied().collect();
        let Ok(among) = i32::try_from(takers.len()) else { continue };
        if among == 0 {
            continue;
        }
        let (share, mut rest) = (count / among, count % among);
        let mut next = 0;
        for taker in takers {
            let end = next + share + i32::from(rest > 0);
            rest = (rest - 1).max(0);
            if let Some(given) = given.get_mut(taker) {
                given.extend((next..end).map(|index| TopicIdPartition { topic: *topic, index }));
            }
            next = end;
        }
    }
    given
}
