//! Produce to and read from one partition.

mod admission;

use std::sync::PoisonError;

use bytes::{Bytes, BytesMut};

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::fact_encoding;
use crate::broker::kind;
use crate::broker::producers::BatchDecision;
use crate::broker::topic::{Partition, Topic};
use crate::journal::{
    Bounds, EntryReadError, EntryRef, JournalEntry, NewEntry, ReadSize, StreamAppend, StreamBatch,
    StreamId, StreamRead,
};
use crate::wire::batch::{Batch, LEADER_EPOCH, commits, rebase};

pub use admission::{AdmissionError, TimeBounds};

/// Limit for the unpacked size of a produced batch, and of a record that is fetched by reference.
pub(super) const RECORD_BYTES_MAX: usize = 64 << 20;
/// The one key of its kind.
const MARK_KEY: Bytes = Bytes::from_static(b"-");
/// The format of that kind: a version byte, then a number in postcard's encoding.
const MARK_VERSION: u8 = 1;
/// Name under which the journal pins the segments that the producer snapshots still need.
const OWNER: &str = "producers";
/// Bounds of a deleted stream.
const NOTHING: Bounds = Bounds { start: 0, visible_end: 0, next: 0, bytes: 0 };

/// The position of a produced batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedPosition {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Journal sequence; the broker acknowledges the batch once this entry meets the durability
    /// setting.
    pub seq: u64,
    /// The partition's log start offset.
    pub log_start: i64,
}

/// The result of a read from a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRead {
    /// Whole batches, ascending, with their offsets written in; empty at the end of the log.
    pub records: Bytes,
    /// The partition's offsets at the time of the read; no record lies above `visible_end`.
    pub bounds: Bounds,
}

impl Broker {
    /// Appends a validated batch unchanged. Does not wait: see [`Broker::acknowledged`].
    pub fn produce(
        &self,
        topic: &Topic,
        partition: &Partition,
        batch: &Batch,
    ) -> Result<ProducedPosition, BrokerError> {
        Self::check_size(topic, batch)?;
        let produced = self.produce_with(partition, batch, &mut || Some(Vec::new()));
        produced.map(|(produced, _)| produced)
    }

    /// Appends a batch whose size was checked, with `more` entries in one atomic group. Returns
    /// where these entries lie; a repeated batch has none. `more` is called only for a batch that
    /// is appended.
    pub fn produce_with(
        &self,
        partition: &Partition,
        batch: &Batch,
        more: &mut dyn FnMut() -> Option<Vec<NewEntry>>,
    ) -> Result<(ProducedPosition, Vec<EntryRef>), BrokerError> {
        let header = &batch.header;
        let log_start = self.bounds(partition).start;
        if header.producer_id < 0 {
            let (base_offset, seq, refs) = self.append(partition.stream, batch, more)?;
            return Ok((ProducedPosition { base_offset, seq, log_start }, refs));
        }
        // The lock makes the journal order the same as the order of sequence numbers.
        let mut producers = partition.producers.lock().unwrap_or_else(PoisonError::into_inner);
        match producers.judge(header)? {
            BatchDecision::Repeated { base_offset, seq } => {
                Ok((ProducedPosition { base_offset, seq, log_start }, Vec::new()))
            }
            BatchDecision::Append => {
                let (base_offset, seq, refs) = self.append(partition.stream, batch, more)?;
                producers.record(header, base_offset, seq, self.clock.now().wall);
                Ok((ProducedPosition { base_offset, seq, log_start }, refs))
            }
        }
    }

    /// The partition's offsets; a deleted stream is empty.
    pub fn bounds(&self, partition: &Partition) -> Bounds {
        self.journal.stream_bounds(partition.stream).unwrap_or(NOTHING)
    }

    /// Whether the partition still exists: its topic may have been deleted since the lookup.
    pub fn is_there(&self, partition: &Partition) -> bool {
        self.journal.stream_bounds(partition.stream).is_some()
    }

    /// Reads whole batches, starting with the batch that contains `offset`.
    pub fn read(
        &self,
        partition: &Partition,
        offset: i64,
        size: ReadSize,
    ) -> Result<LogRead, BrokerError> {
        let StreamRead { batches, bounds } = self.batches(partition, offset, size)?;
        Ok(LogRead { records: join(&batches), bounds })
    }

