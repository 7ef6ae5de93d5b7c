//! Every row of the truth table through the whole ledger, and batches.

use super::*;
use crate::retry::{Evidence, PayloadChange, RetryState};

const TIMEOUT_MS: u64 = 900_000;

fn id(outcome: NackOutcome) -> u64 {
    match outcome {
        NackOutcome::Scheduled { id, .. }
        | NackOutcome::Dead { id }
        | NackOutcome::Discarded { id }
        | NackOutcome::Blocked { id }
        | NackOutcome::Nothing { id } => id.0,
    }
}

/// The nack is accepted and changes nothing.
fn assert_acknowledged(rig: &mut Rig, nack: Nack) {
    let (before, facts) = (rig.ledger.fingerprint(), rig.journal.len());
    let outcome = rig.nack(nack).unwrap();
    assert!(matches!(outcome, NackOutcome::Nothing { .. }), "{outcome:?}");
    assert_eq!(rig.journal.len(), facts);
    assert_eq!(rig.ledger.fingerprint(), before);
}

/// The nack charges the only entry once.
fn assert_charged(rig: &mut Rig, nack: Nack) {
    let before = rig.only();
    let outcome = rig.nack(nack).unwrap();
    assert!(matches!(outcome, NackOutcome::Scheduled { .. }), "{outcome:?}");
    let now = rig.only();
    assert_eq!((now.id, now.reconsume_times), (before.id, before.reconsume_times + 1));
    assert!(matches!(now.state, RetryState::Waiting { .. }));
}

#[test]
fn a_nack_of_an_open_delivery_is_charged() {
    let mut rig = Rig::new(Policy::default());
    let (place, _) = rig.unread(1);
    assert_charged(&mut rig, fail_delivery(place));
}

#[test]
fn a_nack_reopens_a_lately_committed_delivery() {
    let mut rig = Rig::new(Policy::default());
    let (place, _) = rig.unread(1);
    rig.acknowledge(place);
    assert_eq!(rig.count(StateKind::Committed), 1);
    rig.advance(TIMEOUT_MS);
    assert_charged(&mut rig, fail_delivery(place));
    rig.advance(30_000);
    assert_eq!(rig.release_one().1.reconsume_times, 2);
}

#[test]
fn a_nack_of_a_long_committed_delivery_is_charged() {
    let mut rig = Rig::new(Policy::default());
    let (place, _) = rig.unread(1);
    rig.acknowledge(place);
    rig.advance(TIMEOUT_MS + 1);
    assert_eq!(rig.count(StateKind::Committed), 1, "the origin is not passed: remembered");
    assert_charged(&mut rig, fail_delivery(place));
}

#[test]
fn a_nack_of_an_orphan_is_its_first_failure() {
    let mut rig = Rig::new(Policy::default());
    let nack = Nack::of(NackTarget::Orphan);
    let source = Some("orders".into());
    rig.nack(Nack { produced_for: source.clone(), ..nack }).unwrap();
    let entry = rig.only();
    assert_eq!((entry.reconsume_times, entry.origin, entry.produced_for), (1, None, source));
}

#[test]
fn an_older_delivery_is_acknowledged_in_every_state() {
    let mut rig = Rig::new(max(2));
    let (first, _) = rig.unread(1);
    rig.nack(fail_delivery(first)).unwrap();
    assert_acknowledged(&mut rig, fail_delivery(first)); // waiting
    rig.advance(30_000);
    let (second, _) = rig.release_one();
    assert_acknowledged(&mut rig, fail_delivery(first)); // inflight
    rig.acknowledge(second);
    assert_acknowledged(&mut rig, fail_delivery(first)); // committed
    rig.nack(fail_delivery(second)).unwrap();
    assert_eq!(rig.count(StateKind::Dead), 1);
    for place in [first, second] {
        assert_acknowledged(&mut rig, fail_delivery(place)); // dead
        assert_acknowledged(&mut rig, level(fail_delivery(place), -1));
    }
}

#[test]
fn a_nack_of_an_unknown_origin_creates_an_entry() {
    for committed in [None, Some(1), Some(2)] {
        let mut rig = Rig::new(Policy::default());
        rig.nack(Nack { committed, ..fail(1) }).unwrap();
        let entry = rig.only();
        assert_eq!((entry.reconsume_times, entry.attempt()), (1, 2));
        assert_eq!(entry.passed.is_some(), committed == Some(2), "{committed:?}");
    }
}

#[test]
fn a_nacked_origin_inflight_is_charged_once_committed_past() {
    let mut rig = Rig::new(Policy::default());
    rig.unread(1);
    assert_acknowledged(&mut rig, fail(1));
    assert_acknowledged(&mut rig, Nack { committed: Some(1), ..fail(1) });
    rig.origin_commit(1);
    assert_acknowledged(&mut rig, fail(1));
    rig.origin_commit(2);
    assert_charged(&mut rig, fail(1));
    assert_acknowledged(&mut rig, Nack { committed: Some(2), ..fail(1) }); // waits again
}

