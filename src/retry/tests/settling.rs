//! What inference has charged becomes an entry like any other.

use super::*;
use crate::model::TopicPartition;
use crate::retry::watch::{Settling, WindowRecord};
use crate::retry::{Disposition, Evidence, State};

fn settle(rig: &mut Rig, is_retried: bool) -> NackOutcome {
    let at = rig.now.wall;
    let settling = Box::new(Settling {
        partition: TopicPartition { topic: "orders".into(), partition: 0 },
        offset: 57,
        reconsume_times: 2,
        disposition: Disposition::Crashed,
        evidence: Evidence::MemberLost,
        history: vec![
            (WallMs(10), Disposition::Crashed),
            (WallMs(20), Disposition::SeekBack),
            (at, Disposition::Crashed),
        ],
        is_retried,
        window: WindowRecord::default(),
    });
    let input = Input::Settle { token: Token(1), group: shop(), settling, record_bytes: 100 };
    match rig.send(input) {
        Some(Answer::Nacked(outcomes)) => outcomes[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_way_back_it_is_a_dead_letter_that_counts_its_last_failure() {
    let mut rig = Rig::new(Policy::default());
    let outcome = settle(&mut rig, false);
    let entry = rig.only();
    assert_eq!(outcome, NackOutcome::Dead { id: entry.id });
    assert_eq!((entry.reconsume_times, entry.origin.clone()), (3, Some(order(57))));
    assert_eq!(entry.disposition, Some(Disposition::Crashed));
    let words: Vec<Disposition> = entry.history.iter().map(|(_, word)| *word).collect();
    assert_eq!(words, [Disposition::Crashed, Disposition::SeekBack, Disposition::Crashed]);
    assert_eq!((entry.first_failed, entry.last_failed), (Some(WallMs(10)), Some(rig.now.wall)));
    let Fact::Entry { cause, .. } = rig.journal.last().unwrap() else { panic!() };
    assert_eq!(cause.evidence.number(), Some(7));
}

#[test]
fn with_a_way_back_it_waits_at_the_level_its_count_gives() {
    let mut rig = Rig::new(Policy::default());
    let outcome = settle(&mut rig, true);
    let entry = rig.only();
    let due = rig.now.wall.plus(60_000);
    assert_eq!(outcome, NackOutcome::Scheduled { id: entry.id, due }, "10 s, 30 s, then 1 min");
    assert_eq!(entry.state, State::Waiting { due, delay_ms: 60_000, level: Some(5) });
    assert_eq!(entry.reconsume_times, 3);
}

#[test]
fn an_origin_that_is_known_is_settled_already() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(57)).unwrap();
    let known = rig.only();
    assert_eq!(settle(&mut rig, false), NackOutcome::Nothing { id: known.id });
    assert_eq!(rig.only(), known, "nothing is charged twice");
}

#[test]
fn where_dead_letters_have_no_room_it_is_held() {
    let policy = Policy { dead_letters_bytes_max: Some(50), ..Policy::default() };
    let mut rig = Rig::new(policy);
    let outcome = settle(&mut rig, false);
    assert_eq!(outcome, NackOutcome::Held { id: rig.only().id });
    assert_eq!(rig.only().reconsume_times, 2, "its last failure counts with its end");
}

/// A record that timed out in its member's hand.
fn time_out(rig: &mut Rig, is_retried: bool) {
    let settling = Box::new(Settling {
        partition: TopicPartition { topic: "orders".into(), partition: 0 },
        offset: 57,
        reconsume_times: 0,
        disposition: Disposition::Timeout,
        evidence: Evidence::Timeout,
        history: vec![(rig.now.wall, Disposition::Timeout)],
        is_retried,
        window: WindowRecord::default(),
    });
    rig.send(Input::Settle { token: Token(1), group: shop(), settling, record_bytes: 100 });
}

fn withdraw(rig: &mut Rig) -> StateKind {
    rig.send(Input::Withdrawn { group: shop(), origin: order(57) });
    rig.only().state.kind()
}

#[test]
fn a_timeout_takes_the_ladder_or_the_level_that_is_chosen_for_it() {
    for (timeout_level, level) in [(0, 3), (3, 3), (5, 5)] {
        let mut rig = Rig::new(Policy { timeout_level, ..Policy::default() });
        time_out(&mut rig, true);
        let State::Waiting { level: found, .. } = rig.only().state else { panic!() };
        assert_eq!(found, Some(level));
    }
    let mut rig = Rig::new(Policy { timeout_level: 9, ..Policy::default() });
    settle(&mut rig, true);
    let State::Waiting { level, .. } = rig.only().state else { panic!() };
    assert_eq!(level, Some(5), "another failure keeps to the ladder");
}

#[test]
fn a_timeout_is_withdrawn_until_it_has_left_again_and_nothing_that_was_said_is() {
    let mut rig = Rig::new(Policy::default());
    time_out(&mut rig, true);
    assert_eq!(withdraw(&mut rig), StateKind::Committed);
    assert_eq!(rig.only().reconsume_times, 1, "counts never fall");

    let mut rig = Rig::new(Policy::default());
    time_out(&mut rig, true);
    let slot = rig.join("a").slot;
    rig.advance(10_000);
    rig.take_one(slot);
    assert_eq!(withdraw(&mut rig), StateKind::Inflight, "it has left");
    rig.leave("a");
    assert_eq!(withdraw(&mut rig), StateKind::Waiting, "it had left");

    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(57)).unwrap();
    assert_eq!(withdraw(&mut rig), StateKind::Waiting, "the application said so");

    let mut rig = Rig::new(Policy::default());
    time_out(&mut rig, false);
    assert_eq!(withdraw(&mut rig), StateKind::Dead);
}
