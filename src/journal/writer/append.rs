//! Appends groups of entries: assigns sequence numbers and offsets and queues them for the writer.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::journal::core::{AppendState, JournalCore, KIND_OWNERS};
use crate::journal::segment::format::{GROUP_MAX, PAYLOAD_MAX, QueuedEntry, entry_len};
use crate::journal::streams::BatchRef;
use crate::journal::tables::changed_keys::LatestValue;
use crate::journal::{
    AppendError, AppendResult, Durability, EntryKind, EntryRef, NewEntry, StreamPart,
};

/// The journal counts as full when it refuses this many bytes: one batch of Kafka's usual maximum
/// (`max.message.bytes`, 1 MiB).
const ADMITS_BYTES: u64 = 1 << 20;

/// Rights and durability of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) struct Terms {
    pub(in crate::journal) durability: Durability,
    /// The append may use the reserve of free space.
    pub(in crate::journal) reserved: bool,
    /// The journal itself appends, so kinds below 16 are allowed.
    pub(in crate::journal) own: bool,
}

/// Terms of the journal's own entries: they free space or describe what frees it.
pub(in crate::journal) const OWN: Terms =
    Terms { durability: Durability::Fsync, reserved: true, own: true };

impl JournalCore {
    pub(in crate::journal) fn append(
        &self,
        group: Vec<NewEntry>,
        terms: Terms,
    ) -> Result<AppendResult, AppendError> {
        let lens = measure(&group, terms)?;
        let bytes: u64 = lens.iter().map(|len| u64::from(*len)).sum();
        if bytes > GROUP_MAX {
            return Err(AppendError::TooLarge { bytes, most: GROUP_MAX });
        }
        let mut state = self.state();
        self.admit(&state, bytes, terms)?;
        let appended = self.take(&mut state, group, &lens, terms.durability)?;
        // one wake-up is enough, however many appends come before the writer runs
        let parked = std::mem::take(&mut state.parked);
        drop(state);
        if parked {
            self.work.notify_one();
        }
        Ok(appended)
    }

    /// [`JournalCore::append`] for a caller that holds the state and has the writer woken
    /// afterwards.
    pub(in crate::journal) fn append_own(
        &self,
        state: &mut AppendState,
        group: Vec<NewEntry>,
    ) -> Result<AppendResult, AppendError> {
        let lens = measure(&group, OWN)?;
        self.admit(state, lens.iter().map(|len| u64::from(*len)).sum(), OWN)?;
        let appended = self.take(state, group, &lens, Durability::Fsync)?;
        if std::mem::take(&mut state.parked) {
            self.work.notify_one();
        }
        Ok(appended)
    }

    /// Says whether an append of new data would be accepted now.
    pub(in crate::journal) fn admits(&self, bytes: u64) -> Result<(), AppendError> {
        let terms = Terms { durability: Durability::Fsync, reserved: false, own: false };
        self.admit(&self.state(), bytes.max(ADMITS_BYTES), terms)
    }

    fn admit(&self, state: &AppendState, bytes: u64, terms: Terms) -> Result<(), AppendError> {
        if let Some(poisoned) = &state.poisoned {
            return Err(AppendError::Poisoned(poisoned.clone()));
        }
        if state.closed {
            return Err(AppendError::Closed);
        }
        if terms.reserved {
            return Ok(());
        }
        let queued_bytes = state.queued_bytes;
        if queued_bytes > 0 && queued_bytes + bytes > self.config.0.max_queued_bytes {
            return Err(AppendError::Overloaded { queued_bytes });
        }
        let reserve_bytes = u64::from(self.config.0.segment_bytes);
        let needed = reserve_bytes + queued_bytes + bytes;
        let mut free_bytes = self.free_bytes.load(Ordering::Acquire);
        if free_bytes < needed {
            free_bytes = self.refresh_free_bytes();
        }
        if free_bytes < needed || state.disk_full {
            return Err(AppendError::DiskFull { free_bytes, needed_bytes: needed });
        }
        Ok(())
    }

    fn take(
        &self,
        state: &mut AppendState,
        group: Vec<NewEntry>,
        lens: &[u32],
        durability: Durability,
    ) -> Result<AppendResult, AppendError> {
        for part in group.iter().filter_map(|entry| entry.stream.as_ref()) {
            if !state.streams.map.contains_key(&part.stream) {
                return Err(AppendError::UnknownStream { stream: part.stream.0 });
            }
        }
        let count = group.len();
        let mut refs = Vec::with_capacity(count);
        let mut base_offsets = Vec::new();
        for (at, (entry, len)) in group.into_iter().zip(lens).enumerate() {
            let placed = EntryRef { seq: state.next_seq, len: *len };
            state.next_seq += 1;
            state.queued_bytes += u64::from(*len);
            state.appended_bytes += u64::from(*len);
            let tombstone = entry.is_tombstone();
            let stream = entry.stream.map(|part| StreamPart {
                stream: part.stream,
                base_offset: state.streams.map.get(&part.stream).map_or(0, |known| known.next),
                records: part.records.max(1),
                max_timestamp_ms: part.max_timestamp_ms,
            });
            if let Some(part) = &stream {
                base_offsets.push(part.base_offset);
            }
            let queued = QueuedEntry {
                seq: placed.seq,
                len: *len,
                kind: entry.kind,
                continues: at + 1 < count,
                key: entry.key,
                stream,
                head: entry.head,
                body: entry.body,
            };
            state.note(placed, queued.kind, queued.key.as_ref(), queued.stream.as_ref(), tombstone);
            state.queue.push(queued);
            refs.push(placed);
        }
        if durability == Durability::Fsync {
            state.sync_wanted = true;
            self.sync_to.store(state.last_seq(), Ordering::Release);
        }
        self.counters.appended.fetch_add(count.try_into().unwrap_or(0), Ordering::Relaxed);
        Ok(AppendResult { refs, base_offsets })
    }
}

impl AppendState {
    /// Brings streams and keys up to date with an entry, appended or replayed.
    pub(in crate::journal) fn note(
        &mut self,
        placed: EntryRef,
        kind: EntryKind,
        key: Option<&Bytes>,
        stream: Option<&StreamPart>,
        tombstone: bool,
    ) {
        if let Some(key) = key {
            let latest = LatestValue { entry: placed, tombstone };
            // a copy: the owner's key may be a slice of something large
            if let Some(old) = self.keyed.note(kind, Bytes::copy_from_slice(key), latest) {
                self.release(old);
            }
        }
        if let Some(part) = stream {
            match self.streams.map.get_mut(&part.stream) {
                Some(stream) => stream.push(BatchRef::new(part, placed)),
                // only on replay: the stream was dropped later
                None => self.release(placed),
            }
        }
    }
}

fn measure(group: &[NewEntry], terms: Terms) -> Result<Vec<u32>, AppendError> {
    if group.is_empty() {
        return Err(AppendError::Empty);
    }
    let mut lens = Vec::with_capacity(group.len());
    for entry in group {
        if !terms.own && entry.kind.0 < KIND_OWNERS {
            return Err(AppendError::Reserved { kind: entry.kind.0 });
        }
        if let Some(failure) = &entry.failure {
            return Err(failure.clone().into());
        }
        let len = entry_len(entry.key.as_ref(), entry.stream.is_some(), &entry.head, &entry.body);
        lens.push(len.ok_or_else(|| {
            let bytes = entry.head.len().saturating_add(entry.body.len());
            AppendError::TooLarge {
                bytes: bytes.try_into().unwrap_or(u64::MAX),
                most: u64::from(PAYLOAD_MAX),
            }
        })?);
    }
    Ok(lens)
}
