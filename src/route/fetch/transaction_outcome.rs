//! The transaction of a key-blocked record. While it is open, the record is not delivered; when it
//! aborts, the record is removed from the ledger.

use crate::engine::LaneRecord;
use crate::model::GroupId;
use crate::route::Router;
use crate::route::topics::topic_kind::TopicKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionOutcome {
    /// Includes records without a transaction.
    Committed,
    Open,
    Aborted,
}

/// Keeps the records that may be delivered, and reports the others to the engine.
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

/// Always `Committed` for a record of a cluster: key order needs the embedded cluster.
pub(super) fn outcome_of(router: &Router, one: &LaneRecord) -> TransactionOutcome {
    let committed = TransactionOutcome::Committed;
    let Some(origin) = &one.unfailed else { return committed };
    let Some(TopicKind::Local(topic)) = router.place(&origin.topic) else { return committed };
    let Some(of) = topic.partition(origin.partition) else { return committed };
    if router.broker.is_undecided(of, origin.offset) {
        TransactionOutcome::Open
    } else if router.broker.is_taken_back(of, origin.offset) {
        TransactionOutcome::Aborted
    } else {
        committed
    }
}
