//! Retries in the retry topic: commits acknowledge them, and a topic that is gone gives them back.

use super::*;
use crate::retry::{CopiedDelivery, Evidence, RetryState};

#[test]
fn commits_acknowledge_earlier_deliveries_of_their_stream() {
    let mut rig = Rig::new(Policy::default());
    rig.nacks("shop", (0..4).map(fail).collect());
    rig.advance(10_000);
    let places: Vec<RetryPlace> = rig.release().into_iter().map(|(delivery, _)| delivery).collect();
    assert_eq!(rig.commit(RetryPlace::in_stream(0, STREAM + 1, 9)), 0, "another topic");
    assert_eq!(rig.commit(RetryPlace::in_stream(1, STREAM, 9)), 0, "another partition");
    assert_eq!((rig.commit(places[2]), rig.commit(places[2]), rig.commit(places[1])), (2, 0, 0));
    rig.nack(fail_delivery(places[2])).unwrap();
    assert_eq!(rig.commit(after(places[3])), 1);
    assert_eq!((rig.count(StateKind::Committed), rig.count(StateKind::Waiting)), (3, 1));
}

#[test]
fn an_explicit_failure_is_never_withdrawn_by_a_commit() {
    let mut rig = Rig::new(Policy::default());
    let (handed, _) = rig.unread(1);
    rig.nack(fail_delivery(handed)).unwrap();
    assert_eq!(rig.commit(after(handed)), 0);
    rig.origin_commit(50);
    assert_eq!((rig.count(StateKind::Waiting), rig.only().reconsume_times), (1, 2));
}

#[test]
fn a_batch_of_nacks_fails_a_record_once() {
    let mut rig = Rig::new(Policy::default());
    let copied = Some(CopiedDelivery { first: order(1), failures: Some(4) });
    let by_copy = Nack { copied, ..fail_delivery(RetryPlace::in_stream(0, STREAM, 900)) };
    let LedgerAnswer::Nacked(outcomes) = rig.nacks("shop", vec![fail(1), by_copy.clone()]) else {
        panic!("they are good")
    };
    let id = rig.only().id;
    assert!(matches!(outcomes[0], NackOutcome::Scheduled { .. }));
    assert_eq!((outcomes[1], rig.only().reconsume_times), (NackOutcome::Nothing { id }, 1));
    rig.nack(by_copy).unwrap();
    assert_eq!(rig.only().reconsume_times, 5, "the next batch may");
}

#[test]
fn retries_of_a_lost_topic_are_due_again_uncharged() {
    let mut rig = Rig::new(Policy::default());
    let (_, before) = rig.unread(1);
    let served = |streams| LedgerInput::RetryTopicServed { group: shop(), source: None, streams };
    rig.send(served(vec![STREAM]));
    assert_eq!(rig.only(), before);
    rig.send(served(vec![STREAM + 1]));
    let RetryState::Waiting { due, .. } = rig.only().state else { panic!() };
    assert_eq!((due, rig.only().reconsume_times), (rig.now.wall, 1));
    let Some(Fact::Entry { cause, .. }) = rig.journal.last() else { panic!() };
    assert_eq!(cause.evidence, Evidence::Reset);
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
