//! The check that the data directory is on durable storage.

use std::path::Path;

use crate::journal::ephemeral;

/// The directory does not outlive the pod.
#[derive(Debug, thiserror::Error)]
#[error(
    "the data directory {dir} is on {kind}, which does not outlive this machine or pod: what fails \
     would be lost with it. Put it on a real volume, or set journal.ephemeral: accept"
)]
pub struct EphemeralError {
    dir: String,
    kind: &'static str,
}

/// Warns about an ephemeral data directory. In front of a cluster it is an error: the failed
/// records are safe in Kafka, and would not be safe here.
pub(super) fn check(dir: &Path, in_front: bool) -> Result<(), EphemeralError> {
    let Some(kind) = ephemeral(dir) else { return Ok(()) };
    if in_front {
        return Err(EphemeralError { dir: dir.display().to_string(), kind });
    }
    tracing::warn!(
        dir = %dir.display(), kind,
        "R0503 the data directory does not outlive this machine or pod; put it on a real volume"
    );
    Ok(())
}
