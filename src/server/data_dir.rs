//! Where the data directory lies.

use std::path::Path;

/// Linux file system magics (statfs(2)) of what does not outlive a pod.
const TMPFS: i64 = 0x0102_1994;
const OVERLAYFS: i64 = 0x794c_7630;

/// Embedded, the whole cluster lies there: a volume that goes with the pod is worth a warning.
pub(super) fn warn_if_ephemeral(dir: &Path) {
    if let Some(kind) = ephemeral(dir) {
        tracing::warn!(
            dir = %dir.display(), kind,
            "the data directory does not outlive this machine or pod; put it on a real volume"
        );
    }
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
