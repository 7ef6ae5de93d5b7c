//! An entry with the place of its record in the log.

use crate::journal::EntryRef;
use crate::model::LaneOffset;
use crate::retry::Entry;

/// One delivery, before its bytes are read.
#[derive(Clone, Debug)]
pub struct TakenEntry {
    /// The delivery's offset in the retry partition.
    pub lane: LaneOffset,
    /// The entry as delivered.
    pub entry: Entry,
    /// The place of the record's bytes; `None` only if the journal lost them.
    pub payload: Option<EntryRef>,
}
