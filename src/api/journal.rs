//! The journal, its fdatasyncs, and the bytes of dead letters.

use serde::{Deserialize, Serialize};

/// The journal and its disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalView {
    /// Bytes and number of all segments.
    pub bytes: u64,
    pub segments: u64,
    /// Bytes of entries that are still needed; compaction frees the rest.
    pub live_bytes: u64,
    /// Free bytes of the file system.
    pub disk_free_bytes: u64,
    /// Free bytes that new records need and the disk lacks; absent while there is room.
    pub lacking_bytes: Option<u64>,
    /// Bytes that wait for the writer.
    pub queued_bytes: u64,
    /// Entries appended and fdatasyncs made since the start.
    pub appended: u64,
    pub fsyncs: u64,
    /// Times of these fdatasyncs; absent before the first.
    pub fsync_times: Option<FsyncTimes>,
    /// Sequence of the last durable entry, and of the last one in the saved index.
    pub durable_seq: u64,
    pub checkpoint_seq: u64,
    /// Segments copied forward since the start.
    pub compactions: u64,
    /// Bytes of a torn end that were cut at the start.
    pub torn_bytes: u64,
    /// Groups with dead letters, the largest first; at most 200.
    pub dead_letters: Vec<LetterSpace>,
    /// Such groups that are not listed.
    pub more_groups: u64,
}

/// Times of fdatasyncs since the start, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FsyncTimes {
    pub mean_ms: f64,
    /// 99 of 100 took no longer; absent when that is longer than the largest bound.
    pub p99_ms: Option<f64>,
}

/// The room that the dead letters of a group take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterSpace {
    pub group: String,
    pub topic: String,
    /// Offset of the first letter, and the offset that the next one gets.
    pub start: i64,
    pub end: i64,
    pub bytes: u64,
    /// `retry.dead_letters.max_bytes`; absent: no bound.
    pub max_bytes: Option<u64>,
}
