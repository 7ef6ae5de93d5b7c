//! The dead-letter quota: excess records are withheld, and become dead letters when there is room.

use super::*;
use crate::model::EntryId;
use crate::retry::{CopiedDelivery, Disposition, Evidence, RetryState};

/// A quota for two records of 1000 bytes.
const TWO: u64 = 20_000;

fn bounded(bytes_max: u64) -> Policy {
    Policy { dead_letters_bytes_max: Some(bytes_max), ..max(0) }
}

fn sized(nack: Nack) -> Nack {
    Nack { record_bytes: 1_000, ..nack }
}

impl Rig {
    fn tell(&mut self, bytes: u64) {
        self.send(LedgerInput::DeadLetterBytes { group: shop(), bytes });
    }

    fn reload(&mut self, policy: Policy) {
        self.send(LedgerInput::Policies(Box::new(Policies::new(policy, Vec::new()))));
        self.advance(0);
    }

    fn blocked(&self) -> u64 {
        self.count(StateKind::Blocked)
    }

    fn dead(&self) -> u64 {
        self.count(StateKind::Dead)
    }
}

#[test]
fn an_exhausted_record_over_the_quota_is_held_uncharged() {
    let mut rig = Rig::new(Policy { max_reconsume_times: 1, ..bounded(TWO) });
    let (place, _) = rig.unread(1);
    rig.tell(TWO);
    let last = Nack { reason: Some("no stock".into()), ..sized(fail_delivery(place)) };
    let outcome = rig.nack(last.clone()).unwrap();
    let entry = rig.only();
    assert_eq!(outcome, NackOutcome::Blocked { id: entry.id });
    assert_eq!((entry.reconsume_times, entry.reason.as_deref()), (1, Some("no stock")));
    assert_eq!((entry.due(), entry.expires, entry.is_settled()), (None, None, false));
    // A repeated nack changes nothing, also from another sidecar's topic.
    let copied =
        Some(CopiedDelivery { first: order(1), failures: Some(1), number: None, redrives: 0 });
    let unknown = fail_delivery(RetryPlace::in_stream(0, STREAM + 1, 0));
    for again in [last, sized(Nack { copied, ..unknown })] {
        rig.advance(1);
        assert_eq!(rig.nack(again), Ok(NackOutcome::Nothing { id: entry.id }));
    }
    rig.advance(7_200_000);
    assert_eq!(rig.release(), []);
    assert_eq!(rig.only(), entry);
}

#[test]
fn room_in_the_quota_ends_a_hold_within_30_seconds() {
    let mut rig = Rig::new(bounded(TWO));
    rig.tell(TWO);
    let failed = rig.now.wall;
    rig.nack(Nack { reason: Some("why".into()), ..sized(fail(1)) }).unwrap();
    rig.tell(0);
    rig.advance(29_999);
    assert_eq!((rig.blocked(), rig.dead()), (1, 0), "not before");
    rig.advance(1);
    let entry = rig.only();
    assert_eq!(entry.state, RetryState::Dead { at: failed.plus(30_000) });
    assert_eq!((entry.reconsume_times, entry.last_failed), (1, Some(failed)));
    assert_eq!(entry.history, [(failed, Disposition::MaxAttempts)]);
    assert_eq!(entry.reason.as_deref(), Some("why"));
    let Some(Fact::Entry { cause, .. }) = rig.journal.last() else { panic!() };
    assert_eq!(cause.evidence, Evidence::Unblocked);
    assert_eq!(rig.ledger.poll_timeout(), None, "nothing left to look at");
}

#[test]
fn a_recheck_without_room_writes_nothing_and_repeats() {
    let mut rig = Rig::new(bounded(TWO));
    rig.tell(TWO);
    rig.nack(sized(fail(1))).unwrap();
    let facts = rig.journal.len();
    for _ in 0..100 {
        rig.advance(30_000);
    }
    assert_eq!((rig.journal.len(), rig.blocked()), (facts, 1));
    rig.tell(0);
    rig.advance(30_000);
    assert_eq!(rig.dead(), 1);
}

