//! Slots, positions, commits of retry partitions, and lost deliveries.

use super::*;
use crate::retry::{Evidence, INFLIGHT_MAX, RetryState, TAKE_MAX};

fn lane(slot: u16, sequence: u64) -> LaneOffset {
    LaneOffset { slot: RetryPartition(slot), sequence }
}

fn commit_position(rig: &mut Rig, up_to: LaneOffset) -> (usize, u64) {
    match rig.lane_commit(up_to) {
        LedgerAnswer::Committed { acknowledged, position } => {
            (acknowledged.len(), position.sequence)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_open_hand_out_is_served_again_as_it_is() {
    let mut rig = Rig::new(Policy::default());
    let (first, entry) = rig.inflight(1);
    let facts = rig.journal.len();
    assert_eq!(rig.take(first), [(first, entry)]);
    assert_eq!(rig.take(after(first)), []);
    assert_eq!(rig.journal.len(), facts, "the same hand-out is no new fact");
    rig.nack(fail(2)).unwrap();
    rig.advance(10_000);
    let both = rig.take(first);
    assert_eq!(both.iter().map(|(l, _)| l.sequence).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(both.iter().map(|(_, e)| e.handouts).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_silent_member_keeps_its_slot_and_loses_open_deliveries() {
    let mut rig = Rig::new(Policy::default());
    let (a, b) = (rig.join("a"), rig.join("b"));
    rig.nack(fail(1)).unwrap();
    rig.advance(10_000);
    assert_eq!(rig.take(a.next).len(), 1);
    let silent = LedgerInput::Silent { group: "shop".into(), member: "a".into() };
    assert_eq!(rig.send(silent), None);
    rig.advance(1_000);
    assert_eq!(rig.take(b.next).len(), 1, "somebody else has it after the back-off");
    assert_eq!(rig.join("c").slot, RetryPartition(2), "its slot is nobody else's");
    assert_eq!(rig.join("a").slot, a.slot, "and its own when it is heard of again");
    rig.nack(fail(2)).unwrap();
    rig.advance(10_000);
    assert_eq!(rig.take(after(a.next)).len(), 1, "at the offsets it was at");
}

#[test]
fn an_entry_goes_to_exactly_one_member() {
    let mut rig = Rig::new(Policy::default());
    let (a, b) = (rig.join("a"), rig.join("b"));
    assert_eq!((a.slot, b.slot), (RetryPartition(0), RetryPartition(1)));
    rig.nack(fail(1)).unwrap();
    rig.advance(10_000);
    assert_eq!(rig.take(b.next).len(), 1);
    assert_eq!(rig.take(a.next), []);
}

#[test]
fn commits_acknowledge_earlier_deliveries_and_none_beyond_the_end() {
    let mut rig = Rig::new(Policy::default());
    rig.join("a");
    rig.nacks("shop", (0..4).map(fail).collect());
    rig.advance(10_000);
    assert_eq!(rig.take(lane(0, 0)).len(), 4);
    assert_eq!(rig.lane_commit(lane(0, 5)), LedgerAnswer::CommitRefused);
    assert_eq!(rig.lane_commit(lane(7, 0)), LedgerAnswer::CommitRefused);
    assert_eq!(commit_position(&mut rig, lane(0, 2)), (2, 2));
    assert_eq!(commit_position(&mut rig, lane(0, 2)), (0, 2));
    assert_eq!(commit_position(&mut rig, lane(0, 1)), (0, 2));
    rig.nack(fail_lane(lane(0, 2))).unwrap();
    assert_eq!(rig.ledger.slot_view(&shop(), RetryPartition(0)).unwrap().position, lane(0, 3));
    assert_eq!(commit_position(&mut rig, lane(0, 4)), (1, 4));
    assert_eq!((rig.count(StateKind::Committed), rig.count(StateKind::Waiting)), (3, 1));
}

#[test]
fn an_explicit_failure_is_never_withdrawn_by_a_commit() {
    let mut rig = Rig::new(Policy::default());
    let (handed, _) = rig.inflight(1);
    rig.nack(fail_lane(handed)).unwrap();
    assert_eq!(commit_position(&mut rig, after(handed)), (0, 1));
    rig.origin_commit(50);
    assert_eq!((rig.count(StateKind::Waiting), rig.only().reconsume_times), (1, 2));
}

#[test]
fn lost_deliveries_return_uncharged_after_growing_delays() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    rig.advance(10_000);
    for (n, back_off_s) in (0_u32..).zip([1, 2, 4, 8, 16, 30, 30]) {
        let view = rig.join(&format!("m{n}"));
        assert_eq!(view.slot, RetryPartition(0), "the slot is used again");
        assert_eq!(view.next.sequence, u64::from(n), "its sequence goes on");
        let (_, entry) = rig.take_one(view.slot);
        assert_eq!((entry.reconsume_times, entry.handouts), (1, n + 1));
        rig.leave(&format!("m{n}"));
        let RetryState::Waiting { due, .. } = rig.only().state else { panic!() };
        assert_eq!(due, rig.now.wall.plus(back_off_s * 1000));
        assert_eq!(rig.only().losses, n + 1);
        rig.join("early");
        rig.advance(back_off_s * 1000 - 1);
        assert_eq!(rig.take(view.next), [], "never early");
        rig.leave("early");
        rig.advance(1);
    }
    assert_eq!(rig.only().history.len(), 1);
}

#[test]
fn a_charge_ends_the_back_off() {
    let mut rig = Rig::new(Policy::default());
    rig.inflight(1);
    rig.leave("a");
    rig.advance(1_000);
    let slot = rig.join("a").slot;
    let (handed, _) = rig.take_one(slot);
    rig.nack(fail_lane(handed)).unwrap();
    assert_eq!((rig.only().losses, rig.only().reconsume_times), (0, 2));
}

#[test]
fn a_late_commit_settles_a_timed_out_delivery() {
    let mut rig = Rig::new(Policy::default());
    let (handed, _) = rig.inflight(1);
    rig.advance(900_000);
    rig.acknowledge(handed);
    assert_eq!((rig.count(StateKind::Committed), rig.count(StateKind::Waiting)), (1, 0));
    let Some(Fact::Entry { cause, .. }) = rig.journal.last() else { panic!() };
    assert_eq!(cause.evidence, Evidence::LaneCommit);
    // a nack of a recently acknowledged record is charged
    rig.nack(fail_lane(handed)).unwrap();
    assert_eq!((rig.count(StateKind::Waiting), rig.only().reconsume_times), (1, 2));
}

#[test]
fn a_late_commit_settles_only_its_own_unchanged_delivery() {
    let timed_out = |rig: &mut Rig| {
        let (handed, _) = rig.inflight(1);
        rig.advance(900_000);
        handed
    };
    let mut rig = Rig::new(Policy::default());
    let handed = timed_out(&mut rig);
    rig.advance(1_000);
    rig.take_one(handed.slot);
    assert_eq!(commit_position(&mut rig, after(handed)), (0, 1), "it has left again");
    assert_eq!(rig.count(StateKind::Inflight), 1);

    let mut rig = Rig::new(Policy::default());
    let handed = timed_out(&mut rig);
    rig.nack(fail_lane(handed)).unwrap();
    assert_eq!(commit_position(&mut rig, after(handed)).0, 0, "what is said is not taken back");
    assert_eq!(rig.count(StateKind::Waiting), 1);

    let mut rig = Rig::new(Policy::default());
    let handed = timed_out(&mut rig);
    rig.nack(fail(1)).unwrap();
    assert_eq!(commit_position(&mut rig, after(handed)).0, 0, "nor if it is said by its origin");
    assert_eq!(rig.count(StateKind::Waiting), 1);

    let mut rig = Rig::new(Policy::default());
    let handed = timed_out(&mut rig);
    rig.leave("a");
    assert_eq!(rig.join("b").slot, handed.slot);
    assert_eq!(commit_position(&mut rig, after(handed)).0, 0, "b never had it");
    assert_eq!(rig.count(StateKind::Waiting), 1);
}

#[test]
fn a_member_fetching_again_does_not_acknowledge_earlier_deliveries() {
    let begins: [fn(&mut Rig, LaneOffset); 2] = [
        |rig, _| assert!(rig.ledger.resume(&shop(), &"a".into()).is_some()),
        |rig, handed| assert_eq!(rig.take(handed), [], "it has returned to the queue"),
    ];
    for begin in begins {
        let mut rig = Rig::new(Policy::default());
        let (handed, _) = rig.inflight(1);
        rig.advance(900_000);
        begin(&mut rig, handed);
        assert_eq!(commit_position(&mut rig, after(handed)).0, 0, "a later commit");
        assert_eq!(rig.count(StateKind::Waiting), 1, "it comes again");
    }
    let mut rig = Rig::new(Policy::default());
    let (handed, _) = rig.inflight(1);
    rig.advance(900_000);
    assert_eq!(rig.take(after(handed)), []);
    rig.acknowledge(handed);
    assert_eq!(rig.count(StateKind::Committed), 1, "a member at work fetches behind it");
}

#[test]
fn a_returning_silent_member_may_still_acknowledge() {
    let mut rig = Rig::new(Policy::default());
    let (handed, _) = rig.inflight(1);
    rig.send(LedgerInput::Silent { group: shop(), member: "a".into() });
    assert_eq!(rig.count(StateKind::Waiting), 1);
    rig.acknowledge(handed);
    assert_eq!(rig.count(StateKind::Committed), 1);
}

#[test]
fn a_timed_out_delivery_and_its_late_nack_are_uncharged() {
    let mut rig = Rig::new(Policy::default());
    let (handed, _) = rig.inflight(1);
    rig.advance(899_999);
    assert_eq!(rig.count(StateKind::Inflight), 1);
    rig.advance(1);
    let Some(Fact::Entry { entry, cause, .. }) = rig.journal.last() else { panic!() };
    assert_eq!((cause.evidence, entry.reconsume_times), (Evidence::Timeout, 1));
    assert_eq!(rig.count(StateKind::Waiting), 1);
    rig.nack(fail_lane(handed)).unwrap();
    assert_eq!(rig.only().reconsume_times, 1);
    rig.advance(1_000);
    assert_eq!(rig.take_one(handed.slot).0, after(handed));
}

#[test]
fn a_member_keeps_its_slot_until_it_leaves() {
    let mut rig = Rig::new(Policy::default());
    assert_eq!((rig.join("a").slot, rig.join("b").slot), (RetryPartition(0), RetryPartition(1)));
    let facts = rig.journal.len();
    assert_eq!((rig.join("a").slot, rig.journal.len()), (RetryPartition(0), facts));
    rig.leave("a");
    rig.leave("a");
    rig.leave("never seen");
    assert_eq!(rig.journal.len(), facts + 1);
    assert_eq!((rig.join("c").slot, rig.join("d").slot), (RetryPartition(0), RetryPartition(2)));
}

#[test]
fn due_entries_wait_until_a_member_joins() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    assert_eq!(rig.ledger.store().count_due(&shop(), rig.now.wall), 0, "it is not due yet");
    rig.advance(10_000);
    assert_eq!(rig.ledger.store().count_due(&shop(), rig.now.wall), 1);
    assert_eq!(rig.take(lane(0, 0)), [], "a slot without a member is given nothing");
    rig.advance(86_400_000);
    let slot = rig.join("a").slot;
    assert_eq!(rig.take_one(slot).1.reconsume_times, 1);
}

#[test]
fn deliveries_per_fetch_and_per_slot_are_bounded() {
    let mut rig = Rig::new(Policy::default());
    rig.join("a");
    rig.nacks("shop", (0..).map(fail).take(INFLIGHT_MAX + 40).collect());
    rig.advance(10_000);
    let mut from = lane(0, 0);
    loop {
        let taken = rig.take(from);
        assert!(taken.len() <= TAKE_MAX);
        let Some((last, _)) = taken.last() else { break };
        from = after(*last);
    }
    assert_eq!(from.sequence, INFLIGHT_MAX as u64);
    let wakes = rig.wakes;
    assert_eq!(commit_position(&mut rig, lane(0, 10)).0, 10);
    assert_eq!(rig.wakes, wakes + 1, "there is room for what was due");
    assert_eq!(rig.take(from).len(), 10);
}

#[test]
fn a_commit_wakes_no_fetch_while_nothing_is_due() {
    let mut rig = Rig::new(Policy::default());
    let (first, _) = rig.inflight(1);
    rig.nack(fail(2)).unwrap();
    let wakes = rig.wakes;
    assert_eq!(commit_position(&mut rig, after(first)).0, 1);
    assert_eq!(rig.wakes, wakes, "a Fetch that waits would ask in vain");
    rig.advance(10_000);
    assert_eq!(rig.wakes, wakes + 1);
    let (second, _) = rig.take(after(first))[0];
    rig.nack(fail(3)).unwrap();
    rig.advance(10_000);
    assert_eq!(commit_position(&mut rig, after(second)).0, 1);
    assert_eq!(rig.wakes, wakes + 3, "once when it became due, and once more for this");
}

#[test]
fn a_fetch_beyond_the_log_end_returns_no_entries() {
    let mut rig = Rig::new(Policy::default());
    rig.join("a");
    rig.nack(fail(1)).unwrap();
    rig.advance(10_000);
    assert_eq!(rig.take(lane(0, 1)), []);
    assert_eq!(rig.take(lane(0, 0)).len(), 1);
}

#[test]
fn the_group_is_woken_once_when_something_becomes_due() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    rig.nack(level(fail(2), 4)).unwrap();
    assert_eq!(rig.ledger.poll_timeout().unwrap().0, MonoMs(10_000));
    rig.advance(9_999);
    assert_eq!(rig.wakes, 0);
    rig.advance(1);
    rig.advance(0);
    rig.advance(5_000);
    assert_eq!(rig.wakes, 1);
    assert_eq!(rig.ledger.poll_timeout().unwrap().0, MonoMs(30_000));
    let now_due = RequestedDelay { level: None, delay_ms: Some(0) };
    rig.nack(Nack { want: now_due, ..fail(3) }).unwrap();
    rig.advance(0);
    assert_eq!(rig.wakes, 2, "due at once is due");
}

#[test]
fn an_empty_answer_says_when_the_next_one_is_due() {
    let mut rig = Rig::new(Policy::default());
    rig.join("a");
    rig.nack(fail(1)).unwrap();
    let (from, company) = (lane(0, 0), OtherDeliveries::Some);
    let input = LedgerInput::Take { group: shop(), from, max: 1, company };
    let Some(LedgerAnswer::Taken { entries, position, next, next_due, .. }) = rig.send(input)
    else {
        panic!()
    };
    assert_eq!((entries.len(), position, next), (0, lane(0, 0), lane(0, 0)));
    assert_eq!(next_due, Some(rig.now.wall.plus(10_000)));
}

#[test]
fn an_aborted_transaction_returns_its_deliveries_at_once_uncharged() {
    let mut rig = Rig::new(Policy::default());
    let (first, entry) = rig.inflight(1);
    rig.nack(fail(2)).unwrap();
    rig.advance(10_000);
    let second = rig.take(after(first));
    assert_eq!(second.len(), 1);
    let aborted = LedgerInput::Aborted { group: "shop".into(), up_to: after(first) };
    assert_eq!(rig.send(aborted), None);
    let again = rig.take(after(second[0].0));
    assert_eq!(again.len(), 1, "at once, and only what lies below");
    assert_eq!(again[0].1.id, entry.id);
    assert_eq!((again[0].1.reconsume_times, again[0].1.losses), (entry.reconsume_times, 0));
    assert_eq!(again[0].1.handouts, 2);
}
