//! Export and import of entries between sidecars.

use super::*;
use crate::model::EntryId;
use crate::retry::{
    BadImport, DELAY_MS_MAX, Disposition, Evidence, ExportOutcome, ExportStep, Import,
    ImportOutcome, RetryState,
};

use ExportOutcome::{Already, Done, Left};
use ExportStep::{Begin, End, Undo};

const TIMEOUT_MS: u64 = 900_000;

/// A waiting entry of another sidecar, due a minute after the rig's start.
pub(super) fn brought(offset: Option<i64>) -> Import {
    let failed = WallMs(1_700_000_000_000);
    Import {
        origin: offset.map(order),
        passed: false,
        died: None,
        due: failed.plus(60_000),
        delay_ms: 60_000,
        level: Some(5),
        redrives: 0,
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

/// A dead letter of another sidecar.
pub(super) fn letter(offset: Option<i64>) -> Import {
    Import { died: Some(WallMs(1_700_000_000_500)), redrives: 1, ..brought(offset) }
}

impl Rig {
    fn export(&mut self, step: ExportStep, ids: &[EntryId]) -> Vec<ExportOutcome> {
        match self.send(LedgerInput::Export { step, ids: ids.to_vec() }) {
            Some(LedgerAnswer::Exported(outcomes)) => outcomes,
            other => panic!("{other:?}"),
        }
    }

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
fn an_exported_retry_is_not_delivered_also_after_a_restart() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    let before = rig.only();
    assert_eq!(rig.export(Begin, &[before.id]), [Done]);
    assert_eq!(rig.last_evidence(), Evidence::Exported);
    assert_eq!(rig.export(Begin, &[before.id]), [Already]);
    rig.restart(Policy::default(), 0);
    rig.advance(7_200_000);
    assert_eq!((rig.release(), rig.ledger.poll_timeout()), (Vec::new(), None));
    let after = rig.only();
    assert_eq!((after.reconsume_times, after.handouts), (1, 0));
    let RetryState::Exported { due, .. } = after.state else { panic!("{after:?}") };
    assert_eq!(Some(due), before.due(), "the due time stays the one it had");
}

#[test]
fn an_inflight_retry_is_not_exported() {
    let mut rig = Rig::new(Policy::default());
    let (_, entry) = rig.inflight(1);
    let facts = rig.journal.len();
    assert_eq!(rig.export(Begin, &[entry.id, EntryId(99)]), [Left, Left]);
    assert_eq!(rig.journal.len(), facts, "nothing is decided");
}

#[test]
fn an_undone_export_restores_the_retry() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    let before = rig.only();
    rig.export(Begin, &[before.id]);
    rig.advance(4_000);
    assert_eq!(rig.export(Undo, &[before.id]), [Done]);
    assert_eq!(rig.only(), before);
    assert_eq!(rig.export(Undo, &[before.id, EntryId(9)]), [Already, Left]);
    rig.advance(5_999);
    assert_eq!(rig.wakes, 0);
    rig.advance(1);
    assert_eq!((rig.wakes, rig.release_one().1.reconsume_times), (1, 1));
}

#[test]
fn a_clock_set_back_does_not_strand_undone_exports() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    let id = rig.only().id;
    rig.export(Begin, &[id]);
    rig.restart(Policy::default(), -86_400_000);
    rig.export(Undo, &[id]);
    assert_eq!(rig.only().due(), Some(rig.now.wall.plus(10_000)));
}

#[test]
fn only_a_begun_export_ends_and_its_origin_stays_known() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(1)).unwrap();
    let id = rig.only().id;
    assert_eq!(rig.export(End, &[id, EntryId(9)]), [Left, Left], "it is still delivered here");
    rig.export(Begin, &[id]);
    assert_eq!(rig.export(End, &[id]), [Done]);
    assert_eq!(rig.export(End, &[id]), [Already]);
    assert_eq!(rig.export(Undo, &[id]), [Left], "the other sidecar has it");
    let entry = rig.only();
    assert!(entry.is_settled() && entry.disposition == Some(Disposition::Manual), "{entry:?}");
    assert_eq!(rig.nack(fail(1)), Ok(NackOutcome::Nothing { id }));
    assert_eq!(rig.only().reconsume_times, 1);
    rig.origin_commit(2);
    rig.advance(TIMEOUT_MS);
    assert_eq!(rig.entries(), [], "remembered, not for ever");
    assert_eq!(rig.export(End, &[id]), [Already], "and known to be settled");
}

