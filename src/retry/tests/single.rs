//! Isolated retries: an entry with repeated losses is isolated, and charged when isolated
//! deliveries are lost. No other entry is charged.

use super::*;
use crate::retry::{CRASH_LIMIT, Disposition, Evidence, RetryState};

/// A member joins, fetches, and is lost with its retries.
fn dies(rig: &mut Rig, company: OtherDeliveries) -> Vec<Entry> {
    let slot = rig.join("a").slot;
    let next = rig.ledger.slot_view(&shop(), slot).unwrap().next;
    let taken = rig.take_in(next, company).0;
    rig.leave("a");
    rig.advance(7_200_000);
    taken.into_iter().map(|(_, entry)| entry).collect()
}

/// One entry with enough losses to be isolated.
fn singled(policy: Policy) -> Rig {
    let mut rig = Rig::new(policy);
    rig.nack(fail(1)).unwrap();
    rig.advance(10_000);
    for _ in 0..CRASH_LIMIT {
        assert_eq!(dies(&mut rig, OtherDeliveries::Some).len(), 1);
    }
    rig
}

fn stands(rig: &Rig) -> (u32, u32, Option<Disposition>) {
    let entry = rig.only();
    (entry.losses, entry.reconsume_times, entry.disposition)
}

#[test]
fn a_retry_lost_alone_twice_is_charged_for_every_loss() {
    let mut rig = singled(max(5));
    assert_eq!(stands(&rig), (3, 1, Some(Disposition::Rejected)));
    assert!(matches!(dies(&mut rig, OtherDeliveries::None)[0].state, RetryState::Alone { .. }));
    assert_eq!(stands(&rig), (4, 1, Some(Disposition::Crashed)), "suspected");
    rig.join("a");
    let slot = rig.join("a").slot;
    rig.take_in(rig.ledger.slot_view(&shop(), slot).unwrap().next, OtherDeliveries::None);
    rig.leave("a");
    assert_eq!(stands(&rig), (5, 3, Some(Disposition::Crashed)), "charged for both");
    let RetryState::Waiting { delay_ms, level, .. } = rig.only().state else { panic!() };
    assert_eq!((delay_ms, level), (60_000, Some(5)), "the ladder's next level");
    rig.advance(60_000);
    for times in [4, 5] {
        dies(&mut rig, OtherDeliveries::None);
        assert_eq!(rig.only().reconsume_times, times, "alone at once");
    }
    dies(&mut rig, OtherDeliveries::None);
    let entry = rig.only();
    assert_eq!((entry.state.kind(), entry.reconsume_times), (StateKind::Dead, 6));
    assert_eq!(entry.disposition, Some(Disposition::Crashed));
    let history: Vec<_> = entry.history.iter().map(|(_, word)| *word).collect();
    assert_eq!(history[1..], [Disposition::Crashed; 5]);
    let died = rig.journal.iter().rev().find_map(|fact| match fact {
        Fact::Entry { cause, entry, .. } if entry.state.kind() == StateKind::Dead => Some(cause),
        _ => None,
    });
    assert_eq!(died.unwrap().evidence, Evidence::MemberLost);
}

#[test]
fn a_charged_retry_at_its_limit_is_final() {
    for keep_dead_letters in [true, false] {
        let mut rig = singled(Policy { keep_dead_letters, ..max(1) });
        dies(&mut rig, OtherDeliveries::None);
        dies(&mut rig, OtherDeliveries::None);
        let entry = rig.only();
        let end = if keep_dead_letters { StateKind::Dead } else { StateKind::Discarded };
        assert_eq!((entry.state.kind(), entry.reconsume_times), (end, 2));
    }
}

#[test]
fn a_retry_lost_beside_others_is_never_charged() {
    let mut rig = singled(Policy::default());
    for _ in 0..50 {
        assert!(matches!(
            dies(&mut rig, OtherDeliveries::Old)[0].state,
            RetryState::Inflight { .. }
        ));
    }
    assert_eq!(stands(&rig), (53, 1, Some(Disposition::Rejected)));
    for company in [OtherDeliveries::None, OtherDeliveries::Old, OtherDeliveries::None] {
        dies(&mut rig, company);
    }
    assert_eq!(rig.only().reconsume_times, 1, "not alone in between");
    dies(&mut rig, OtherDeliveries::None);
    assert_eq!(rig.only().reconsume_times, 3);
}

