//! What the log still holds of what has been, entries that nobody needs any more included.

use super::core::Core;
use super::format::decode;
use super::replay::Walk;
use super::scan::Scanner;
use super::{Entry, Kind, ReadError};

impl Core {
    /// See [`Journal::past`](super::Journal::past).
    pub(super) fn past(&self, kinds: &[Kind], f: &mut dyn FnMut(&Entry)) -> Result<(), ReadError> {
        let (to, mut last) = (self.progress.durable(), 0);
        while last < to {
            let Some((walk, scanner)) = self.enter_after(last)? else { break };
            let walked = walk.go(scanner, &mut |_, _, raw| {
                let seq = raw.header.seq;
                if last < seq && seq <= to && kinds.contains(&Kind(raw.header.kind)) {
                    let corrupt = || walk.corrupt(raw.offset);
                    f(&decode(&raw.bytes).ok_or_else(corrupt)?);
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
