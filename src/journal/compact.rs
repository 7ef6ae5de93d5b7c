//! Frees the space of dead entries. Wholly dead segments are deleted, the live entries of half-dead
//! ones are copied forward, and small neighbours are joined.
//!
//! **Invariant:** an entry leaves the disk only after the log has a durable entry with the
//! segment's dead bits. Otherwise an index rebuilt from the log could bring back an entry whose
//! tombstone is gone. Entries that an owner or the index would still replay stay too.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::core::{JournalCore, KIND_DEAD, Maintenance};
use super::disk::is_gone;
use super::read::read_failed;
use super::recover::checkpoint::{KEYED, SEGMENTS, row_key, tables_failed};
use super::segment::bitmap::Bitmap;
use super::segment::copy::CopyWriter;
use super::segment::index_file::PAIR_LEN;
use super::segment::live_segments::{LoggedBits, Segment};
use super::segment::scan::{RawEntry, ScanStep, Scanner};
use super::segment::{SEGMENT_START, SegmentHeader, SegmentId};
use super::writer::append::OWN;
use super::{EncodedHead, EntryReadError, HousekeepingReport, JournalError, NewEntry};

/// A sealed segment with less than this share of a segment's size live is joined with neighbours.
const SMALL_SHARE: u64 = 4;
/// Share of a segment size that stays free during copies: the log and the index grow meanwhile.
const MARGIN_SHARE: u64 = 16;
/// Steps during which a segment whose copy failed is skipped: ten minutes when idle. Reads of bad
/// sectors are slow, so retries must be rare.
const REST_STEPS: u32 = 600;

/// A segment being copied.
#[derive(Clone, Debug)]
struct CompactionSource {
    id: SegmentId,
    epoch: u64,
    end: u64,
    bytes: u64,
    entries: u32,
    drop: Bitmap,
    dead: Bitmap,
}

/// A failed copy and the segment to skip. An unreadable source is skipped itself; after a write
/// failure the last of the run is skipped, which makes the next run shorter.
struct CopyFailure {
    id: SegmentId,
    cause: EntryReadError,
}

impl JournalCore {
    /// Deletes or copies at most one segment, or one run of small ones.
    pub(super) fn compact(
        &self,
        maintenance: &mut Maintenance,
        kept: &mut HousekeepingReport,
    ) -> Result<(), JournalError> {
        self.let_go(&mut maintenance.replaced)?;
        maintenance.resting.retain(|_, steps| {
            *steps -= 1;
            *steps > 0
        });
        let saved = self.counters.checkpoint_seq.load(Ordering::Relaxed);
        let floor = self.state().holds.values().copied().fold(saved, u64::min);
        let segment_bytes = u64::from(self.config.0.segment_bytes);
        let margin = segment_bytes / MARGIN_SHARE;
        let room = self.free_bytes.load(Ordering::Acquire).saturating_sub(margin);
        let durable = self.progress.durable();
        let (ready, wanted) = {
            let segments = self.segments();
            let stays = |segment: &&Segment| {
                !segment.is_sealed()
                    || segment.damaged
                    || segment.end > floor.saturating_add(1)
                    || maintenance.resting.contains_key(&segment.id.base)
            };
            let all: Vec<&Segment> = segments.map.values().collect();
            // a segment without known dead bits counts as full, so it is not copied: the copy could
            // bring dead entries back
            let known = |segment: &Segment| {
                segment.logged_live_bytes(durable).unwrap_or(segment.bytes.max(segment_bytes))
            };
            // a copy covers the whole range between its ends, so it may not span a segment that
            // stays
            let run = |live: &dyn Fn(&Segment) -> u64| {
                all.split(stays).find_map(|sealed| pick(sealed, segment_bytes, room, live))
            };
            let ready = run(&known).unwrap_or_default();
            let ready: Vec<CompactionSource> =
                ready.iter().map(|segment| CompactionSource::of(segment, durable)).collect();
            (ready, run(&|segment| segment.live_bytes).is_some())
        };
        if !ready.is_empty() {
            kept.more = true;
            return self.replace(&ready, maintenance, kept);
        }
        if wanted && self.segments().map.values().any(|segment| segment.unlogged) {
            kept.more = true;
            return self.log_dead();
        }
        Ok(())
    }

    /// Writes the dead bits of every segment whose bits have changed to the log.
    fn log_dead(&self) -> Result<(), JournalError> {
        let mut group = Vec::new();
        let mut bits = Vec::new();
        for segment in self.segments().map.values().filter(|segment| segment.unlogged) {
            let body = EncodedHead::new(segment.dead.as_bytes().to_vec());
            group.push(NewEntry::keyed_body(KIND_DEAD, dead_key(segment.id), body));
            bits.push((segment.id, segment.dead.clone(), segment.live_bytes));
        }
        let seq = self.append(group, OWN)?.seq();
        let mut segments = self.segments_mut();
        for (id, dead, live_bytes) in bits {
            if let Some(segment) = segments.map.get_mut(&id.base) {
                segment.unlogged = segment.dead != dead;
                segment.logged = Some(LoggedBits { dead, live_bytes, seq });
            }
        }
        Ok(())
    }

