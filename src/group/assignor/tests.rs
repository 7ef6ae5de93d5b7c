//! Every partition has one owner, the loads are even, and few partitions move.

use super::*;

const ORDERS: TopicId = TopicId([1; 16]);
const BILLS: TopicId = TopicId([2; 16]);

fn of(topic: TopicId, indexes: impl IntoIterator<Item = i32>) -> BTreeSet<TopicIdPartition> {
    indexes.into_iter().map(|index| TopicIdPartition { topic, index }).collect()
}

/// Runs an assignor on members with these names and topics; `before` becomes their new targets.
fn run(
    assignor: &str,
    members: &[(&str, &[TopicId])],
    before: &[BTreeSet<TopicIdPartition>],
    topics: &[(TopicId, i32)],
) -> Vec<BTreeSet<TopicIdPartition>> {
    let nothing = BTreeSet::new();
    let subscribers: Vec<Subscriber<'_>> = members
        .iter()
        .enumerate()
        .map(|(at, (name, topics))| Subscriber {
            name,
            topics: topics.iter().copied().collect(),
            before: before.get(at).unwrap_or(&nothing),
        })
        .collect();
    assign(assignor, &subscribers, &topics.iter().copied().collect())
}

fn loads(given: &[BTreeSet<TopicIdPartition>]) -> Vec<usize> {
    given.iter().map(BTreeSet::len).collect()
}

#[test]
fn uniform_moves_only_the_partitions_a_new_member_needs() {
    let both: &[TopicId] = &[ORDERS, BILLS];
    let topics = [(ORDERS, 4), (BILLS, 3)];
    let two = run("uniform", &[("a", both), ("b", both)], &[], &topics);
    assert_eq!(loads(&two), [4, 3]);
    let three = run("uniform", &[("a", both), ("b", both), ("c", both)], &two, &topics);
    assert_eq!(loads(&three), [3, 2, 2]);
    assert!(three[0].is_subset(&two[0]) && three[1].is_subset(&two[1]), "{three:?}");
    let one = run("uniform", &[("a", both)], &three[..1], &topics);
    assert_eq!(loads(&one), [7]);
}

#[test]
fn uniform_moves_nothing_when_nothing_has_changed() {
    let before = [of(ORDERS, [3, 1]), of(ORDERS, [0, 2])];
    let members: [(&str, &[TopicId]); 2] = [("a", &[ORDERS]), ("b", &[ORDERS])];
    assert_eq!(run("uniform", &members, &before, &[(ORDERS, 4)]), before);
    let grown = run("uniform", &members, &before, &[(ORDERS, 6)]);
    assert!(before[0].is_subset(&grown[0]) && before[1].is_subset(&grown[1]));
    assert_eq!(loads(&grown), [3, 3]);
}

#[test]
fn uniform_assigns_topics_to_their_subscribers_evenly() {
    let members: [(&str, &[TopicId]); 3] = [("a", &[ORDERS, BILLS]), ("b", &[ORDERS]), ("c", &[])];
    let given = run("uniform", &members, &[], &[(ORDERS, 4), (BILLS, 4)]);
    assert_eq!(given, [of(BILLS, 0..4), of(ORDERS, 0..4), BTreeSet::new()]);
}

#[test]
fn removed_partitions_are_not_assigned_again() {
    let before = [[of(ORDERS, 0..4), of(BILLS, 0..2)].concat_sets(), BTreeSet::new()];
    let members: [(&str, &[TopicId]); 2] = [("a", &[ORDERS]), ("b", &[ORDERS, BILLS])];
    let given = run("uniform", &members, &before, &[(ORDERS, 2), (BILLS, 2)]);
    assert_eq!(given, [of(ORDERS, 0..2), of(BILLS, 0..2)]);
}

#[test]
fn range_assigns_equal_partition_numbers_to_one_member() {
    let both: &[TopicId] = &[ORDERS, BILLS];
    let members = [("b", both), ("a", both), ("c", &[BILLS][..])];
    let given = run("range", &members, &[], &[(ORDERS, 5), (BILLS, 3)]);
    let expected = [
        [of(ORDERS, 3..5), of(BILLS, 1..2)].concat_sets(),
        [of(ORDERS, 0..3), of(BILLS, 0..1)].concat_sets(),
        of(BILLS, 2..3),
    ];
    assert_eq!(given, expected);
    let few = run("range", &members, &[], &[(BILLS, 2)]);
    assert_eq!(few, [of(BILLS, 1..2), of(BILLS, 0..1), BTreeSet::new()]);
}

#[test]
fn each_partition_has_one_subscriber_and_loads_are_even() {
    let mut rng = fastrand::Rng::with_seed(4);
    let ids: Vec<TopicId> = (0..4).map(|n| TopicId([n; 16])).collect();
    let mut before: Vec<BTreeSet<TopicIdPartition>> = Vec::new();
    for round in 0..2_000 {
        let mut topics: Vec<(TopicId, i32)> = ids.iter().map(|id| (*id, rng.i32(1..9))).collect();
        topics.retain(|_| rng.u8(..5) > 0);
        let wants: Vec<Vec<TopicId>> = (0..rng.usize(1..7))
            .map(|_| ids.iter().copied().filter(|_| rng.bool()).collect())
            .collect();
        let names: Vec<String> = (0..wants.len()).map(|n| format!("m{n}")).collect();
        let members: Vec<(&str, &[TopicId])> =
            names.iter().zip(&wants).map(|(name, wants)| (name.as_str(), &wants[..])).collect();
        for assignor in ["range", "uniform"] {
            let given = run(assignor, &members, &before, &topics);
            let mut seen = BTreeSet::new();
            for (taken, wants) in given.iter().zip(&wants) {
                assert!(taken.iter().all(|one| wants.contains(&one.topic)), "{round}");
                assert!(taken.iter().all(|one| seen.insert(*one)), "{round}: twice");
            }
            let wanted = |id: &TopicId| wants.iter().any(|wants| wants.contains(id));
            let all: BTreeSet<TopicIdPartition> = topics
                .iter()
                .filter(|(id, _)| wanted(id))
                .flat_map(|(id, n)| of(*id, 0..*n))
                .collect();
            assert_eq!(seen, all, "{round} {assignor}");
            if assignor == "uniform" {
                for (from, taken) in given.iter().enumerate() {
                    for (to, wants) in wants.iter().enumerate() {
                        let movable = taken.iter().any(|one| wants.contains(&one.topic));
                        let even = given[from].len() <= given[to].len() + 1;
                        assert!(even || !movable, "{round}: {from} could give to {to}");
                    }
                }
                before = given;
            }
        }
    }
}

/// Joins several sets into one.
trait ConcatSets {
    fn concat_sets(self) -> BTreeSet<TopicIdPartition>;
}

impl<const N: usize> ConcatSets for [BTreeSet<TopicIdPartition>; N] {
    fn concat_sets(self) -> BTreeSet<TopicIdPartition> {
        self.into_iter().flatten().collect()
    }
}
