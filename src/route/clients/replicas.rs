//! Replica lists and replication factors from clients that count this node as a broker of the
//! cluster. The cluster does not know this node: another broker takes its place.

use bytes::Bytes;
use kafka_protocol::messages::BrokerId;

use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::clients::node_listing::ListingReason;
use crate::wire::reassignments;

/// The brokers that may hold replicas, and the node that may not.
#[derive(Clone, Debug)]
pub(in crate::route) struct ReplicaRule {
    node: BrokerId,
    /// The brokers of the cluster, ascending.
    brokers: Vec<BrokerId>,
    /// Whether the client counts one broker more than the cluster has.
    counts_node: bool,
}

impl Router {
    /// `None`: a broker of the cluster has our node id, so the id means that broker.
    pub(in crate::route) fn replica_rule(&self, conn: &Conn) -> Option<ReplicaRule> {
        let upstream = self.upstream.as_ref().filter(|_| !self.node_clash())?;
        Some(ReplicaRule {
            node: BrokerId(self.config.node_id),
            brokers: upstream.brokers().into_iter().map(BrokerId).collect(),
            counts_node: self.lists_node(conn, ListingReason::TopicShown),
        })
    }

    /// Removes this node from the replica lists of an `AlterPartitionReassignments`; `None`: no
    /// change. An unreadable request is left for the broker to refuse.
    pub fn reassigned(&self, conn: &Conn, frame: &[u8]) -> Option<Bytes> {
        let rule = self.replica_rule(conn)?;
        let replace = |lists: &mut [Vec<i32>]| {
            let mut ids: Vec<Vec<BrokerId>> =
                lists.iter().map(|list| list.iter().copied().map(BrokerId).collect()).collect();
            let has_changed = rule.replace_node(ids.iter_mut());
            for (list, ids) in lists.iter_mut().zip(ids) {
                *list = ids.into_iter().map(|id| id.0).collect();
            }
            has_changed
        };
        reassignments::replaced(frame, replace).ok().flatten()
    }
}

impl ReplicaRule {
    /// Lowers a replication factor that equals the number of listed brokers by one.
    pub(in crate::route) fn factor(&self, requested: i16) -> i16 {
        let is_one_more = usize::try_from(requested)
            .is_ok_and(|factor| factor == self.brokers.len().saturating_add(1));
        let has_brokers = !self.brokers.is_empty();
        if self.counts_node && has_brokers && is_one_more {
            return requested.saturating_sub(1);
        }
        requested
    }

    /// Removes this node from the replica lists of one topic. The broker with the fewest replicas
    /// in them takes its place, so that all lists keep their length. Without a free broker the list
    /// becomes one shorter. Returns whether anything changed.
    pub(in crate::route) fn replace_node<'a>(
        &self,
        lists: impl Iterator<Item = &'a mut Vec<BrokerId>>,
    ) -> bool {
        let mut lists: Vec<_> = lists.collect();
        let mut has_changed = false;
        for index in 0..lists.len() {
            let place =
                lists.get(index).and_then(|list| list.iter().position(|id| *id == self.node));
            let Some(place) = place else { continue };
            has_changed = true;
            let substitute = self.substitute(&lists, index);
            let Some(list) = lists.get_mut(index) else { continue };
            list.retain(|id| *id != self.node);
            if let Some(substitute) = substitute {
                list.insert(place.min(list.len()), substitute);
            }
        }
        has_changed
    }

    /// The broker with the fewest replicas that is not in the list.
    fn substitute(&self, lists: &[&mut Vec<BrokerId>], index: usize) -> Option<BrokerId> {
        let list = lists.get(index)?;
        let uses = |broker: BrokerId| {
            lists.iter().map(|list| list.iter().filter(|id| **id == broker).count()).sum::<usize>()
        };
        let free = self.brokers.iter().copied().filter(|broker| !list.contains(broker));
        free.min_by_key(|broker| uses(*broker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: i32 = 1 << 30;

    fn rule(brokers: &[i32], counts_node: bool) -> ReplicaRule {
        let brokers = brokers.iter().copied().map(BrokerId).collect();
        ReplicaRule { node: BrokerId(NODE), brokers, counts_node }
    }

    fn replaced(brokers: &[i32], lists: &[&[i32]]) -> (bool, Vec<Vec<i32>>) {
        let ids = |list: &&[i32]| list.iter().copied().map(BrokerId).collect();
        let mut lists: Vec<Vec<BrokerId>> = lists.iter().map(ids).collect();
        let has_changed = rule(brokers, true).replace_node(lists.iter_mut());
        let plain = |list: &Vec<BrokerId>| list.iter().map(|id| id.0).collect();
        (has_changed, lists.iter().map(plain).collect())
    }

    #[test]
    fn another_broker_replaces_this_node_in_a_replica_list() {
        let round_robin: &[&[i32]] = &[&[1, 2, 3], &[2, 3, NODE], &[3, NODE, 1], &[NODE, 1, 2]];
        let (has_changed, lists) = replaced(&[1, 2, 3], round_robin);
        assert!(has_changed);
        assert_eq!(lists, [[1, 2, 3], [2, 3, 1], [3, 2, 1], [3, 1, 2]]);
        assert_eq!(replaced(&[1, 2], &[&[1, 2]]), (false, vec![vec![1, 2]]));
        assert_eq!(replaced(&[1, 2, 3], &[&[NODE], &[1], &[NODE]]).1, [[2], [1], [3]]);
    }

    #[test]
    fn a_full_broker_list_is_one_shorter_without_this_node() {
        assert_eq!(replaced(&[1, 2], &[&[NODE, 2, 1], &[1, NODE, 2]]).1, [[2, 1], [1, 2]]);
        assert_eq!(replaced(&[], &[&[NODE, 7]]).1, [[7]]);
    }

    #[test]
    fn a_full_replication_factor_shrinks_by_one_without_this_node() {
        assert_eq!(
            [-1, 1, 2, 3, 4, 5].map(|n| rule(&[1, 2, 3], true).factor(n)),
            [-1, 1, 2, 3, 3, 5]
        );
        assert_eq!(rule(&[1, 2, 3], false).factor(4), 4, "it was listed no node more");
        assert_eq!(rule(&[], true).factor(1), 1, "no broker is known");
    }
}
