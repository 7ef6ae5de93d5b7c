//! Session timeouts, revocation timeouts and restarts.

use super::*;

#[test]
fn a_silent_member_expires_and_others_get_its_partitions() {
    let mut s = Script::pair();
    for _ in 0..8 {
        s.pass(5_000);
        s.beat("a", 2).unwrap();
    }
    s.pass(4_999);
    assert!(s.gone.is_empty());
    s.pass(1);
    assert_eq!(s.gone, [("b".into(), GoneCause::Expired)]);
    assert_eq!(s.beat("a", 2), Ok(told("a", 3, &[0, 1, 2, 3])));
    assert_eq!(s.beat("b", 2), Err(GroupError::UnknownMemberId));
    s.pass(SESSION_MS);
    assert_eq!(s.group.phase(), ConsumerPhase::Empty);
    assert_eq!(s.group.poll_timeout(), None);
    assert_eq!(s.kept.last().map(|kept| (kept.epoch, kept.members.len())), Some((4, 0)));
}

#[test]
fn a_member_without_a_timely_revocation_is_removed() {
    let mut s = Script::pair();
    s.join("c", &["orders"]);
    s.beat("b", 2).unwrap();
    for _ in 0..11 {
        s.pass(5_000);
        for (id, epoch) in [("a", 3), ("b", 2), ("c", 3)] {
            s.owns(id, epoch.min(s.epoch_of(id)), &[0, 1, 2, 3]).unwrap();
        }
    }
    assert!(s.gone.is_empty());
    s.pass(4_999);
    assert!(s.gone.is_empty());
    s.pass(1);
    assert_eq!(s.gone, [("b".into(), GoneCause::Expired)]);
    assert_eq!(s.beat("b", 2), Err(GroupError::UnknownMemberId));
    assert_eq!(s.beat("c", 3), Ok(told("c", 4, &[0, 1])));
    s.beat("a", 3).unwrap();
    s.pass(REBALANCE_MS - 20_000);
    assert_eq!(s.gone.len(), 1, "nobody else is waited for");
}

#[test]
fn a_timely_revocation_ends_the_wait_for_its_member() {
    let mut s = Script::pair();
    s.join("c", &["orders"]);
    s.beat("b", 2).unwrap();
    s.pass(40_000);
    s.owns("b", 2, &[1]).unwrap();
    s.pass(REBALANCE_MS - 40_000);
    assert!(s.gone.iter().all(|(id, _)| id != "b"), "{:?}", s.gone);
}

#[test]
fn a_restart_within_the_session_timeout_is_not_noticed() {
    let mut s = Script::pair();
    s.pass(SESSION_MS - 1);
    let mut s = s.restart();
    s.pass(SESSION_MS - 1);
    assert_eq!(s.beat("a", 2), Ok(quiet("a", 2)));
    assert_eq!(s.beat("b", 2), Ok(quiet("b", 2)));
    assert_eq!(s.may_commit("a", 2), Ok(()));
    assert!(s.gone.is_empty() && s.epochs.is_empty());
}

#[test]
fn a_restart_continues_a_pending_revocation() {
    let mut s = Script::pair();
    s.join("c", &["orders"]);
    assert_eq!(s.beat("b", 2), Ok(told("b", 2, &[1])));
    let mut s = s.restart();
    assert_eq!(s.beat("c", 3), Ok(quiet("c", 3)), "0 is still b's");
    assert_eq!(s.owns("b", 2, &[1]), Ok(quiet("b", 3)));
    assert_eq!(s.beat("c", 3), Ok(told("c", 3, &[0])));
}

#[test]
fn the_revocation_timeout_starts_again_after_a_restart() {
    let mut s = Script::pair();
    s.join("c", &["orders"]);
    s.beat("b", 2).unwrap();
    s.pass(40_000);
    let mut s = s.restart();
    for _ in 0..11 {
        s.pass(5_000);
        s.beat("a", s.epoch_of("a")).unwrap();
        s.beat("b", 2).unwrap();
    }
    s.pass(4_999);
    assert!(s.gone.iter().all(|(id, _)| id != "b"), "{:?}", s.gone);
    s.pass(1);
    assert!(s.gone.contains(&("b".into(), GoneCause::Expired)));
}

#[test]
fn quiet_heartbeats_keep_nothing() {
    let mut s = Script::pair();
    let kept = s.kept.len();
    for _ in 0..10 {
        s.pass(5_000);
        s.beat("a", 2).unwrap();
        s.beat("b", 2).unwrap();
    }
    assert_eq!(s.kept.len(), kept);
}
