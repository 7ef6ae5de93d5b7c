//! Nacks in the metadata of commits, and inferred failures that an entry takes over.

use super::*;
use crate::retry::{Disposition, Evidence, RetryState};

fn marked(rig: &mut Rig, nacks: Vec<Nack>) -> LedgerAnswer {
    let by = Reporter { member: None, client: "app".into() };
    rig.send(LedgerInput::Marked { group: shop(), by, nacks }).unwrap()
}

fn changes_nothing(rig: &mut Rig, nack: Nack) {
    let before = (rig.only(), rig.journal.len());
    let answer = marked(rig, vec![nack]);
    assert_eq!(answer, LedgerAnswer::Nacked(vec![NackOutcome::Nothing { id: before.0.id }]));
    assert_eq!((rig.only(), rig.journal.len()), before);
}

#[test]
fn a_commit_marker_nacks_records_of_its_partition() {
    let mut rig = Rig::new(Policy::default());
    let reason = Some("no stock".to_owned());
    let answer = marked(&mut rig, vec![Nack { reason, ..fail(1) }]);
    assert!(matches!(answer, LedgerAnswer::Nacked(outcomes) if outcomes.len() == 1));
    let Some(Fact::Entry { entry, cause, .. }) = rig.journal.last() else { panic!() };
    assert_eq!((entry.reconsume_times, entry.reason.as_deref()), (1, Some("no stock")));
    assert_eq!(
        (cause.evidence, cause.evidence.as_str()),
        (Evidence::CommitMarker, "commit_marker")
    );
    assert_eq!(cause.by.as_ref().unwrap().client.as_str(), "app");
    marked(&mut rig, vec![level(fail(2), -1)]);
    assert_eq!(rig.count(StateKind::Dead), 1);
}

#[test]
fn a_repeated_commit_marker_charges_nothing() {
    let mut rig = Rig::new(Policy::default());
    marked(&mut rig, vec![fail(1)]);
    rig.origin_commit(2);
    changes_nothing(&mut rig, fail(1));
    rig.advance(10_000);
    let (place, _) = rig.release_one();
    changes_nothing(&mut rig, fail(1));
    rig.acknowledge(place);
    changes_nothing(&mut rig, fail(1));
}

#[test]
fn a_retry_named_by_its_delivery_is_charged_once() {
    let mut rig = Rig::new(Policy::default());
    let (place, _) = rig.unread(1);
    let answer = marked(&mut rig, vec![fail_delivery(place)]);
    assert!(matches!(answer, LedgerAnswer::Nacked(_)));
    assert_eq!(rig.only().reconsume_times, 2);
    changes_nothing(&mut rig, fail_delivery(place));
    let never = marked(&mut rig, vec![fail(2), fail_delivery(after(place))]);
    assert_eq!(never, LedgerAnswer::BadNacks(vec![(1, BadNack::NotRemembered)]));
    assert_eq!(rig.only().reconsume_times, 2, "nothing of it is taken");
}

#[test]
fn a_nacked_suspect_keeps_its_failure_count() {
    let mut rig = Rig::new(Policy::default());
    let history = vec![(WallMs(10), Disposition::Crashed), (WallMs(20), Disposition::SeekBack)];
    let carried = || FailureHistory { reconsume_times: 2, history: history.clone(), spared: false };
    rig.nack(Nack { carried: carried(), ..fail(1) }).unwrap();
    let entry = rig.only();
    let due = rig.now.wall.plus(60_000);
    assert_eq!(entry.reconsume_times, 3, "charged once");
    assert_eq!(entry.state, RetryState::Waiting { due, delay_ms: 60_000, level: Some(5) });
    assert_eq!((entry.first_failed, entry.last_failed), (Some(WallMs(10)), Some(rig.now.wall)));
    let words: Vec<Disposition> = entry.history.iter().map(|(_, word)| *word).collect();
    assert_eq!(words, [Disposition::Crashed, Disposition::SeekBack, Disposition::Rejected]);
    changes_nothing(&mut rig, Nack { carried: carried(), ..fail(1) });
    let mut rig = Rig::new(max(2));
    rig.nack(Nack { carried: carried(), ..fail(1) }).unwrap();
    assert_eq!(rig.only().disposition, Some(Disposition::MaxAttempts), "it was its last");
}

#[test]
fn a_group_with_an_open_breaker_retries_uncharged() {
    let mut rig = Rig::new(Policy { max_reconsume_times: 0, ..Policy::default() });
    let spared = || FailureHistory { spared: true, ..FailureHistory::default() };
    rig.nack(Nack { carried: spared(), ..fail(1) }).unwrap();
    let entry = rig.only();
    assert_eq!((entry.reconsume_times, entry.disposition), (0, Some(Disposition::Rejected)));
    for _ in 0..3 {
        rig.advance(10_000);
        let (place, _) = rig.release_one();
        rig.nack(Nack { carried: spared(), ..fail_delivery(place) }).unwrap();
        assert_eq!(rig.only().reconsume_times, 0);
    }
    rig.advance(10_000);
    let (place, _) = rig.release_one();
    rig.nack(fail_delivery(place)).unwrap();
    assert_eq!((rig.count(StateKind::Dead), rig.only().reconsume_times), (1, 1));
    let wanted = level(fail(2), -1);
    rig.nack(Nack { carried: spared(), ..wanted }).unwrap();
    assert_eq!(rig.count(StateKind::Dead), 2, "the application wants it so");
}
