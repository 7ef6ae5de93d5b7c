//! Retries in the retry topic: commits acknowledge them, and a topic that is gone gives them back.

use super::*;
use crate::retry::{Action, CopiedDelivery, Evidence, PayloadChange, RetryState};

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
    let copied =
        Some(CopiedDelivery { first: order(1), failures: Some(4), number: None, redrives: 0 });
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

/// A nack of a delivery that another sidecar released, by its headers.
fn copied(number: u32, failures: u32, redrives: u32) -> Nack {
    let (first, number) = (order(1), Some(number));
    let copied = Some(CopiedDelivery { first, failures: Some(failures), number, redrives });
    let elsewhere = RetryPlace::in_stream(0, STREAM + 9, 0);
    Nack { copied, record_bytes: 9, ..fail_delivery(elsewhere) }
}

#[test]
fn a_failure_of_a_redrive_elsewhere_returns_the_dead_letter() {
    let mut rig = Rig::new(Policy { max_reconsume_times: 1, ..Policy::default() });
    let (place, entry) = rig.unread(1);
    rig.nack(fail_delivery(place)).unwrap();
    let dead = rig.only();
    assert!(matches!(dead.state, RetryState::Dead { .. }));
    assert_eq!(rig.nack(copied(1, 1, 0)), Ok(NackOutcome::Nothing { id: entry.id }), "known");
    assert!(matches!(rig.nack(copied(2, 0, 1)), Ok(NackOutcome::Scheduled { .. })));
    let returned = rig.only();
    assert_eq!((returned.reconsume_times, returned.redrives, returned.handouts), (1, 1, 2));
    let Some(Fact::Entry { payload, .. }) = rig.journal.last() else { panic!() };
    assert_eq!(*payload, PayloadChange::Begins(0), "the bytes that failed");
    assert_eq!(rig.nack(copied(2, 0, 1)), Ok(NackOutcome::Nothing { id: entry.id }), "repeated");
    assert_eq!(rig.nack(copied(1, 9, 0)), Ok(NackOutcome::Nothing { id: entry.id }), "older");
    rig.advance(10_000);
    assert_eq!(rig.release_one().1.handouts, 3);
}

#[test]
fn a_delivery_before_a_redrive_here_counts_no_more() {
    let mut rig = Rig::new(Policy { max_reconsume_times: 1, ..Policy::default() });
    let (place, entry) = rig.unread(1);
    rig.nack(fail_delivery(place)).unwrap();
    let (group, ids) = (shop(), vec![entry.id]);
    rig.send(LedgerInput::Operate { group, action: Action::Redrive, ids });
    rig.advance(0);
    let (_, released) = rig.release_one();
    assert_eq!((released.reconsume_times, released.handouts), (0, 2));
    assert_eq!(rig.nack(copied(1, 1, 0)), Ok(NackOutcome::Nothing { id: entry.id }));
    assert_eq!(rig.only(), released);
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
