//! Static members (KIP-345): the membership outlives the process.

use super::*;

/// A group of the static member `one` with member id `a`, and a dynamic member `b`.
fn house() -> Script {
    let mut s = Script::new();
    s.send(instance("one", "a")).unwrap();
    s.join("b", &["orders"]);
    s.beat("a", 1).unwrap();
    s.owns("a", 1, &[2, 3]).unwrap();
    assert_eq!(s.beat("b", 2), Ok(told("b", 2, &[0, 1])));
    s
}

fn as_one(beat: ConsumerHeartbeat) -> ConsumerHeartbeat {
    ConsumerHeartbeat { instance_id: Some("one".into()), ..beat }
}

#[test]
fn a_returning_static_member_keeps_its_place() {
    let mut s = house();
    assert_eq!(s.send(as_one(beat("a", -2))), Ok(quiet("a", -2)));
    assert_eq!(s.beat("b", 2), Ok(quiet("b", 2)), "its place is kept");
    assert_eq!(s.may_commit("a", 2), Err(GroupError::StaleMemberEpoch));
    assert_eq!(s.send(as_one(beat("a", 2))), Err(GroupError::FencedMemberEpoch));
    assert_eq!(s.send(instance("one", "c")), Ok(told("c", 2, &[2, 3])));
    assert_eq!(s.gone, [("a".into(), GoneCause::Replaced)]);
    assert_eq!(s.epochs, [1, 2]);
    assert_eq!(s.beat("b", 2), Ok(quiet("b", 2)));
    assert_eq!(s.group.key_of(&"c".into()), Some("instance:one".into()));
    assert_eq!(s.send(as_one(beat("a", 2))), Err(GroupError::FencedInstanceId));
    assert_eq!(s.send(as_one(beat("a", -1))), Err(GroupError::FencedInstanceId));
}

#[test]
fn a_place_that_is_still_used_is_not_given_away() {
    let mut s = house();
    assert_eq!(s.send(instance("one", "c")), Err(GroupError::UnreleasedInstanceId));
    assert_eq!(s.send(instance("one", "a")), Ok(told("a", 2, &[2, 3])), "its own process may");
    s.send(as_one(beat("a", -2))).unwrap();
    assert_eq!(s.send(instance("one", "b")), Err(GroupError::UnreleasedInstanceId), "b is b");
}

#[test]
fn an_absent_static_member_loses_its_place_with_its_session() {
    let mut s = house();
    s.send(as_one(beat("a", -2))).unwrap();
    s.pass(SESSION_MS - 1);
    s.beat("b", 2).unwrap();
    assert!(s.gone.is_empty());
    s.pass(1);
    assert_eq!(s.gone, [("a".into(), GoneCause::Expired)]);
    assert_eq!(s.beat("b", 2), Ok(told("b", 3, &[0, 1, 2, 3])));
    assert_eq!(s.send(as_one(beat("a", 2))), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_static_member_that_leaves_for_good_is_gone() {
    let mut s = house();
    assert_eq!(s.send(as_one(beat("a", -1))), Ok(quiet("a", -1)));
    assert_eq!(s.beat("b", 2), Ok(told("b", 3, &[0, 1, 2, 3])));
    assert!(s.send(instance("one", "c")).is_ok(), "a new member");
}

#[test]
fn partitions_to_revoke_are_free_while_a_static_member_leaves() {
    let mut s = Script::new();
    s.send(instance("one", "a")).unwrap();
    s.join("c", &["orders"]);
    assert_eq!(s.send(as_one(beat("a", 1))), Ok(told("a", 1, &[2, 3])));
    assert_eq!(s.beat("c", 2), Ok(quiet("c", 2)));
    s.send(as_one(beat("a", -2))).unwrap();
    assert_eq!(s.beat("c", 2), Ok(told("c", 2, &[0, 1])));
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance_id() {
    let mut s = house();
    assert_eq!(s.group.key_of(&"a".into()), Some("instance:one".into()));
    let leaver = Leaver {
        member_id: "".into(),
        instance_id: Some("one".into()),
        reason: Some("scaled down".into()),
    };
    let answer = s.ask(|token| {
        GroupInput::Leave(token, LeaveRequest { members: vec![leaver.clone(), leaver] })
    });
    let GroupAnswer::Leave(Ok(left)) = answer else { panic!("{answer:?}") };
    let results: Vec<_> = left.into_iter().map(|left| left.result).collect();
    assert_eq!(results, [Ok(()), Err(GroupError::UnknownMemberId)]);
    assert_eq!(s.gone, [("a".into(), GoneCause::Left(Some("scaled down".into())))]);
    assert_eq!(s.beat("b", 2), Ok(told("b", 3, &[0, 1, 2, 3])));
}
