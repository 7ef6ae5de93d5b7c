//! Inspects a data directory before a journal is opened in it; creates nothing.

use std::fs;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use rustix::fs::{Access, access, statvfs};

use super::mounts::is_on_empty_dir;
use super::real_disk::open_error;
use crate::journal::segment::LOCK_NAME;
use crate::journal::{OpenError, RealDisk};
use crate::model::WallMs;

/// Linux file system magics (statfs(2)) of storage that does not outlive a pod.
const TMPFS: i64 = 0x0102_1994;
const OVERLAYFS: i64 = 0x794c_7630;

/// Facts about a directory.
#[derive(Debug)]
pub struct DirectoryFacts {
    /// The directory exists; otherwise a start creates it.
    pub exists: bool,
    /// Name of a kind of storage that does not outlive the machine or the pod.
    pub ephemeral: Option<&'static str>,
    /// Bytes this process may write there, if known.
    pub free_bytes: Option<u64>,
    /// When a file in it was last written.
    pub written: Option<WallMs>,
}

impl DirectoryFacts {
    /// Inspects the directory; an error is one that would keep a sidecar from opening it.
    pub fn look(dir: &Path) -> Result<Self, OpenError> {
        let exists = dir.is_dir();
        if exists && dir.join(LOCK_NAME).exists() {
            drop(RealDisk::open(dir)?);
        }
        // a start creates missing directories below the nearest one that exists
        let ground = dir.ancestors().find(|above| above.as_os_str().is_empty() || above.exists());
        let ground = ground.filter(|above| !above.as_os_str().is_empty());
        let ground = ground.unwrap_or(Path::new("."));
        if !ground.is_dir() {
            let source = io::ErrorKind::NotADirectory.into();
            return Err(OpenError::Missing { dir: dir.display().to_string(), source });
        }
        access(ground, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
            open_error(dir.display().to_string(), "looking at it", errno.into())
        })?;
        Ok(Self {
            exists,
            ephemeral: ephemeral(ground),
            free_bytes: statvfs(ground)
                .ok()
                .map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize)),
            written: if exists { written(dir) } else { None },
        })
    }
}

fn written(dir: &Path) -> Option<WallMs> {
    let files = fs::read_dir(dir).ok()?.map_while(Result::ok);
    let times = files.filter_map(|file| {
        let since = file.metadata().ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok()
    });
    times.max().map(WallMs)
}

/// The kind of storage under `dir` if it does not outlive the pod; `None` otherwise or if unknown.
#[cfg(target_os = "linux")]
#[cfg_attr(
    target_pointer_width = "64",
    expect(clippy::useless_conversion, reason = "the kernel's word is narrower on other machines")
)]
pub fn ephemeral(dir: &Path) -> Option<&'static str> {
    let stat = rustix::fs::statfs(dir).ok()?;
    match i64::try_from(stat.f_type).ok()? {
        TMPFS => Some("tmpfs"),
        OVERLAYFS => Some("overlay"),
        _ => {
            let mountinfo = fs::read("/proc/self/mountinfo").ok()?;
            let dir = fs::canonicalize(dir).ok()?;
            is_on_empty_dir(&String::from_utf8_lossy(&mountinfo), &dir)
                .then_some("an emptyDir volume")
        }
    }
}

/// The kind of storage under `dir` if it does not outlive the pod; `None` otherwise or if unknown.
#[cfg(not(target_os = "linux"))]
pub fn ephemeral(_dir: &Path) -> Option<&'static str> {
    let _ = (TMPFS, OVERLAYFS, is_on_empty_dir);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_creates_nothing_and_sees_the_lock_holder() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("a/b");
        let place = DirectoryFacts::look(&missing).unwrap();
        assert!(!place.exists && place.free_bytes.unwrap() > 0 && place.written.is_none());
        assert!(!dir.path().join("a").exists());
        DirectoryFacts::look(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let held = RealDisk::open(dir.path()).unwrap();
        let refused = DirectoryFacts::look(dir.path()).unwrap_err();
        assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
        drop(held);
        let place = DirectoryFacts::look(dir.path()).unwrap();
        assert!(place.exists && place.written.unwrap().0 > 0);
        let file = dir.path().join(LOCK_NAME);
        for dir in [file.join("below"), file] {
            let refused = DirectoryFacts::look(&dir).unwrap_err();
            assert!(matches!(refused, OpenError::Missing { .. }), "{refused}");
        }
        DirectoryFacts::look(Path::new("some-name")).unwrap();
    }
}
