//! What the log still holds of what has been, entries that nobody needs any more included.

use super::core::Core;
use super::format::decode;
use super::{Entry, Kind, ReadError};

impl Core {
    /// See [`Journal::past`](super::Journal::past).
    pub(super) fn past(&self, kinds: &[Kind], f: &mut dyn FnMut(&Entry)) -> Result<(), ReadError> {
        // Nothing is moved or deleted meanwhile.
        let _maintenance = self.maintenance();
        let (to, mut last) = (self.progress.durable(), 0);
        for walk in self.walks(0) {
            let walked = self.walk_one(&walk, &mut |_, _, raw| {
                last = raw.header.seq;
                if last <= to && kinds.contains(&Kind(raw.header.kind)) {
                    let corrupt = || walk.corrupt(raw.offset);
                    f(&decode(&raw.bytes).ok_or_else(corrupt)?);
                }
                Ok(())
            });
            match walked {
                // Behind what is durable somebody may be writing.
                Err(ReadError::Corrupt { .. }) if last >= to => break,
                walked => walked?,
            }
        }
        Ok(())
    }
}
