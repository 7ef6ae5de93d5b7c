//! Epoch and request checks, and their errors.

use super::*;

#[test]
fn a_member_continues_from_its_previous_epoch_after_lost_answers() {
    let mut s = Script::pair();
    s.join("c", &["orders"]);
    s.beat("b", 2).unwrap();
    let lost = s.owns("b", 2, &[1]).unwrap();
    assert_eq!(lost.epoch, 3);
    assert_eq!(s.beat("b", 2), Err(GroupError::FencedMemberEpoch), "it must say what it owns");
    assert_eq!(s.owns("b", 2, &[0, 1]), Err(GroupError::FencedMemberEpoch), "0 is not its own");
    assert_eq!(s.owns("b", 2, &[1]), Ok(quiet("b", 3)));
    assert_eq!(s.owns("b", 1, &[1]), Err(GroupError::FencedMemberEpoch), "two before");
    assert_eq!(s.beat("b", 4), Err(GroupError::FencedMemberEpoch), "never told");
}

#[test]
fn a_full_heartbeat_returns_the_assignment_again() {
    let mut s = Script::pair();
    let whole =
        ConsumerHeartbeat { epoch: 2, owned: Some(orders(&[2, 3])), ..join("a", &["orders"]) };
    assert_eq!(s.send(whole), Ok(told("a", 2, &[2, 3])));
    assert_eq!(s.epochs, [1, 2], "that is no news");
}

#[test]
fn a_rejoining_member_gets_its_partitions_back() {
    let mut s = Script::pair();
    assert_eq!(s.join("a", &["orders"]), told("a", 2, &[2, 3]));
    assert_eq!((s.epochs.len(), s.gone.len()), (2, 0), "nobody else is disturbed");
    assert_eq!(s.beat("a", 1), Err(GroupError::FencedMemberEpoch));
    // also during a revocation
    s.join("c", &["orders"]);
    assert_eq!(s.beat("b", 2), Ok(told("b", 2, &[1])));
    assert_eq!(s.join("b", &["orders"]), told("b", 3, &[1]));
    assert_eq!(s.beat("c", 3), Ok(told("c", 3, &[0])));
}

#[test]
fn unknown_members_are_refused_and_may_join() {
    let mut s = Script::pair();
    assert_eq!(s.beat("x", 2), Err(GroupError::UnknownMemberId));
    assert_eq!(s.beat("x", -1), Err(GroupError::UnknownMemberId));
    assert!(s.send(join("x", &["orders"])).is_ok());
}

#[test]
fn invalid_heartbeats_are_refused_without_any_change() {
    let mut s = Script::new();
    let invalid = |s: &mut Script, beat| {
        assert!(matches!(s.send(beat), Err(GroupError::InvalidRequest(_))));
        assert!(s.group.is_blank());
    };
    let good = || join("a", &["orders"]);
    invalid(&mut s, ConsumerHeartbeat { member_id: "".into(), ..good() });
    invalid(&mut s, ConsumerHeartbeat { instance_id: Some(String::new()), ..good() });
    invalid(&mut s, ConsumerHeartbeat { rack_id: Some(String::new()), ..good() });
    invalid(&mut s, ConsumerHeartbeat { rebalance_timeout_ms: None, ..good() });
    invalid(&mut s, ConsumerHeartbeat { owned: None, ..good() });
    invalid(&mut s, ConsumerHeartbeat { owned: Some(orders(&[1])), ..good() });
    invalid(&mut s, ConsumerHeartbeat { topics: None, ..good() });
    invalid(&mut s, beat("a", -2));
    invalid(&mut s, beat("a", -3));
    let assignor = Some("sticky".to_owned());
    let refused = s.send(ConsumerHeartbeat { assignor, ..good() });
    assert_eq!(refused, Err(GroupError::UnsupportedAssignor));
    let pattern = Some("orders.*".to_owned());
    let refused = s.send(ConsumerHeartbeat { pattern, ..good() });
    assert_eq!(refused, Err(GroupError::InvalidRegularExpression), "nobody has evaluated it");
    let none = ConsumerHeartbeat { pattern: Some(String::new()), topics: None, ..good() };
    assert_eq!(s.send(none), Ok(told("a", 1, &[])), "an empty pattern is none");
}

#[test]
fn a_full_group_admits_no_new_member() {
    let config = ConsumerConfig { members_max: 2, ..ConsumerConfig::default() };
    let mut s = Script::of(Consumer::new(config));
    s.join("a", &["orders"]);
    s.join("b", &["orders"]);
    assert_eq!(s.send(join("c", &["orders"])), Err(GroupError::GroupMaxSizeReached));
    assert!(s.send(join("a", &["orders"])).is_ok(), "whoever is in may join again");
}