    /// [`Broker::read`] with the batches as they lie in the log.
    pub(super) fn batches(
        &self,
        partition: &Partition,
        offset: i64,
        size: ReadSize,
    ) -> Result<StreamRead, BrokerError> {
        if size.bytes_max > 0 {
            match self.journal.stream_read_within(partition.stream, offset, size) {
                Ok(read) => return Ok(read),
                Err(EntryReadError::OutOfRange { .. }) => {
                    return Err(BrokerError::OffsetOutOfRange);
                }
                Err(EntryReadError::UnknownStream { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let bounds = self.bounds(partition);
        if offset < bounds.start || offset > bounds.visible_end {
            return Err(BrokerError::OffsetOutOfRange);
        }
        Ok(StreamRead { batches: Vec::new(), bounds })
    }

    /// The first record with that timestamp or a later one (ListOffsets by time): offset and time.
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

    /// The offset and time of the record with the latest timestamp (ListOffsets −3). If retention
    /// has cut a batch, only its remaining records count. A scheduled record is found by the time
    /// it entered, but returned with its own timestamp.
    pub fn latest_time(&self, partition: &Partition) -> Result<Option<(i64, i64)>, BrokerError> {
        let Some((base, time)) = self.journal.stream_latest_time(partition.stream)? else {
            return Ok(None);
        };
        let start = self.bounds(partition).start;
        let read = self.read(partition, base.max(start), ReadSize::any(1))?;
        let Ok(batch) = Batch::parse(&read.records) else { return Ok(None) };
        if start <= base && batch.header.max_timestamp_ms == time {
            return self.first_record_since(partition, base, time);
        }
        let left = times(&batch).filter(|(offset, _)| start <= *offset);
        // `min_by_key` with `Reverse` takes the first of equal timestamps.
        Ok(left.min_by_key(|(_, time)| std::cmp::Reverse(*time)))
    }

    /// Wakes `waker` once when new records become readable.
    pub fn watch(&self, partition: &Partition, waker: &std::sync::Arc<tokio::sync::Notify>) {
        self.journal.stream_watch(partition.stream, waker);
    }

    /// The first record with that timestamp or a later one, from the batch at `base` on.
    fn first_record_since(
        &self,
        partition: &Partition,
        base: i64,
        timestamp_ms: i64,
    ) -> Result<Option<(i64, i64)>, BrokerError> {
        let start = self.bounds(partition).start;
        let mut from = base.max(start);
        loop {
            let read = self.read(partition, from, ReadSize::any(1))?;
            let Ok(batch) = Batch::parse(&read.records) else { return Ok(None) };
            let header = &batch.header;
            if timestamp_ms <= header.max_timestamp_ms {
                let meant = |(offset, time): &(i64, i64)| from <= *offset && timestamp_ms <= *time;
                let found = times(&batch).find(meant);
                if found.is_some() || start <= header.base_offset {
                    return Ok(found.or(Some((header.base_offset, header.max_timestamp_ms))));
                }
                // Retention cut this batch behind the record that was found.
            }
            from = header.last_offset().saturating_add(1);
        }
    }

    /// Checks the batch against the topic's `max.message.bytes`.
    pub(super) fn check_size(topic: &Topic, batch: &Batch) -> Result<(), BrokerError> {
        let (bytes, max) = (batch.bytes.len(), topic.settings.max_message_bytes);
        if bytes <= max { Ok(()) } else { Err(BrokerError::MessageTooLarge { bytes, max }) }
    }

    /// The time of a batch for retention: now if the batch has no timestamp, and never in the
    /// future.
    fn kept_as_of(&self, timestamp_ms: i64) -> i64 {
        if timestamp_ms < 0 {
            return self.clock.now().wall.0;
        }
        timestamp_ms.min(self.latest(self.clock.now().wall, timestamp_ms))
    }

    /// Returns the base offset, the sequence to wait for, and the refs of `more`.
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
        // Checked before `more` is called, because the decision inside `more` cannot be undone.
        if self.journal.stream_bounds(stream).is_none() {
            return Err(BrokerError::UnknownTopicOrPartition);
        }
        let more = more().ok_or(BrokerError::UnknownTopicOrPartition)?;
        let appended = if more.is_empty() {
            self.journal.append_with(vec![batch], self.durability)?
        } else {
            // The caller reserved room for `more` beforehand, because its decision cannot be
            // undone.
            self.journal.append_reserved(std::iter::once(batch).chain(more).collect())?
        };
        let base_offset = appended.base_offsets.first().copied().unwrap_or(0);
        let seq = appended.seq();
        Ok((base_offset, seq, appended.refs.into_iter().skip(1).collect()))
    }

    /// Restores the producer's sequence numbers from a journalled batch.
    pub(super) fn replay_batch(&self, entry: &JournalEntry) {
        let Some(part) = &entry.stream else { return };
        let Ok(batch) = Batch::parse(&entry.body) else { return };
        let header = batch.header;
        if header.producer_id < 0 {
            return;
        }
        let producers = self.topics.producers(part.stream);
        let mut producers = producers.lock().unwrap_or_else(PoisonError::into_inner);
        // The timestamp in a record is set by its producer and cannot be trusted.
        let seen = self.clock.now().wall;
        if let Some(commits) = commits(&batch) {
            let (marker, at) = ((header.producer_id, header.producer_epoch), part.base_offset);
            producers.ended(marker, commits, (at, entry.seq), seen);
            return;
        }
        producers.record(&header, part.base_offset, entry.seq, seen);
    }

    /// Restores a partition's producers from a snapshot.
    pub(super) fn replay_producers(&self, entry: &JournalEntry) {
        let Some(stream) = entry.key.as_deref().and_then(|key| key.first_chunk::<4>()) else {
            return;
        };
        let producers = self.topics.producers(StreamId(u32::from_le_bytes(*stream)));
        producers.lock().unwrap_or_else(PoisonError::into_inner).restore(&entry.head);
    }

    /// Journals the producers that changed since the last call. Recovery then starts after the
    /// snapshots, and older segments can be freed. The appends may use the disk reserve, because
    /// they free room.
    pub fn keep_producers(&self) -> Result<(), BrokerError> {
        let now = self.clock.now().wall;
        // The snapshots below contain every batch that is durable now: a batch is recorded under
        // the lock under which it was appended.
        let all_before = self.journal.durable_seq();
        for (stream, producers) in self.topics.all_producers() {
            let key = Bytes::copy_from_slice(&stream.0.to_le_bytes());
            let Some(bounds) = self.journal.stream_bounds(stream) else {
                if self.journal.keyed_get(kind::PRODUCERS, &key)?.is_some() {
                    let end = NewEntry::tombstone(kind::PRODUCERS, key);
                    self.journal.append_reserved(vec![end])?;
                }
                self.topics.forget_producers(stream);
                continue;
            };
            // The lock is held until the append: the snapshot replaces all earlier entries of its
            // key.
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
        let head = fact_encoding::write(MARK_VERSION, &all_before);
        let mark = NewEntry::keyed(kind::PRODUCERS_MARK, MARK_KEY, head, Bytes::new());
        let seq = self.journal.append_reserved(vec![mark])?.seq();
        self.journal.durable_blocking(seq)?;
        self.journal.hold_from(OWNER, all_before);
        Ok(())
    }

    /// The sequence at which the replay starts: the journal's checkpoint, or the last producer
    /// snapshot if that is older.
    pub fn replay_from(&self, checkpointed: u64) -> Result<u64, BrokerError> {
        let Some(at) = self.journal.keyed_get(kind::PRODUCERS_MARK, &MARK_KEY)? else {
            return Ok(0);
        };
        let entry = self.journal.read(at)?;
        // An unreadable mark only makes the replay longer.
        let kept = fact_encoding::read("mark of producers", MARK_VERSION, &entry.head).unwrap_or(0);
        self.journal.hold_from(OWNER, kept.min(checkpointed));
        Ok(kept.min(checkpointed))
    }
}

/// Offset and timestamp of each record; none if the batch cannot be unpacked.
fn times(batch: &Batch) -> impl Iterator<Item = (i64, i64)> {
    let records = crate::wire::batch::records(batch, RECORD_BYTES_MAX).into_iter().flatten();
    records.filter_map(Result::ok).map(|record| (record.offset, record.timestamp_ms))
}

/// Concatenates batches and writes each base offset: an 8-byte patch outside the CRC.
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
            // Not a batch. The result ends here, because a batch after it would leave a gap.
            out.truncate(at);
        }
    }
    out.freeze()
}

#[cfg(test)]
mod tests;
