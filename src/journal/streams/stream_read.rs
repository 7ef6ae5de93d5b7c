//! Look-ups and reads of streams: newest batches from memory, older ones from the index.

use std::ops::ControlFlow;

use super::BatchRef;
use super::stream_index::{Head, chunk_at, heads};
use crate::journal::core::{JournalCore, KIND_NEXT_STREAM, KIND_STREAM, KIND_TRIM};
use crate::journal::{
    AppendError, EncodedHead, EntryReadError, EntryRef, JournalError, NewEntry, ReadSize,
    StreamBatch, StreamId, StreamRead,
};

use bytes::Bytes;

/// Offsets examined at a time, backwards, in search of the newest batch.
const NEWEST_STEP: i64 = 4_096;

impl JournalCore {
    pub(in crate::journal) fn stream_open(&self, name: &str) -> Result<StreamId, AppendError> {
        let mut state = self.state();
        if let Some(id) = state.streams.by_name.get(name) {
            return Ok(*id);
        }
        let id = StreamId(state.streams.next_id);
        let key = Bytes::copy_from_slice(name.as_bytes());
        let body = EncodedHead::new(id.0.to_le_bytes().to_vec());
        // Ids count the streams ever made; 2^32 topics and partitions are out of reach.
        let next = EncodedHead::new(id.0.saturating_add(1).to_le_bytes().to_vec());
        let group = vec![
            NewEntry::keyed_body(KIND_STREAM, key, body),
            NewEntry::keyed_body(KIND_NEXT_STREAM, Bytes::from_static(b"-"), next),
        ];
        self.append_own(&mut state, group)?;
        state.streams.add(id, name);
        Ok(id)
    }

    pub(in crate::journal) fn stream_drop(&self, id: StreamId) -> Result<(), JournalError> {
        let _one = self.trimming.lock();
        let dead = self.batches_below(id, i64::MAX).map_err(|error| failed(&error))?;
        let mut state = self.state();
        let Some(stream) = state.streams.map.get(&id) else { return Ok(()) };
        let name = Bytes::copy_from_slice(stream.name.as_bytes());
        let trim = Bytes::copy_from_slice(&id.0.to_le_bytes());
        let group =
            vec![NewEntry::tombstone(KIND_TRIM, trim), NewEntry::tombstone(KIND_STREAM, name)];
        self.append_own(&mut state, group)?;
        // batches appended since `dead` was collected are all in the tail
        if let Some(stream) = state.streams.remove(id) {
            for batch in stream.tail {
                state.release(batch.entry);
            }
        }
        for batch in dead {
            state.release(batch.entry);
        }
        Ok(())
    }

    pub(in crate::journal) fn stream_trim(
        &self,
        id: StreamId,
        to: i64,
    ) -> Result<i64, JournalError> {
        let _one = self.trimming.lock();
        let unknown = JournalError::Append(AppendError::UnknownStream { stream: id.0 });
        let Some(bounds) = self.stream_bounds(id) else { return Err(unknown) };
        let to = to.min(bounds.visible_end);
        if to <= bounds.start {
            return Ok(bounds.start);
        }
        let dead = self.batches_below(id, to).map_err(|error| failed(&error))?;
        let mut state = self.state();
        let key = Bytes::copy_from_slice(&id.0.to_le_bytes());
        let body = EncodedHead::new(to.to_le_bytes().to_vec());
        let entry = NewEntry::keyed_body(KIND_TRIM, key, body);
        self.append_own(&mut state, vec![entry])?;
        state.trimmed(id, to, &dead);
        Ok(to)
    }

