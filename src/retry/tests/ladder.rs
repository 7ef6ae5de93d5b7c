//! Counts, levels and delays are `RocketMQ`'s.

use super::*;
use crate::retry::{Disposition, RetryState, TopicRule};

/// Fails every delivery; returns the deliveries' reconsume times, levels and the seconds waited.
fn fail_for_ever(rig: &mut Rig) -> (Vec<u32>, Vec<u32>, u64) {
    let (mut times, mut levels, mut waited_ms) = (vec![0], Vec::new(), 0);
    let mut outcome = rig.nack(fail(7)).unwrap();
    while let NackOutcome::Scheduled { due, .. } = outcome {
        let RetryState::Waiting { level, delay_ms, .. } = rig.only().state else { panic!() };
        assert_eq!(due, rig.now.wall.plus(delay_ms));
        levels.push(level.unwrap());
        rig.advance(delay_ms - 1);
        assert_eq!(rig.release(), [], "never early");
        rig.advance(1);
        let (place, entry) = rig.release_one();
        waited_ms += delay_ms;
        times.push(entry.reconsume_times);
        outcome = rig.nack(fail_delivery(place)).unwrap();
    }
    (times, levels, waited_ms / 1000)
}

#[test]
fn the_default_ladder_makes_17_deliveries_in_17140_seconds() {
    let mut rig = Rig::new(Policy::default());
    let (times, levels, waited_s) = fail_for_ever(&mut rig);
    assert_eq!(times, (0..=16).collect::<Vec<u32>>());
    assert_eq!(levels, (3..=18).collect::<Vec<u32>>());
    assert_eq!(waited_s, 17_140);
    let dead = rig.only();
    assert_eq!(dead.state, RetryState::Dead { at: rig.now.wall }, "at once, without a delay");
    assert_eq!((dead.reconsume_times, dead.max_reconsume_times, dead.handouts), (17, 16, 16));
    assert_eq!(dead.disposition, Some(Disposition::MaxAttempts));
    assert_eq!(dead.history.len(), 17);
    assert_eq!(dead.last_failed, Some(rig.now.wall));
    assert_eq!(rig.now.wall.since(dead.first_failed.unwrap()), 17_140_000);
}

#[test]
fn a_limit_of_n_allows_n_plus_one_deliveries() {
    for limit in 0..3 {
        let mut rig = Rig::new(max(limit));
        let (times, _, _) = fail_for_ever(&mut rig);
        assert_eq!(times, (0..=limit).collect::<Vec<u32>>());
        assert_eq!(rig.only().reconsume_times, limit + 1);
        assert_eq!(rig.count(StateKind::Dead), 1);
    }
}

#[test]
fn a_literal_level_is_used_each_time_and_still_counts() {
    let mut rig = Rig::new(max(3));
    rig.nack(level(fail(1), 5)).unwrap();
    for times in 1..=3 {
        let entry = rig.only();
        let RetryState::Waiting { level: got, delay_ms, .. } = entry.state else { panic!() };
        assert_eq!((got, delay_ms, entry.reconsume_times), (Some(5), 60_000, times));
        rig.advance(60_000);
        let (place, _) = rig.release_one();
        rig.nack(level(fail_delivery(place), 5)).unwrap();
    }
    assert_eq!((rig.count(StateKind::Dead), rig.only().reconsume_times), (1, 4));
}

#[test]
fn levels_are_capped_and_a_negative_one_means_dead_letter() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(level(fail(1), 99)).unwrap();
    let RetryState::Waiting { level: got, delay_ms, .. } = rig.only().state else { panic!() };
    assert_eq!((got, delay_ms), (Some(18), 7_200_000));

    let mut rig = Rig::new(Policy::default());
    let outcome = rig.nack(level(fail(1), -1)).unwrap();
    let dead = rig.only();
    assert_eq!(outcome, NackOutcome::Dead { id: dead.id });
    assert_eq!((dead.reconsume_times, dead.disposition), (1, Some(Disposition::ExplicitDlq)));
}

