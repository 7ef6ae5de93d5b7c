//! Finds the end of the log after a stop of any kind.
//!
//! A segment that the index calls sealed is trusted, because every read verifies its bytes; all
//! others are scanned. Damage in the last segment is a torn write if no later entry has a
//! `synced_to` beyond it. A torn write is cut off together with its atomic group. All other damage
//! hits bytes that had been durable, so the journal refuses to start.

pub(super) mod checkpoint;
pub(super) mod repair;
pub(super) mod replay;
pub(super) mod verify;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::compact::dead_key;
use super::core::{AppendState, JournalCore, KIND_DEAD};
use super::disk::real_disk::open_error;
use super::recover::checkpoint::{INDEX_VERSION, SegmentRow, load_segments};
use super::segment::bitmap::Bitmap;
use super::segment::catalog::{Catalog, FoundSegment, catalog, check_format};
use super::segment::format::{crc_seed, decode};
use super::segment::index_file::{self, IndexFile};
use super::segment::live_segments::{FreshOffsets, Segment, Segments};
use super::segment::scan::{ScanStep, Scanner, length};
use super::segment::{INDEX_NAME, SEGMENT_START, SegmentId, in_segment};
use super::streams::stream_index;
use super::writer::{ActiveFile, begin};
use super::{Disk, DiskFile, JournalOptions, OpenError, Tables};

/// Smallest segment size allowed.
const SEGMENT_LEAST: u64 = 4 << 10;
/// Largest segment size: with the largest group after its last byte, offsets still fit u32.
const SEGMENT_MOST: u64 = 1 << 30;

/// Bytes rewritten by one write.
const WRITE_BYTES: u64 = 1 << 20;

/// Result of opening a log.
#[derive(Debug)]
pub(super) struct OpenResult {
    pub(super) core: Arc<JournalCore>,
    pub(super) active: ActiveFile,
    pub(super) torn_bytes: u64,
    pub(super) foreign: Vec<String>,
}

/// A scanned segment.
#[derive(Debug)]
struct ScannedSegment {
    /// (sequence number, offset) of each entry.
    pairs: Vec<(u64, u32)>,
    /// Offset behind the last sound entry.
    end: u64,
    /// The last `synced_to` of the sound entries: bytes before it are durable.
    synced_to: u64,
    torn_bytes: u64,
}

/// State of an opening journal.
struct OpeningJournal<'d> {
    disk: &'d Arc<dyn Disk>,
    applied: u64,
    rows: BTreeMap<SegmentId, SegmentRow>,
    /// Dead bits from the log, for an index that has none.
    dead: BTreeMap<Bytes, Bytes>,
    segments: Segments,
    torn_bytes: u64,
}

/// Opens the log of a directory and brings the index up to its end.
pub(super) fn open(disk: Arc<dyn Disk>, config: JournalOptions) -> Result<OpenResult, OpenError> {
    let value = u64::from(config.segment_bytes);
    if !(SEGMENT_LEAST..=SEGMENT_MOST).contains(&value) {
        let (least, most) = (SEGMENT_LEAST, SEGMENT_MOST);
        return Err(OpenError::Setting { name: "segment_bytes", value, least, most });
    }
    check_format(&*disk)?;
    let tables = Tables::open(&disk, INDEX_NAME, INDEX_VERSION, config.index_cache_bytes)?;
    let rows = if let Some(rows) = load_segments(&tables)? {
        rows
    } else {
        tables.begin_anew()?;
        Vec::new()
    };
    let rows: BTreeMap<SegmentId, SegmentRow> = rows.into_iter().collect();
    let known = |id: SegmentId| rows.contains_key(&id);
    let listed = catalog(&*disk, (tables.applied() > 0).then_some(&known))?;
    let mut opening = OpeningJournal {
        disk: &disk,
        applied: tables.applied(),
        rows,
        dead: BTreeMap::new(),
        segments: Segments::default(),
        torn_bytes: 0,
    };
    let active = opening.segments(&listed)?;
    let OpeningJournal { segments, torn_bytes, rows, .. } = opening;
    let is_there = |id: &SegmentId| segments.map.get(&id.base).is_some_and(|it| it.id == *id);
    let replaced = rows.into_keys().filter(|id| !is_there(id)).collect();
    let next_seq = segments.map.values().next_back().map_or(1, |segment| segment.end);
    let streams = stream_index::load(&tables)?;
    let state = AppendState { next_seq, streams, ..AppendState::default() };
    let core = Arc::new(JournalCore::new(disk, config, tables, segments, state));
    core.counters.torn_bytes.store(torn_bytes, std::sync::atomic::Ordering::Relaxed);
    core.maintenance().replaced = replaced;
    core.catch_up()?;
    Ok(OpenResult { core, active, torn_bytes, foreign: listed.foreign })
}

