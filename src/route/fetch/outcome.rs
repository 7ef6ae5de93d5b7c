//! The transaction of a record that was put behind another one of its key. While it is open, the
//! record is delivered to nobody; aborted, the record leaves the line.

use crate::engine::LaneRecord;
use crate::model::GroupId;
use crate::route::Router;
use crate::route::place::Place;

/// The outcome of a record's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionOutcome {
    /// Also without a transaction.
    Committed,
    Open,
    Aborted,
}

/// Keeps the records that may leave now, and tells the engine about the others.
pub(super) fn keep_deliverable(router: &Router, group: &GroupId, taken: &mut Vec<LaneRecord>) {
    taken.retain(|one| {
        match (outcome_of(router, one), &one.unfailed) {
            (TransactionOutcome::Open, Some(origin)) => {
                router.engine.undecided(group, origin.clone());
            }
            (TransactionOutcome::Aborted, Some(origin)) => {
                router.engine.taken_back(group, origin.clone());
            }
            _ => return true,
        }
        false
    });
}

/// Always `Committed` for a record of a cluster: reprise keeps no keys in order there.
pub(super) fn outcome_of(router: &Router, one: &LaneRecord) -> TransactionOutcome {
    let committed = TransactionOutcome::Committed;
    let Some(origin) = &one.unfailed else { return committed };
    let Some(Place::Local(topic)) = router.place(&origin.topic) else { return committed };
    let Some(of) = topic.partition(origin.partition) else { return committed };
    if router.broker.is_undecided(of, origin.offset) {
        TransactionOutcome::Open
    } else if router.broker.is_taken_back(of, origin.offset) {
        TransactionOutcome::Aborted
    } else {
        committed
    }
}
