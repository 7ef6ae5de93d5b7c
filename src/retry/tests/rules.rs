//! Topic rules, back-offs, and limits of time and rate.

use super::*;
use crate::retry::{Delays, Disposition, RetryState, TopicRule};

fn of_topic(topic: &str) -> TopicRule {
    TopicRule { group: "sh*".into(), topic: topic.into(), ..TopicRule::default() }
}

fn backoff(jitter_milli: u32) -> Policy {
    let levels = Arc::new(LevelTable::backoff(1_000, 2_000, 60_000));
    Policy { levels, jitter_milli, ..Policy::default() }
}

fn of(topic: &str, offset: i64) -> Nack {
    Nack::of(NackTarget::Origin(Origin { topic: topic.into(), partition: 0, offset }))
}

fn delay_ms(entry: &Entry) -> u64 {
    let RetryState::Waiting { delay_ms, .. } = entry.state else { panic!("{entry:?}") };
    delay_ms
}

/// The delay of the only entry. Checks that its delivery comes after the delay and never before.
fn next(rig: &mut Rig) -> (u64, RetryPlace) {
    let delay_ms = delay_ms(&rig.only());
    rig.advance(delay_ms - 1);
    assert_eq!(rig.release(), [], "never early");
    rig.advance(1);
    (delay_ms, rig.release_one().0)
}

#[test]
fn a_topic_rule_applies_only_to_its_topic() {
    let delays = Delays { levels: table("7s").levels, jitter_milli: 0 };
    let fast = TopicRule { delays: Some(delays), ..of_topic("fast-*") };
    let hopeless = TopicRule {
        max_reconsume_times: Some(0),
        keep_dead_letters: Some(false),
        ..of_topic("f*")
    };
    let policies = Policies::new(max(5), Vec::new()).with_topics(vec![fast, hopeless]);
    let mut rig = Rig::with(policies);
    let outcomes = rig.nacks("shop", vec![of("fast-1", 1), of("far", 2), of("orders", 3)]);
    let LedgerAnswer::Nacked(outcomes) = outcomes else { panic!() };
    let all = rig.entries();
    assert_eq!((delay_ms(&all[0]), all[0].max_reconsume_times), (7_000, 5), "the first that fits");
    assert!(matches!(outcomes[1], NackOutcome::Discarded { .. }), "{outcomes:?}");
    assert_eq!((delay_ms(&all[2]), all[2].max_reconsume_times), (10_000, 5));
    rig.nacks("other", vec![of("far", 2)]);
    assert_eq!(rig.ledger.counts(&"other".into()).of(StateKind::Waiting), 1, "not its group");
}

#[test]
fn a_record_may_ask_for_another_delay_than_any_rule() {
    let delays = Delays { levels: table("7s").levels, jitter_milli: 1_000 };
    let rule = TopicRule { delays: Some(delays), ..of_topic("*") };
    let mut rig = Rig::with(Policies::new(backoff(0), Vec::new()).with_topics(vec![rule]));
    let exact = Nack { want: RequestedDelay { level: None, delay_ms: Some(250) }, ..fail(1) };
    rig.nack(exact).unwrap();
    assert_eq!(delay_ms(&rig.only()), 250, "exact: without a table, without jitter");
}

#[test]
fn a_back_off_doubles_from_first_to_longest_delay() {
    let mut rig = Rig::new(Policy { max_reconsume_times: 8, ..backoff(0) });
    rig.nack(fail(1)).unwrap();
    let mut delays = Vec::new();
    while rig.count(StateKind::Waiting) == 1 {
        let (delay_ms, place) = next(&mut rig);
        delays.push(delay_ms / 1_000);
        rig.nack(fail_delivery(place)).unwrap();
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[test]
fn a_back_off_of_any_factor_reaches_its_longest_delay() {
    for (initial, factor, max) in [(1, 1_100, 31_622_400_000), (5, 1_000, 90), (9, 100_000, 9)] {
        let table = LevelTable::backoff(initial, factor, max);
        let delays: Vec<u64> = table.iter().collect();
        assert!(delays.windows(2).all(|two| two[0] <= two[1]), "{factor}");
        let longest = if factor == 1_000 { initial } else { max };
        assert_eq!((delays[2], delays.last()), (initial, Some(&longest)), "{factor}");
    }
}

#[test]
fn jitter_lengthens_delays_by_origin_and_attempt_reproducibly() {
    let waits = |jitter| {
        let mut rig = Rig::new(backoff(jitter));
        let nacks = (0..50).map(fail).collect();
        rig.nacks("shop", nacks);
        let all = rig.entries();
        all.iter().map(delay_ms).collect::<Vec<u64>>()
    };
    let spread = waits(500);
    assert!(spread.iter().all(|ms| (1_000..=1_500).contains(ms)), "{spread:?}");
    let mut different = spread.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 40, "{different:?}");
    assert!(spread.iter().any(|ms| *ms < 1_100) && spread.iter().any(|ms| *ms > 1_400));
    assert_eq!(waits(500), spread);
    assert_eq!(waits(0), [1_000; 50]);
}

#[test]
fn restarts_and_reloads_keep_jittered_due_times() {
    let mut rig = Rig::new(backoff(1_000));
    rig.nack(fail(1)).unwrap();
    let before = rig.only();
    assert!(delay_ms(&before) > 1_000);
    rig.restart(backoff(1_000), -86_400_000);
    let after = rig.only();
    let due_in = after.due().unwrap().since(rig.now.wall);
    assert_eq!((delay_ms(&after), due_in), (delay_ms(&before), delay_ms(&before)));
    rig.send(LedgerInput::Policies(Box::new(Policies::new(backoff(1_000), Vec::new()))));
    assert_eq!(rig.only(), after, "nothing differs: nothing moves");
}

#[test]
fn a_reload_between_table_and_back_off_never_lengthens_delays() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    rig.send(LedgerInput::Policies(Box::new(Policies::new(backoff(0), Vec::new()))));
    assert_eq!(rig.only().due().unwrap().since(rig.now.wall), 1_000);
    rig.send(LedgerInput::Policies(Box::default()));
    assert_eq!(rig.only().due().unwrap().since(rig.now.wall), 1_000, "longer: stored stays");
}

