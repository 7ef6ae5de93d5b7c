//! Results of the journal's look-ups.

use bytes::Bytes;

use super::EntryKind;

/// The offsets a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First offset that is still there.
    pub start: i64,
    /// One past the last readable offset: durable, or only written where `Os` was asked for.
    pub visible_end: i64,
    /// Offset of the next append.
    pub next: i64,
    /// Bytes on disk of the stream's batches.
    pub bytes: u64,
}

/// A batch of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBatch {
    /// Sequence number of its entry.
    pub seq: u64,
    /// Kind of its entry.
    pub kind: EntryKind,
    /// Offset of its first record.
    pub base_offset: i64,
    /// Number of offsets in the batch.
    pub records: u32,
    /// Greatest record timestamp, milliseconds since 1970.
    pub max_timestamp_ms: i64,
    /// Metadata that the owner encoded about the body.
    pub head: Bytes,
    /// The batch as it was appended (the base offset inside it is not rewritten).
    pub body: Bytes,
}

impl StreamBatch {
    /// One past its last offset.
    pub fn end(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.records))
    }
}

/// Bounds of a stream read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSize {
    /// Bytes of all batches; only the first may exceed it.
    pub bytes_max: usize,
    /// Bytes of the first batch. A larger one fails with [`EntryReadError::Larger`].
    pub first_max: usize,
}

impl ReadSize {
    /// A read of so many bytes whose first batch may have any size.
    pub fn any(bytes_max: usize) -> Self {
        Self { bytes_max, first_max: usize::MAX }
    }
}

/// Result of a stream read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRead {
    /// Whole batches, in order.
    pub batches: Vec<StreamBatch>,
    /// Bounds of the stream at the time of the read: no batch lies beyond them.
    pub bounds: Bounds,
}

/// Figures of the journal, for metrics and status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of all segments.
    pub bytes: u64,
    pub segments: usize,
    /// Bytes of entries that are not released.
    pub live_bytes: u64,
    /// Free bytes of the disk when last asked.
    pub disk_free: u64,
    /// fdatasyncs of the log since the start.
    pub fsyncs: u64,
    /// Entries appended since the start.
    pub appended: u64,
    /// Bytes waiting for the writer.
    pub queued_bytes: u64,
    /// Last sequence number that is durable.
    pub durable_seq: u64,
    /// Last sequence number the index has saved: recovery reads the log from here.
    pub checkpoint_seq: u64,
    /// Bytes of a torn tail that were cut when the journal was opened.
    pub torn_bytes: u64,
    /// Segments copied forward since the start.
    pub compactions: u64,
    /// True while appends are refused for want of space.
    pub disk_full: bool,
}

/// Result of one [`Writer::step`](super::Writer::step).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// Nothing was queued.
    Idle,
    /// The queue was written, and synced if an append asked for it.
    Flushed,
    /// The disk is full: the queue stays and the next step retries.
    DiskFull,
    /// The journal is poisoned and writes nothing more.
    Poisoned,
}

/// Work done by one [`Housekeeper::step`](super::Housekeeper::step).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HousekeepingReport {
    /// Sequence number of the checkpoint, if one was made.
    pub checkpoint: Option<u64>,
    /// Bytes copied forward; the caller limits its rate by them.
    pub copied_bytes: u64,
    pub deleted: usize,
    /// True when the next step already has work.
    pub more: bool,
}

/// The free space that new records lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub needed_bytes: u64,
    /// Not below the need when a quota or the limit of open files is the cause.
    pub free_bytes: u64,
}