#[test]
fn batches_and_rechecks_never_exceed_the_quota() {
    let mut rig = Rig::new(bounded(TWO));
    rig.tell(0);
    rig.nacks("shop", (0..5).map(|n| sized(fail(n))).collect());
    assert_eq!((rig.dead(), rig.blocked()), (2, 3));
    rig.tell(TWO / 2);
    rig.advance(30_000);
    assert_eq!((rig.dead(), rig.blocked()), (3, 2), "the first held goes first");
    let held: Vec<EntryId> = rig.entries_in(StateKind::Blocked).iter().map(|e| e.id).collect();
    assert_eq!(held, [EntryId(3), EntryId(4)]);
}

#[test]
fn a_record_over_the_quota_does_not_block_smaller_ones() {
    let mut rig = Rig::new(bounded(TWO));
    rig.tell(0);
    let large = Nack { record_bytes: TWO, ..fail(1) };
    rig.nacks("shop", vec![large, sized(fail(2))]);
    assert_eq!((rig.dead(), rig.blocked()), (1, 1));
}

#[test]
fn other_groups_and_groups_without_a_bound_are_not_touched() {
    let groups = vec![("shop".to_owned(), bounded(1))];
    let mut rig = Rig::with(Policies::new(max(0), groups));
    rig.nacks("shop", vec![sized(fail(1))]);
    rig.nacks("other", vec![sized(fail(1))]);
    assert_eq!(rig.blocked(), 1);
    let other = rig.ledger.counts(&"other".into());
    assert_eq!((other.of(StateKind::Blocked), other.of(StateKind::Dead)), (0, 1));
}

#[test]
fn a_reload_rechecks_held_records_at_once() {
    let mut rig = Rig::new(bounded(1));
    rig.nack(sized(fail(1))).unwrap();
    rig.reload(bounded(TWO));
    assert_eq!((rig.dead(), rig.only().reconsume_times), (1, 1));

    let mut rig = Rig::new(bounded(1));
    rig.nack(sized(fail(1))).unwrap();
    rig.reload(Policy { keep_dead_letters: false, ..bounded(1) });
    assert_eq!((rig.count(StateKind::Discarded), rig.only().reconsume_times), (1, 1));
}

#[test]
fn held_records_are_rechecked_after_a_restart() {
    let mut rig = Rig::new(bounded(1));
    rig.nack(sized(fail(1))).unwrap();
    let held = rig.only();
    rig.restart(bounded(1), 0);
    rig.advance(0);
    assert_eq!(rig.only(), held);
    rig.restart(bounded(TWO), 0);
    rig.advance(0);
    assert_eq!(rig.dead(), 1);
}

#[test]
fn a_delayed_record_as_dead_letter_counts_no_failure() {
    let mut rig = Rig::new(bounded(1));
    rig.nack(sized(level(Nack::of(NackTarget::Nothing), -1))).unwrap();
    assert_eq!((rig.blocked(), rig.only().reconsume_times), (1, 0));
    rig.reload(bounded(TWO));
    let entry = rig.only();
    assert_eq!((rig.dead(), entry.reconsume_times, entry.first_failed), (1, 0, None));
    assert_eq!(entry.disposition, Some(Disposition::ExplicitDlq));
}

#[test]
fn many_held_records_leave_in_bounded_batches() {
    let mut rig = Rig::new(bounded(1));
    rig.nacks("shop", (0..600).map(|n| sized(fail(n))).collect());
    assert_eq!(rig.blocked(), 600);
    rig.reload(max(0));
    assert_eq!((rig.dead(), rig.blocked()), (256, 344));
    rig.advance(1);
    rig.advance(1);
    assert_eq!((rig.dead(), rig.blocked()), (600, 0));
}

#[test]
fn a_dead_letter_that_goes_makes_room_at_once() {
    let mut rig = Rig::new(bounded(TWO / 2));
    rig.tell(0);
    rig.nacks("shop", vec![sized(fail(1)), sized(fail(2))]);
    assert_eq!((rig.dead(), rig.blocked()), (1, 1));
    rig.send(LedgerInput::DeadLetterGone { id: EntryId(0) });
    rig.tell(0);
    rig.advance(0);
    assert_eq!((rig.only().id, rig.dead()), (EntryId(1), 1));
}
