//! Memory of final entries, and the effect of a reset.

use super::*;
use crate::retry::Evidence;

const TIMEOUT_MS: u64 = 900_000;

#[test]
fn a_settled_entry_is_forgotten_after_the_consume_timeout() {
    let mut rig = Rig::new(Policy::default());
    let (place, _) = rig.unread(1);
    rig.acknowledge(place);
    rig.advance(10 * TIMEOUT_MS);
    assert_eq!(rig.count(StateKind::Committed), 1, "not while the origin is not passed");
    rig.origin_commit(1);
    assert_eq!(rig.ledger.poll_timeout(), None);
    rig.origin_commit(2);
    rig.advance(TIMEOUT_MS - 1);
    assert_eq!(rig.count(StateKind::Committed), 1);
    rig.advance(1);
    assert_eq!(rig.entries(), []);
    assert_eq!(rig.nack(fail_delivery(place)), Err(BadNack::NotRemembered));
}

#[test]
fn an_earlier_commit_starts_the_memory_with_the_acknowledgement() {
    let mut rig = Rig::new(Policy::default());
    let (place, _) = rig.unread(1);
    rig.origin_commit(9);
    rig.advance(60_000);
    rig.acknowledge(place);
    rig.advance(TIMEOUT_MS - 1);
    assert_eq!(rig.count(StateKind::Committed), 1);
    rig.advance(1);
    assert_eq!(rig.count(StateKind::Committed), 0);
}

#[test]
fn a_commit_passes_only_its_partition_and_says_it_once() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    let (group, topic) = (shop(), "orders".into());
    rig.send(LedgerInput::OriginCommit { group, topic, partition: 1, offset: 9 });
    let (group, topic) = (shop(), "orders2".into());
    rig.send(LedgerInput::OriginCommit { group, topic, partition: 0, offset: 9 });
    assert_eq!(rig.only().passed, None);
    rig.origin_commit(2);
    assert_eq!(rig.only().passed, Some(rig.now.wall));
    let facts = rig.journal.len();
    rig.advance(1);
    rig.origin_commit(3);
    rig.origin_commit(2);
    assert_eq!(rig.journal.len(), facts);
}

#[test]
fn a_kept_dead_letter_keeps_its_origin_known() {
    let mut rig = Rig::new(max(0));
    rig.nack(fail(1)).unwrap();
    rig.origin_commit(2);
    rig.advance(100 * TIMEOUT_MS);
    let dead = rig.only();
    assert!(matches!(rig.nack(level(fail(1), -1)), Ok(NackOutcome::Nothing { .. })));
    rig.send(LedgerInput::DeadLetterGone { id: dead.id });
    assert_eq!(rig.ledger.entry(dead.id), None);
    let again = rig.nack(fail(1)).unwrap();
    assert!(matches!(again, NackOutcome::Dead { id } if id != dead.id), "ids are never reused");
}

#[test]
fn only_a_dead_letter_can_be_gone() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    let id = rig.only().id;
    rig.send(LedgerInput::DeadLetterGone { id });
    assert_eq!(rig.only().id, id);
}

#[test]
fn a_reset_forgets_settled_origins_and_counts_from_zero() {
    let mut rig = Rig::new(Policy::default());
    let (place, _) = rig.unread(5);
    rig.acknowledge(place);
    rig.origin_commit(6);
    rig.origin_commit(5);
    let Some(Fact::Forgotten { cause, .. }) = rig.journal.last() else { panic!() };
    assert_eq!(cause.evidence, Evidence::Reset);
    rig.nack(fail(5)).unwrap();
    assert_eq!((rig.only().reconsume_times, rig.only().handouts), (1, 0));
}

#[test]
fn a_reset_keeps_dead_letters_and_counts_from_zero() {
    let mut rig = Rig::new(max(1));
    rig.nack(level(fail(5), -1)).unwrap();
    let dead = rig.only();
    rig.origin_commit(6);
    rig.origin_commit(0);
    rig.nack(fail(5)).unwrap();
    assert_eq!((rig.count(StateKind::Dead), rig.count(StateKind::Waiting)), (1, 1));
    assert!(rig.ledger.entry(dead.id).unwrap().superseded);
    assert_eq!(rig.ledger.entry(dead.id).unwrap().origin, dead.origin);
    rig.origin_commit(6);
    rig.send(LedgerInput::DeadLetterGone { id: dead.id });
    assert_eq!(rig.only().reconsume_times, 1);
}

#[test]
fn a_reset_or_skip_keeps_pending_retries() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(5)).unwrap();
    rig.origin_commit(1_000);
    rig.origin_commit(0);
    assert_eq!((rig.only().passed, rig.only().reconsume_times), (None, 1));
    assert!(matches!(rig.nack(fail(5)), Ok(NackOutcome::Nothing { .. })));
    rig.advance(10_000);
    rig.release_one();
    assert!(matches!(rig.nack(fail(5)), Ok(NackOutcome::Nothing { .. })), "not past any more");
}

#[test]
fn a_recreated_topic_starts_empty_and_old_retries_still_come() {
    let mut rig = Rig::new(max(1));
    let (place, _) = rig.unread(3);
    rig.acknowledge(place);
    rig.nack(level(fail(4), -1)).unwrap();
    rig.nack(fail(5)).unwrap();
    rig.send(LedgerInput::TopicGone { topic: "other".into() });
    assert!(matches!(rig.nack(fail(5)), Ok(NackOutcome::Nothing { .. })), "another topic");
    rig.send(LedgerInput::TopicGone { topic: "orders".into() });
    for offset in [3, 4, 5] {
        let begun = rig.nack(fail(offset)).unwrap();
        assert!(matches!(begun, NackOutcome::Scheduled { .. }), "{offset}: {begun:?}");
    }
    assert_eq!((rig.count(StateKind::Dead), rig.count(StateKind::Waiting)), (1, 4));
    // All four are delivered, and all are forgotten later.
    rig.advance(10_000);
    let released = rig.release();
    assert_eq!((released.len(), rig.commit(after(released[3].0))), (4, 4));
    rig.origin_commit(6);
    rig.advance(2 * TIMEOUT_MS);
    assert_eq!(rig.count(StateKind::Committed), 0);
}

#[test]
fn a_delayed_record_without_origin_is_forgotten_by_time_alone() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(Nack::of(NackTarget::Nothing)).unwrap();
    rig.advance(10_000);
    let (place, _) = rig.release_one();
    rig.acknowledge(place);
    rig.advance(TIMEOUT_MS);
    assert_eq!(rig.entries(), []);
}

#[test]
fn discarded_ones_are_forgotten_like_acknowledged_ones() {
    let mut rig = Rig::new(Policy { keep_dead_letters: false, ..max(0) });
    rig.nack(Nack { committed: Some(2), ..fail(1) }).unwrap();
    rig.advance(TIMEOUT_MS - 1);
    assert_eq!(rig.count(StateKind::Discarded), 1);
    rig.advance(1);
    assert_eq!(rig.count(StateKind::Discarded), 0);
}