    /// Writes tombstones for dead bits of segments that are gone: a crash may have kept the bits
    /// and lost the segment. Once after a start is enough.
    pub(super) fn bury_orphans(&self, replaced: &[SegmentId]) -> Result<(), JournalError> {
        let mut orphans = BTreeSet::new();
        let (from, to) = ([KIND_DEAD.0], [KIND_DEAD.0 + 1]);
        let each = self.tables.each(KEYED, &from, Some(&to), &mut |key, _| {
            orphans.extend(key.get(1..).map(Bytes::copy_from_slice));
            ControlFlow::Continue(())
        });
        each.map_err(|error| tables_failed(&error))?;
        let changed = self.state().keyed.changed();
        for (_, key, latest) in changed.into_iter().filter(|(kind, ..)| *kind == KIND_DEAD) {
            if latest.tombstone {
                orphans.remove(&key);
            } else {
                orphans.insert(key);
            }
        }
        for segment in self.segments().map.values() {
            orphans.remove(&dead_key(segment.id));
        }
        for id in replaced {
            orphans.remove(&dead_key(*id));
        }
        // the removals must be durable first: a file that came back without dead bits would come
        // back whole
        if orphans.is_empty() || self.disk.sync_dir().is_err() {
            return Ok(());
        }
        let tombstones = orphans.into_iter().map(|key| NewEntry::tombstone(KIND_DEAD, key));
        self.append(tombstones.collect(), OWN)?;
        Ok(())
    }

    /// Replaces `sources` with one segment of their live entries, or with nothing.
    fn replace(
        &self,
        sources: &[CompactionSource],
        maintenance: &mut Maintenance,
        kept: &mut HousekeepingReport,
    ) -> Result<(), JournalError> {
        let copied = match self.copy(sources) {
            Ok(copied) => copied,
            Err(CopyFailure { id, cause }) => {
                maintenance.resting.insert(id.base, REST_STEPS);
                if let Some(segment) = self.segments_mut().map.get_mut(&id.base) {
                    segment.damaged = matches!(cause, EntryReadError::Corrupt { .. });
                }
                return Err(JournalError::Read(cause.to_string()));
            }
        };
        let read: u64 = sources.iter().map(|source| source.bytes).sum();
        {
            let mut segments = self.segments_mut();
            for source in sources {
                segments.map.remove(&source.id.base);
            }
            if let Some(copy) = copied {
                kept.copied_bytes += copy.bytes;
                self.config.0.probe.compacted(read, copy.bytes);
                segments.map.insert(copy.id.base, copy);
            }
        }
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        kept.deleted += sources.len();
        maintenance.replaced.extend(sources.iter().map(|source| source.id));
        self.let_go(&mut maintenance.replaced)
    }

    /// Removes replaced segments from the index, then from the disk. The next step retries a
    /// failure before it replaces anything else.
    fn let_go(&self, replaced: &mut Vec<SegmentId>) -> Result<(), JournalError> {
        if replaced.is_empty() {
            return Ok(());
        }
        self.commit_replaced(replaced)?;
        let mut tombstones = Vec::new();
        for id in replaced.drain(..) {
            self.forget(id);
            // a file that stays is a leftover at the next start, and needs its dead bits there
            if is_gone(&self.disk.remove(&id.log_name())) {
                tombstones.push(NewEntry::tombstone(KIND_DEAD, dead_key(id)));
            }
            let _ = self.disk.remove(&id.idx_name());
        }
        if self.disk.sync_dir().is_ok() && !tombstones.is_empty() {
            self.append(tombstones, OWN)?;
        }
        Ok(())
    }

    /// Saves the copy in the index before the originals are removed.
    fn commit_replaced(&self, replaced: &[SegmentId]) -> Result<(), JournalError> {
        let committed = self.save_segments().and_then(|sealed| {
            self.tables.write(|tables| {
                let keys = replaced.iter().map(|id| row_key(*id));
                keys.into_iter().try_for_each(|key| tables.delete(SEGMENTS, &key).map(|_| ()))
            })?;
            self.tables.checkpoint(self.counters.checkpoint_seq.load(Ordering::Relaxed))?;
            Ok(sealed)
        });
        let sealed = match committed {
            Ok(sealed) => sealed,
            Err(error) => {
                self.tables.reopen().map_err(|error| tables_failed(&error))?;
                return Err(tables_failed(&error));
            }
        };
        let mut segments = self.segments_mut();
        for id in sealed {
            if let Some(segment) = segments.map.get_mut(&id.base) {
                segment.unsaved &= segment.id != id;
            }
        }
        Ok(())
    }

