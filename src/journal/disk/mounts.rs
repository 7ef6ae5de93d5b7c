//! The mount a directory lies on, from the text of `/proc/self/mountinfo` (proc(5)).
//!
//! ```text
//! 36 35 98:0 /part/of/the/disk /mount/point rw,noatime master:1 - ext4 /dev/vda rw
//! ```

use std::borrow::Cow;
use std::path::Path;

/// The part of a path that a kubelet uses for `emptyDir` volumes.
const EMPTY_DIR: &str = "kubernetes.io~empty-dir";

/// Says whether a directory lies on a Kubernetes `emptyDir`, which is removed with its pod. The
/// path must have no symbolic links.
pub(super) fn is_on_empty_dir(mountinfo: &str, dir: &Path) -> bool {
    mount_of(mountinfo, dir).is_some_and(|mount| {
        [&mount.root, &mount.point, &mount.source].iter().any(|path| path.contains(EMPTY_DIR))
    })
}

/// One line of the text.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    /// The directory of the mounted file system that appears at the mount point.
    root: Cow<'a, str>,
    point: Cow<'a, str>,
    source: Cow<'a, str>,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, behind) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (unescaped(before.next()?), unescaped(before.next()?));
        Some(Self { root, point, source: unescaped(behind.split(' ').nth(1)?) })
    }
}

/// The mount with the longest mount point above `dir`. Of several at one point the last wins,
/// because it hides the others.
fn mount_of<'a>(mountinfo: &'a str, dir: &Path) -> Option<Mount<'a>> {
    let above = mountinfo.lines().filter_map(Mount::parse);
    let above = above.filter(|mount| dir.starts_with(mount.point.as_ref()));
    above.max_by_key(|mount| mount.point.len())
}

/// Decodes octal escapes: a blank, a tab, a line feed and a backslash appear as three octal digits.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = text.to_owned();
    for (written, meant) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(written, meant);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container with an `emptyDir` at /data, a claimed volume at /keep, a subPath at /part, and
    /// a claimed volume below the `emptyDir`.
    const POD: &str = "\
721 640 0:89 / / rw,relatime master:200 - overlay overlay rw,lowerdir=/var/lib/containerd/1
722 721 0:92 / /proc rw,nosuid - proc proc rw
760 721 8:1 /var/lib/kubelet/pods/3/volumes/kubernetes.io~empty-dir/a /data rw - ext4 /dev/sda rw
761 721 8:1 /pods/3f0c/volumes/kubernetes.io~empty-dir/data/a\\040b /part rw - xfs /dev/sda2 rw
762 721 8:32 / /keep rw,relatime - ext4 /dev/sdc rw
763 760 8:48 / /data/keep rw,relatime - ext4 /dev/sdd rw
764 721 0:99 /x /memory rw - tmpfs tmpfs rw,size=64k
not a line of this file
";

    fn is_on(dir: &str) -> bool {
        is_on_empty_dir(POD, Path::new(dir))
    }

    #[test]
    fn an_empty_dir_is_recognised_by_its_mounts_root() {
        for dir in ["/data", "/data/reprise", "/part", "/part/below"] {
            assert!(is_on(dir), "{dir}");
        }
        for dir in ["/", "/keep", "/keep/data", "/data/keep", "/database", "/memory", "relative"] {
            assert!(!is_on(dir), "{dir}");
        }
    }

    #[test]
    fn an_empty_dir_is_recognised_by_mount_point_or_source() {
        let point = "/var/lib/kubelet/pods/3f0c/volumes/kubernetes.io~empty-dir/data";
        let on_the_node = format!("40 30 0:50 / {point} rw - ext4 /dev/vdb rw\n");
        assert!(is_on_empty_dir(&on_the_node, &Path::new(point).join("reprise")));
        let by_source = format!("40 30 0:50 / /data rw shared:3 - virtiofs {point} rw\n");
        assert!(is_on_empty_dir(&by_source, Path::new("/data")));
    }

    #[test]
    fn the_last_mount_at_a_point_hides_those_before() {
        let hidden = format!("{POD}799 721 8:64 / /data rw - ext4 /dev/sde rw\n");
        assert!(!is_on_empty_dir(&hidden, Path::new("/data")));
        assert!(!is_on_empty_dir("", Path::new("/data")));
    }

    #[test]
    fn escaped_signs_of_a_mount_are_read() {
        let line = r"40 30 0:50 /a\040b /c\011d\134 rw - ext4 /dev/x rw";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.root.as_ref(), mount.point.as_ref()), ("/a b", "/c\td\\"));
        assert_eq!(mount.source, "/dev/x");
    }
}