#[test]
fn an_exhausted_record_is_discarded_without_dead_letters() {
    let mut rig = Rig::new(Policy { keep_dead_letters: false, ..max(0) });
    let outcome = rig.nack(fail(1)).unwrap();
    let entry = rig.only();
    assert_eq!(outcome, NackOutcome::Discarded { id: entry.id });
    assert_eq!((entry.reconsume_times, entry.disposition), (1, Some(Disposition::MaxAttempts)));
}

#[test]
fn the_limit_is_the_groups_own() {
    let groups = vec![("sh*".to_owned(), max(0))];
    let mut rig = Rig::with(Policies::new(Policy::default(), groups));
    rig.nacks("shop", vec![fail(1)]);
    rig.nacks("other", vec![fail(1)]);
    assert_eq!(rig.count(StateKind::Dead), 1);
    assert_eq!(rig.ledger.counts(&"other".into()).of(StateKind::Waiting), 1);
}

#[test]
fn retries_come_in_due_order_to_their_own_group() {
    let mut rig = Rig::new(Policy::default());
    rig.nacks("shop", vec![level(fail(1), 5), level(fail(2), 4), level(fail(3), 3)]);
    rig.nacks("other", vec![fail(9)]);
    rig.advance(60_000);
    let taken = rig.release();
    let offsets: Vec<i64> =
        taken.iter().map(|(_, entry)| entry.origin.as_ref().unwrap().offset).collect();
    assert_eq!(offsets, [3, 2, 1]);
    assert_eq!(rig.ledger.counts(&"other".into()).of(StateKind::Waiting), 1);
}

#[test]
fn a_delay_is_exact_and_one_of_years_is_refused() {
    let mut rig = Rig::new(Policy::default());
    let want = RequestedDelay { level: None, delay_ms: Some(250) };
    rig.nack(Nack { want, ..fail(1) }).unwrap();
    let RetryState::Waiting { level: got, delay_ms, .. } = rig.only().state else { panic!() };
    assert_eq!((got, delay_ms, rig.only().reconsume_times), (None, 250, 1));
    let want = RequestedDelay { level: None, delay_ms: Some(u64::MAX) };
    assert_eq!(rig.nack(Nack { want, ..fail(2) }), Err(BadNack::DelayTooLong));
}

#[test]
fn a_nacks_own_limit_overrides_configured_limits_once() {
    let rule = TopicRule {
        group: "shop".into(),
        topic: "orders".into(),
        max_reconsume_times: Some(3),
        ..TopicRule::default()
    };
    let limited = |max| Nack { max_reconsume_times: max, ..fail(1) };
    for (said, outcome, limit) in [
        (Some(0), StateKind::Dead, 0),
        (Some(7), StateKind::Waiting, 7),
        (None, StateKind::Waiting, 3),
    ] {
        let policies = Policies::default().with_topics(vec![rule.clone()]);
        let mut rig = Rig::with(policies);
        rig.nack(limited(said)).unwrap();
        let entry = rig.only();
        assert_eq!((entry.state.kind(), entry.max_reconsume_times), (outcome, limit), "{said:?}");
    }
    let mut rig = Rig::new(max(0));
    rig.nack(limited(Some(1))).unwrap();
    rig.advance(10_000);
    let (place, _) = rig.release_one();
    rig.nack(fail_delivery(place)).unwrap();
    assert_eq!(rig.only().state.kind(), StateKind::Dead, "said once, it holds for that once");
}

#[test]
fn a_nack_without_an_origin_is_no_failure() {
    let mut rig = Rig::new(max(0));
    rig.nack(level(Nack::of(NackTarget::Nothing), 1)).unwrap();
    let entry = rig.only();
    assert_eq!((entry.reconsume_times, entry.attempt(), &entry.origin), (0, 1, &None));
    assert_eq!((entry.disposition, entry.first_failed), (None, None));
    rig.advance(1_000);
    let (place, _) = rig.release_one();
    rig.nack(fail_delivery(place)).unwrap();
    assert_eq!((rig.count(StateKind::Dead), rig.only().reconsume_times), (1, 1));
}
