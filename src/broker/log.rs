//! Produce to and read from one partition.

mod admission;

use std::sync::PoisonError;

use bytes::{Bytes, BytesMut};

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::kind;
use crate::broker::producers::Judged;
use crate::broker::topic::{Partition, Topic};
use crate::broker::versioned;
use crate::journal::{
    Bounds, Entry, EntryRef, NewEntry, ReadError, StreamAppend, StreamBatch, StreamId, StreamRead,
};
use crate::wire::batch::{Batch, LEADER_EPOCH, commits, rebase};

pub use admission::{AdmissionError, TimeBounds};

/// A produced batch, and a record asked for by reference, unpack to at most this.
pub(super) const RECORD_BYTES_MAX: usize = 64 << 20;
/// The one key of its kind.
const MARK_KEY: Bytes = Bytes::from_static(b"-");
/// The format of that kind: a version byte, then a number in postcard's encoding.
const MARK_VERSION: u8 = 1;
/// What the journal calls this owner of snapshots.
const OWNER: &str = "producers";
/// Bounds of a stream that is not there any more.
const NOTHING: Bounds = Bounds { start: 0, visible_end: 0, next: 0, bytes: 0 };

/// Where a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    /// Of its first record.
    pub base_offset: i64,
    /// In the journal; acknowledge once this is as safe as promised.
    pub seq: u64,
    /// The first offset the partition keeps.
    pub log_start: i64,
}

/// What was read of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBack {
    /// Whole batches, ascending, rebased to their offsets; empty at the end of the log.
    pub records: Bytes,
    /// The partition's offsets, as they were then: no record lies behind them.
    pub bounds: Bounds,
}

impl Broker {
    /// Appends a validated batch as it came. Does not wait: see [`Broker::acknowledged`].
    pub fn produce(
        &self,
        topic: &Topic,
        partition: &Partition,
        batch: &Batch,
    ) -> Result<Produced, BrokerError> {
        Self::check_size(topic, batch)?;
        let produced = self.produce_with(partition, batch, &mut || Some(Vec::new()));
        produced.map(|(produced, _)| produced)
    }

    /// The same of a batch whose size is right, with `more` entries in one atomic group: where
    /// those lie, none of a repeated batch. `more` is asked only for a batch that is appended.
    pub fn produce_with(
        &self,
        partition: &Partition,
        batch: &Batch,
        more: &mut dyn FnMut() -> Option<Vec<NewEntry>>,
    ) -> Result<(Produced, Vec<EntryRef>), BrokerError> {
        let header = &batch.header;
        let log_start = self.bounds(partition).start;
        if header.producer_id < 0 {
            let (base_offset, seq, refs) = self.append(partition.stream, batch, more)?;
            return Ok((Produced { base_offset, seq, log_start }, refs));
        }
        // The lock keeps the order of sequence numbers the order of the log.
        let mut producers = partition.producers.lock().unwrap_or_else(PoisonError::into_inner);
        match producers.judge(header)? {
            Judged::Repeated { base_offset, seq } => {
                Ok((Produced { base_offset, seq, log_start }, Vec::new()))
            }
            Judged::Append => {
                let (base_offset, seq, refs) = self.append(partition.stream, batch, more)?;
                producers.record(header, base_offset, seq, self.clock.now().wall);
                Ok((Produced { base_offset, seq, log_start }, refs))
            }
        }
    }

    /// The partition's offsets; a stream dropped meanwhile is empty.
    pub fn bounds(&self, partition: &Partition) -> Bounds {
        self.journal.stream_bounds(partition.stream).unwrap_or(NOTHING)
    }

    /// Whether it is there: its topic may have been deleted since it was looked up.
    pub fn is_there(&self, partition: &Partition) -> bool {
        self.journal.stream_bounds(partition.stream).is_some()
    }

    /// Whole batches from the one that holds `offset` on: at least one when there is one, more
    /// while they fit in `bytes_max`.
    pub fn read(
        &self,
        partition: &Partition,
        offset: i64,
        bytes_max: usize,
    ) -> Result<ReadBack, BrokerError> {
        let StreamRead { batches, bounds } = self.batches(partition, offset, bytes_max)?;
        Ok(ReadBack { records: join(&batches), bounds })
    }

