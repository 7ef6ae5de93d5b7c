//! Balance of real partitions after the retry topic was removed from a leader's assignments.
//!
//! Assignors that balance over all topics (sticky, cooperative-sticky, round-robin) count our
//! partition, so one member may get two real partitions fewer than another. A partition moves from
//! the fullest to the emptiest member that subscribes to its topic, until they differ by at most
//! one. A cooperative group must not move a partition within one round (KIP-429). A partition that
//! the loser holds is only revoked. The loser then rejoins, and the next round assigns it.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::model::{MemberId, TopicName};
use crate::wire::assignment::{Assignment, Subscription, TopicPartitions};

/// Assignors that balance over all topics together.
const BALANCING: [&str; 3] = ["sticky", "cooperative-sticky", "roundrobin"];
/// Assignors that revoke in one round and assign in the next.
const COOPERATIVE: [&str; 1] = ["cooperative-sticky"];

/// Balances `assignments` in place; those of `range` and unknown assignors stay unchanged.
/// `subscription` returns a member's metadata of its join.
pub(super) fn even_out(
    protocol: &str,
    subscription: impl Fn(&MemberId) -> Option<Bytes>,
    assignments: &mut [(MemberId, Assignment)],
) {
    if !BALANCING.contains(&protocol) {
        return;
    }
    let cooperative = COOPERATIVE.contains(&protocol);
    let asked: Vec<Option<Subscription>> = assignments
        .iter()
        .map(|(member, _)| Subscription::parse(&subscription(member)?).ok())
        .collect();
    let wanted: Vec<BTreeSet<TopicName>> = asked
        .iter()
        .map(|asked| asked.iter().flat_map(|asked| asked.topics.iter().cloned()).collect())
        .collect();
    // Each move narrows the gap between two members, so this many are always enough.
    let moves_max: usize = assignments.iter().map(|(_, a)| count(a)).sum();
    for _ in 0..moves_max {
        let Some((from, to, topic, partition)) = next_move(&wanted, assignments) else { return };
        if let Some((_, loser)) = assignments.get_mut(from) {
            take(loser, &topic, partition);
        }
        let loser = asked.get(from).and_then(Option::as_ref);
        if cooperative && loser.is_none_or(|loser| may_hold(loser, &topic, partition)) {
            // The partition stays unassigned in this round; the loser rejoins by itself.
            return;
        }
        if let Some((_, winner)) = assignments.get_mut(to) {
            winner.append(&topic, partition);
        }
    }
}

/// A move from a fuller member to an emptier one that subscribes to the topic and has at least two
/// partitions fewer.
fn next_move(
    wanted: &[BTreeSet<TopicName>],
    assignments: &[(MemberId, Assignment)],
) -> Option<(usize, usize, TopicName, i32)> {
    let mut order: Vec<(usize, usize)> =
        assignments.iter().map(|(_, a)| count(a)).enumerate().map(|(i, n)| (n, i)).collect();
    order.sort_unstable();
    for &(most, from) in order.iter().rev() {
        for &(least, to) in &order {
            if most < least.saturating_add(2) {
                break;
            }
            let (Some((_, loser)), Some(wants)) = (assignments.get(from), wanted.get(to)) else {
                continue;
            };
            let found =
                loser.partitions.iter().filter(|held| wants.contains(&held.topic)).find_map(
                    |held| held.partitions.last().map(|last| (held.topic.clone(), *last)),
                );
            if let Some((topic, partition)) = found {
                return Some((from, to, topic, partition));
            }
        }
    }
    None
}

/// Whether the member reported the partition as owned, or reported no owned partitions.
fn may_hold(member: &Subscription, topic: &TopicName, partition: i32) -> bool {
    let is_it = |of: &TopicPartitions| of.topic == *topic && of.partitions.contains(&partition);
    member.owned.as_ref().is_none_or(|owned| owned.iter().any(is_it))
}

fn count(assignment: &Assignment) -> usize {
    assignment.partitions.iter().map(|held| held.partitions.len()).sum()
}

fn take(assignment: &mut Assignment, topic: &TopicName, partition: i32) {
    for held in &mut assignment.partitions {
        if held.topic == *topic {
            held.partitions.retain(|known| *known != partition);
        }
    }
    assignment.partitions.retain(|held: &TopicPartitions| !held.partitions.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(partitions: &[i32]) -> Assignment {
        let mut assignment = Assignment::empty();
        for partition in partitions {
            assignment.append(&"orders".into(), *partition);
        }
        assignment
    }

    /// The subscriptions of member `a` and of every other member.
    fn subscribed(a: &str, others: &str) -> impl Fn(&MemberId) -> Option<Bytes> {
        let to = |topic| Subscription::to(vec![TopicName::new(topic)]).to_bytes();
        let (a, others) = (to(a), to(others));
        move |member| Some(if member.as_str() == "a" { a.clone() } else { others.clone() })
    }

    /// All members subscribe to `orders`; `a` holds these partitions of it.
    fn holding(partitions: &[i32]) -> impl Fn(&MemberId) -> Option<Bytes> {
        let holding = |partitions: &[i32]| {
            let mut asked = Subscription::to(vec!["orders".into()]);
            (asked.version, asked.owned) = (1, Some(assigned(partitions).partitions));
            asked.to_bytes()
        };
        let (a, others) = (holding(partitions), holding(&[]));
        move |member| Some(if member.as_str() == "a" { a.clone() } else { others.clone() })
    }

    fn counts(assignments: &[(MemberId, Assignment)]) -> Vec<usize> {
        assignments.iter().map(|(_, a)| count(a)).collect()
    }

    fn skewed() -> Vec<(MemberId, Assignment)> {
        vec![("a".into(), assigned(&[0, 1, 2, 3])), ("b".into(), assigned(&[4]))]
    }

    #[test]
    fn a_skewed_sticky_assignment_ends_one_apart_at_most() {
        let members = subscribed("orders", "orders");
        let mut assignments = skewed();
        even_out("sticky", members, &mut assignments);
        assert_eq!(counts(&assignments), [3, 2]);
    }

    #[test]
    fn a_cooperative_round_only_revokes_owned_partitions() {
        let mut assignments = skewed();
        even_out("cooperative-sticky", subscribed("orders", "orders"), &mut assignments);
        assert_eq!(counts(&assignments), [3, 1]);
        let mut assignments = skewed();
        even_out("cooperative-sticky", holding(&[0, 3]), &mut assignments);
        assert_eq!(counts(&assignments), [3, 1]);
    }

    #[test]
    fn unowned_partitions_are_assigned_in_the_same_cooperative_round() {
        let mut assignments = skewed();
        even_out("cooperative-sticky", holding(&[0, 1]), &mut assignments);
        assert_eq!(counts(&assignments), [3, 2]);
        let mut held: Vec<i32> = assignments
            .iter()
            .flat_map(|(_, given)| given.partitions.iter().flat_map(|of| of.partitions.clone()))
            .collect();
        held.sort_unstable();
        assert_eq!(held, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn range_assignments_and_unsubscribed_members_stay_unchanged() {
        let members = subscribed("orders", "other");
        for protocol in ["range", "sticky"] {
            let mut assignments = skewed();
            even_out(protocol, &members, &mut assignments);
            assert_eq!(counts(&assignments), [4, 1], "{protocol}");
        }
    }
}
