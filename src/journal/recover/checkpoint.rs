//! Saves the index as of one entry of the log, so that recovery reads only what follows.
//!
//! A snapshot is taken under one lock, so memory matches the last appended entry exactly. The
//! snapshot is saved once that entry is durable. Releases take effect only then, when the entry
//! that caused them can no longer be lost.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::journal::core::{JournalCore, KIND_NEXT_STREAM, Maintenance};
use crate::journal::segment::SegmentId;
use crate::journal::segment::bitmap::Bitmap;
use crate::journal::segment::format::{put, u32_at, u64_at};
use crate::journal::segment::live_segments::Segment;
use crate::journal::streams::StreamSave;
use crate::journal::streams::stream_index;
use crate::journal::tables::changed_keys::{LatestValue, index_key};
use crate::journal::tables::{Table, TableWrites, Tables};
use crate::journal::{EntryKind, EntryRef, JournalError, StreamId, TablesError};

/// Kind u8 and key → sequence number u64, length u32.
pub(in crate::journal) const KEYED: Table = Table("keyed");
/// Base u64 BE, generation u32 BE → the segment's row.
pub(in crate::journal) const SEGMENTS: Table = Table("segments");
/// Layout of `index.redb`; an index with another number is rebuilt.
pub(super) const INDEX_VERSION: u32 = 1;

const ROW_LEN: usize = 48;

/// Everything changed since the last checkpoint, as of entry `seq`.
#[derive(Clone, Debug)]
pub(in crate::journal) struct Snapshot {
    pub(in crate::journal) seq: u64,
    keyed: Vec<(EntryKind, Bytes, LatestValue)>,
    streams: Vec<StreamSave>,
    dropped: Vec<StreamId>,
    releases: Vec<EntryRef>,
}

/// The index row of a segment.
#[derive(Clone, Debug)]
pub(super) struct SegmentRow {
    pub(in crate::journal) epoch: u64,
    pub(in crate::journal) end: u64,
    pub(in crate::journal) bytes: u64,
    pub(in crate::journal) live_bytes: u64,
    pub(in crate::journal) entries: u32,
    pub(in crate::journal) sealed: bool,
    pub(in crate::journal) dead: Bitmap,
}

impl JournalCore {
    /// Saves the index as of now; waits until the log is durable to that point.
    pub(in crate::journal) fn checkpoint(&self) -> Result<u64, JournalError> {
        let mut maintenance = self.maintenance();
        loop {
            // an older snapshot whose save failed goes first
            let fresh = maintenance.pending.is_none();
            let seq = self.pending_seq(&mut maintenance);
            self.request_sync(seq);
            self.progress.wait_durable_blocking(seq)?;
            self.save_pending(&mut maintenance)?;
            if fresh {
                return Ok(seq);
            }
        }
    }

    /// Takes a snapshot unless one is pending; returns the sequence number of its entry.
    pub(in crate::journal) fn pending_seq(&self, maintenance: &mut Maintenance) -> u64 {
        maintenance.pending.get_or_insert_with(|| self.snapshot()).seq
    }

    /// Saves the pending snapshot, whose entry is durable.
    pub(in crate::journal) fn save_pending(
        &self,
        maintenance: &mut Maintenance,
    ) -> Result<(), JournalError> {
        let Some(snapshot) = &maintenance.pending else { return Ok(()) };
        let saved = self.save(snapshot).and_then(|sealed| {
            let committed = self.tables.checkpoint(snapshot.seq);
            committed.map(|()| sealed).map_err(|error| tables_failed(&error))
        });
        let sealed = match saved {
            Ok(sealed) => sealed,
            Err(error) => {
                // a failed commit may have been undone or done: the snapshot stays pending and is
                // saved again, which is idempotent
                self.tables.reopen().map_err(|error| tables_failed(&error))?;
                return Err(error);
            }
        };
        self.counters.checkpoint_seq.store(snapshot.seq, Ordering::Relaxed);
        if let Some(snapshot) = maintenance.pending.take() {
            self.forget_saved(&snapshot, &sealed);
        }
        Ok(())
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut state = self.state();
        state.appended_bytes = 0;
        state.released_bytes = 0;
        Snapshot {
            seq: state.last_seq(),
            keyed: state.keyed.changed(),
            streams: state.streams.changed(),
            dropped: std::mem::take(&mut state.streams.dropped),
            releases: std::mem::take(&mut state.releases),
        }
    }

