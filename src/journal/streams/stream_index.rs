//! The batches of streams in the index, in chunks so that a look-up reads few pages.
//!
//! `chunks`: stream u32 BE, base offset u64 BE → 32 bytes a batch; `heads`: the same key → end,
//! greatest timestamp, its base offset, count; `streams`: stream → start, next, bytes, name.

use std::ops::ControlFlow;

use super::{BatchRef, Stream, StreamSave, Streams};
use crate::journal::segment::format::{i64_at, put, u32_at, u64_at};
use crate::journal::tables::{Table, TableWrites, Tables};
use crate::journal::{EntryRef, StreamId, TablesError};

const CHUNKS: Table = Table("chunks");
const HEADS: Table = Table("heads");
const STREAMS: Table = Table("streams");
/// Batches in a full chunk: 4 KiB.
const CHUNK_BATCHES: usize = 128;
const BATCH_LEN: usize = 32;

/// Bounds and timestamps of a chunk, read without its batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(in crate::journal) base: i64,
    pub(in crate::journal) end: i64,
    pub(in crate::journal) max_timestamp_ms: i64,
    pub(super) max_base: i64,
}

/// Saves a stream: its bounds, its new batches, and the removal of trimmed chunks.
pub(in crate::journal) fn save(
    tables: &mut TableWrites<'_>,
    stream: &StreamSave,
) -> Result<(), TablesError> {
    let mut row = vec![0; 24];
    put(&mut row, 0, &stream.start.to_le_bytes());
    put(&mut row, 8, &stream.next.to_le_bytes());
    put(&mut row, 16, &stream.bytes.to_le_bytes());
    row.extend_from_slice(stream.name.as_bytes());
    tables.put(STREAMS, &stream.id.0.to_be_bytes(), &row)?;
    remove_below(tables, stream.id, stream.start)?;
    let kept: Vec<BatchRef> =
        stream.batches.iter().filter(|batch| batch.end() > stream.start).copied().collect();
    let mut rest = kept.as_slice();
    if let Some((last_key, last)) =
        tables.last_before(CHUNKS, &key(stream.id, 0), &key(stream.id, i64::MAX))?
    {
        let mut batches = decode(&last);
        // an earlier try that reported a failure may have saved them
        let known = batches.last().map_or(0, BatchRef::end);
        rest = rest.get(rest.partition_point(|batch| batch.base < known)..).unwrap_or_default();
        let room = CHUNK_BATCHES.saturating_sub(batches.len()).min(rest.len());
        if room > 0 {
            let (first, others) = rest.split_at(room);
            batches.extend_from_slice(first);
            write_chunk(tables, &last_key, &batches)?;
            rest = others;
        }
    }
    for chunk in rest.chunks(CHUNK_BATCHES) {
        let base = chunk.first().map_or(0, |batch| batch.base);
        write_chunk(tables, &key(stream.id, base), chunk)?;
    }
    Ok(())
}

/// Removes all rows of a stream.
pub(in crate::journal) fn drop_stream(
    tables: &mut TableWrites<'_>,
    id: StreamId,
) -> Result<(), TablesError> {
    tables.delete(STREAMS, &id.0.to_be_bytes())?;
    remove_below(tables, id, i64::MAX)
}

fn remove_below(tables: &mut TableWrites<'_>, id: StreamId, start: i64) -> Result<(), TablesError> {
    loop {
        let heads = tables.range(HEADS, &key(id, 0), &key(id, i64::MAX), 256)?;
        let gone = heads.iter().take_while(|(_, head)| i64_at(head, 0).unwrap_or(0) <= start);
        let gone: Vec<&Vec<u8>> = gone.map(|(key, _)| key).collect();
        for key in &gone {
            tables.delete(HEADS, key)?;
            tables.delete(CHUNKS, key)?;
        }
        if gone.len() < 256 {
            return Ok(());
        }
    }
}