#[test]
fn an_imported_retry_keeps_its_count_and_due_time() {
    let mut rig = Rig::new(Policy::default());
    let outcomes = rig.import(vec![brought(Some(7)), brought(None)]);
    let [ImportOutcome::Imported { id }, ImportOutcome::Imported { .. }] = outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(rig.last_evidence(), Evidence::Imported);
    let entry = rig.ledger.entry(id).unwrap();
    let failed = WallMs(1_700_000_000_000);
    assert_eq!((entry.due(), entry.reconsume_times), (Some(failed.plus(60_000)), 3));
    assert_eq!((entry.first_failed, entry.last_failed), (Some(failed), Some(failed)));
    assert_eq!((entry.reason.as_deref(), entry.handouts), (Some("no stock"), 2));
    assert_eq!(entry.history, [(failed, Disposition::Rejected)]);
    rig.restart(Policy::default(), 0);
    rig.advance(59_999);
    assert_eq!(rig.wakes, 0, "never early");
    rig.advance(1);
    assert_eq!(rig.wakes, 1);
    let (place, _) = rig.release()[0];
    rig.nack(fail_delivery(place)).unwrap();
    assert_eq!(rig.ledger.entry(id).unwrap().reconsume_times, 4);
}

#[test]
fn a_known_origin_is_not_imported_twice() {
    let mut rig = Rig::new(Policy::default());
    let twice = vec![brought(Some(7)), brought(Some(7))];
    assert_eq!(rig.import(twice)[1], ImportOutcome::Known);
    rig.advance(60_000);
    let (place, _) = rig.release_one();
    assert_eq!(rig.import(vec![brought(Some(7))]), [ImportOutcome::Known], "handed out");
    rig.acknowledge(place);
    let facts = rig.journal.len();
    assert_eq!(rig.import(vec![brought(Some(7))]), [ImportOutcome::Known], "acknowledged");
    assert_eq!(rig.journal.len(), facts);
}

#[test]
fn an_exported_retry_may_return_as_another_entry() {
    let mut rig = Rig::new(Policy::default());
    rig.nack(fail(7)).unwrap();
    let gone = rig.only().id;
    rig.export(Begin, &[gone]);
    assert_eq!(rig.import(vec![brought(Some(7))]), [ImportOutcome::Known], "only set aside");
    rig.export(End, &[gone]);
    let back = Import { reconsume_times: 0, ..brought(Some(7)) };
    let outcomes = rig.import(vec![back]);
    let entry = rig.only();
    assert_eq!(outcomes, [ImportOutcome::Imported { id: entry.id }]);
    assert_ne!(entry.id, gone, "its number was told to the other sidecar already");
    assert_eq!(entry.reconsume_times, 1, "counts never fall");
    rig.restart(Policy::default(), 0);
}

#[test]
fn undeliverable_imports_are_refused_and_long_delays_shortened() {
    let mut off = Rig::new(Policy { has_retries: false, ..Policy::default() });
    let refused = off.import(vec![brought(Some(1))]);
    assert_eq!(refused, [ImportOutcome::Refused(BadImport::RetriesOff)]);
    let mut rig = Rig::new(table("1s 5s 10s"));
    let long = Import { delay_ms: DELAY_MS_MAX + 1, ..brought(Some(1)) };
    assert_eq!(rig.import(vec![long]), [ImportOutcome::Refused(BadImport::DelayTooLong)]);
    let ahead = Import { due: rig.now.wall.plus(86_400_000), ..brought(Some(2)) };
    rig.import(vec![ahead]);
    let entry = rig.only();
    assert_eq!(entry.due(), Some(rig.now.wall.plus(60_000)), "no further off than its own delay");
    let RetryState::Waiting { level, .. } = entry.state else { panic!("{entry:?}") };
    assert_eq!(level, None, "this table has no level 5");
}

#[test]
fn an_origin_that_was_passed_there_is_passed_here() {
    let mut rig = Rig::new(Policy::default());
    rig.import(vec![Import { passed: true, ..brought(Some(7)) }]);
    rig.advance(60_000);
    let (place, _) = rig.release_one();
    rig.acknowledge(place);
    rig.advance(TIMEOUT_MS);
    assert_eq!(rig.entries(), [], "no later commit has to pass it");
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
    assert_eq!((rig.wakes, rig.ledger.poll_timeout()), (0, None));
    assert_eq!(rig.import(vec![letter(Some(7))]), [ImportOutcome::Known]);
    let ahead = Import { died: Some(rig.now.wall.plus(1)), ..letter(Some(8)) };
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
    assert_eq!((rig.count(StateKind::Dead), rig.count(StateKind::Held)), (2, 0));
    let mut none = Rig::new(Policy { keep_dead_letters: false, ..Policy::default() });
    let facts = none.journal.len();
    let refused = none.import(vec![letter(Some(1))]);
    assert_eq!(refused, [ImportOutcome::Refused(BadImport::KeepsNone)]);
    assert_eq!(none.journal.len(), facts, "nothing is decided");
}
