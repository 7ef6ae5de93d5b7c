//! The segments there are, where their entries begin, and which of those are dead.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bitmap::Bitmap;
use super::segment::{SEGMENT_START, SegmentId};
use super::{DiskFile, EntryRef};

/// A segment as it is known in memory.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: SegmentId,
    pub(super) epoch: u64,
    /// One past the last sequence number it stands for.
    pub(super) end: u64,
    /// Length of the file.
    pub(super) bytes: u64,
    pub(super) entries: u32,
    pub(super) live_bytes: u64,
    pub(super) dead: Bitmap,
    /// Dead bits as an entry of the log has them: only these may be left out of a copy.
    pub(super) logged: Option<Logged>,
    /// `dead` has bits the log does not know.
    pub(super) unlogged: bool,
    /// Something here differs from the index.
    pub(super) unsaved: bool,
    /// A copy failed on damage: left alone until repaired.
    pub(super) damaged: bool,
    /// Only one whose offset table is not written yet has these: the newest, and those sealed since
    /// housekeeping last came by.
    pub(super) fresh: Option<Fresh>,
}

/// What the offset table of a segment will have, kept in memory until then.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) file: Arc<dyn DiskFile>,
    /// Where each entry begins, from `base` on without a gap.
    pub(super) offsets: Vec<u32>,
    /// The writer has gone on to the next segment.
    pub(super) sealed: bool,
}

/// Dead bits written to the log.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) dead: Bitmap,
    pub(super) live_bytes: u64,
    /// The entry that has them.
    pub(super) seq: u64,
}

/// Where to look for an entry.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Fresh { id: SegmentId, epoch: u64, file: Arc<dyn DiskFile>, offset: u64 },
    Sealed { id: SegmentId, epoch: u64 },
    NotWritten,
    Gone,
}

/// All segments by their first sequence number.
#[derive(Debug, Default)]
pub(super) struct Segments {
    pub(super) map: BTreeMap<u64, Segment>,
}

impl Segment {
    pub(super) fn new(id: SegmentId, epoch: u64) -> Self {
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

    /// False of the one the writer fills.
    pub(super) fn is_sealed(&self) -> bool {
        self.fresh.as_ref().is_none_or(|fresh| fresh.sealed)
    }

    /// Bytes of entries the log does not yet know to be dead. None where the log may have dead bits
    /// that are not known here, as after a start: a copy keeps what they stand for, and ends them.
    pub(super) fn logged_live_bytes(&self, durable: u64) -> Option<u64> {
        match &self.logged {
            Some(logged) => (logged.seq <= durable).then_some(logged.live_bytes),
            None if self.dead == Bitmap::default() => {
                Some(self.bytes.saturating_sub(SEGMENT_START))
            }
            None => None,
        }
    }

    /// True when no sequence number of its range is missing.
    fn is_dense(&self) -> bool {
        u64::from(self.entries) == self.end.saturating_sub(self.id.base)
    }

    /// Position of an entry when it can be told without the offset table.
    pub(super) fn dense_ordinal(&self, seq: u64) -> Option<u32> {
        let known = self.is_dense() && seq < self.end;
        known.then(|| seq.checked_sub(self.id.base)).flatten()?.try_into().ok()
    }
}

impl Segments {
    /// The segment that stands for a sequence number.
    pub(super) fn holding(&self, seq: u64) -> Option<&Segment> {
        let (_, segment) = self.map.range(..=seq).next_back()?;
        (!segment.is_sealed() || seq < segment.end).then_some(segment)
    }

    /// Segments that stand for something after `seq`, in order.
    pub(super) fn after(&self, seq: u64) -> impl Iterator<Item = &Segment> {
        self.map.values().filter(move |segment| segment.end > seq.saturating_add(1))
    }

    /// Where to look for an entry.
    pub(super) fn place(&self, seq: u64) -> Place {
        let Some(segment) = self.holding(seq) else { return Place::Gone };
        let Some(fresh) = &segment.fresh else {
            return Place::Sealed { id: segment.id, epoch: segment.epoch };
        };
        let at = usize::try_from(seq - segment.id.base).unwrap_or(usize::MAX);
        match fresh.offsets.get(at) {
            Some(offset) => Place::Fresh {
                id: segment.id,
                epoch: segment.epoch,
                file: Arc::clone(&fresh.file),
                offset: u64::from(*offset),
            },
            None => Place::NotWritten,
        }
    }

    /// Marks an entry dead; `ordinal` is its position in its segment.
    pub(super) fn mark_dead(&mut self, entry: EntryRef, ordinal: u32) {
        let found = self.map.range_mut(..=entry.seq).next_back();
        let Some((_, segment)) = found else { return };
        if ordinal < segment.entries && segment.dead.set(ordinal) {
            segment.live_bytes = segment.live_bytes.saturating_sub(u64::from(entry.len));
            segment.unlogged = true;
            segment.unsaved = true;
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.map.values().map(|segment| segment.bytes).sum()
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.map.values().map(|segment| segment.live_bytes).sum()
    }
}
