//! Start, course and end of a rebalance.

use super::*;

#[test]
fn a_single_member_starts_without_waiting() {
    let mut s = Script::new();
    let join = s.join(member("a"));
    let joined = s.joined(join);
    assert_eq!((joined.generation, joined.leader.as_str()), (1, "a"));
    assert_eq!(joined.members.len(), 1);
    let sync = s.sync("a", 1, &[("a", "p0")]);
    assert_eq!(s.synced(sync).unwrap(), "p0");
    assert_eq!(s.group.phase(), GroupPhase::Stable);
    assert_eq!(s.kept.len(), 1);
    assert_eq!(s.kept[0].members[0].assignment, "p0");
}

#[test]
fn a_second_member_triggers_a_rebalance_and_both_are_assigned() {
    let mut s = Script::new();
    s.join(member("a"));
    s.sync("a", 1, &[("a", "all")]);
    let b = s.join(member("b"));
    assert!(s.waits(b));
    assert_eq!(s.beat("a", 1), Err(GroupError::RebalanceInProgress));
    let a = s.join(again("a"));
    let (a, b) = (s.joined(a), s.joined(b));
    assert_eq!((a.generation, b.generation), (2, 2));
    assert_eq!((a.leader.as_str(), b.leader.as_str()), ("a", "a"));
    assert_eq!((a.members.len(), b.members.len()), (2, 0), "only the leader sees everyone");
    assert_eq!(a.members[1].metadata, "b");
    let b = s.sync("b", 2, &[]);
    assert!(s.waits(b));
    let a = s.sync("a", 2, &[("a", "p0"), ("b", "p1")]);
    assert_eq!((s.synced(a).unwrap(), s.synced(b).unwrap()), ("p0".into(), "p1".into()));
    assert_eq!(s.beat("b", 2), Ok(()));
}

#[test]
fn the_state_is_kept_before_its_answers() {
    let mut group = Classic::new(ClassicConfig::default());
    let now = Moment::default();
    group.handle(now, GroupInput::Join(RequestId(1), member("a")));
    while group.poll_output().is_some() {}
    let sync = Sync {
        member_id: "a".into(),
        instance_id: None,
        generation: 1,
        protocol_type: None,
        protocol: None,
        assignments: Vec::new(),
    };
    group.handle(now, GroupInput::Sync(RequestId(2), sync));
    assert!(matches!(group.poll_output(), Some(GroupOutput::Persist(_))));
    assert!(matches!(
        group.poll_output(),
        Some(GroupOutput::Answer(RequestId(2), GroupAnswer::Sync(Ok(_))))
    ));
}

#[test]
fn a_member_without_an_assignment_by_the_leader_gets_none() {
    let mut s = Script::pair();
    s.join(again("a"));
    s.join(again("b"));
    let b = s.sync("b", 3, &[]);
    s.sync("a", 3, &[("a", "all"), ("stranger", "x")]);
    assert_eq!(s.synced(b).unwrap(), "");
}

#[test]
fn a_cooperative_rejoin_with_new_metadata_rebalances_without_losing_anyone() {
    let mut s = Script::pair();
    let join = JoinRequest { protocols: vec![protocol("range", "b owns p1")], ..again("b") };
    let b = s.join(join);
    assert!(s.waits(b));
    let a = s.join(again("a"));
    assert_eq!(s.joined(a).members[1].metadata, "b owns p1");
    assert_eq!(s.joined(b).generation, 3);
    assert!(s.gone.is_empty());
}

#[test]
fn an_unchanged_follower_rejoins_without_a_rebalance() {
    let mut s = Script::pair();
    let b = s.join(again("b"));
    assert_eq!(s.joined(b).generation, 2);
    assert_eq!(s.beat("a", 2), Ok(()));
}

#[test]
fn a_leader_that_joins_again_forces_a_rebalance() {
    let mut s = Script::pair();
    let a = s.join(again("a"));
    assert!(s.waits(a));
    assert_eq!(s.beat("b", 2), Err(GroupError::RebalanceInProgress));
}

#[test]
fn a_repeated_join_gets_the_same_answer() {
    let mut s = Script::new();
    let first = s.join(member("a"));
    let second = s.join(again("a"));
    assert_eq!(s.joined(first), s.joined(second));
}

#[test]
fn another_leader_follows_a_leader_that_leaves() {
    let mut s = Script::pair();
    s.leave("a", None).unwrap();
    let b = s.join(again("b"));
    let joined = s.joined(b);
    assert_eq!((joined.leader.as_str(), joined.generation), ("b", 3));
    assert_eq!(joined.members.len(), 1);
    assert_eq!(s.gone, [("a".into(), GoneCause::Left(Some("shutdown".into())))]);
}

#[test]
fn a_join_during_sync_sends_waiting_members_back() {
    let mut s = Script::pair();
    s.join(again("a"));
    s.join(again("b"));
    let b = s.sync("b", 3, &[]);
    let c = s.join(member("c"));
    assert_eq!(s.synced(b), Err(GroupError::RebalanceInProgress));
    assert!(s.waits(c));
    let late = s.sync("a", 3, &[("a", "x")]);
    assert_eq!(s.synced(late), Err(GroupError::RebalanceInProgress));
}

