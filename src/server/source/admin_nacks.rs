//! Failures that operators and programs report to the admin port (`admin-nack`).

use crate::admin::{FailedRecord, FailedRefused, FailedTaken};
use crate::engine::EngineError;
use crate::retry::{BadNack, NackOutcome};
use crate::route::nacks::admin_nack::{AdminNack, PostRefusal};
use crate::server::source::AdminSource;

impl AdminSource {
    pub(super) async fn fail(&self, failed: FailedRecord) -> Result<FailedTaken, FailedRefused> {
        let FailedRecord { group, record, want, error: reason } = failed;
        let posted = AdminNack { group: group.clone(), record: record.clone(), want, reason };
        match self.router.post(posted).await {
            Ok(outcome) => {
                tracing::info!(%group, %record, ?outcome, "the admin port was told of a failure");
                Ok(taken(outcome))
            }
            Err(refusal) => {
                tracing::info!(%group, %record, %refusal, "a nack by the admin port is refused");
                Err(refused(&refusal))
            }
        }
    }
}

fn taken(outcome: Option<NackOutcome>) -> FailedTaken {
    let Some(outcome) = outcome else { return FailedTaken::InPlace };
    match outcome {
        NackOutcome::Scheduled { id, due } => FailedTaken::Scheduled { id: id.0, due_ms: due.0 },
        NackOutcome::Dead { id } => FailedTaken::Dead { id: id.0 },
        NackOutcome::Discarded { id } => FailedTaken::Discarded { id: id.0 },
        NackOutcome::Blocked { id } => FailedTaken::Blocked { id: id.0 },
        NackOutcome::Nothing { id } => FailedTaken::Known { id: id.0 },
    }
}

fn refused(refusal: &PostRefusal) -> FailedRefused {
    let says = refusal.to_string();
    match refusal {
        PostRefusal::RetriesOff(_)
        | PostRefusal::NoWayBack { .. }
        | PostRefusal::Bad(_, BadNack::NotRemembered) => FailedRefused::Conflict(says),
        PostRefusal::NoTopic(_)
        | PostRefusal::NoPartition { .. }
        | PostRefusal::NoRecord(_)
        | PostRefusal::NoHandOut(..)
        | PostRefusal::Bad(_, BadNack::BytesGone) => FailedRefused::Missing(says),
        PostRefusal::NoLevel { .. }
        | PostRefusal::Bad(..)
        | PostRefusal::Engine(EngineError::BatchTooLarge { .. }) => FailedRefused::Bad(says),
        PostRefusal::Unread { .. } | PostRefusal::Engine(_) => FailedRefused::NotNow(says),
    }
}