impl OpeningJournal<'_> {
    fn segments(&mut self, listed: &Catalog) -> Result<ActiveFile, OpenError> {
        self.refuse_headless(listed)?;
        self.refuse_missing(listed)?;
        let torn_start = listed.headless.first();
        let mut active = None;
        let count = listed.segments.len();
        for (at, found) in listed.segments.iter().enumerate() {
            // a segment with a successor was synced to its end, even if the successor is torn
            let last = at + 1 == count && found.header.end == 0;
            let examined = if last || !self.trusted(found)? {
                let may_tear = last && torn_start.is_none();
                Some(self.examine(found, may_tear)?)
            } else {
                None
            };
            if last && let Some(examined) = &examined {
                active = Some(self.continue_in(found, examined)?);
            }
            self.add(found, examined, last);
        }
        self.apply_dead();
        for name in &listed.leftovers {
            self.disk.remove(name).map_err(|error| self.io("removing leftovers", error))?;
        }
        if let Some(headless) = torn_start {
            // after another power cut this file could come back, and a torn end in the segment
            // before it would count as damage
            let removed = self.disk.remove(&headless.id.log_name());
            let removed = removed.and_then(|()| self.disk.sync_dir());
            removed.map_err(|error| self.io("removing leftovers", error))?;
            self.torn_bytes += headless.len;
        }
        if let Some(active) = active {
            return Ok(active);
        }
        let base = self.segments.map.values().next_back().map_or(1, |segment| segment.end);
        let begun = begin(&**self.disk, SegmentId { base, generation: 0 });
        let (active, segment) = begun.map_err(|error| self.io("beginning a segment", error))?;
        self.segments.map.insert(base, segment);
        Ok(active)
    }

    /// Only the newest file may lack a sound header: the power went while it was created.
    fn refuse_headless(&self, listed: &Catalog) -> Result<(), OpenError> {
        let newest = listed.segments.last().map_or(0, |found| found.header.id.base);
        let mut begun = 0;
        for headless in &listed.headless {
            begun += 1;
            if headless.id.base < newest || headless.len > SEGMENT_START || begun > 1 {
                return Err(self.corrupt(headless.id, 0));
            }
        }
        Ok(())
    }

    /// Refuses to start when a segment that the index has committed to is missing, unless a copy
    /// covers it.
    fn refuse_missing(&self, listed: &Catalog) -> Result<(), OpenError> {
        if self.applied == 0 {
            return Ok(());
        }
        let covers = |found: &FoundSegment, base: u64| {
            let header = &found.header;
            header.id.base == base || (header.id.base..header.end).contains(&base)
        };
        let gone = |id: &&SegmentId| !listed.segments.iter().any(|found| covers(found, id.base));
        match self.rows.keys().find(gone) {
            Some(id) => {
                let (dir, file) = (self.disk.describe(), id.log_name());
                Err(OpenError::SegmentMissing { dir, file })
            }
            None => Ok(()),
        }
    }

    fn trusted(&self, found: &FoundSegment) -> Result<bool, OpenError> {
        let id = found.header.id;
        let Some(row) = self.rows.get(&id) else { return Ok(false) };
        if !row.sealed || row.epoch != found.header.epoch || row.end > self.applied + 1 {
            return Ok(false);
        }
        let len = found.file.len().map_err(|error| self.io("reading a segment", error))?;
        if len != row.bytes {
            return Err(self.corrupt(id, len.min(row.bytes)));
        }
        Ok(true)
    }

    fn examine(
        &mut self,
        found: &FoundSegment,
        may_tear: bool,
    ) -> Result<ScannedSegment, OpenError> {
        let header = &found.header;
        let io = |error| open_error(self.disk.describe(), "reading a segment", error);
        let mut scanner =
            Scanner::new(Arc::clone(&found.file), header.epoch, header.id.base).map_err(io)?;
        let mut pairs = Vec::new();
        let (mut group_from, mut group_len) = (SEGMENT_START, 0);
        let mut synced_to = SEGMENT_START;
        let mut expected = header.id.base;
        let cut = loop {
            let at = scanner.offset();
            match scanner.next().map_err(io)? {
                ScanStep::Entry(raw) => {
                    if header.end == 0 && raw.header.seq != expected {
                        return Err(self.corrupt(header.id, at));
                    }
                    expected = raw.header.seq + 1;
                    pairs.push((raw.header.seq, in_segment(raw.offset)));
                    group_len += 1;
                    synced_to = synced_to.max(u64::from(raw.header.synced_to));
                    if !raw.header.continues() {
                        (group_from, group_len) = (scanner.offset(), 0);
                    }
                    if raw.header.kind == KIND_DEAD.0
                        && let Some(entry) = decode(&raw.bytes)
                        && let Some(key) = entry.key
                    {
                        let key = Bytes::copy_from_slice(&key);
                        self.dead.insert(key, Bytes::copy_from_slice(&entry.body));
                    }
                }
                ScanStep::Damaged(at) => break Some(at),
                ScanStep::End => break None,
            }
        };
        if let Some(at) = cut
            && (!may_tear || was_durable(&mut scanner, at).map_err(io)?)
        {
            return Err(self.corrupt(header.id, at));
        }
        let whole = cut.is_none() && (group_len == 0 || !may_tear);
        let end = if whole { scanner.offset() } else { group_from };
        if !whole {
            pairs.truncate(pairs.len().saturating_sub(group_len));
        }
        let last_seq = pairs.last().map_or(header.id.base - 1, |(seq, _)| *seq);
        if may_tear && last_seq < self.applied {
            return Err(self.corrupt(header.id, end));
        }
        let len = found.file.len().map_err(io)?;
        Ok(ScannedSegment { pairs, end, synced_to, torn_bytes: len.saturating_sub(end) })
    }

    /// Cuts a torn tail and continues the segment after the last sound entry.
    fn continue_in(
        &mut self,
        found: &FoundSegment,
        examined: &ScannedSegment,
    ) -> Result<ActiveFile, OpenError> {
        let io = |error| open_error(self.disk.describe(), "cutting a torn end", error);
        if examined.torn_bytes > 0 {
            found.file.set_len(examined.end).map_err(io)?;
            self.torn_bytes += examined.torn_bytes;
        }
        write_again(&*found.file, examined).map_err(io)?;
        found.file.sync_data().map_err(io)?;
        Ok(ActiveFile {
            id: found.header.id,
            seed: crc_seed(found.header.epoch),
            file: Arc::clone(&found.file),
            len: examined.end,
            synced: examined.end,
        })
    }

    fn add(&mut self, found: &FoundSegment, examined: Option<ScannedSegment>, last: bool) {
        let header = &found.header;
        let row = self.rows.get(&header.id).filter(|row| row.epoch == header.epoch);
        let mut segment = Segment::new(header.id, header.epoch);
        if let Some(row) = row {
            segment.dead = row.dead.clone();
            segment.unlogged = row.dead != Bitmap::default();
        }
        match (examined, row) {
            (Some(examined), _) => {
                segment.end = match examined.pairs.last() {
                    _ if header.end != 0 => header.end,
                    Some((seq, _)) => seq + 1,
                    None => header.id.base,
                };
                segment.bytes = examined.end;
                segment.entries = in_segment(length(&examined.pairs));
                segment.live_bytes = live_bytes(&examined, &segment.dead);
                if last {
                    let offsets = examined.pairs.iter().map(|(_, offset)| *offset).collect();
                    let file = Arc::clone(&found.file);
                    segment.fresh = Some(FreshOffsets { file, offsets, sealed: false });
                } else if IndexFile::open(&**self.disk, header.id, header.epoch).is_none() {
                    let (name, id) = (header.id.idx_name(), header.id);
                    // a failed table is rebuilt on first use
                    let disk = &**self.disk;
                    let _ = index_file::write(disk, &name, id, header.epoch, &examined.pairs);
                }
            }
            (None, Some(row)) => {
                segment.end = row.end;
                segment.bytes = row.bytes;
                segment.entries = row.entries;
                segment.live_bytes = row.live_bytes;
                segment.unsaved = false;
            }
            (None, None) => {}
        }
        self.segments.map.insert(header.id.base, segment);
    }

    /// Marks entries dead from the log's own dead bits, when there is no index.
    fn apply_dead(&mut self) {
        if self.applied > 0 {
            return;
        }
        for segment in self.segments.map.values_mut() {
            let Some(bits) = self.dead.get(&dead_key(segment.id)) else { continue };
            segment.dead = Bitmap::from_bytes(bits);
            // catching up the index counts the live bytes
            segment.unlogged = true;
        }
    }

    fn corrupt(&self, id: SegmentId, offset: u64) -> OpenError {
        OpenError::Corrupt { dir: self.disk.describe(), file: id.log_name(), offset }
    }

    fn io(&self, doing: &'static str, error: io::Error) -> OpenError {
        open_error(self.disk.describe(), doing, error)
    }
}

