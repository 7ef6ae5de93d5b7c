//! An entry with the place of its record in the log.

use crate::journal::EntryRef;
use crate::retry::Entry;

/// One entry, before its bytes are read.
#[derive(Clone, Debug)]
pub struct TakenEntry {
    pub entry: Entry,
    /// The place of the record's bytes; `None` only if the journal lost them.
    pub payload: Option<EntryRef>,
}