#[test]
fn members_commit_and_fetch_offsets_only_at_their_epoch() {
    let mut s = Script::pair();
    assert_eq!(s.may_commit("a", 2), Ok(()));
    assert_eq!(s.may_commit("a", 1), Err(GroupError::StaleMemberEpoch));
    assert_eq!(s.may_commit("x", 2), Err(GroupError::UnknownMemberId));
    assert_eq!(s.may_commit("", -1), Err(GroupError::UnknownMemberId), "it has members");
    let a = MemberId::new("a");
    assert_eq!(s.group.fetch_check(Some(&a), 2), Ok(()));
    assert_eq!(s.group.fetch_check(Some(&a), 3), Err(GroupError::StaleMemberEpoch));
    assert_eq!(s.group.fetch_check(Some(&"x".into()), 2), Err(GroupError::UnknownMemberId));
    assert_eq!(s.group.fetch_check(None, -1), Ok(()), "an administrator");
    s.beat("a", -1).unwrap();
    s.beat("b", -1).unwrap();
    assert_eq!(s.may_commit("", -1), Ok(()), "an empty group keeps offsets for anyone");
}

#[test]
fn former_assignments_are_known_for_earlier_epochs() {
    let has_had = |s: &Script, id: &str, epoch: i32, indexes: &[i32]| {
        let named: Vec<_> = indexes.iter().map(|index| ("orders".into(), *index)).collect();
        s.group.has_had(&id.into(), epoch, named.iter())
    };
    let mut s = Script::pair();
    assert!(has_had(&s, "a", 1, &[2, 3]));
    assert!(!has_had(&s, "a", 1, &[2, 0]), "0 is another's by now");
    assert!(!has_had(&s, "b", 1, &[0, 1]), "it was given them later");
    for epoch in [-1, 0, 2, 3] {
        assert!(!has_had(&s, "a", epoch, &[2]), "{epoch}");
    }
    assert!(!has_had(&s, "x", 1, &[2]));
    assert!(!s.group.has_had(&"a".into(), 1, [("other".into(), 2)].iter()));
    s.join("c", &["orders"]);
    assert_eq!(s.beat("b", 2), Ok(told("b", 2, &[1])));
    assert_eq!(s.owns("b", 2, &[1]).unwrap().epoch, 3);
    assert!(has_had(&s, "b", 2, &[1]) && !has_had(&s, "b", 2, &[0]));
    s.join("b", &["orders"]);
    assert!(!has_had(&s, "b", 2, &[1]), "it has begun anew");
    assert!(!has_had(&s.restart(), "a", 1, &[2]), "that is not kept");
}

#[test]
fn requests_of_the_classic_protocol_are_refused_as_kafka_does() {
    let mut s = Script::pair();
    let beat = Heartbeat { member_id: "a".into(), instance_id: None, generation: 2 };
    let answer = s.ask(|token| GroupInput::Heartbeat(token, beat));
    assert_eq!(answer, GroupAnswer::Heartbeat(Err(GroupError::UnknownMemberId)));
    assert_eq!(s.group.member_keys().count(), 2);
}

#[test]
fn an_administrator_removes_any_member_by_its_id() {
    let mut s = Script::pair();
    assert_eq!(s.leaves("x", None), Err(GroupError::UnknownMemberId));
    s.send(instance("house", "h1")).unwrap();
    assert_eq!(s.leaves("a", Some("house")), Err(GroupError::FencedInstanceId));
    assert_eq!(s.leaves("h1", Some("house")), Ok(()));
    assert_eq!(s.leaves("a", None), Ok(()));
    assert_eq!(s.beat("a", 2), Err(GroupError::UnknownMemberId));
    assert_eq!(s.group.member_keys().count(), 1);
}

#[test]
fn only_an_empty_group_is_deleted_and_admits_no_members() {
    let mut s = Script::pair();
    assert_eq!(s.ask(GroupInput::Delete), GroupAnswer::Delete(Err(GroupError::NonEmptyGroup)));
    s.beat("a", -1).unwrap();
    s.beat("b", -1).unwrap();
    assert_eq!(s.ask(GroupInput::Delete), GroupAnswer::Delete(Ok(())));
    assert!(s.kept.is_empty(), "forgotten");
    assert_eq!(s.send(join("a", &["orders"])), Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(s.ask(GroupInput::Delete), GroupAnswer::Delete(Err(GroupError::GroupIdNotFound)));
}
