//! Actions of an operator on dead letters and on retries.

use super::*;
use crate::model::EntryId;
use crate::retry::{
    Action, ActionOutcome as Outcome, Disposition, Evidence, RESTORE_MS, RetryState,
};

impl Rig {
    fn operate(&mut self, action: Action, ids: &[EntryId]) -> Vec<Outcome> {
        let group = shop();
        let ids = ids.to_vec();
        match self.send(LedgerInput::Operate { group, action, ids }) {
            Some(LedgerAnswer::Operated(outcomes)) => outcomes,
            other => panic!("{other:?}"),
        }
    }

    /// Outcome of an action on the only entry.
    fn act(&mut self, action: Action) -> Outcome {
        let id = self.only().id;
        self.operate(action, &[id])[0]
    }

    /// A dead letter of `orders-0@offset`.
    fn buried(&mut self, offset: i64) -> EntryId {
        match self.nack(level(fail(offset), -1)).unwrap() {
            NackOutcome::Dead { id } => id,
            other => panic!("{other:?}"),
        }
    }

    fn assert_replays(&self) {
        let policies = self.ledger.policies().clone();
        let mut again = Ledger::new(BTreeEntries::default(), policies);
        for fact in &self.journal {
            again.apply(fact);
        }
        assert_eq!(again.fingerprint(), self.ledger.fingerprint());
    }
}

#[test]
fn a_redrive_begins_at_0_and_keeps_the_history() {
    let mut rig = Rig::new(max(1));
    rig.nack(fail(7)).unwrap();
    rig.advance(10_000);
    let (place, _) = rig.release_one();
    assert!(matches!(rig.nack(fail_delivery(place)), Ok(NackOutcome::Dead { .. })));
    let dead = rig.only();
    assert_eq!(rig.act(Action::Redrive), Outcome::Done);
    let entry = rig.only();
    assert_eq!((entry.reconsume_times, entry.redrives), (0, 1));
    assert_eq!((entry.disposition, entry.first_failed), (Some(Disposition::Manual), None));
    assert_eq!((&entry.history, &entry.origin), (&dead.history, &dead.origin));
    assert_eq!(rig.act(Action::Redrive), Outcome::Already);
    rig.advance(0);
    let (place, _) = rig.release_one();
    assert!(
        matches!(rig.nack(fail_delivery(place)), Ok(NackOutcome::Scheduled { .. })),
        "one retry"
    );
    rig.advance(10_000);
    let (place, _) = rig.release_one();
    assert!(matches!(rig.nack(fail_delivery(place)), Ok(NackOutcome::Dead { .. })));
    assert_eq!(rig.act(Action::Redrive), Outcome::Done);
    assert_eq!(rig.only().redrives, 2);
    rig.advance(0);
    let (place, _) = rig.release_one();
    rig.acknowledge(place);
    assert_eq!(rig.act(Action::Redrive), Outcome::Refused(StateKind::Committed));
    rig.assert_replays();
}

#[test]
fn a_letter_sent_to_a_topic_can_be_restored() {
    let mut rig = Rig::new(Policy::default());
    rig.buried(7);
    assert_eq!(rig.act(Action::Send), Outcome::Done);
    assert_eq!(rig.count(StateKind::Discarded), 1);
    assert_eq!(rig.act(Action::Send), Outcome::Refused(StateKind::Discarded));
    assert!(matches!(rig.nack(fail(7)), Ok(NackOutcome::Nothing { .. })), "it is not begun anew");
    assert_eq!(rig.act(Action::Restore), Outcome::Done);
    assert_eq!(rig.act(Action::Edit), Outcome::Done);
    assert_eq!(rig.only().redrives, 1);
    rig.assert_replays();
}

#[test]
fn a_nack_of_an_old_dead_letter_redrives() {
    let mut rig = Rig::new(Policy::default());
    rig.buried(7);
    assert!(matches!(rig.nack(fail(7)), Ok(NackOutcome::Nothing { .. })), "it may come once more");
    rig.origin_commit(8);
    rig.advance(900_000);
    assert!(matches!(rig.nack(fail(7)), Ok(NackOutcome::Nothing { .. })), "it may come late");
    rig.advance(1);
    assert!(matches!(rig.nack(level(fail(7), -1)), Ok(NackOutcome::Nothing { .. })), "it is dead");
    let Ok(NackOutcome::Scheduled { due, .. }) = rig.nack(fail(7)) else { panic!() };
    assert_eq!(due, rig.now.wall, "at once");
    assert_eq!(rig.only().redrives, 1);
    assert!(matches!(rig.nack(fail(7)), Ok(NackOutcome::Nothing { .. })), "once");
    rig.assert_replays();
}

