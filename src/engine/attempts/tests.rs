//! Facts that open and end an attempt, and attempts that are dropped.

use super::*;
use crate::model::RetryPartition;
use crate::retry::{Cause, PayloadChange};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn lane(sequence: u64) -> LaneOffset {
    LaneOffset { slot: RetryPartition(0), sequence }
}

/// A fact of entry `id` in a state, caused by `evidence`.
fn fact(id: u64, evidence: Evidence, state: RetryState) -> Fact {
    let origin = Origin { topic: "orders".into(), partition: 3, offset: 812 };
    let mut entry = Entry::dead(EntryId(id), &"shop".into(), origin, WallMs(0));
    entry.state = state;
    entry.reconsume_times = 2;
    entry.disposition = Some(Disposition::Rejected);
    let cause = Cause { evidence, at: WallMs(500), by: None };
    Fact::Entry { entry: Box::new(entry), cause, payload: PayloadChange::Keeps }
}

fn hand_out(id: u64, sequence: u64) -> Fact {
    let state = RetryState::Inflight { lane: lane(sequence), since: WallMs(100) };
    fact(id, Evidence::HandOut, state)
}

fn waiting() -> RetryState {
    RetryState::Waiting { due: WallMs(0), delay_ms: 0, level: None }
}

fn recorded(sample: u32) -> (Attempts, Receiver<Attempt>, Metrics) {
    let metrics = Metrics::new(8).unwrap();
    let (attempts, ended) = Attempts::record(sample, metrics.clone());
    (attempts, ended, metrics)
}

fn headers(value: &str) -> Headers {
    let mut raw = vec![22];
    raw.extend(b"traceparent");
    raw.push(u8::try_from(value.len() * 2).unwrap());
    raw.extend(value.as_bytes());
    Headers::parse(1, raw.into()).unwrap()
}

#[test]
fn an_attempt_lasts_from_hand_out_to_outcome() {
    let (attempts, mut ended, _) = recorded(THOUSAND);
    attempts.observe(&hand_out(7, 1));
    let joined = RetryState::Inflight { lane: lane(1), since: WallMs(100) };
    attempts.observe(&fact(7, Evidence::Joined, joined));
    assert!(ended.try_recv().is_err(), "it is open");
    attempts.observe(&fact(7, Evidence::Nack, waiting()));
    let attempt = ended.try_recv().unwrap();
    assert_eq!((attempt.began, attempt.ended), (WallMs(100), WallMs(500)));
    assert_eq!((attempt.entry, attempt.reconsume_times), (EntryId(7), 2));
    assert_eq!(attempt.outcome, AttemptOutcome::Failed(Some(Disposition::Rejected)));
    assert_eq!(attempt.origin.unwrap().to_string(), "orders-3@812");
    attempts.observe(&fact(7, Evidence::AdminNack, waiting()));
    assert!(ended.try_recv().is_err(), "it has one outcome");
}

#[test]
fn the_outcome_is_in_the_fact() {
    use Evidence as E;
    let (attempts, mut ended, _) = recorded(THOUSAND);
    let at = WallMs(500);
    let held = RetryState::Held { since: at, disposition: Disposition::MaxAttempts, charged: true };
    for (evidence, state, outcome, error) in [
        (E::LaneCommit, RetryState::Committed { at }, "acknowledged", None),
        (E::OriginCommit, RetryState::Committed { at }, "acknowledged", None),
        (E::CommitMarker, waiting(), "failed", Some("rejected")),
        (E::Nack, RetryState::Dead { at }, "dead_letter", Some("rejected")),
        (E::Nack, held, "held", Some("max_attempts")),
        (E::Nack, RetryState::Discarded { at }, "discarded", Some("rejected")),
        (E::MemberLost, waiting(), "member_lost", Some("member_lost")),
        (E::Timeout, waiting(), "timeout", Some("timeout")),
        (E::Aborted, waiting(), "returned", None),
    ] {
        attempts.observe(&hand_out(1, 1));
        attempts.observe(&fact(1, evidence, state));
        let told = ended.try_recv().unwrap().outcome;
        assert_eq!((told.as_str(), told.error()), (outcome, error), "{evidence:?}");
    }
    attempts.observe(&hand_out(1, 1));
    attempts.observe(&fact(1, E::Undecided, waiting()));
    assert!(ended.try_recv().is_err(), "it has not left");
}

#[test]
fn only_its_own_attempt_is_linked() {
    let (attempts, mut ended, _) = recorded(THOUSAND);
    for (sequence, value, linked) in [(1, PARENT, true), (2, PARENT, false), (1, "00-0", false)] {
        attempts.observe(&hand_out(1, 1));
        attempts.link(EntryId(1), lane(sequence), &headers(value));
        attempts.link(EntryId(2), lane(1), &headers(PARENT));
        attempts.observe(&fact(1, Evidence::LaneCommit, RetryState::Committed { at: WallMs(500) }));
        let parent = ended.try_recv().unwrap().parent;
        assert_eq!(parent.is_some(), linked, "{sequence} {value}");
    }
}

#[test]
fn all_attempts_of_a_record_are_sampled_or_none() {
    let share = |sample| (0..10_000).filter(|id| is_sampled(EntryId(*id), sample)).count();
    assert_eq!((share(0), share(THOUSAND)), (0, 10_000));
    assert!((900..1_100).contains(&share(100)), "{}", share(100));
    let (attempts, mut ended, _) = recorded(500);
    for id in 0..100 {
        let done = fact(id, Evidence::LaneCommit, RetryState::Committed { at: WallMs(500) });
        let mut count = 0;
        for _ in 0..3 {
            attempts.observe(&hand_out(id, 1));
            attempts.observe(&done);
            count += usize::from(ended.try_recv().is_ok());
        }
        assert!(count == 0 || count == 3, "{id}: {count}");
    }
}

#[test]
fn surplus_attempts_are_dropped_and_counted() {
    let (attempts, mut ended, metrics) = recorded(THOUSAND);
    let dropped = |reason: &str, count: usize| {
        let series = format!("reprise_spans_dropped_total{{reason=\"{reason}\"}} {count}\n");
        let text = metrics.render().unwrap();
        assert!(text.contains(&series), "{series}");
    };
    let count = u64::try_from(OPEN_MAX).unwrap();
    for id in 0..count + 5 {
        attempts.observe(&hand_out(id, 1));
    }
    dropped("too_many_open", 5);
    for id in 0..count + 5 {
        attempts.observe(&fact(id, Evidence::MemberLost, waiting()));
    }
    dropped("queue_full", OPEN_MAX - QUEUE_MAX);
    assert_eq!(ended.try_recv().unwrap().entry, EntryId(5), "the oldest are dropped");
}

#[test]
fn nothing_is_recorded_by_default() {
    let attempts = Attempts::default();
    attempts.observe(&hand_out(1, 1));
    assert!(attempts.0.is_none());
}
