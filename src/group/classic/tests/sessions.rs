//! Members that fall silent, leave or return.

use super::*;

#[test]
fn a_silent_member_is_removed_and_the_others_rebalance() {
    let mut s = Script::pair();
    for _ in 0..9 {
        s.pass(1_000);
        s.beat("a", 2).unwrap();
    }
    assert!(s.gone.is_empty());
    s.pass(1_000);
    assert_eq!(s.gone, [("b".into(), GoneCause::Expired)]);
    assert_eq!(s.beat("a", 2), Err(GroupError::RebalanceInProgress));
    assert_eq!(s.beat("b", 2), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_commit_counts_as_a_heartbeat() {
    let mut s = Script::pair();
    for _ in 0..5 {
        s.pass(SESSION_MS - 1);
        s.may_commit("a", 2).unwrap();
        s.may_commit("b", 2).unwrap();
    }
    assert!(s.gone.is_empty());
}

#[test]
fn a_group_without_members_keeps_its_generation() {
    let mut s = Script::pair();
    s.pass(SESSION_MS);
    assert_eq!(s.group.phase(), GroupPhase::Empty);
    let kept = s.kept.last().unwrap();
    assert_eq!((kept.generation, kept.members.len()), (3, 0));
    let next = s.join(member("c"));
    assert_eq!(s.joined(next).generation, 4);
}

#[test]
fn a_member_without_a_rejoin_expires_after_the_rebalance_timeout() {
    let mut s = Script::pair();
    let a = s.join(again("a"));
    for _ in 0..59 {
        s.pass(1_000);
        assert_eq!(s.beat("b", 2), Err(GroupError::RebalanceInProgress), "alive, but not joining");
    }
    assert!(s.waits(a));
    s.pass(1_000);
    assert_eq!(s.joined(a).members.len(), 1);
    assert_eq!(s.gone, [("b".into(), GoneCause::Expired)]);
}

#[test]
fn a_member_waiting_in_a_rebalance_does_not_expire() {
    let mut s = Script::pair();
    let a = s.join(again("a"));
    for _ in 0..5 {
        s.pass(SESSION_MS - 1);
        assert_eq!(s.beat("b", 2), Err(GroupError::RebalanceInProgress));
    }
    assert!(s.gone.is_empty() && s.waits(a));
}

#[test]
fn a_member_without_a_sync_is_removed_after_the_timeout() {
    let mut s = Script::pair();
    s.join(again("a"));
    s.join(again("b"));
    s.sync("a", 3, &[("a", "a"), ("b", "b")]);
    s.pass_alive(REBALANCE_MS - 1_000, &["a", "b"], 3);
    assert!(s.gone.is_empty());
    s.pass(1_000);
    assert_eq!(s.gone, [("b".into(), GoneCause::Expired)]);
    assert_eq!(s.beat("a", 3), Err(GroupError::RebalanceInProgress));
}

#[test]
fn a_follower_is_released_when_its_leader_expires() {
    let mut s = Script::pair();
    s.join(again("a"));
    s.join(again("b"));
    let b = s.sync("b", 3, &[]);
    s.pass(SESSION_MS);
    assert_eq!(s.synced(b), Err(GroupError::RebalanceInProgress));
    let b = s.join(again("b"));
    assert_eq!(s.joined(b).leader.as_str(), "b");
}

#[test]
fn a_rebalance_waits_for_a_new_member_with_its_id() {
    let mut s = Script::pair();
    let c = s.join(JoinRequest { require_known_member_id: true, ..member("c") });
    assert_eq!(s.join_error(c), GroupError::MemberIdRequired);
    assert_eq!(s.beat("a", 2), Ok(()), "an id alone is no rebalance");
    let b = s.join(JoinRequest { protocols: vec![protocol("range", "news")], ..again("b") });
    let a = s.join(again("a"));
    assert!(s.waits(a) && s.waits(b), "c was promised a place");
    let c = s.join(again("c"));
    assert_eq!(s.joined(c).generation, 3);
    assert_eq!(s.joined(a).members.len(), 3);
}

#[test]
fn an_unused_member_id_is_forgotten() {
    let mut s = Script::pair();
    s.join(JoinRequest { require_known_member_id: true, ..member("c") });
    let b = s.join(JoinRequest { protocols: vec![protocol("range", "news")], ..again("b") });
    let a = s.join(again("a"));
    assert!(s.waits(a));
    s.pass(SESSION_MS);
    assert_eq!((s.joined(a).members.len(), s.joined(b).generation), (2, 3));
    let late = s.join(again("c"));
    assert_eq!(s.join_error(late), GroupError::UnknownMemberId);
}

#[test]
fn session_timeouts_outside_the_bounds_are_refused() {
    let mut s = Script::new();
    for session_timeout_ms in [0, 5_999, 1_800_001, u64::MAX] {
        let token = s.join(JoinRequest { session_timeout_ms, ..member("a") });
        assert_eq!(s.join_error(token), GroupError::InvalidSessionTimeout);
    }
    for session_timeout_ms in [6_000, 1_800_000] {
        let id = session_timeout_ms.to_string();
        let mut s = Script::new();
        let token = s.join(JoinRequest { session_timeout_ms, ..member(&id) });
        assert_eq!(s.joined(token).generation, 1);
    }
}

#[test]
fn a_restart_within_the_session_timeout_is_no_rebalance() {
    let mut s = Script::pair();
    s.pass(SESSION_MS - 1);
    let mut s = s.restart();
    s.pass(SESSION_MS - 1);
    assert_eq!((s.beat("a", 2), s.beat("b", 2)), (Ok(()), Ok(())));
    let b = s.sync("b", 2, &[]);
    assert_eq!(s.synced(b).unwrap(), "b");
    assert!(s.gone.is_empty() && s.generations.is_empty());
    assert_eq!(s.group.subscription(&"b".into()).unwrap(), "b");
}

#[test]
fn a_member_absent_after_a_restart_expires() {
    let mut s = Script::pair().restart();
    s.pass_alive(SESSION_MS - 1_000, &["a"], 2);
    s.pass(1_000);
    assert_eq!(s.gone, [("b".into(), GoneCause::Expired)]);
}

#[test]
fn members_repeat_a_rebalance_cut_short_by_a_restart() {
    let mut s = Script::pair();
    s.join(again("a"));
    s.join(again("b"));
    let mut s = s.restart();
    assert_eq!(s.beat("a", 3), Err(GroupError::IllegalGeneration));
    let a = s.join(again("a"));
    let b = s.join(again("b"));
    assert_eq!((s.joined(a).generation, s.joined(b).generation), (3, 3));
}