    /// Batches that end at or before `to`, from the start on.
    pub(in crate::journal) fn batches_below(
        &self,
        id: StreamId,
        to: i64,
    ) -> Result<Vec<BatchRef>, EntryReadError> {
        let mut found = Vec::new();
        let Some(bounds) = self.stream_bounds(id) else { return Ok(found) };
        self.batches_from(id, bounds.start, bounds.next, &mut |batch| {
            if batch.end() > to {
                return ControlFlow::Break(());
            }
            found.push(*batch);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Calls `f` for the batches of `from..end` in order until it breaks.
    pub(super) fn batches_from(
        &self,
        id: StreamId,
        mut from: i64,
        end: i64,
        f: &mut dyn FnMut(&BatchRef) -> ControlFlow<()>,
    ) -> Result<(), EntryReadError> {
        while from < end {
            // in pieces, so that the lock is not held while `f` runs
            let tail: Option<Vec<BatchRef>> = {
                let state = self.state();
                let stream = state.streams.map.get(&id);
                let stream = stream.ok_or(EntryReadError::UnknownStream { stream: id.0 })?;
                stream.tail_from(from).map(|tail| tail.take(256).copied().collect())
            };
            let mut piece = match tail {
                Some(piece) => piece,
                None => chunk_at(&self.tables, id, from)?,
            };
            if piece.is_empty() {
                // a repaired gap before the tail
                let state = self.state();
                let first = state.streams.map.get(&id).and_then(|stream| stream.tail.front());
                piece = first.filter(|first| first.base > from).copied().into_iter().collect();
            }
            let Some(last) = piece.last().map(BatchRef::end) else { return Ok(()) };
            for batch in piece.iter().filter(|batch| batch.end() > from) {
                if batch.base >= end || f(batch).is_break() {
                    return Ok(());
                }
            }
            from = last.max(from + 1);
        }
        Ok(())
    }

    pub(in crate::journal) fn stream_read(
        &self,
        id: StreamId,
        from: i64,
        size: ReadSize,
    ) -> Result<StreamRead, EntryReadError> {
        let unknown = EntryReadError::UnknownStream { stream: id.0 };
        let bounds = self.stream_bounds(id).ok_or(unknown)?;
        let (start, end) = (bounds.start, bounds.visible_end);
        if from < start || from > end {
            return Err(EntryReadError::OutOfRange { offset: from, start, end });
        }
        let mut wanted: Vec<BatchRef> = Vec::new();
        let mut bytes = 0_usize;
        self.batches_from(id, from, end, &mut |batch| {
            let len = usize::try_from(batch.entry.len).unwrap_or(usize::MAX);
            bytes = bytes.saturating_add(len);
            let most = if wanted.is_empty() { size.first_max } else { size.bytes_max };
            if bytes > most {
                return ControlFlow::Break(());
            }
            wanted.push(*batch);
            ControlFlow::Continue(())
        })?;
        if wanted.is_empty() && bytes > 0 {
            return Err(EntryReadError::Larger { bytes });
        }
        let refs: Vec<EntryRef> = wanted.iter().map(|batch| batch.entry).collect();
        let entries = self.read_many(&refs)?;
        let batches = wanted.iter().zip(entries).map(|(batch, entry)| StreamBatch {
            seq: entry.seq,
            kind: entry.kind,
            base_offset: batch.base,
            records: batch.records,
            max_timestamp_ms: batch.max_timestamp_ms,
            head: entry.head,
            body: entry.body,
        });
        Ok(StreamRead { batches: batches.collect(), bounds })
    }

    pub(in crate::journal) fn stream_find_time(
        &self,
        id: StreamId,
        timestamp_ms: i64,
    ) -> Result<Option<(i64, i64)>, EntryReadError> {
        let Some(bounds) = self.stream_bounds(id) else { return Ok(None) };
        let mut from = None;
        heads(&self.tables, id, bounds.start, &mut |head: Head| {
            if head.max_timestamp_ms < timestamp_ms {
                from = Some(head.end);
                return ControlFlow::Continue(());
            }
            ControlFlow::Break(())
        })?;
        let from = from.unwrap_or(bounds.start).max(bounds.start);
        let mut found = None;
        self.batches_from(id, from, bounds.visible_end, &mut |batch| {
            if batch.max_timestamp_ms >= timestamp_ms {
                found = Some((batch.base, batch.max_timestamp_ms));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    pub(in crate::journal) fn stream_latest_time(
        &self,
        id: StreamId,
    ) -> Result<Option<(i64, i64)>, EntryReadError> {
        let Some(bounds) = self.stream_bounds(id) else { return Ok(None) };
        let mut greatest: Option<(i64, i64)> = None;
        let mut meet = |base: i64, timestamp_ms: i64| {
            if greatest.is_none_or(|(_, most)| timestamp_ms > most) {
                greatest = Some((base, timestamp_ms));
            }
        };
        let mut from = bounds.start;
        // a chunk whose beginning was trimmed is searched batch by batch
        let mut partial = None;
        heads(&self.tables, id, bounds.start, &mut |head: Head| {
            if head.base < bounds.start {
                partial = Some(head.end);
            } else {
                meet(head.max_base, head.max_timestamp_ms);
            }
            from = head.end;
            ControlFlow::Continue(())
        })?;
        let pieces = [(bounds.start, partial.unwrap_or(bounds.start)), (from, bounds.visible_end)];
        for (from, end) in pieces {
            self.batches_from(id, from, end, &mut |batch| {
                meet(batch.base, batch.max_timestamp_ms);
                ControlFlow::Continue(())
            })?;
        }
        Ok(greatest)
    }

    pub(in crate::journal) fn stream_expired(
        &self,
        id: StreamId,
        max_bytes: Option<u64>,
        old: Option<u64>,
    ) -> Result<i64, EntryReadError> {
        let unknown = EntryReadError::UnknownStream { stream: id.0 };
        let bounds = self.stream_bounds(id).ok_or(unknown)?;
        let mut bytes = bounds.bytes;
        let mut to = bounds.start;
        self.batches_from(id, bounds.start, bounds.visible_end, &mut |batch| {
            let surplus = max_bytes.is_some_and(|most| bytes > most);
            let is_old = old.is_some_and(|old| batch.entry.seq <= old);
            if !surplus && !is_old {
                return ControlFlow::Break(());
            }
            bytes = bytes.saturating_sub(u64::from(batch.entry.len));
            to = batch.end();
            ControlFlow::Continue(())
        })?;
        Ok(to)
    }

    pub(in crate::journal) fn stream_newest(
        &self,
        id: StreamId,
    ) -> Result<Option<u64>, EntryReadError> {
        let Some(bounds) = self.stream_bounds(id) else { return Ok(None) };
        let end = bounds.visible_end;
        let (mut newest, mut to, mut step) = (None, end, 1);
        // a repair may have cut the last batches
        while newest.is_none() && to > bounds.start {
            let from = bounds.start.max(to.saturating_sub(step));
            self.batches_from(id, from, to, &mut |batch| {
                newest = Some(batch.entry.seq);
                ControlFlow::Continue(())
            })?;
            (to, step) = (from, NEWEST_STEP);
        }
        Ok(newest)
    }

    pub(in crate::journal) fn stream_bounds(&self, id: StreamId) -> Option<crate::journal::Bounds> {
        self.state().streams.map.get(&id).map(super::Stream::bounds)
    }
}

impl crate::journal::core::AppendState {
    /// Moves a stream's start and releases the batches before it.
    pub(in crate::journal) fn trimmed(&mut self, id: StreamId, to: i64, dead: &[BatchRef]) {
        let mut bytes = 0;
        for batch in dead {
            bytes += u64::from(batch.entry.len);
            self.release(batch.entry);
        }
        if let Some(stream) = self.streams.map.get_mut(&id) {
            stream.trim(to, bytes);
            stream.show(to);
        }
    }
}

fn failed(error: &EntryReadError) -> JournalError {
    JournalError::Read(error.to_string())
}
