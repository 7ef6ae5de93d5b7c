//! Windows staged by earlier builds. Windows too large for their group of the log were written
//! before it, and are valid only if the group follows.
//!
//! ```text
//!  74 K: the window │ … │ nacks, the end, 72 K: "as staged" │ 72 K: the window, end of 74 K
//! ```
//! Without its group a staged window is invalid, and the window before it stays in force.

use std::collections::BTreeMap;

use crate::engine::detectors::window_entries::{self, KeptWindow, Windows};
use crate::engine::kind;
use crate::journal::{JournalEntry, NewEntry};
use crate::model::{GroupId, TopicPartition};

/// Head of an entry that makes a staged window valid: version 3 of a stored window, without data.
const AS_STAGED: &[u8] = &[3];

fn end_of_staged(window: &NewEntry) -> Option<NewEntry> {
    window.key.clone().map(|key| NewEntry::tombstone(kind::STAGED, key))
}

/// True for an entry that makes a staged window valid.
fn is_as_staged(entry: &JournalEntry) -> bool {
    entry.kind == kind::WINDOW && entry.head == AS_STAGED
}

/// Windows of the log, collected entry by entry.
#[derive(Debug, Default)]
pub(in crate::engine) struct StagedWindows {
    windows: Windows,
    staged: BTreeMap<(GroupId, TopicPartition), StagedWindow>,
}

#[derive(Debug)]
struct StagedWindow {
    window: KeptWindow,
    /// The log has the window's group, and no later window.
    counts: bool,
}

impl StagedWindows {
    pub(in crate::engine) fn entry(&mut self, entry: &JournalEntry) {
        if entry.kind == kind::STAGED {
            return self.staged(entry);
        }
        let of = entry.key.as_deref().and_then(window_entries::read_key);
        let known = of.as_ref().and_then(|of| self.staged.get_mut(of));
        if !is_as_staged(entry) {
            if let Some(staged) = known {
                staged.counts = false;
            }
            return window_entries::replay(&mut self.windows, entry);
        }
        let Some((of, staged)) = of.zip(known) else {
            return window_entries::unreadable(entry);
        };
        staged.counts = true;
        self.windows.insert(of, staged.window.clone());
    }

    fn staged(&mut self, entry: &JournalEntry) {
        match window_entries::read(entry) {
            Some((group, of, Some(window))) => {
                self.staged.insert((group, of), StagedWindow { window, counts: false });
            }
            Some((group, of, None)) => {
                self.staged.remove(&(group, of));
            }
            None => window_entries::unreadable(entry),
        }
    }

    /// True when the log has a valid window of this partition.
    pub(in crate::engine) fn knows(&self, group: &GroupId, of: &TopicPartition) -> bool {
        self.windows.contains_key(&(group.clone(), of.clone()))
    }

    /// Takes the valid windows.
    pub(in crate::engine) fn take(&mut self) -> Windows {
        std::mem::take(&mut self.windows)
    }

    /// Entries that store staged windows as plain ones, and remove the staged ones.
    pub(in crate::engine) fn unstaged(self) -> Vec<NewEntry> {
        let each = self.staged.into_iter().flat_map(|((group, of), staged)| {
            let KeptWindow { window, topic_id } = &staged.window;
            let window = window_entries::entry(&group, &of, Some(window), *topic_id);
            let end = end_of_staged(&window);
            [staged.counts.then_some(window), end]
        });
        each.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{EncodedHead, EntryKind};
    use crate::retry::detector::WindowRecord;
    use uuid::Uuid;

    /// the bytes of a window have a test in `windows`
    #[test]
    fn a_window_staged_by_an_earlier_build_counts() {
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        let record = WindowRecord::default();
        let window = window_entries::entry(&"shop".into(), &of, Some(&record), Uuid::nil());
        let staged = window.clone().with_kind(EntryKind(74));
        let counts = window.clone().with_head(EncodedHead::new(vec![3]));
        let mut told = StagedWindows::default();
        told.entry(&staged.read_back());
        assert_eq!(told.windows, Windows::new(), "nothing says that it counts");
        told.entry(&counts.read_back());
        let known = Windows::from([(("shop".into(), of), KeptWindow::default())]);
        assert_eq!(told.take(), known);
        let after = told.unstaged();
        let end = NewEntry::tombstone(EntryKind(74), window.key.clone().unwrap());
        assert_eq!(after, [window, end]);
    }
}