#[test]
fn an_isolated_retry_is_delivered_alone() {
    let mut rig = singled(Policy::default());
    rig.nacks("shop", vec![fail(2), fail(3)]);
    rig.advance(10_000);
    let view = rig.join("a");
    let waits = Some(IsolatedRetry { lane: None, doublings: 0 });
    assert_eq!(rig.take_in(view.next, OtherDeliveries::Some), (Vec::new(), waits));
    let (alone, single) = rig.take_in(view.next, OtherDeliveries::None);
    assert_eq!(alone.len(), 1, "the others are due too");
    assert_eq!(alone[0].1.origin, Some(order(1)));
    let lane = alone[0].0;
    assert_eq!(single, Some(IsolatedRetry { lane: Some(lane), doublings: 0 }));
    assert_eq!(rig.take_in(lane, OtherDeliveries::Some).0, alone, "the same hand-out again");
    let (others, single) = rig.take_in(after(lane), OtherDeliveries::Old);
    assert_eq!((others.len(), single), (2, None));
    let first = rig.ledger.entry(alone[0].1.id).unwrap();
    assert!(matches!(first.state, RetryState::Inflight { .. }), "not alone any more: {first:?}");
    rig.leave("a");
    rig.advance(60_000);
    let all = rig.entries();
    assert!(all.iter().all(|entry| entry.reconsume_times == 1));
    let b = rig.join("b");
    let (together, single) = rig.take_in(b.next, OtherDeliveries::None);
    let origins: Vec<_> = together.iter().map(|(_, entry)| entry.origin.clone()).collect();
    assert_eq!(origins, [Some(order(2)), Some(order(3))], "what is due before it goes before it");
    assert_eq!(single, Some(IsolatedRetry { lane: None, doublings: 1 }));
    let (none, _) = rig.take_in(after(together[1].0), OtherDeliveries::None);
    assert_eq!(none, [], "the ledger knows better");
}

#[test]
fn a_joined_delivery_is_no_longer_isolated() {
    let mut rig = singled(Policy::default());
    dies(&mut rig, OtherDeliveries::None);
    let view = rig.join("a");
    let lane = rig.take_in(view.next, OtherDeliveries::None).0[0].0;
    let facts = rig.journal.len();
    for other in [after(lane), LaneOffset { slot: RetryPartition(9), ..lane }] {
        rig.send(LedgerInput::Joined { group: shop(), lane: other });
    }
    assert_eq!(rig.journal.len(), facts);
    rig.send(LedgerInput::Joined { group: shop(), lane });
    rig.send(LedgerInput::Joined { group: shop(), lane });
    assert_eq!(rig.journal.len(), facts + 1);
    rig.leave("a");
    assert_eq!(stands(&rig), (5, 1, Some(Disposition::Rejected)));
}

#[test]
fn timeouts_restarts_and_aborts_charge_no_retry() {
    let mut rig = singled(Policy::default());
    let view = rig.join("a");
    let lane = rig.take_in(view.next, OtherDeliveries::None).0[0].0;
    rig.advance(900_000);
    assert_eq!(stands(&rig), (4, 1, Some(Disposition::Rejected)), "the consume timeout");
    rig.advance(30_000);
    let lane = rig.take_in(after(lane), OtherDeliveries::None).0[0].0;
    rig.restart(Policy::default(), 0);
    assert!(matches!(rig.only().state, RetryState::Alone { .. }), "remembered");
    rig.send(LedgerInput::Aborted { group: shop(), up_to: after(lane) });
    assert_eq!(stands(&rig), (4, 1, Some(Disposition::Rejected)));
    let lane = rig.take_in(after(lane), OtherDeliveries::None).0[0].0;
    rig.restart(Policy::default(), 0);
    rig.leave("a");
    assert_eq!(stands(&rig), (5, 1, Some(Disposition::Crashed)), "it counts after a restart");
    rig.advance(30_000);
    rig.join("a");
    let lane = rig.take_in(after(lane), OtherDeliveries::None).0[0].0;
    rig.acknowledge(lane);
    assert_eq!(rig.count(StateKind::Committed), 1);
}

#[test]
fn a_nack_ends_the_isolation() {
    let mut rig = singled(Policy::default());
    dies(&mut rig, OtherDeliveries::None);
    let view = rig.join("a");
    let lane = rig.take_in(view.next, OtherDeliveries::None).0[0].0;
    rig.nack(fail_lane(lane)).unwrap();
    assert_eq!(stands(&rig), (0, 2, Some(Disposition::Rejected)));
    rig.advance(30_000);
    assert!(matches!(rig.take_one(lane.slot).1.state, RetryState::Inflight { .. }));
}

#[test]
fn a_group_of_which_nothing_is_inferred_has_none() {
    let mut rig = singled(Policy { inference: false, ..Policy::default() });
    for _ in 0..20 {
        assert!(matches!(
            dies(&mut rig, OtherDeliveries::None)[0].state,
            RetryState::Inflight { .. }
        ));
    }
    assert_eq!(rig.only().reconsume_times, 1);
}

#[test]
fn a_crashed_suspects_first_retry_is_isolated() {
    let mut rig = Rig::new(Policy::default());
    settling::settle(&mut rig, true);
    rig.advance(7_200_000);
    let taken = dies(&mut rig, OtherDeliveries::None);
    assert!(matches!(taken[0].state, RetryState::Alone { .. }));
    assert_eq!(rig.only().reconsume_times, taken[0].reconsume_times + 1, "known already");
}