fn write_chunk(
    tables: &mut TableWrites<'_>,
    key: &[u8],
    batches: &[BatchRef],
) -> Result<(), TablesError> {
    let mut chunk = Vec::with_capacity(batches.len() * BATCH_LEN);
    for batch in batches {
        chunk.extend_from_slice(&batch.base.to_le_bytes());
        chunk.extend_from_slice(&batch.records.to_le_bytes());
        chunk.extend_from_slice(&batch.entry.len.to_le_bytes());
        chunk.extend_from_slice(&batch.entry.seq.to_le_bytes());
        chunk.extend_from_slice(&batch.max_timestamp_ms.to_le_bytes());
    }
    tables.put(CHUNKS, key, &chunk)?;
    let greatest = batches.iter().rev().max_by_key(|batch| batch.max_timestamp_ms);
    let mut head = [0; 24];
    put(&mut head, 0, &batches.last().map_or(0, BatchRef::end).to_le_bytes());
    put(&mut head, 8, &greatest.map_or(i64::MIN, |b| b.max_timestamp_ms).to_le_bytes());
    put(&mut head, 16, &greatest.map_or(0, |batch| batch.base).to_le_bytes());
    tables.put(HEADS, key, &head)
}

/// The batches of the chunk that has offset `from`, or of the first chunk after it.
pub(in crate::journal) fn chunk_at(
    tables: &Tables,
    id: StreamId,
    from: i64,
) -> Result<Vec<BatchRef>, TablesError> {
    let low = key(id, 0);
    let last = tables.last_before(CHUNKS, &low, &key(id, from.saturating_add(1)))?;
    if let Some((_, chunk)) = last {
        let batches = decode(&chunk);
        if batches.last().is_some_and(|batch| batch.end() > from) {
            return Ok(batches);
        }
    }
    let after = tables.range(CHUNKS, &key(id, from), Some(&key(id, i64::MAX)), 1)?;
    Ok(after.first().map(|(_, chunk)| decode(chunk)).unwrap_or_default())
}

/// Calls `f` for the head of each chunk that ends after `start`, in order, until it breaks.
pub(super) fn heads(
    tables: &Tables,
    id: StreamId,
    start: i64,
    f: &mut dyn FnMut(Head) -> ControlFlow<()>,
) -> Result<(), TablesError> {
    tables.each(HEADS, &key(id, 0), Some(&key(id, i64::MAX)), &mut |key, head| {
        let base = key.get(4..).and_then(|base| base.first_chunk());
        let head = Head {
            base: base.map_or(0, |base| i64::try_from(u64::from_be_bytes(*base)).unwrap_or(0)),
            end: i64_at(head, 0).unwrap_or(0),
            max_timestamp_ms: i64_at(head, 8).unwrap_or(i64::MIN),
            max_base: i64_at(head, 16).unwrap_or(0),
        };
        if head.end <= start { ControlFlow::Continue(()) } else { f(head) }
    })
}

/// The streams as of the last checkpoint.
pub(in crate::journal) fn load(tables: &Tables) -> Result<Streams, TablesError> {
    let mut streams = Streams::default();
    tables.each(STREAMS, &[], None, &mut |key, row| {
        let id = key.first_chunk().map(|id| StreamId(u32::from_be_bytes(*id)));
        let name = row.get(24..).and_then(|name| std::str::from_utf8(name).ok());
        if let (Some(id), Some(name)) = (id, name) {
            let next = i64_at(row, 8).unwrap_or(0);
            let stream = streams.add(id, name);
            *stream = Stream {
                start: i64_at(row, 0).unwrap_or(0),
                next,
                visible_end: next,
                indexed_end: next,
                bytes: u64_at(row, 16).unwrap_or(0),
                dirty: false,
                ..Stream::new(name)
            };
        }
        ControlFlow::Continue(())
    })?;
    Ok(streams)
}

fn decode(chunk: &[u8]) -> Vec<BatchRef> {
    chunk.chunks_exact(BATCH_LEN).filter_map(decode_batch).collect()
}

fn decode_batch(bytes: &[u8]) -> Option<BatchRef> {
    Some(BatchRef {
        base: i64_at(bytes, 0)?,
        records: u32_at(bytes, 8)?,
        entry: EntryRef { len: u32_at(bytes, 12)?, seq: u64_at(bytes, 16)? },
        max_timestamp_ms: i64_at(bytes, 24)?,
    })
}

fn key(id: StreamId, offset: i64) -> [u8; 12] {
    let mut key = [0; 12];
    put(&mut key, 0, &id.0.to_be_bytes());
    put(&mut key, 4, &u64::try_from(offset).unwrap_or(0).to_be_bytes());
    key
}