#[test]
fn a_removed_group_rule_leaves_its_backlog_to_the_defaults() {
    let own = Policy { max_reconsume_times: 0, ..table("2h 2h 2h") };
    let later = Policy { max_reconsume_times: 1, ..own.clone() };
    let groups = |rule: &Policy| vec![("shop".to_owned(), rule.clone())];
    let mut rig = Rig::with(Policies::new(Policy::default(), groups(&later)));
    rig.nack(fail(1)).unwrap();
    assert_eq!(delay_ms(&rig.only()), 7_200_000);
    rig.send(LedgerInput::Policies(Box::default()));
    let (waited_ms, place) = next(&mut rig);
    assert_eq!(waited_ms, 10_000, "brought forward");
    rig.nack(fail_delivery(place)).unwrap();
    assert_eq!(rig.only().state.kind(), StateKind::Waiting, "its limit is that of all");
    let (_, place) = next(&mut rig);
    rig.send(LedgerInput::Policies(Box::new(Policies::new(Policy::default(), groups(&own)))));
    rig.nack(fail_delivery(place)).unwrap();
    assert_eq!(rig.only().state.kind(), StateKind::Dead, "and back under one of its own");
}

#[test]
fn a_changed_topic_rule_applies_to_waiting_retries() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    let delays = Delays { levels: table("2s").levels, jitter_milli: 0 };
    let short = Delays { levels: table("1s 1s 2s").levels, ..delays };
    let rule = TopicRule { delays: Some(short), ..of_topic("orders") };
    let ruled = Policies::default().with_topics(vec![rule]);
    rig.send(LedgerInput::Policies(Box::new(ruled)));
    assert_eq!(rig.only().due().unwrap().since(rig.now.wall), 2_000);
    rig.send(LedgerInput::Policies(Box::default()));
    assert_eq!(next(&mut rig).0, 2_000);
}

#[test]
fn a_failure_after_max_elapsed_is_the_last() {
    let policy = Policy { max_elapsed_ms: Some(40_000), ..Policy::default() };
    let mut rig = Rig::new(policy);
    let (first, _) = rig.unread(1);
    rig.advance(29_999);
    rig.nack(fail_delivery(first)).unwrap();
    assert_eq!(rig.only().reconsume_times, 2, "39 999 ms after the first failure");
    let (_, second) = next(&mut rig);
    let outcome = rig.nack(fail_delivery(second)).unwrap();
    assert!(matches!(outcome, NackOutcome::Dead { .. }));
    let dead = rig.only();
    assert_eq!((dead.disposition, dead.reconsume_times), (Some(Disposition::Expired), 3));
}

#[test]
fn a_rate_limits_the_releases_of_its_group() {
    let mut rig = Rig::new(Policy { rate: Some(20), ..Policy::default() });
    rig.nacks("shop", (0..30).map(fail).collect());
    rig.advance(10_000);
    let may = |rig: &mut Rig, wanted| rig.ledger.may_release(rig.now, &shop(), wanted);
    assert_eq!(may(&mut rig, 30).0, 2, "a tenth of a second's worth");
    let due = rig.ledger.store().due(&shop(), rig.now.wall, 2);
    for (id, offset) in due.into_iter().zip(0..) {
        rig.send(LedgerInput::Release { id, place: RetryPlace::in_stream(0, STREAM, offset) });
    }
    assert_eq!(may(&mut rig, 30), (0, 50));
    rig.advance(50);
    assert_eq!(may(&mut rig, 30).0, 1, "one more each 50 ms");
    assert_eq!(rig.ledger.may_release(rig.now, &"other".into(), 2).0, 2);
}