    /// Copies the live entries of `sources` into one segment; `None` when there are none.
    fn copy(&self, sources: &[CompactionSource]) -> Result<Option<Segment>, CopyFailure> {
        let alive: Vec<&CompactionSource> =
            sources.iter().filter(|source| !source.is_dead()).collect();
        let (Some(first), Some(last), Some(shorter)) =
            (sources.first(), sources.last(), alive.last())
        else {
            return Ok(None);
        };
        let generation = sources.iter().map(|source| source.id.generation).max().unwrap_or(0) + 1;
        let id = SegmentId { base: first.id.base, generation };
        let epoch = self.disk.fresh_epoch();
        let header = SegmentHeader { id, epoch, end: last.end };
        let unwritten = |cause| CopyFailure { id: shorter.id, cause };
        let begun = CopyWriter::begin(&*self.disk, header).map_err(unwritten);
        let copied = begun.and_then(|mut out| {
            let mut add = |raw: &RawEntry, dead| out.add(&raw.bytes, raw.header.seq, dead);
            for source in alive {
                self.read_live(source, &mut |raw, dead| add(raw, dead).map_err(unwritten))?;
            }
            out.finish(&*self.disk).map_err(unwritten)
        });
        if copied.is_err() {
            // frees the space now; a file that stays is removed at the next start
            for name in [format!("{}.tmp", id.log_name()), id.log_name(), id.idx_name()] {
                let _ = self.disk.remove(&name);
            }
        }
        copied
    }

    /// Calls `f` for each entry of a segment that is not dropped, and says whether it is dead by
    /// now.
    fn read_live(
        &self,
        source: &CompactionSource,
        f: &mut dyn FnMut(&RawEntry, bool) -> Result<(), CopyFailure>,
    ) -> Result<(), CopyFailure> {
        let id = source.id;
        let failed = |error| CopyFailure { id, cause: read_failed(&id.log_name(), error) };
        let file = self.disk.open(&id.log_name()).map_err(failed)?;
        let mut scanner = Scanner::new(file, source.epoch, id.base).map_err(failed)?;
        for ordinal in 0.. {
            match scanner.next().map_err(failed)? {
                ScanStep::Entry(_) if source.drop.get(ordinal) => {}
                ScanStep::Entry(raw) => f(&raw, source.dead.get(ordinal))?,
                ScanStep::Damaged(offset) => {
                    let cause = EntryReadError::Corrupt { file: id.log_name(), offset };
                    return Err(CopyFailure { id, cause });
                }
                ScanStep::End => break,
            }
        }
        Ok(())
    }
}

impl CompactionSource {
    fn of(segment: &Segment, durable: u64) -> Self {
        let logged = segment.logged.as_ref().filter(|logged| logged.seq <= durable);
        Self {
            id: segment.id,
            epoch: segment.epoch,
            end: segment.end,
            bytes: segment.bytes,
            entries: segment.entries,
            drop: logged.map(|logged| logged.dead.clone()).unwrap_or_default(),
            dead: segment.dead.clone(),
        }
    }

    /// True when the log knows every entry to be dead, so nothing is copied.
    fn is_dead(&self) -> bool {
        self.drop.covers(self.entries)
    }
}

/// The first segment with too few live bytes whose copy fits the disk, with small neighbours that
/// fit the same copy.
fn pick<'s>(
    sealed: &[&'s Segment],
    segment_bytes: u64,
    room: u64,
    live: &dyn Fn(&Segment) -> u64,
) -> Option<Vec<&'s Segment>> {
    let small = |segment: &Segment| live(segment) <= segment_bytes / SMALL_SHARE;
    let dying = |segment: &Segment| {
        live(segment).saturating_mul(2) < segment.bytes.saturating_sub(SEGMENT_START)
    };
    // the copy includes its offset table; a dead segment costs nothing
    let cost = |segment: &Segment| match live(segment) {
        0 => 0,
        live => live + u64::from(segment.entries) * PAIR_LEN,
    };
    for (at, first) in sealed.iter().enumerate() {
        if !small(first) && !dying(first) || cost(first) > room {
            continue;
        }
        let mut run: Vec<&'s Segment> = vec![first];
        let (mut total, mut costs) = (live(first), cost(first));
        for next in sealed.iter().skip(at + 1) {
            total += live(next);
            costs += cost(next);
            let near = next.end.saturating_sub(first.id.base) < u64::from(u32::MAX);
            let fits = total <= segment_bytes && costs <= room;
            if !(small(next) || dying(next)) || !fits || !near {
                break;
            }
            run.push(next);
        }
        if dying(first) || run.len() > 1 {
            return Some(run);
        }
    }
    None
}

/// The key of a segment's dead bits.
pub(super) fn dead_key(id: SegmentId) -> Bytes {
    let mut key = id.base.to_le_bytes().to_vec();
    key.extend_from_slice(&id.generation.to_le_bytes());
    Bytes::from(key)
}