#[test]
fn a_redriving_nack_of_level_0_is_due_at_once() {
    let mut rig = Rig::new(Policy::default());
    for (wanted, delay_ms) in [(0, 0), (1, 1_000)] {
        rig.buried(wanted.into());
        rig.origin_commit(8);
        rig.advance(900_001);
        let nack = level(fail(wanted.into()), wanted);
        let Ok(NackOutcome::Scheduled { due, .. }) = rig.nack(nack) else { panic!() };
        assert_eq!(due, rig.now.wall.plus(delay_ms), "level {wanted}");
    }
}

#[test]
fn a_discarded_dead_letter_can_be_restored_for_a_day() {
    let mut rig = Rig::new(Policy::default());
    let id = rig.buried(7);
    let died = rig.now.wall;
    rig.advance(5);
    assert_eq!(rig.act(Action::Discard), Outcome::Done);
    assert_eq!((rig.count(StateKind::Dead), rig.count(StateKind::Discarded)), (0, 1));
    assert_eq!(rig.act(Action::Discard), Outcome::Already);
    assert_eq!(rig.act(Action::Redrive), Outcome::Refused(StateKind::Discarded));
    assert!(matches!(rig.nack(fail(7)), Ok(NackOutcome::Nothing { .. })), "it is not begun anew");
    rig.advance(RESTORE_MS - 1);
    assert_eq!(rig.act(Action::Restore), Outcome::Done);
    assert_eq!(rig.only().state, RetryState::Dead { at: died });
    assert_eq!(rig.act(Action::Restore), Outcome::Already);
    rig.advance(10 * RESTORE_MS);
    assert_eq!(rig.act(Action::Discard), Outcome::Done, "a dead letter stays");
    rig.advance(RESTORE_MS);
    assert_eq!(rig.act(Action::Restore), Outcome::Refused(StateKind::Discarded), "too late");
    rig.origin_commit(8);
    rig.advance(900_000);
    assert_eq!(rig.operate(Action::Restore, &[id]), [Outcome::Unknown], "it is forgotten");
    rig.assert_replays();
}

#[test]
fn a_commit_does_not_end_the_time_to_restore() {
    let mut rig = Rig::new(Policy::default());
    rig.buried(7);
    rig.act(Action::Discard);
    rig.origin_commit(8);
    rig.advance(RESTORE_MS - 1);
    assert_eq!(rig.act(Action::Restore), Outcome::Done);
    rig.act(Action::Discard);
    rig.advance(RESTORE_MS);
    rig.advance(900_000);
    assert_eq!(rig.count(StateKind::Discarded), 0, "nothing of it is remembered");
    rig.assert_replays();
}

#[test]
fn a_waiting_retry_is_hastened_delayed_or_ended() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(7)).unwrap();
    let at = rig.now.wall.plus(3_600_000);
    assert_eq!(rig.act(Action::DelayUntil(at)), Outcome::Done);
    assert_eq!(rig.only().due(), Some(at));
    rig.advance(20_000);
    assert_eq!(rig.act(Action::RetryNow), Outcome::Done);
    assert_eq!(rig.act(Action::RetryNow), Outcome::Already);
    rig.advance(0);
    let (place, taken) = rig.release_one();
    assert_eq!(taken.reconsume_times, 1, "no failure is charged");
    for action in [Action::RetryNow, Action::DelayUntil(at), Action::DeadLetterNow] {
        assert_eq!(rig.act(action), Outcome::Refused(StateKind::Unread));
    }
    rig.nack(fail_delivery(place)).unwrap();
    assert_eq!(rig.act(Action::DeadLetterNow), Outcome::Done);
    let entry = rig.only();
    assert_eq!((entry.state.kind(), entry.reconsume_times), (StateKind::Dead, 2));
    assert_eq!(entry.disposition, Some(Disposition::Manual));
    assert_eq!(rig.act(Action::DeadLetterNow), Outcome::Already);
    let last = rig.journal.iter().rev().find_map(|fact| match fact {
        Fact::Entry { cause, .. } => Some(cause.evidence),
        _ => None,
    });
    assert_eq!(last, Some(Evidence::DeadLetterNow));
    rig.assert_replays();
}

#[test]
fn entries_of_another_group_or_of_none_are_unknown() {
    let mut rig = Rig::new(Policy::default());
    let id = rig.buried(7);
    let (group, ids) = (GroupId::new("cart"), vec![id]);
    let action = Action::Redrive;
    let other = rig.send(LedgerInput::Operate { group, action, ids });
    assert_eq!(other, Some(LedgerAnswer::Operated(vec![Outcome::Unknown])));
    let known = rig.operate(Action::Discard, &[EntryId(99), id]);
    assert_eq!(known, [Outcome::Unknown, Outcome::Done], "each is judged for itself");
}
