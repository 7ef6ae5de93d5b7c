//! Reads all durable entries of the log, released ones included, while it is in use.

use super::core::{JournalCore, KIND_OWNERS};
use super::recover::replay::SegmentWalk;
use super::segment::format::decode;
use super::segment::in_segment;
use super::segment::scan::{Scanner, length};
use super::{EntryKind, EntryReadError, EntryRef, JournalEntry};

/// Decides by kind and liveness whether an entry is read.
type EntryFilter<'f> = &'f dyn Fn(EntryKind, bool) -> bool;

impl JournalCore {
    pub(super) fn past(
        &self,
        kinds: &[EntryKind],
        f: &mut dyn FnMut(&JournalEntry),
    ) -> Result<(), EntryReadError> {
        let wants = |kind, _| kinds.contains(&kind);
        self.walk_beside((0, self.progress.durable()), &wants, &mut |entry, _| f(entry))
    }

    /// Walks the owners' entries after `from`, for [`Journal::replay`](super::Journal::replay).
    pub(super) fn replay_beside(
        &self,
        from: u64,
        f: &mut dyn FnMut(&JournalEntry, EntryRef),
    ) -> Result<(), EntryReadError> {
        let wants = |kind: EntryKind, is_live| kind.0 >= KIND_OWNERS && (from > 0 || is_live);
        self.walk_beside((from, self.progress.durable()), &wants, f)
    }

    /// Calls `f` for wanted entries after `from` up to `to`, without blocking appends or
    /// compaction.
    fn walk_beside(
        &self,
        (from, to): (u64, u64),
        wants: EntryFilter<'_>,
        f: &mut dyn FnMut(&JournalEntry, EntryRef),
    ) -> Result<(), EntryReadError> {
        let mut last = from;
        while last < to {
            let Some((walk, scanner)) = self.enter_after(last)? else { break };
            let walked = walk.go(scanner, &mut |ordinal, _, raw| {
                let seq = raw.header.seq;
                let is_live = !walk.dead.get(ordinal);
                if last < seq && seq <= to && wants(EntryKind(raw.header.kind), is_live) {
                    let corrupt = || walk.corrupt(raw.offset);
                    let len = in_segment(length(&raw.bytes));
                    f(&decode(&raw.bytes).ok_or_else(corrupt)?, EntryRef { seq, len });
                }
                last = last.max(seq);
                Ok(())
            });
            match walked {
                // the writer may be writing past the durable end
                Err(EntryReadError::Corrupt { .. }) if last >= to => break,
                walked => walked?,
            }
            last = last.max(walk.end.saturating_sub(1));
        }
        Ok(())
    }

    /// Opens the segment that has the entries after `last`. The maintenance lock keeps compaction
    /// from moving or deleting it meanwhile. A copy that already replaced it may begin with entries
    /// up to `last`.
    fn enter_after(&self, last: u64) -> Result<Option<(SegmentWalk, Scanner)>, EntryReadError> {
        let _maintenance = self.maintenance();
        let Some(walk) = self.segments().after(last).next().map(SegmentWalk::of) else {
            return Ok(None);
        };
        let scanner = self.enter(&walk)?;
        Ok(Some((walk, scanner)))
    }
}
