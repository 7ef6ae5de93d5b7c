//! Records with inferred failures that leave their partition.

use super::*;
use crate::model::TopicPartition;
use crate::retry::detector::{ExhaustedRecord, WindowRecord};
use crate::retry::{Disposition, Evidence, RetryState, TopicRule};

pub(super) fn settle(rig: &mut Rig, is_retried: bool) -> NackOutcome {
    let at = rig.now.wall;
    let settling = Box::new(ExhaustedRecord {
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
    let input = LedgerInput::Settle { group: shop(), settling, place: None, record_bytes: 100 };
    match rig.send(input) {
        Some(LedgerAnswer::Nacked(outcomes)) => outcomes[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_finalized_suspect_without_retries_is_a_dead_letter() {
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
    assert_eq!(cause.evidence, Evidence::MemberLost);
}

#[test]
fn a_finalized_suspect_with_retries_waits_at_its_level() {
    let mut rig = Rig::new(Policy::default());
    let outcome = settle(&mut rig, true);
    let entry = rig.only();
    let due = rig.now.wall.plus(60_000);
    assert_eq!(outcome, NackOutcome::Scheduled { id: entry.id, due }, "10 s, 30 s, then 1 min");
    assert_eq!(entry.state, RetryState::Waiting { due, delay_ms: 60_000, level: Some(5) });
    assert_eq!(entry.reconsume_times, 3);
}

#[test]
fn limits_of_topic_and_time_also_apply_to_finalized_suspects() {
    let rule = |max| TopicRule {
        group: "shop".into(),
        topic: "orders".into(),
        max_reconsume_times: Some(max),
        ..TopicRule::default()
    };
    let whole = Policy { max_reconsume_times: 1, ..Policy::default() };
    for (max, state) in [(2, StateKind::Dead), (3, StateKind::Waiting)] {
        let policies = Policies::new(whole.clone(), Vec::new()).with_topics(vec![rule(max)]);
        let mut rig = Rig::new(Policy::default());
        rig.send(LedgerInput::Policies(Box::new(policies)));
        settle(&mut rig, true);
        let entry = rig.only();
        assert_eq!((entry.state.kind(), entry.max_reconsume_times), (state, max));
        assert_eq!(entry.disposition, Some(Disposition::Crashed), "how it failed, not that it did");
    }
    let mut rig = Rig::new(Policy { max_elapsed_ms: Some(1_000), ..Policy::default() });
    settle(&mut rig, true);
    let entry = rig.only();
    assert_eq!(entry.state.kind(), StateKind::Dead, "it first failed long ago");
    assert_eq!(entry.disposition, Some(Disposition::Expired));
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
fn a_finalized_suspect_over_the_quota_is_held() {
    let policy = Policy { dead_letters_bytes_max: Some(50), ..Policy::default() };
    let mut rig = Rig::new(policy);
    let outcome = settle(&mut rig, false);
    assert_eq!(outcome, NackOutcome::Blocked { id: rig.only().id });
    assert_eq!(rig.only().reconsume_times, 2, "its last failure counts with its end");
}

/// A record with one lost delivery, in a group with a retry topic.
fn lost_once(rig: &mut Rig) {
    let settling = Box::new(ExhaustedRecord {
        partition: TopicPartition { topic: "orders".into(), partition: 0 },
        offset: 57,
        reconsume_times: 0,
        disposition: Disposition::Crashed,
        evidence: Evidence::MemberLost,
        history: vec![(rig.now.wall, Disposition::Crashed)],
        is_retried: true,
        window: WindowRecord::default(),
    });
    rig.send(LedgerInput::Settle { group: shop(), settling, place: None, record_bytes: 100 });
}

/// The application's nack confirms the inferred failure, without a second charge.
fn assert_confirmed(marked: bool) {
    let mut rig = Rig::new(Policy::default());
    lost_once(&mut rig);
    rig.advance(1_000);
    let nack = Nack { reason: Some("no stock".into()), committed: Some(58), ..fail(57) };
    let input = |nacks| {
        let group = shop();
        let by = Reporter { member: None, client: "app".into() };
        if marked {
            LedgerInput::Marked { group, by, nacks }
        } else {
            LedgerInput::Nacks { group, by, nacks }
        }
    };
    let facts = rig.journal.len();
    let due = rig.now.wall.plus(10_000);
    let id = rig.only().id;
    let scheduled = LedgerAnswer::Nacked(vec![NackOutcome::Scheduled { id, due }]);
    assert_eq!(rig.send(input(vec![nack.clone()])), Some(scheduled));
    let entry = rig.only();
    assert_eq!(entry.state, RetryState::Waiting { due, delay_ms: 10_000, level: Some(3) });
    assert_eq!(entry.reconsume_times, 1, "one delivery is charged once");
    assert_eq!(entry.history, [(rig.now.wall, Disposition::Rejected)]);
    assert_eq!((entry.disposition, entry.expires), (Some(Disposition::Rejected), None));
    assert_eq!(entry.reason.as_deref(), Some("no stock"));
    let Fact::Entry { cause, .. } = rig.journal.last().unwrap() else { panic!() };
    let said = if marked { Evidence::CommitMarker } else { Evidence::Nack };
    assert_eq!(cause.evidence, said);
    assert_eq!(rig.journal.len(), facts + 1);
    let again = LedgerAnswer::Nacked(vec![NackOutcome::Nothing { id }]);
    assert_eq!(rig.send(input(vec![nack])), Some(again), "said twice, it is one failure");
}

#[test]
fn a_nack_after_inference_adds_no_failure() {
    assert_confirmed(false);
    assert_confirmed(true);
}

#[test]
fn a_confirmed_failure_follows_the_applications_nack() {
    let story = |nack: Nack| {
        let mut rig = Rig::new(Policy::default());
        lost_once(&mut rig);
        rig.nack(nack).unwrap();
        rig.only()
    };
    let dead = story(level(fail(57), -1));
    let words: Vec<Disposition> = dead.history.iter().map(|(_, word)| *word).collect();
    assert_eq!((dead.state.kind(), dead.reconsume_times), (StateKind::Dead, 1));
    assert_eq!(words, [Disposition::ExplicitDlq], "its one failure");
    let dead = story(Nack { max_reconsume_times: Some(0), ..fail(57) });
    assert_eq!((dead.state.kind(), dead.reconsume_times), (StateKind::Dead, 1));
    let later = story(level(fail(57), 7));
    assert!(matches!(later.state, RetryState::Waiting { level: Some(7), .. }), "{:?}", later.state);
}

#[test]
fn a_nack_confirms_an_inferred_failure_until_its_next_delivery() {
    let mut rig = Rig::new(Policy::default());
    settle(&mut rig, true);
    rig.nack(fail(57)).unwrap();
    let entry = rig.only();
    assert_eq!((entry.reconsume_times, entry.history.len()), (3, 3), "crashed, and it was that");
    assert_eq!(entry.disposition, Some(Disposition::Rejected));
    assert!(matches!(entry.state, RetryState::Waiting { level: Some(5), .. }), "{:?}", entry.state);

    let mut rig = Rig::new(Policy::default());
    lost_once(&mut rig);
    rig.advance(10_000);
    rig.release_one();
    let before = rig.only();
    assert_eq!(rig.nack(fail(57)), Ok(NackOutcome::Nothing { id: before.id }));
    assert_eq!(rig.only(), before, "which delivery that was, nobody can tell");
}
