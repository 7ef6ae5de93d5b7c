//! Windows too many for the group of the log they belong to: they are written before it, beside
//! those they follow, and count when that group is there.
//!
//! ```text
//!  74 K: the window │ … │ nacks, the end, 72 K: "as staged" │ 72 K: the window, end of 74 K
//! ```
//! What is staged and not followed by its group never was: the window before it counts.

use std::collections::BTreeMap;

use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::kind;
use crate::engine::windows::{self, KeptWindow, Windows, in_groups};
use crate::journal::{Encoded, Entry, NewEntry};
use crate::model::{GroupId, TopicPartition};

/// A window that is as it was staged: version 3 of a stored one, and nothing behind it.
const AS_STAGED: &[u8] = &[3];

impl Driver {
    /// What lies in one group of the log with what windows come with: those that fit, and of the
    /// others, which are staged, that they count.
    pub(super) fn stage(&mut self, windows: Vec<NewEntry>) -> Result<Vec<NewEntry>, EngineError> {
        let mut groups = in_groups(windows, self.group_bytes);
        let mut last = groups.pop().unwrap_or_default();
        for windows in groups {
            // The end of one takes no room.
            let (ends, windows): (Vec<_>, Vec<_>) =
                windows.into_iter().partition(NewEntry::is_tombstone);
            last.extend(ends);
            self.persist(&[], &[], windows.iter().map(staged).collect())?;
            last.extend(windows.iter().map(as_staged));
            self.unstaged.extend(windows.into_iter().flat_map(whole));
        }
        Ok(last)
    }

    /// What was staged counts: it becomes what it would have been in its group.
    pub(super) fn unstage(&mut self) {
        if self.unstaged.is_empty() {
            return;
        }
        if let Err(error) = self.keep_windows() {
            tracing::warn!(%error, "windows stay staged for now");
        }
    }
}

/// The same window, staged.
fn staged(window: &NewEntry) -> NewEntry {
    window.clone().with_kind(kind::STAGED)
}

fn as_staged(window: &NewEntry) -> NewEntry {
    window.clone().with_head(Encoded::new(AS_STAGED))
}

/// The window as it is without having been staged, and the end of what was.
fn whole(window: NewEntry) -> impl Iterator<Item = NewEntry> {
    let end = end_of_staged(&window);
    std::iter::once(window).chain(end)
}

fn end_of_staged(window: &NewEntry) -> Option<NewEntry> {
    window.key.clone().map(|key| NewEntry::tombstone(kind::STAGED, key))
}

/// Whether that is a window which was staged and counts.
fn is_as_staged(entry: &Entry) -> bool {
    entry.kind == kind::WINDOW && entry.head == AS_STAGED
}

/// What the log tells of windows, entry by entry.
#[derive(Debug, Default)]
pub(super) struct Told {
    windows: Windows,
    staged: BTreeMap<(GroupId, TopicPartition), Staged>,
}

#[derive(Debug)]
struct Staged {
    window: KeptWindow,
    /// Its group is there, and no window behind it.
    counts: bool,
}

impl Told {
    pub(super) fn entry(&mut self, entry: &Entry) {
        if entry.kind == kind::STAGED {
            return self.staged(entry);
        }
        let of = entry.key.as_deref().and_then(windows::read_key);
        let known = of.as_ref().and_then(|of| self.staged.get_mut(of));
        if !is_as_staged(entry) {
            if let Some(staged) = known {
                staged.counts = false;
            }
            return windows::replay(&mut self.windows, entry);
        }
        let Some((of, staged)) = of.zip(known) else {
            return tracing::error!(seq = entry.seq, "a staged window is not there");
        };
        staged.counts = true;
        self.windows.insert(of, staged.window.clone());
    }

    fn staged(&mut self, entry: &Entry) {
        match windows::read(entry) {
            Some((group, of, Some(window))) => {
                self.staged.insert((group, of), Staged { window, counts: false });
            }
            Some((group, of, None)) => {
                self.staged.remove(&(group, of));
            }
            None => tracing::error!(seq = entry.seq, "a staged window cannot be read"),
        }
    }

    /// What counts.
    pub(super) fn take(&mut self) -> Windows {
        std::mem::take(&mut self.windows)
    }

    /// What is to be journalled, so that nothing is staged.
    pub(super) fn unstaged(self) -> Vec<NewEntry> {
        let each = self.staged.into_iter().flat_map(|((group, of), staged)| {
            let window = windows::stored(&group, &of, &staged.window);
            let end = end_of_staged(&window);
            [staged.counts.then_some(window), end]
        });
        each.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Kind;

    /// The window's own bytes have a test beside them.
    #[test]
    fn what_is_staged_is_a_window_and_counts_by_another_of_version_3() {
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        let window = windows::stored(&"shop".into(), &of, &KeptWindow::default());
        let (staged, counts) = (staged(&window), as_staged(&window));
        assert_eq!((staged.kind, counts.kind), (Kind(74), Kind(72)), "the format has changed");
        assert_eq!((&staged.key, staged.head()), (&window.key, window.head()));
        assert_eq!((&counts.key, &counts.head()[..]), (&window.key, &[3][..]), "it has changed");

        let mut told = Told::default();
        told.entry(&staged.read_back());
        assert_eq!(told.windows, Windows::new(), "nothing says that it counts");
        told.entry(&counts.read_back());
        let known = Windows::from([(("shop".into(), of), KeptWindow::default())]);
        assert_eq!(told.take(), known);
        let after = told.unstaged();
        let end = NewEntry::tombstone(Kind(74), window.key.clone().unwrap());
        assert_eq!(after, [window, end]);
    }
}