    /// The same as they lie in the log.
    pub(super) fn batches(
        &self,
        partition: &Partition,
        offset: i64,
        bytes_max: usize,
    ) -> Result<StreamRead, BrokerError> {
        if bytes_max > 0 {
            match self.journal.stream_read(partition.stream, offset, bytes_max) {
                Ok(read) => return Ok(read),
                Err(ReadError::OutOfRange { .. }) => return Err(BrokerError::OffsetOutOfRange),
                // Its topic was deleted.
                Err(ReadError::UnknownStream { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let bounds = self.bounds(partition);
        if offset < bounds.start || offset > bounds.visible_end {
            return Err(BrokerError::OffsetOutOfRange);
        }
        Ok(StreamRead { batches: Vec::new(), bounds })
    }

    /// The first offset whose batch has a record of that time or later (ListOffsets by time).
    pub fn offset_at_time(
        &self,
        partition: &Partition,
        timestamp_ms: i64,
    ) -> Result<Option<(i64, i64)>, BrokerError> {
        let Some((base, _)) = self.journal.stream_find_time(partition.stream, timestamp_ms)? else {
            return Ok(None);
        };
        self.first_record_since(partition, base, timestamp_ms)
    }

    /// The offset and time of the latest record by time (ListOffsets −3). Of a batch that is there
    /// in part, what is left counts for all of it; one that was put off counts by when it entered,
    /// and has its own time.
    pub fn latest_time(&self, partition: &Partition) -> Result<Option<(i64, i64)>, BrokerError> {
        let Some((base, time)) = self.journal.stream_latest_time(partition.stream)? else {
            return Ok(None);
        };
        let start = self.bounds(partition).start;
        let read = self.read(partition, base.max(start), 1)?;
        let Ok(batch) = Batch::parse(&read.records) else { return Ok(None) };
        if start <= base && batch.header.max_timestamp_ms == time {
            return self.first_record_since(partition, base, time);
        }
        let left = times(&batch).filter(|(offset, _)| start <= *offset);
        // Of equal ones the first.
        Ok(left.min_by_key(|(_, time)| std::cmp::Reverse(*time)))
    }

    /// Wakes `waker` once when something new may be read.
    pub fn watch(&self, partition: &Partition, waker: &std::sync::Arc<tokio::sync::Notify>) {
        self.journal.stream_watch(partition.stream, waker);
    }

    /// The first record of that time or later, from the batch at `base` on.
    fn first_record_since(
        &self,
        partition: &Partition,
        base: i64,
        timestamp_ms: i64,
    ) -> Result<Option<(i64, i64)>, BrokerError> {
        let start = self.bounds(partition).start;
        let mut from = base.max(start);
        loop {
            let read = self.read(partition, from, 1)?;
            let Ok(batch) = Batch::parse(&read.records) else { return Ok(None) };
            let header = &batch.header;
            if timestamp_ms <= header.max_timestamp_ms {
                let meant = |(offset, time): &(i64, i64)| from <= *offset && timestamp_ms <= *time;
                let found = times(&batch).find(meant);
                if found.is_some() || start <= header.base_offset {
                    return Ok(found.or(Some((header.base_offset, header.max_timestamp_ms))));
                }
                // The partition begins inside this batch, behind the record that was meant.
            }
            from = header.last_offset().saturating_add(1);
        }
    }

    /// Whether a topic takes a batch of this size.
    pub(super) fn check_size(topic: &Topic, batch: &Batch) -> Result<(), BrokerError> {
        let (bytes, max) = (batch.bytes.len(), topic.settings.max_message_bytes);
        if bytes <= max { Ok(()) } else { Err(BrokerError::MessageTooLarge { bytes, max }) }
    }

    /// What retention takes for the time of a batch: one that says none is of now.
    fn kept_as_of(&self, timestamp_ms: i64) -> i64 {
        if timestamp_ms < 0 {
            return self.clock.now().wall.0;
        }
        timestamp_ms.min(self.latest(self.clock.now().wall, timestamp_ms))
    }

    /// Base offset, the sequence to wait for, and where `more` lies.
    pub(super) fn append(
        &self,
        stream: StreamId,
        batch: &Batch,
        more: &mut dyn FnMut() -> Option<Vec<NewEntry>>,
    ) -> Result<(i64, u64, Vec<EntryRef>), BrokerError> {
        let header = &batch.header;
        let append = StreamAppend {
            stream,
            records: u32::try_from(header.last_offset_delta).unwrap_or(0).saturating_add(1),
            max_timestamp_ms: self.kept_as_of(header.max_timestamp_ms),
        };
        let batch = NewEntry::bare_batch(kind::BATCH, append, batch.bytes.clone());
        // Before anybody decides on more: what they have decided cannot be taken back.
        if self.journal.stream_bounds(stream).is_none() {
            return Err(BrokerError::UnknownTopicOrPartition);
        }
        let more = more().ok_or(BrokerError::UnknownTopicOrPartition)?;
        let appended = if more.is_empty() {
            self.journal.append_with(vec![batch], self.durability)?
        } else {
            // Whoever brings more has asked whether there is room, and cannot take it back.
            self.journal.append_reserved(std::iter::once(batch).chain(more).collect())?
        };
        let base_offset = appended.base_offsets.first().copied().unwrap_or(0);
        let seq = appended.seq();
        Ok((base_offset, seq, appended.refs.into_iter().skip(1).collect()))
    }

    /// Takes a journalled batch back: its producer's sequence numbers.
    pub(super) fn replay_batch(&self, entry: &Entry) {
        let Some(part) = &entry.stream else { return };
        let Ok(batch) = Batch::parse(&entry.body) else { return };
        let header = batch.header;
        if header.producer_id < 0 {
            return;
        }
        let producers = self.topics.producers(part.stream);
        let mut producers = producers.lock().unwrap_or_else(PoisonError::into_inner);
        // The time in a record is its producer's, and may be any.
        let seen = self.clock.now().wall;
        if let Some(commits) = commits(&batch) {
            let (marker, at) = ((header.producer_id, header.producer_epoch), part.base_offset);
            producers.ended(marker, commits, (at, entry.seq), seen);
            return;
        }
        producers.record(&header, part.base_offset, entry.seq, seen);
    }

    /// Takes a stored snapshot of a partition's producers back.
    pub(super) fn replay_producers(&self, entry: &Entry) {
        let Some(stream) = entry.key.as_deref().and_then(|key| key.first_chunk::<4>()) else {
            return;
        };
        let producers = self.topics.producers(StreamId(u32::from_le_bytes(*stream)));
        producers.lock().unwrap_or_else(PoisonError::into_inner).restore(&entry.head);
    }

    /// Journals what changed in the producers' past since the last call, so that recovery need not
    /// read the batches behind it, and nothing keeps those on the disk: it may use the room kept in
    /// reserve, as all that frees some.
    pub fn keep_producers(&self) -> Result<(), BrokerError> {
        let now = self.clock.now().wall;
        // Whatever is durable by now is in the snapshots below: a batch is recorded under the
        // lock it was appended under.
        let all_before = self.journal.durable_seq();
        for (stream, producers) in self.topics.all_producers() {
            let key = Bytes::copy_from_slice(&stream.0.to_le_bytes());
            let Some(bounds) = self.journal.stream_bounds(stream) else {
                // Its topic was deleted.
                if self.journal.keyed_get(kind::PRODUCERS, &key)?.is_some() {
                    let end = NewEntry::tombstone(kind::PRODUCERS, key);
                    self.journal.append_reserved(vec![end])?;
                }
                self.topics.forget_producers(stream);
                continue;
            };
            // Until it is appended: it replaces all that comes before it in the log.
            let mut producers = producers.lock().unwrap_or_else(PoisonError::into_inner);
            producers.forget_passed(bounds);
            if let Some(snapshot) = producers.snapshot(now, self.expiration.producer_id_ms) {
                let entry = match snapshot {
                    Some(head) => NewEntry::keyed(kind::PRODUCERS, key, head, Bytes::new()),
                    None => NewEntry::tombstone(kind::PRODUCERS, key),
                };
                self.journal.append_reserved(vec![entry])?;
                producers.kept();
            }
        }
        let head = versioned::write(MARK_VERSION, &all_before);
        let mark = NewEntry::keyed(kind::PRODUCERS_MARK, MARK_KEY, head, Bytes::new());
        let seq = self.journal.append_reserved(vec![mark])?.seq();
        self.journal.durable_blocking(seq)?;
        self.journal.hold_from(OWNER, all_before);
        Ok(())
    }

    /// Where a replay has to begin: at the journal's checkpoint, or before it at the last
    /// snapshot of producers.
    pub fn replay_from(&self, checkpointed: u64) -> Result<u64, BrokerError> {
        let Some(at) = self.journal.keyed_get(kind::PRODUCERS_MARK, &MARK_KEY)? else {
            return Ok(0);
        };
        let entry = self.journal.read(at)?;
        // One that cannot be read means no more than that more of the log is.
        let kept = versioned::read("mark of producers", MARK_VERSION, &entry.head).unwrap_or(0);
        self.journal.hold_from(OWNER, kept.min(checkpointed));
        Ok(kept.min(checkpointed))
    }
}

/// Offset and time of each record; none of a batch that cannot be unpacked.
fn times(batch: &Batch) -> impl Iterator<Item = (i64, i64)> {
    let records = crate::wire::batch::records(batch, RECORD_BYTES_MAX).into_iter().flatten();
    records.filter_map(Result::ok).map(|record| (record.offset, record.timestamp_ms))
}

/// Batches one after the other, each told its offset: an 8-byte patch outside the CRC.
pub(super) fn join(batches: &[StreamBatch]) -> Bytes {
    let bytes = batches.iter().map(|batch| batch.body.len()).sum();
    let mut out = BytesMut::with_capacity(bytes);
    for batch in batches {
        let at = out.len();
        out.extend_from_slice(&batch.body);
        let placed = out
            .get_mut(at..)
            .is_some_and(|place| rebase(place, batch.base_offset, LEADER_EPOCH).is_ok());
        if !placed {
            // Not a batch: nothing of it may be sent, and nothing behind it without a gap.
            out.truncate(at);
        }
    }
    out.freeze()
}

#[cfg(test)]
mod tests;