/// Rewrites bytes that may exist only in the page cache. After a failed fdatasync Linux marks such
/// pages clean: they can be read, but another fdatasync would not write them.
fn write_again(file: &dyn DiskFile, examined: &ScannedSegment) -> io::Result<()> {
    let mut buffer = Vec::new();
    let mut at = examined.synced_to;
    while at < examined.end {
        let len = (examined.end - at).min(WRITE_BYTES);
        buffer.resize(usize::try_from(len).unwrap_or(0), 0);
        file.read_at(at, &mut buffer)?;
        file.write_at(at, &buffer)?;
        at += len;
    }
    Ok(())
}

/// True when an entry after the damage has a `synced_to` beyond it: the damaged bytes had been
/// durable.
pub(super) fn was_durable(scanner: &mut Scanner, damaged: u64) -> io::Result<bool> {
    while scanner.resync()? {
        while let ScanStep::Entry(raw) = scanner.next()? {
            if u64::from(raw.header.synced_to) > damaged {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn live_bytes(examined: &ScannedSegment, dead: &Bitmap) -> u64 {
    let ends = examined.pairs.iter().skip(1).map(|(_, offset)| u64::from(*offset));
    let ends = ends.chain([examined.end]);
    let sizes = examined.pairs.iter().zip(ends).map(|((_, at), end)| end - u64::from(*at));
    (0..).zip(sizes).filter(|(ordinal, _)| !dead.get(*ordinal)).map(|(_, size)| size).sum()
}
