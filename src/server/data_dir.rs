//! Where the data directory lies.

use std::path::Path;

/// Linux file system magics (statfs(2)) of what does not outlive a pod.
const TMPFS: i64 = 0x0102_1994;
const OVERLAYFS: i64 = 0x794c_7630;

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

/// By itself, whoever tries it out is warned. In front of a cluster it is refused: the records are
/// safe there, and here they would not be.
pub(super) fn check(dir: &Path, in_front: bool) -> Result<(), EphemeralError> {
    let Some(kind) = ephemeral(dir) else { return Ok(()) };
    if in_front {
        return Err(EphemeralError { dir: dir.display().to_string(), kind });
    }
    tracing::warn!(
        dir = %dir.display(), kind,
        "the data directory does not outlive this machine or pod; put it on a real volume"
    );
    Ok(())
}

/// `tmpfs` or `overlay`, where that can be told.
#[cfg(target_os = "linux")]
#[cfg_attr(
    target_pointer_width = "64",
    expect(clippy::useless_conversion, reason = "the kernel's word is narrower on other machines")
)]
fn ephemeral(dir: &Path) -> Option<&'static str> {
    let stat = rustix::fs::statfs(dir).ok()?;
    match i64::try_from(stat.f_type).ok()? {
        TMPFS => Some("tmpfs"),
        OVERLAYFS => Some("overlay"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn ephemeral(_dir: &Path) -> Option<&'static str> {
    let _ = (TMPFS, OVERLAYFS);
    None
}
