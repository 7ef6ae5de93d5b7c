//! What the log still holds of what has been, entries that nobody needs any more included.

use super::core::{Core, KIND_OWNERS};
use super::format::decode;
use super::replay::Walk;
use super::scan::Scanner;
use super::{Entry, EntryRef, Kind, ReadError};

/// Decides by kind and liveness whether an entry is read.
type Wants<'f> = &'f dyn Fn(Kind, bool) -> bool;

impl Core {
    /// See [`Journal::past`](super::Journal::past).
    pub(super) fn past(&self, kinds: &[Kind], f: &mut dyn FnMut(&Entry)) -> Result<(), ReadError> {
        let wants = |kind, _| kinds.contains(&kind);
        self.walk_beside((0, self.progress.durable()), &wants, &mut |entry, _| f(entry))
    }

    /// Walks the owners' entries after `from`: [`Journal::replay`](super::Journal::replay).
    pub(super) fn replay_beside(
        &self,
        from: u64,
        f: &mut dyn FnMut(&Entry, EntryRef),
    ) -> Result<(), ReadError> {
        let wants = |kind: Kind, is_live| kind.0 >= KIND_OWNERS && (from > 0 || is_live);
        self.walk_beside((from, self.progress.durable()), &wants, f)
    }

    /// Calls `f` for wanted entries after `from` up to `to`, beside appends and compaction.
    fn walk_beside(
        &self,
        (from, to): (u64, u64),
        wants: Wants<'_>,
        f: &mut dyn FnMut(&Entry, EntryRef),
    ) -> Result<(), ReadError> {
        let mut last = from;
        while last < to {
            let Some((walk, scanner)) = self.enter_after(last)? else { break };
            let walked = walk.go(scanner, &mut |ordinal, _, raw| {
                let seq = raw.header.seq;
                let is_live = !walk.dead.get(ordinal);
                if last < seq && seq <= to && wants(Kind(raw.header.kind), is_live) {
                    let corrupt = || walk.corrupt(raw.offset);
                    let len = u32::try_from(raw.bytes.len()).unwrap_or(u32::MAX);
                    f(&decode(&raw.bytes).ok_or_else(corrupt)?, EntryRef { seq, len });
                }
                last = last.max(seq);
                Ok(())
            });
            match walked {
                // Behind what is durable somebody may be writing.
                Err(ReadError::Corrupt { .. }) if last >= to => break,
                walked => walked?,
            }
            last = last.max(walk.end.saturating_sub(1));
        }
        Ok(())
    }

    /// The segment in which it goes on after `last`. Nothing is moved or deleted while it is
    /// opened; what stands in its place by then begins with what has been told.
    fn enter_after(&self, last: u64) -> Result<Option<(Walk, Scanner)>, ReadError> {
        let _maintenance = self.maintenance();
        let Some(walk) = self.segments().after(last).next().map(Walk::of) else {
            return Ok(None);
        };
        let scanner = self.enter(&walk)?;
        Ok(Some((walk, scanner)))
    }
}
