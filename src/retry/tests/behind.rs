//! Order of keys: one pending record of each key, in the order of offsets.

use super::*;
use crate::model::{EntryId, OrderKey, TopicPartition};
use crate::retry::{Evidence, ExportOutcome, ExportStep, OrderDecision, RetryState};

const K: OrderKey = OrderKey([1; 16]);
const L: OrderKey = OrderKey([2; 16]);

pub(super) fn fail_keyed(offset: i64, key: OrderKey) -> Nack {
    Nack { key: Some(key), ..fail(offset) }
}

pub(super) fn behind(rig: &mut Rig, records: &[(i64, OrderKey)]) -> Vec<OrderDecision> {
    let partition = TopicPartition { topic: "orders".into(), partition: 0 };
    let (group, records) = (shop(), records.to_vec());
    match rig.send(LedgerInput::Behind { group, partition, records }) {
        Some(LedgerAnswer::Ordered(outcomes)) => outcomes,
        other => panic!("{other:?}"),
    }
}

/// Offset and state of every entry, by offset.
fn stands(rig: &Rig) -> Vec<(i64, StateKind)> {
    let all = rig.entries().into_iter();
    let mut all: Vec<_> = all.map(|e| (e.origin.unwrap().offset, e.state.kind())).collect();
    all.sort_unstable();
    all
}

fn offset(taken: &(LaneOffset, Entry)) -> i64 {
    taken.1.origin.as_ref().unwrap().offset
}

#[test]
fn later_ones_of_the_key_wait_and_others_do_not() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail_keyed(5, K)).unwrap();
    let outcomes = behind(&mut rig, &[(4, K), (5, K), (6, L), (7, K), (9, K)]);
    let expected = [
        OrderDecision::Free,
        OrderDecision::Known,
        OrderDecision::Free,
        OrderDecision::Behind,
        OrderDecision::Behind,
    ];
    assert_eq!(outcomes, expected);
    let waits = [(5, StateKind::Waiting), (7, StateKind::Behind), (9, StateKind::Behind)];
    assert_eq!(stands(&rig), waits);
    let seven = rig.entries_in(StateKind::Behind).remove(0);
    assert_eq!((seven.reconsume_times, seven.disposition), (0, None), "nothing is charged");
    assert_eq!(behind(&mut rig, &[(7, K)]), [OrderDecision::Known], "once is enough");
}

#[test]
fn an_ordered_record_is_released_when_its_predecessor_is_settled() {
    let mut rig = Rig::new(table("10s"));
    let slot = rig.join("a").slot;
    rig.nack(fail_keyed(5, K)).unwrap();
    behind(&mut rig, &[(7, K), (9, K)]);
    rig.advance(10_000);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let taken = rig.take_one(slot);
        seen.push(offset(&taken));
        assert!(rig.take(after(taken.0)).is_empty(), "one at a time");
        rig.acknowledge(taken.0);
    }
    assert_eq!(seen, [5, 7, 9], "and at once, without a delay of their own");
}

#[test]
fn only_a_dead_letter_ends_the_block_of_its_key() {
    let mut rig = Rig::new(Policy { max_reconsume_times: 1, ..table("10s") });
    let slot = rig.join("a").slot;
    rig.nack(fail_keyed(5, K)).unwrap();
    behind(&mut rig, &[(7, K)]);
    rig.advance(10_000);
    let (lane, _) = rig.take_one(slot);
    rig.nack(fail_lane(lane)).unwrap();
    assert_eq!(stands(&rig), [(5, StateKind::Dead), (7, StateKind::Waiting)]);
    assert_eq!(offset(&rig.take_one(slot)), 7);
}

#[test]
fn a_failed_key_blocked_record_also_waits_its_own_delay() {
    let mut rig = Rig::new(table("10s"));
    let slot = rig.join("a").slot;
    rig.nack(fail_keyed(5, K)).unwrap();
    behind(&mut rig, &[(7, K)]);
    rig.advance(9_000);
    rig.nack(fail_keyed(7, K)).unwrap();
    rig.nack(fail_keyed(7, K)).unwrap();
    assert_eq!(stands(&rig), [(5, StateKind::Waiting), (7, StateKind::Behind)]);
    let seven = rig.entries_in(StateKind::Behind).remove(0);
    assert_eq!(seven.reconsume_times, 1);
    rig.advance(1_000);
    let (lane, _) = rig.take_one(slot);
    rig.acknowledge(lane);
    assert!(rig.take(after(lane)).is_empty(), "not before it is due by itself");
    rig.advance(9_000);
    assert_eq!(offset(&rig.take_one(slot)), 7);
}

#[test]
fn an_earlier_one_that_fails_later_goes_first() {
    let mut rig = Rig::new(table("10s"));
    rig.nack(fail_keyed(7, K)).unwrap();
    rig.nack(fail_keyed(5, K)).unwrap();
    assert_eq!(stands(&rig), [(5, StateKind::Waiting), (7, StateKind::Behind)]);
}

