//! Answers of the journal's look-ups.

use bytes::Bytes;

use super::Kind;

/// The offsets a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First offset kept.
    pub start: i64,
    /// One past the last offset that may be read: durable, or written when that was asked for.
    pub visible_end: i64,
    /// Offset the next append gets.
    pub next: i64,
    /// Bytes on disk of the batches kept.
    pub bytes: u64,
}

/// A batch of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBatch {
    /// Sequence number of its entry.
    pub seq: u64,
    /// Kind of its entry.
    pub kind: Kind,
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offsets it takes.
    pub records: u32,
    /// Greatest record timestamp, milliseconds since 1970.
    pub max_timestamp_ms: i64,
    /// The owner's facts about the body.
    pub head: Bytes,
    /// The batch as it was appended (the base offset inside it is not rewritten).
    pub body: Bytes,
}

impl StreamBatch {
    /// The offset behind its last record.
    pub fn end(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.records))
    }
}

/// What was read of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRead {
    /// Whole batches, in order.
    pub batches: Vec<StreamBatch>,
    /// What the stream held when they were looked for: none of them lies behind it.
    pub bounds: Bounds,
}

/// Where the journal stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Segments.
    pub segments: usize,
    /// Bytes of entries nobody has released.
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

/// What one [`Writer::step`](super::Writer::step) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// Nothing was queued.
    Idle,
    /// Everything queued was written, and synced if that was asked for.
    Flushed,
    /// The disk is full: what is queued stays queued and is tried again by the next step.
    DiskFull,
    /// The journal is poisoned: nothing will be written any more.
    Poisoned,
}

/// What one [`Housekeeper::step`](super::Housekeeper::step) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Housekept {
    /// Sequence number of the checkpoint made, if one was.
    pub checkpoint: Option<u64>,
    /// Bytes copied forward: the caller paces itself by these.
    pub copied_bytes: u64,
    /// Segments deleted.
    pub deleted: usize,
    /// True when the next step has work already.
    pub more: bool,
}
