//! Target assignments, and revocation before a partition's next owner gets it.

use super::*;

#[test]
fn a_partition_moves_only_after_its_owner_revokes_it() {
    let mut s = Script::new();
    assert_eq!(s.join("a", &["orders"]), told("a", 1, &[0, 1, 2, 3]));
    assert_eq!(s.join("b", &["orders"]), told("b", 2, &[]), "all of it is a's");
    assert_eq!(s.group.phase(), ConsumerPhase::Reconciling);
    assert_eq!(s.beat("a", 1), Ok(told("a", 1, &[2, 3])), "its epoch stays until it has done so");
    assert_eq!(s.beat("b", 2), Ok(quiet("b", 2)));
    assert_eq!(s.owns("a", 1, &[0, 2, 3]), Ok(quiet("a", 1)), "0 is still held");
    assert_eq!(s.beat("a", 1), Ok(quiet("a", 1)), "nothing said is nothing given up");
    assert_eq!(s.beat("b", 2), Ok(quiet("b", 2)));
    assert_eq!(s.owns("a", 1, &[2, 3]), Ok(quiet("a", 2)));
    assert_eq!(s.beat("b", 2), Ok(told("b", 2, &[0, 1])));
    assert_eq!(s.beat("b", 2), Ok(quiet("b", 2)), "told once");
    assert_eq!(s.group.phase(), ConsumerPhase::Stable);
    assert_eq!(s.epochs, [1, 2]);
}

#[test]
fn a_leaving_member_frees_its_partitions_at_once() {
    let mut s = Script::pair();
    assert_eq!(s.beat("b", -1), Ok(quiet("b", -1)));
    assert_eq!(s.gone, [("b".into(), GoneCause::Left(None))]);
    assert_eq!(s.beat("a", 2), Ok(told("a", 3, &[0, 1, 2, 3])));
    assert_eq!(s.beat("b", 2), Err(GroupError::UnknownMemberId));
    assert_eq!(s.beat("a", -1), Ok(quiet("a", -1)));
    assert_eq!(s.group.phase(), ConsumerPhase::Empty);
    assert_eq!(s.join("c", &["orders"]), told("c", 5, &[0, 1, 2, 3]), "epochs go on");
}

#[test]
fn new_partitions_are_assigned_and_deleted_ones_revoked() {
    let mut s = Script::pair();
    s.topic("orders", 1, 6);
    assert_eq!(s.beat("a", 2), Ok(told("a", 3, &[2, 3, 4])));
    assert_eq!(s.beat("b", 2), Ok(told("b", 3, &[0, 1, 5])));
    s.cluster.clear();
    assert_eq!(s.beat("a", 3), Ok(told("a", 3, &[])));
    assert_eq!(s.owns("a", 3, &[]), Ok(quiet("a", 4)));
    s.topic("orders", 9, 2);
    let alive = s.beat("a", 4).unwrap();
    assert_eq!(
        (alive.epoch, alive.assignment),
        (5, Some(of(9, &[0]))),
        "another topic of that name"
    );
}

#[test]
fn a_heartbeat_without_topics_changes_nothing() {
    let mut s = Script::pair();
    let beat = Box::new(beat("a", 2));
    let answer = s.ask(|token| GroupInput::ConsumerHeartbeat(token, beat));
    assert_eq!(answer, GroupAnswer::ConsumerHeartbeat(Ok(quiet("a", 2))));
    assert_eq!(s.epochs, [1, 2], "no news");
}

#[test]
fn a_new_subscription_takes_effect_at_once() {
    let mut s = Script::pair();
    s.topic("bills", 2, 2);
    let topics = Some(BTreeSet::from(["bills".into()]));
    let alive = s.send(ConsumerHeartbeat { topics, ..beat("a", 2) }).unwrap();
    assert_eq!(alive, told("a", 2, &[]), "first it gives up, and is told nothing it does not want");
    assert_eq!(s.beat("b", 2), Ok(quiet("b", 3)));
    let alive = s.owns("a", 2, &[]).unwrap();
    assert_eq!((alive.epoch, alive.assignment), (3, Some(of(2, &[0, 1]))));
    assert_eq!(s.beat("b", 3), Ok(told("b", 3, &[0, 1, 2, 3])));
}

#[test]
fn a_changed_subscription_during_revocation_revokes_all_partitions() {
    let mut s = Script::pair();
    s.join("c", &["orders"]);
    assert_eq!(s.beat("b", 2), Ok(told("b", 2, &[1])), "0 is to go to c");
    let topics = Some(BTreeSet::new());
    let alive = s.send(ConsumerHeartbeat { topics, ..beat("b", 2) }).unwrap();
    assert_eq!(alive, told("b", 2, &[]));
    assert_eq!(s.owns("b", 2, &[1]), Ok(quiet("b", 2)), "1 has to be given up too");
    assert_eq!(s.beat("c", 3), Ok(quiet("c", 4)));
    assert_eq!(s.owns("b", 2, &[]), Ok(quiet("b", 4)));
    assert_eq!(s.beat("c", 4).unwrap().assignment, Some(orders(&[0, 1])));
}

#[test]
fn a_subscription_to_a_missing_topic_waits_for_it() {
    let mut s = Script::new();
    assert_eq!(s.join("a", &["bills", "orders"]), told("a", 1, &[0, 1, 2, 3]));
    s.topic("bills", 2, 1);
    let alive = s.beat("a", 1).unwrap();
    assert_eq!(alive.epoch, 2);
    assert!(alive.assignment.unwrap().is_superset(&of(2, &[0])));
    assert!(s.group.subscribes(&"a".into(), &"bills".into()));
    assert!(!s.group.subscribes(&"b".into(), &"bills".into()));
}

#[test]
fn most_votes_choose_the_assignor() {
    let mut s = Script::new();
    for (id, assignor) in [("a", None), ("b", Some("range")), ("c", Some("uniform"))] {
        let assignor = assignor.map(str::to_owned);
        s.send(ConsumerHeartbeat { assignor, ..join(id, &["orders"]) }).unwrap();
    }
    assert_eq!(s.group.describe().assignor, "range", "one each: the alphabet");
    let ranges = s.group.describe().state.members;
    assert_eq!(ranges[0].target[0].partitions, [0, 1]);
    let assignor = Some("uniform".to_owned());
    s.send(ConsumerHeartbeat { assignor, ..join("d", &["orders"]) }).unwrap();
    assert_eq!(s.group.describe().assignor, "uniform");
}