    /// Writes a snapshot to the tables without making it durable; returns the sealed segments
    /// saved.
    pub(in crate::journal) fn save(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Vec<SegmentId>, JournalError> {
        let releases = self.tables.write(|tables| {
            let mut releases = snapshot.releases.clone();
            for (kind, key, latest) in &snapshot.keyed {
                save_key(tables, *kind, key, *latest, &mut releases)?;
            }
            for stream in &snapshot.streams {
                stream_index::save(tables, stream)?;
            }
            for id in &snapshot.dropped {
                stream_index::drop_stream(tables, *id)?;
            }
            Ok(releases)
        });
        for entry in releases.map_err(|error| tables_failed(&error))? {
            let ordinal = self.ordinal(entry.seq);
            let ordinal = ordinal.map_err(|error| JournalError::Read(error.to_string()))?;
            if let Some(ordinal) = ordinal {
                self.segments_mut().mark_dead(entry, ordinal);
            }
        }
        self.save_segments().map_err(|error| tables_failed(&error))
    }

    /// Writes segments that differ from their rows without making them durable; returns the sealed
    /// ones.
    pub(in crate::journal) fn save_segments(&self) -> Result<Vec<SegmentId>, TablesError> {
        let mut sealed = Vec::new();
        let mut rows = Vec::new();
        for segment in self.segments().map.values().filter(|segment| segment.unsaved) {
            rows.push((segment.id, encode_row(segment)));
            if segment.is_sealed() {
                sealed.push(segment.id);
            }
        }
        self.tables.write(|tables| {
            for (id, row) in &rows {
                tables.put(SEGMENTS, &row_key(*id), row)?;
            }
            Ok(())
        })?;
        Ok(sealed)
    }

    pub(super) fn forget_saved(&self, snapshot: &Snapshot, sealed: &[SegmentId]) {
        let mut state = self.state();
        state.keyed.saved(&snapshot.keyed);
        state.streams.saved(&snapshot.streams);
        drop(state);
        // segments sealed since are skipped: their rows do not say so yet
        let mut segments = self.segments_mut();
        for id in sealed {
            if let Some(segment) = segments.map.get_mut(&id.base) {
                segment.unsaved &= segment.id != *id;
            }
        }
    }
}

fn save_key(
    tables: &mut TableWrites<'_>,
    kind: EntryKind,
    key: &[u8],
    latest: LatestValue,
    releases: &mut Vec<EntryRef>,
) -> Result<(), TablesError> {
    let at = index_key(kind, key);
    let old = tables.get(KEYED, &at)?.and_then(|row| decode_ref(&row));
    releases.extend(old.filter(|old| *old != latest.entry));
    if latest.tombstone {
        releases.push(latest.entry);
        tables.delete(KEYED, &at)?;
        return Ok(());
    }
    let mut row = [0; 12];
    put(&mut row, 0, &latest.entry.seq.to_le_bytes());
    put(&mut row, 8, &latest.entry.len.to_le_bytes());
    tables.put(KEYED, &at, &row)
}

pub(super) fn decode_ref(row: &[u8]) -> Option<EntryRef> {
    Some(EntryRef { seq: u64_at(row, 0)?, len: u32_at(row, 8)? })
}

/// Finds the entry with the next stream id as of the last checkpoint.
pub(super) fn next_stream_entry(tables: &Tables) -> Result<Option<EntryRef>, TablesError> {
    let row = tables.get(KEYED, &index_key(KIND_NEXT_STREAM, b"-"))?;
    Ok(row.and_then(|row| decode_ref(&row)))
}

pub(in crate::journal) fn row_key(id: SegmentId) -> [u8; 12] {
    let mut key = [0; 12];
    put(&mut key, 0, &id.base.to_be_bytes());
    put(&mut key, 8, &id.generation.to_be_bytes());
    key
}

fn encode_row(segment: &Segment) -> Vec<u8> {
    let mut row = vec![0; ROW_LEN];
    put(&mut row, 0, &segment.epoch.to_le_bytes());
    put(&mut row, 8, &segment.end.to_le_bytes());
    put(&mut row, 16, &segment.bytes.to_le_bytes());
    put(&mut row, 24, &segment.live_bytes.to_le_bytes());
    put(&mut row, 32, &segment.entries.to_le_bytes());
    put(&mut row, 36, &u32::from(segment.is_sealed()).to_le_bytes());
    row.extend_from_slice(segment.dead.as_bytes());
    // a wrong dead bit would lose data, so the row carries its own checksum
    let crc = crc32c::crc32c(row.get(..40).unwrap_or_default());
    let crc = crc32c::crc32c_append(crc, row.get(ROW_LEN..).unwrap_or_default());
    put(&mut row, 40, &crc.to_le_bytes());
    row
}

/// The segments as of the last checkpoint; `None` when a row is damaged.
pub(super) fn load_segments(
    tables: &Tables,
) -> Result<Option<Vec<(SegmentId, SegmentRow)>>, TablesError> {
    let mut rows = Some(Vec::new());
    tables.each(SEGMENTS, &[], None, &mut |key, row| {
        if let (Some(row), Some(rows)) = (decode_row(key, row), &mut rows) {
            rows.push(row);
            return ControlFlow::Continue(());
        }
        rows = None;
        ControlFlow::Break(())
    })?;
    Ok(rows)
}

fn decode_row(key: &[u8], row: &[u8]) -> Option<(SegmentId, SegmentRow)> {
    let base = u64::from_be_bytes(*key.first_chunk()?);
    let generation = u32::from_be_bytes(*key.get(8..)?.first_chunk()?);
    let dead = row.get(ROW_LEN..)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(row.get(..40)?), dead);
    if crc != u32_at(row, 40)? {
        return None;
    }
    let known = SegmentRow {
        epoch: u64_at(row, 0)?,
        end: u64_at(row, 8)?,
        bytes: u64_at(row, 16)?,
        live_bytes: u64_at(row, 24)?,
        entries: u32_at(row, 32)?,
        sealed: u32_at(row, 36)? == 1,
        dead: Bitmap::from_bytes(dead),
    };
    Some((SegmentId { base, generation }, known))
}

pub(in crate::journal) fn tables_failed(error: &TablesError) -> JournalError {
    JournalError::Tables(error.to_string())
}
