//! Import of dead letters from another sidecar.

use super::*;
use crate::retry::{BadImport, Disposition, Evidence, Import, ImportOutcome, RetryState};

/// A dead letter of another sidecar.
pub(super) fn letter(offset: Option<i64>) -> Import {
    let failed = WallMs(1_700_000_000_000);
    Import {
        origin: offset.map(order),
        passed: false,
        died: failed.plus(500),
        redrives: 1,
        reconsume_times: 3,
        max_reconsume_times: 16,
        handouts: 2,
        first_failed: Some(failed),
        last_failed: Some(failed),
        disposition: Some(Disposition::Rejected),
        reason: Some("no stock".into()),
        history: vec![(failed, Disposition::Rejected)],
        record_bytes: 0,
    }
}

impl Rig {
    fn import(&mut self, imports: Vec<Import>) -> Vec<ImportOutcome> {
        match self.send(LedgerInput::Import { group: shop(), imports }) {
            Some(LedgerAnswer::Imported(outcomes)) => outcomes,
            other => panic!("{other:?}"),
        }
    }

    fn last_evidence(&self) -> Evidence {
        match self.journal.last() {
            Some(Fact::Entry { cause, .. }) => cause.evidence,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_origin_that_the_group_knows_is_not_imported() {
    let mut rig = Rig::new(Policy::default());
    assert_eq!(rig.import(vec![letter(Some(7)), letter(Some(7))])[1], ImportOutcome::Known);
    rig.nack(fail(1)).unwrap();
    let facts = rig.journal.len();
    assert_eq!(rig.import(vec![letter(Some(1))]), [ImportOutcome::Known], "it waits here");
    rig.advance(60_000);
    let (place, _) = rig.release_one();
    assert_eq!(rig.import(vec![letter(Some(1))]), [ImportOutcome::Known], "released");
    rig.acknowledge(place);
    assert_eq!(rig.import(vec![letter(Some(1))]), [ImportOutcome::Known], "acknowledged");
    assert_eq!(rig.journal.len(), facts + 2, "nothing is decided but the two of the retry");
}

#[test]
fn an_imported_letter_keeps_its_age() {
    let mut rig = Rig::new(Policy { has_retries: false, ..Policy::default() });
    rig.advance(10_000);
    let outcomes = rig.import(vec![letter(Some(7)), letter(None)]);
    let [ImportOutcome::Imported { id }, ImportOutcome::Imported { .. }] = outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(rig.last_evidence(), Evidence::Imported);
    let entry = rig.ledger.entry(id).unwrap();
    assert_eq!(entry.state, RetryState::Dead { at: WallMs(1_700_000_000_500) });
    assert_eq!((entry.redrives, entry.reconsume_times, entry.expires), (1, 3, None));
    let failed = WallMs(1_700_000_000_000);
    assert_eq!((entry.first_failed, entry.last_failed), (Some(failed), Some(failed)));
    assert_eq!((entry.reason.as_deref(), entry.handouts), (Some("no stock"), 2));
    assert_eq!(entry.history, [(failed, Disposition::Rejected)]);
    assert_eq!((rig.wakes, rig.ledger.poll_timeout()), (0, None));
    assert_eq!(rig.import(vec![letter(Some(7))]), [ImportOutcome::Known]);
    let ahead = Import { died: rig.now.wall.plus(1), ..letter(Some(8)) };
    let [ImportOutcome::Imported { id }] = rig.import(vec![ahead])[..] else { panic!() };
    let entry = rig.ledger.entry(id).unwrap();
    assert_eq!(entry.state, RetryState::Dead { at: rig.now.wall }, "no letter is of the future");
    rig.restart(Policy::default(), 0);
}

#[test]
fn a_letter_without_room_or_keeping_is_refused() {
    let mut rig = Rig::new(Policy { dead_letters_bytes_max: Some(20_000), ..Policy::default() });
    let large = |offset| Import { record_bytes: 1_000, ..letter(Some(offset)) };
    let outcomes = rig.import((1..=3).map(large).collect());
    let taken = outcomes.iter().filter(|one| matches!(one, ImportOutcome::Imported { .. }));
    assert_eq!((taken.count(), outcomes[2]), (2, ImportOutcome::Refused(BadImport::NoRoom)));
    assert_eq!((rig.count(StateKind::Dead), rig.count(StateKind::Blocked)), (2, 0));
    let mut none = Rig::new(Policy { keep_dead_letters: false, ..Policy::default() });
    let facts = none.journal.len();
    let refused = none.import(vec![letter(Some(1))]);
    assert_eq!(refused, [ImportOutcome::Refused(BadImport::KeepsNone)]);
    assert_eq!(none.journal.len(), facts, "nothing is decided");
}
