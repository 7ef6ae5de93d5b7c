//! Static members (KIP-345): restarts without a rebalance, fencing.

use super::*;

/// A stable group of the static members `x` (leader, id `x1`) and `y` (id `y1`).
fn static_pair() -> Script {
    let mut s = Script::new();
    s.join(instance("x", "x1"));
    s.sync("x1", 1, &[("x1", "all")]);
    s.join(instance("y", "y1"));
    s.join(JoinRequest { member_id: "x1".into(), ..instance("x", "unused") });
    s.sync("y1", 2, &[]);
    s.sync("x1", 2, &[("x1", "p0"), ("y1", "p1")]);
    assert_eq!(s.group.phase(), GroupPhase::Stable);
    s
}

#[test]
fn a_restarted_static_member_keeps_its_assignment_without_a_rebalance() {
    let mut s = static_pair();
    let join = s.join(instance("y", "y2"));
    let joined = s.joined(join);
    assert_eq!((joined.member_id.as_str(), joined.generation), ("y2", 2));
    assert!(!joined.skip_assignment && joined.members.is_empty());
    let sync = s.sync("y2", 2, &[]);
    assert_eq!(s.synced(sync).unwrap(), "p1");
    assert_eq!(s.beat("x1", 2), Ok(()));
    let kept = &s.kept.last().unwrap().members[1];
    assert_eq!((kept.member_id.as_str(), &kept.assignment[..]), ("y2", &b"p1"[..]));
    assert_eq!(s.gone, [("y1".into(), GoneCause::Replaced)]);
}

#[test]
fn the_process_that_was_replaced_is_fenced() {
    let mut s = static_pair();
    s.join(instance("y", "y2"));
    assert_eq!(s.beat_as("y1", Some("y"), 2), Err(GroupError::FencedInstanceId));
    assert_eq!(s.leave("y1", Some("y")), Err(GroupError::FencedInstanceId));
    let join = s.join(JoinRequest { member_id: "y1".into(), ..instance("y", "unused") });
    assert_eq!(s.join_error(join), GroupError::FencedInstanceId);
    assert_eq!(s.beat_as("y1", None, 2), Err(GroupError::UnknownMemberId));
    assert_eq!(s.beat_as("y2", Some("y"), 2), Ok(()));
}

#[test]
fn a_restarted_static_leader_skips_the_assignment() {
    let mut s = static_pair();
    let join = s.join(instance("x", "x2"));
    let joined = s.joined(join);
    assert!(joined.skip_assignment);
    assert_eq!((joined.leader.as_str(), joined.members.len()), ("x2", 2));
    // The new process is the leader: only its next join forces a rebalance.
    let join = s.join(JoinRequest { member_id: "x2".into(), ..instance("x", "unused") });
    assert!(s.waits(join));
}

#[test]
fn an_old_client_as_restarted_static_leader_assigns_nothing() {
    let mut s = static_pair();
    let join = s.join(JoinRequest { can_skip_assignment: false, ..instance("x", "x2") });
    let joined = s.joined(join);
    assert_eq!((joined.leader.as_str(), joined.members.len()), ("x1", 0));
    assert!(!joined.skip_assignment);
}

#[test]
fn a_static_member_that_comes_back_with_another_protocol_rebalances() {
    let mut s = Script::new();
    let both = vec![protocol("range", ""), protocol("robin", "")];
    s.join(JoinRequest { protocols: both, ..instance("x", "x1") });
    s.sync("x1", 1, &[("x1", "all")]);
    assert_eq!(s.group.describe().protocol.as_deref(), Some("range"));
    let join =
        s.join(JoinRequest { protocols: vec![protocol("robin", "")], ..instance("x", "x2") });
    let joined = s.joined(join);
    assert_eq!((joined.generation, joined.protocol.as_deref()), (2, Some("robin")));
}

#[test]
fn a_static_member_replaced_in_the_sync_phase_rebalances() {
    let mut s = static_pair();
    s.join(JoinRequest { member_id: "x1".into(), ..instance("x", "unused") });
    s.join(JoinRequest { member_id: "y1".into(), ..instance("y", "unused") });
    let old = s.sync("y1", 3, &[]);
    let new = s.join(instance("y", "y2"));
    assert_eq!(s.synced(old), Err(GroupError::FencedInstanceId));
    assert!(s.waits(new));
    let x = s.join(JoinRequest { member_id: "x1".into(), ..instance("x", "unused") });
    assert_eq!(s.joined(x).members[1].member_id.as_str(), "y2");
    assert_eq!(s.joined(new).generation, 4);
}

#[test]
fn a_join_that_waits_is_fenced_by_its_successor() {
    let mut s = static_pair();
    let join =
        JoinRequest { protocols: vec![protocol("range", "news")], ..instance("y", "unused") };
    let old = s.join(JoinRequest { member_id: "y1".into(), ..join });
    assert!(s.waits(old));
    let new = s.join(instance("y", "y2"));
    assert_eq!(s.join_error(old), GroupError::FencedInstanceId);
    assert!(s.waits(new));
}

#[test]
fn the_replacement_of_a_joining_static_member_may_also_wait() {
    let mut s = Script::new();
    s.join(member("a"));
    s.sync("a", 1, &[("a", "all")]);
    let old = s.join(instance("x", "x1"));
    let new = s.join(instance("x", "x2"));
    assert_eq!(s.join_error(old), GroupError::FencedInstanceId);
    for _ in 0..5 {
        s.pass(SESSION_MS - 1);
        assert_eq!(s.beat("a", 1), Err(GroupError::RebalanceInProgress));
    }
    assert!(s.waits(new), "it has no id to send heartbeats with");
    let a = s.join(again("a"));
    assert_eq!(s.joined(a).members.len(), 2);
    assert_eq!(s.joined(new).generation, 2);
}

#[test]
fn a_restarting_static_member_keeps_its_place_in_a_rebalance() {
    let mut s = static_pair();
    let long = JoinRequest { session_timeout_ms: 600_000, ..instance("y", "y2") };
    s.join(long);
    s.sync("y2", 2, &[]);
    let x = s.join(JoinRequest { member_id: "x1".into(), ..instance("x", "unused") });
    s.pass(REBALANCE_MS);
    assert_eq!(s.joined(x).members.len(), 2, "y2 did not join, but its session lives");
    s.sync("x1", 3, &[("x1", "p0"), ("y2", "p1")]);
    let y = s.join(instance("y", "y3"));
    assert_eq!(s.joined(y).generation, 3);
    let y = s.sync("y3", 3, &[]);
    assert_eq!(s.synced(y).unwrap(), "p1");
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance() {
    let mut s = static_pair();
    assert_eq!(s.group.key_of(&"y1".into()), Some("instance:y".into()));
    assert_eq!(s.leave("", Some("z")), Err(GroupError::UnknownMemberId));
    assert_eq!(s.leave("", Some("y")), Ok(()));
    assert_eq!(s.beat_as("x1", Some("x"), 2), Err(GroupError::RebalanceInProgress));
    assert_eq!(s.beat_as("y1", Some("y"), 2), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_static_member_survives_a_restart_of_the_coordinator() {
    let mut s = static_pair().restart();
    let join = s.join(instance("y", "y2"));
    assert_eq!(s.joined(join).generation, 2);
    assert_eq!(s.group.subscription(&"instance:y".into()).unwrap(), "y");
    assert_eq!(
        s.group.member_keys().map(|key| key.to_string()).collect::<Vec<_>>(),
        ["instance:x", "instance:y"]
    );
}