#[test]
fn the_true_origin_of_anything_else_is_acknowledged() {
    let mut rig = Rig::new(max(1));
    rig.nack(fail(1)).unwrap();
    let past = || Nack { committed: Some(2), ..fail(1) };
    assert_acknowledged(&mut rig, past()); // waiting
    rig.advance(10_000);
    let (place, _) = rig.release_one();
    rig.acknowledge(place);
    assert_acknowledged(&mut rig, past()); // committed
    rig.nack(fail_delivery(place)).unwrap();
    assert_acknowledged(&mut rig, past()); // dead
    rig.advance(TIMEOUT_MS + 1);
    assert_acknowledged(&mut rig, fail(1)); // dead for long, not committed past
    assert!(matches!(rig.nack(past()), Ok(NackOutcome::Scheduled { .. })), "a redrive");
    let mut rig = Rig::new(Policy { keep_dead_letters: false, ..max(0) });
    rig.nack(fail(1)).unwrap();
    assert_acknowledged(&mut rig, past()); // discarded
}

#[test]
fn nacks_of_unknown_deliveries_and_other_groups_are_refused() {
    let mut rig = Rig::new(Policy::default());
    let (place, _) = rig.unread(1);
    assert_eq!(rig.nack(fail_delivery(after(place))), Err(BadNack::NotRemembered));
    let answer = rig.nacks("other", vec![fail_delivery(place)]);
    assert_eq!(answer, LedgerAnswer::BadNacks(vec![(0, BadNack::NotRemembered)]));
    assert_eq!(rig.nack(Nack::of(NackTarget::OtherGroup)), Err(BadNack::OtherGroup));
    assert_eq!(rig.nack(Nack::of(NackTarget::Unreadable)), Err(BadNack::Unreadable));
}

#[test]
fn missing_bytes_matter_only_for_new_entries() {
    let mut rig = Rig::new(Policy::default());
    let gone = |nack| Nack { bytes: Bytes::ReferenceGone, ..nack };
    assert_eq!(rig.nack(gone(fail(1))), Err(BadNack::BytesGone));
    let nothing = Nack { bytes: Bytes::ReferenceOk, ..Nack::of(NackTarget::Nothing) };
    assert_eq!(rig.nack(nothing), Err(BadNack::ReferenceWithoutOrigin));
    let (place, _) = rig.unread(1);
    assert_charged(&mut rig, gone(fail_delivery(place)));
    assert_acknowledged(&mut rig, gone(fail(1)));
}

#[test]
fn one_invalid_nack_refuses_its_whole_batch() {
    let mut rig = Rig::new(Policy::default());
    let facts = rig.journal.len();
    let gone = Nack { bytes: Bytes::ReferenceGone, ..fail(3) };
    let answer = rig.nacks("shop", vec![fail(1), Nack::of(NackTarget::Unreadable), fail(2), gone]);
    let bad = vec![(1, BadNack::Unreadable), (3, BadNack::BytesGone)];
    assert_eq!(answer, LedgerAnswer::BadNacks(bad));
    assert_eq!(rig.journal.len(), facts);
    assert_eq!(rig.entries(), []);
}

#[test]
fn repeated_nacks_of_one_origin_are_one_failure() {
    let mut rig = Rig::new(Policy::default());
    let LedgerAnswer::Nacked(outcomes) = rig.nacks("shop", vec![fail(8), fail(1), fail(1)]) else {
        panic!()
    };
    assert_eq!(outcomes.iter().map(|outcome| id(*outcome)).collect::<Vec<_>>(), [0, 1, 1]);
    assert!(matches!(outcomes[2], NackOutcome::Nothing { .. }));
    let payloads = rig.journal.iter().filter_map(|fact| match fact {
        Fact::Entry { payload, .. } => Some(*payload),
        _ => None,
    });
    let begins = [PayloadChange::Begins(0), PayloadChange::Begins(1)];
    assert_eq!(payloads.collect::<Vec<_>>(), begins);
    assert_eq!(rig.ledger.counts(&shop()).waiting[&Some(3)], 2);
}

#[test]
fn a_fact_names_its_evidence_and_the_entry_its_reason() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(Nack { reason: Some("no stock".into()), ..fail(1) }).unwrap();
    let Some(Fact::Entry { entry, cause, .. }) = rig.journal.last() else { panic!() };
    assert_eq!(entry.reason.as_deref(), Some("no stock"));
    assert_eq!((cause.evidence, cause.at), (Evidence::Nack, rig.now.wall));
    assert_eq!(cause.by.as_ref().unwrap().client.as_str(), "app");
}
