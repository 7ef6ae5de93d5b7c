//! The segments in memory: the offsets of their entries, and the dead ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bitmap::Bitmap;
use super::{SEGMENT_START, SegmentId};
use crate::journal::{DiskFile, EntryRef};

/// A segment in memory.
#[derive(Debug)]
pub(in crate::journal) struct Segment {
    pub(in crate::journal) id: SegmentId,
    pub(in crate::journal) epoch: u64,
    /// One past the last sequence number of its range.
    pub(in crate::journal) end: u64,
    /// Length of the file.
    pub(in crate::journal) bytes: u64,
    pub(in crate::journal) entries: u32,
    pub(in crate::journal) live_bytes: u64,
    pub(in crate::journal) dead: Bitmap,
    /// Dead bits as the log has them: a copy may drop only these entries.
    pub(in crate::journal) logged: Option<LoggedBits>,
    /// `dead` has bits that the log does not have yet.
    pub(in crate::journal) unlogged: bool,
    /// The segment differs from its row in the index.
    pub(in crate::journal) unsaved: bool,
    /// A copy failed on damage; the segment is skipped until repaired.
    pub(in crate::journal) damaged: bool,
    /// Present until the offset table is written: for the newest segment, and for those sealed
    /// since the last step of housekeeping.
    pub(in crate::journal) fresh: Option<FreshOffsets>,
}

/// Contents of a segment's offset table before it is written.
#[derive(Debug)]
pub(in crate::journal) struct FreshOffsets {
    pub(in crate::journal) file: Arc<dyn DiskFile>,
    /// Byte offset of each entry, from sequence number `base` on without a gap.
    pub(in crate::journal) offsets: Vec<u32>,
    /// The writer has begun the next segment.
    pub(in crate::journal) sealed: bool,
}

/// Dead bits written to the log.
#[derive(Clone, Debug)]
pub(in crate::journal) struct LoggedBits {
    pub(in crate::journal) dead: Bitmap,
    pub(in crate::journal) live_bytes: u64,
    /// Sequence number of the entry with the dead bits.
    pub(in crate::journal) seq: u64,
}

/// Location of an entry.
#[derive(Clone, Debug)]
pub(in crate::journal) enum EntryLocation {
    Fresh { id: SegmentId, epoch: u64, file: Arc<dyn DiskFile>, offset: u64 },
    Sealed { id: SegmentId, epoch: u64 },
    NotWritten,
    Gone,
}

/// All segments by their first sequence number.
#[derive(Debug, Default)]
pub(in crate::journal) struct Segments {
    pub(in crate::journal) map: BTreeMap<u64, Segment>,
}

impl Segment {
    pub(in crate::journal) fn new(id: SegmentId, epoch: u64) -> Self {
        Self {
            id,
            epoch,
            end: id.base,
            bytes: SEGMENT_START,
            entries: 0,
            live_bytes: 0,
            dead: Bitmap::default(),
            logged: None,
            unlogged: false,
            unsaved: true,
            damaged: false,
            fresh: None,
        }
    }

    /// False for the segment that the writer fills.
    pub(in crate::journal) fn is_sealed(&self) -> bool {
        self.fresh.as_ref().is_none_or(|fresh| fresh.sealed)
    }

    /// Bytes of entries that the log does not know to be dead. `None` when the log may have dead
    /// bits that are not in memory, as after a start. A copy would keep those entries, and its
    /// removal of the original would end their dead bits.
    pub(in crate::journal) fn logged_live_bytes(&self, durable: u64) -> Option<u64> {
        match &self.logged {
            Some(logged) => (logged.seq <= durable).then_some(logged.live_bytes),
            None if self.dead == Bitmap::default() => {
                Some(self.bytes.saturating_sub(SEGMENT_START))
            }
            None => None,
        }
    }

    /// True when the segment has every sequence number of its range.
    fn is_dense(&self) -> bool {
        u64::from(self.entries) == self.end.saturating_sub(self.id.base)
    }

    /// Position of an entry in a segment without gaps, which needs no offset table.
    pub(in crate::journal) fn dense_ordinal(&self, seq: u64) -> Option<u32> {
        let known = self.is_dense() && seq < self.end;
        known.then(|| seq.checked_sub(self.id.base)).flatten()?.try_into().ok()
    }
}

impl Segments {
    /// The segment whose range has a sequence number.
    pub(in crate::journal) fn holding(&self, seq: u64) -> Option<&Segment> {
        let (_, segment) = self.map.range(..=seq).next_back()?;
        (!segment.is_sealed() || seq < segment.end).then_some(segment)
    }

    /// Segments whose range ends after `seq`, in order.
    pub(in crate::journal) fn after(&self, seq: u64) -> impl Iterator<Item = &Segment> {
        self.map.values().filter(move |segment| segment.end > seq.saturating_add(1))
    }

    /// Locates an entry.
    pub(in crate::journal) fn place(&self, seq: u64) -> EntryLocation {
        let Some(segment) = self.holding(seq) else { return EntryLocation::Gone };
        let Some(fresh) = &segment.fresh else {
            return EntryLocation::Sealed { id: segment.id, epoch: segment.epoch };
        };
        let at = usize::try_from(seq - segment.id.base).unwrap_or(usize::MAX);
        match fresh.offsets.get(at) {
            Some(offset) => EntryLocation::Fresh {
                id: segment.id,
                epoch: segment.epoch,
                file: Arc::clone(&fresh.file),
                offset: u64::from(*offset),
            },
            None => EntryLocation::NotWritten,
        }
    }

    /// Marks an entry dead; `ordinal` is its position in its segment.
    pub(in crate::journal) fn mark_dead(&mut self, entry: EntryRef, ordinal: u32) {
        let found = self.map.range_mut(..=entry.seq).next_back();
        let Some((_, segment)) = found else { return };
        if ordinal < segment.entries && segment.dead.set(ordinal) {
            segment.live_bytes = segment.live_bytes.saturating_sub(u64::from(entry.len));
            segment.unlogged = true;
            segment.unsaved = true;
        }
    }

    pub(in crate::journal) fn bytes(&self) -> u64 {
        self.map.values().map(|segment| segment.bytes).sum()
    }

    pub(in crate::journal) fn live_bytes(&self) -> u64 {
        self.map.values().map(|segment| segment.live_bytes).sum()
    }
}