#[test]
fn the_group_selects_the_preferred_common_protocol() {
    let mut s = Script::new();
    let of = |id: &str, names: &[&str]| JoinRequest {
        protocols: names.iter().map(|name| protocol(name, id)).collect(),
        ..member(id)
    };
    s.join(of("a", &["sticky", "range", "robin"]));
    let b = s.join(of("b", &["range", "robin"]));
    s.join(of("c", &["robin", "range"]));
    s.join(JoinRequest { member_id: "a".into(), ..of("a", &["sticky", "range", "robin"]) });
    assert_eq!(s.joined(b).protocol.as_deref(), Some("range"));
}

#[test]
fn a_member_that_shares_no_protocol_is_refused() {
    let mut s = Script::pair();
    let other = s.join(JoinRequest { protocols: vec![protocol("robin", "")], ..member("c") });
    assert_eq!(s.join_error(other), GroupError::InconsistentGroupProtocol);
    let connect = s.join(JoinRequest { protocol_type: "connect".into(), ..member("d") });
    assert_eq!(s.join_error(connect), GroupError::InconsistentGroupProtocol);
    let none = s.join(JoinRequest { protocols: Vec::new(), ..member("e") });
    assert_eq!(s.join_error(none), GroupError::InconsistentGroupProtocol);
    let many = vec![protocol("range", ""); 65];
    let many = s.join(JoinRequest { protocols: many, ..member("f") });
    assert_eq!(s.join_error(many), GroupError::InconsistentGroupProtocol);
    assert_eq!(s.beat("a", 2), Ok(()), "the group is left alone");
}

#[test]
fn a_sync_with_another_protocol_is_refused() {
    let mut s = Script::pair();
    let sync = Sync {
        member_id: "b".into(),
        instance_id: None,
        generation: 2,
        protocol_type: Some("consumer".into()),
        protocol: Some("robin".into()),
        assignments: Vec::new(),
    };
    let token = s.send(|token| GroupInput::Sync(token, sync));
    assert_eq!(s.synced(token), Err(GroupError::InconsistentGroupProtocol));
}

#[test]
fn a_full_group_refuses_one_more() {
    let config = ClassicConfig { members_max: 1, ..ClassicConfig::default() };
    let mut s = Script::of(Classic::new(config));
    s.join(member("a"));
    let b = s.join(member("b"));
    assert_eq!(s.join_error(b), GroupError::GroupMaxSizeReached);
    assert_eq!(s.beat("a", 1), Ok(()));
}

#[test]
fn the_first_rebalance_waits_as_long_as_members_keep_coming() {
    let config = ClassicConfig { initial_rebalance_delay_ms: 3_000, ..ClassicConfig::default() };
    let mut s = Script::of(Classic::new(config));
    let a = s.join(member("a"));
    s.pass(2_000);
    let b = s.join(member("b"));
    s.pass(2_000);
    assert!(s.waits(a) && s.waits(b), "b came during the first wait, so there is a second");
    s.pass(2_000);
    assert_eq!((s.joined(a).generation, s.joined(b).generation), (1, 1));
}

#[test]
fn commits_are_granted_to_the_current_generation_only() {
    let mut s = Script::new();
    assert_eq!(s.may_commit("", -1), Ok(()), "a client outside groups");
    assert_eq!(s.may_commit("a", 1), Err(GroupError::UnknownMemberId));
    let mut s = Script::pair();
    assert_eq!(s.may_commit("a", 2), Ok(()));
    assert_eq!(s.may_commit("a", 1), Err(GroupError::IllegalGeneration));
    assert_eq!(s.may_commit("c", 2), Err(GroupError::UnknownMemberId));
    assert_eq!(s.may_commit("", -1), Err(GroupError::UnknownMemberId), "the group has members");
    let a = s.join(again("a"));
    assert_eq!(s.may_commit("b", 2), Ok(()), "before it joins again, a member may commit");
    s.join(again("b"));
    assert_eq!(s.joined(a).generation, 3);
    assert_eq!(s.may_commit("b", 3), Err(GroupError::RebalanceInProgress));
    assert_eq!(s.may_commit_in(true, "b", 3), Ok(()), "what is done in a transaction is done");
    assert_eq!(s.may_commit_in(true, "b", 2), Err(GroupError::IllegalGeneration));
}

#[test]
fn a_group_is_deleted_only_while_empty() {
    let mut s = Script::pair();
    let refused = s.send(GroupInput::Delete);
    assert_eq!(s.answers[&refused], GroupAnswer::Delete(Err(GroupError::NonEmptyGroup)));
    s.leave("a", None).unwrap();
    s.leave("b", None).unwrap();
    let granted = s.send(GroupInput::Delete);
    assert_eq!(s.answers[&granted], GroupAnswer::Delete(Ok(())));
    assert!(s.kept.is_empty());
    let late = s.join(member("c"));
    assert_eq!(s.join_error(late), GroupError::CoordinatorNotAvailable);
}

#[test]
fn a_description_shows_metadata_and_assignment_of_a_stable_group() {
    let s = Script::pair();
    let shown = s.group.describe();
    assert_eq!((shown.phase, shown.generation), (GroupPhase::Stable, 2));
    assert_eq!(shown.protocol.as_deref(), Some("range"));
    assert_eq!(
        (&shown.members[1].metadata[..], &shown.members[1].assignment[..]),
        (&b"b"[..], &b"b"[..])
    );
    assert_eq!(s.group.subscription(&"b".into()).unwrap(), "b");
    assert_eq!(s.group.subscription(&"c".into()), None);
}
