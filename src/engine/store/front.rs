//! The first waiting entries of a group, in memory. Removed entries leave rows on disk until the
//! next flush, and every Fetch would have to skip these.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::model::{EntryId, WallMs};

/// Due time and id of a waiting entry.
pub(in crate::engine) type DueEntry = (WallMs, EntryId);

/// Most entries kept.
const KEPT_MAX: usize = 256;
/// Entries of one read: half of [`KEPT_MAX`], so that new entries do not evict others.
pub(super) const READ: usize = KEPT_MAX / 2;

/// **Invariant:** every waiting entry before `end` is in `first`.
#[derive(Debug)]
pub(super) struct Front {
    first: BTreeSet<DueEntry>,
    /// `None` when `first` has all waiting entries.
    end: Option<DueEntry>,
}

/// Answer of the front.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrontAnswer<T> {
    /// The complete answer.
    Known(T),
    /// Rows from this one on must be read first.
    Ask(DueEntry),
}

impl Front {
    /// A front that knows that no entry waits.
    pub(super) fn empty() -> Self {
        Self { first: BTreeSet::new(), end: None }
    }

    /// A front that knows of no entries yet.
    pub(super) fn unread() -> Self {
        Self { first: BTreeSet::new(), end: Some((WallMs(i64::MIN), EntryId(0))) }
    }

    pub(super) fn comes(&mut self, due: DueEntry) {
        if self.end.is_some_and(|end| end <= due) {
            return;
        }
        self.first.insert(due);
        if self.first.len() > KEPT_MAX {
            self.end = self.first.pop_last();
        }
    }

    pub(super) fn goes(&mut self, due: DueEntry) {
        self.first.remove(&due);
    }

    /// Adds rows from [`FrontAnswer::Ask`] on, in order; `whole` says that no rows follow.
    pub(super) fn read(&mut self, rows: Vec<DueEntry>, whole: bool) {
        let last = rows.last().copied();
        self.first.extend(rows);
        match last {
            _ if whole => self.end = None,
            // Ids after the last row are still unknown.
            Some((at, EntryId(id))) => self.end = Some((at, EntryId(id.saturating_add(1)))),
            None => {}
        }
    }

    /// Due entries, at most `limit`.
    pub(super) fn due(&self, now: WallMs, limit: usize) -> FrontAnswer<Vec<EntryId>> {
        let due = self.first.iter().take_while(|(at, _)| *at <= now).take(limit);
        let due: Vec<EntryId> = due.map(|(_, id)| *id).collect();
        match self.end {
            Some(end) if due.len() < limit && end.0 <= now => FrontAnswer::Ask(end),
            _ => FrontAnswer::Known(due),
        }
    }

    /// The first due time after `after`, or of all entries for `None`.
    pub(super) fn next(&self, after: Option<WallMs>) -> FrontAnswer<Option<WallMs>> {
        let after = after.map(|after| (after, EntryId(u64::MAX)));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        match (self.first.range((from, Bound::Unbounded)).next(), self.end) {
            (Some((at, _)), _) => FrontAnswer::Known(Some(*at)),
            (None, None) => FrontAnswer::Known(None),
            (None, Some(end)) => FrontAnswer::Ask(end.max(after.unwrap_or(end))),
        }
    }

    /// True when [`Front::due`] can answer this limit.
    pub(super) fn holds(limit: usize) -> bool {
        limit <= READ
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(at: i64, id: u64) -> DueEntry {
        (WallMs(at), EntryId(id))
    }

    #[test]
    fn the_first_waiting_entries_stay_known_through_changes() {
        let mut front = Front::unread();
        assert_eq!(front.due(WallMs(9), 1), FrontAnswer::Ask(due(i64::MIN, 0)));
        front.read(vec![due(5, 1), due(7, 2)], false);
        assert_eq!(front.due(WallMs(6), 9), FrontAnswer::Known(vec![EntryId(1)]));
        assert_eq!(front.due(WallMs(7), 9), FrontAnswer::Ask(due(7, 3)), "more may be due then");
        assert_eq!(front.due(WallMs(7), 2), FrontAnswer::Known(vec![EntryId(1), EntryId(2)]));
        front.comes(due(6, 9));
        front.comes(due(8, 9));
        front.goes(due(5, 1));
        assert_eq!(front.next(None), FrontAnswer::Known(Some(WallMs(6))));
        assert_eq!(front.next(Some(WallMs(6))), FrontAnswer::Known(Some(WallMs(7))));
        assert_eq!(front.next(Some(WallMs(7))), FrontAnswer::Ask(due(7, u64::MAX)));
        front.read(vec![due(8, 9)], true);
        assert_eq!(front.next(Some(WallMs(7))), FrontAnswer::Known(Some(WallMs(8))));
        assert_eq!(front.next(Some(WallMs(8))), FrontAnswer::Known(None));
    }

    #[test]
    fn the_front_keeps_a_bounded_number_of_entries() {
        let mut front = Front::empty();
        for id in (0..2_000).rev() {
            front.comes(due(0, id));
        }
        assert_eq!(front.first.len(), KEPT_MAX);
        let known: Vec<EntryId> = (0..10).map(EntryId).collect();
        assert_eq!(front.due(WallMs(0), 10), FrontAnswer::Known(known));
        for id in 0..256 {
            front.goes(due(0, id));
        }
        assert_eq!(front.due(WallMs(0), 1), FrontAnswer::Ask(due(0, 256)));
    }
}