#[test]
fn without_a_key_nothing_waits_for_anything() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(5)).unwrap();
    assert_eq!(behind(&mut rig, &[(7, K)]), [OrderDecision::Free]);
    assert_eq!(stands(&rig), [(5, StateKind::Waiting)]);
}

#[test]
fn another_partition_does_not_block_the_same_key() {
    let mut rig = Rig::new(Policy::default());
    let mut other = fail_keyed(5, K);
    other.named = NackTarget::Origin(Origin { partition: 1, ..order(5) });
    rig.nack(other).unwrap();
    assert_eq!(behind(&mut rig, &[(7, K)]), [OrderDecision::Free]);
}

#[test]
fn key_order_survives_a_restart() {
    let mut rig = Rig::new(table("10s"));
    rig.nack(fail_keyed(5, K)).unwrap();
    behind(&mut rig, &[(7, K), (9, K)]);
    rig.restart(table("10s"), 0);
    let slot = rig.join("a").slot;
    rig.advance(10_000);
    for expected in [5, 7, 9] {
        let taken = rig.take_one(slot);
        assert_eq!(offset(&taken), expected);
        rig.acknowledge(taken.0);
    }
}

#[test]
fn a_deleted_topic_releases_its_blocked_records() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail_keyed(5, K)).unwrap();
    behind(&mut rig, &[(7, K)]);
    rig.send(LedgerInput::TopicGone { topic: "orders".into() });
    assert_eq!(stands(&rig), [(5, StateKind::Waiting), (7, StateKind::Waiting)]);
}

fn export(rig: &mut Rig, step: ExportStep, ids: &[EntryId]) -> Vec<ExportOutcome> {
    match rig.send(LedgerInput::Export { step, ids: ids.to_vec() }) {
        Some(LedgerAnswer::Exported(outcomes)) => outcomes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_blocked_key_is_exported_from_its_first_record() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail_keyed(5, K)).unwrap();
    behind(&mut rig, &[(7, K)]);
    let all = rig.entries();
    let (first, second) = (all[0].id, all[1].id);
    assert_eq!(export(&mut rig, ExportStep::Begin, &[second]), [ExportOutcome::Left]);
    assert_eq!(export(&mut rig, ExportStep::Begin, &[first]), [ExportOutcome::Done]);
    let part = export(&mut rig, ExportStep::End, &[first]);
    assert_eq!(part, [ExportOutcome::Left], "the other one would be given out before it");
    assert_eq!(export(&mut rig, ExportStep::Begin, &[second]), [ExportOutcome::Done]);
    let both = export(&mut rig, ExportStep::End, &[first, second]);
    assert_eq!(both, [ExportOutcome::Done, ExportOutcome::Done]);
}

#[test]
fn undone_exports_return_to_their_places() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail_keyed(5, K)).unwrap();
    behind(&mut rig, &[(7, K)]);
    let ids: Vec<EntryId> = rig.entries().iter().map(|entry| entry.id).collect();
    export(&mut rig, ExportStep::Begin, &ids);
    export(&mut rig, ExportStep::Undo, &[ids[1], ids[0]]);
    assert_eq!(stands(&rig), [(5, StateKind::Waiting), (7, StateKind::Behind)]);
}

#[test]
fn the_journal_says_why() {
    let mut rig = Rig::new(table("10s"));
    rig.nack(fail_keyed(5, K)).unwrap();
    behind(&mut rig, &[(7, K)]);
    let Fact::Entry { entry, cause, .. } = rig.journal.last().unwrap() else { panic!() };
    assert!(matches!(entry.state, RetryState::Behind { .. }));
    assert_eq!((entry.key, cause.evidence), (Some(K), Evidence::Behind));
}

#[test]
fn an_aborted_transaction_settles_its_records_unless_they_failed() {
    let mut rig = Rig::new(table("10s"));
    let slot = rig.join("a").slot;
    rig.nack(fail_keyed(5, K)).unwrap();
    behind(&mut rig, &[(7, K), (8, K), (9, K)]);
    let take_back = |rig: &mut Rig, offset: i64| {
        let origin = fail_keyed(offset, K).named;
        let NackTarget::Origin(origin) = origin else { panic!() };
        rig.send(LedgerInput::TakenBack { group: shop(), origin });
    };
    for offset in [5, 8, 8] {
        take_back(&mut rig, offset);
    }
    rig.advance(10_000);
    let first = rig.take_one(slot);
    assert_eq!(offset(&first), 5, "it has failed");
    rig.lane_commit(after(first.0));
    let second = rig.take_one(slot);
    assert_eq!(offset(&second), 7);
    take_back(&mut rig, 7);
    assert_eq!(offset(&rig.take_one(slot)), 9, "8 went while it waited, 7 as it was given out");
}
