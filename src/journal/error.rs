//! Errors of the journal, as sentences that say what to do next.

use std::io;

use super::segment::FORMAT;
use super::{EntryEncodeError, HousekeepingReport};

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the data directory {dir} is in use by another process; stop that one first, \
         or give this one a directory of its own"
    )]
    InUse {
        /// Path of the data directory, as configured.
        dir: String,
    },
    #[error("the data directory {dir} cannot be made: {source}; create it or choose another")]
    Missing {
        /// Path of the data directory, as configured.
        dir: String,
        source: io::Error,
    },
    #[error(
        "the data directory {dir} cannot be written to: {source}; \
         give this user write permission, or mount it read-write"
    )]
    ReadOnly {
        /// Path of the data directory, as configured.
        dir: String,
        source: io::Error,
    },
    #[error("the disk of the data directory {dir} is full; free some space and start again")]
    DiskFull {
        /// Path of the data directory, as configured.
        dir: String,
    },
    #[error(
        "the data directory {dir} has format {found} and this build reads only format {FORMAT}: \
         start the build that wrote it, or give this one an empty directory"
    )]
    Format {
        /// Path of the data directory, as configured.
        dir: String,
        found: u16,
    },
    #[error(
        "{file} in {dir} is damaged at byte {offset}; nothing was changed. \
         `reprise log repair` moves the damaged bytes to a quarantine file and keeps the rest"
    )]
    Corrupt {
        dir: String,
        file: String,
        /// First damaged byte.
        offset: u64,
    },
    /// A segment in the index is missing from the directory.
    #[error(
        "{file} is missing from {dir}; put it back, \
         or remove index.redb there to start without the entries it held"
    )]
    SegmentMissing {
        /// Path of the data directory, as configured.
        dir: String,
        file: String,
    },
    #[error("journal setting {name} is {value}, it must be between {least} and {most}")]
    Setting {
        /// Name of the setting in [`JournalOptions`](super::JournalOptions).
        name: &'static str,
        value: u64,
        least: u64,
        most: u64,
    },
    /// The look-up tables could not be made.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] EntryReadError),
    /// Any other failure of the disk.
    #[error("the data directory {dir} failed while {doing}: {source}")]
    Io {
        /// Path of the data directory, as configured.
        dir: String,
        doing: &'static str,
        source: io::Error,
    },
}

/// Why an append was refused; no entry of its group was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The disk has only the reserve left; appends work again once space is freed.
    #[error("the journal's disk is full: {free_bytes} bytes free, {needed_bytes} needed")]
    DiskFull {
        free_bytes: u64,
        /// Bytes of the append, of the queue before it, and of the reserve for compaction.
        needed_bytes: u64,
    },
    /// A write or fdatasync has failed; only a restart helps.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
    /// The queue of the writer is full.
    #[error("{queued_bytes} bytes already wait for the journal's disk")]
    Overloaded {
        /// Bytes in the queue of the writer.
        queued_bytes: u64,
    },
    /// An entry or group is larger than the format allows.
    #[error("an entry or group of {bytes} bytes is larger than the {most} allowed")]
    TooLarge {
        /// Bytes of the entry or group.
        bytes: u64,
        most: u64,
    },
    /// An entry has no bytes because its encoder failed.
    #[error(transparent)]
    Unencodable(#[from] EntryEncodeError),
    #[error("there is no stream {stream}")]
    UnknownStream {
        /// Id of the stream, as asked for.
        stream: u32,
    },
    #[error("an empty group cannot be appended")]
    Empty,
    /// Kinds below 16 are the journal's own.
    #[error("kind {kind} belongs to the journal itself")]
    Reserved {
        /// Kind of the entry, 1 to 15.
        kind: u8,
    },
    /// The journal was closed.
    #[error("the journal has been closed")]
    Closed,
}

/// A write or an fdatasync failed. The disk's contents are unknown then, so no append is
/// acknowledged until a restart has read them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the journal stopped acknowledging because {doing} {file} failed: {cause}; \
     check the disk, then restart"
)]
pub struct Poisoned {
    /// `writing` or `syncing`.
    pub doing: &'static str,
    pub file: String,
    pub cause: String,
}

/// Why a wait for durability ended without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// A write or fdatasync has failed.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
    /// The journal was closed before the writer reached the entry.
    #[error("the journal was closed before this was durable")]
    Closed,
    /// The look-up tables failed.
    #[error("{0}")]
    Tables(String),
    /// The log could not be read or copied.
    #[error("{0}")]
    Read(String),
    /// The journal refused the entry.
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// A failed step of housekeeping, and the work it did before the failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct HousekeepingFailure {
    pub kept: HousekeepingReport,
    pub cause: JournalError,
}

/// Why an entry could not be read.
#[derive(Debug, thiserror::Error)]
pub enum EntryReadError {
    /// The entry was released and compacted away, or never written.
    #[error("entry {seq} is no longer in the journal")]
    Gone {
        /// Sequence number of the entry.
        seq: u64,
    },
    /// The entry is appended but not yet written; wait for it first.
    #[error("entry {seq} has not been written yet")]
    NotWritten {
        /// Sequence number of the entry.
        seq: u64,
    },
    /// The bytes on disk fail their checksum.
    #[error(
        "{file} is damaged at byte {offset}; \
         `reprise log verify` shows how much, `reprise log repair` keeps the rest"
    )]
    Corrupt {
        file: String,
        /// Offset of the entry in the file.
        offset: u64,
    },
    #[error("there is no stream {stream}")]
    UnknownStream {
        /// Id of the stream, as asked for.
        stream: u32,
    },
    /// The first batch is larger than the read may be.
    #[error("a batch of {bytes} bytes is larger than the read")]
    Larger {
        /// Bytes of the batch.
        bytes: usize,
    },
    /// The offset is before the first or after the last of the stream.
    #[error("offset {offset} is outside {start}..{end}")]
    OutOfRange {
        /// Offset that was asked for.
        offset: i64,
        start: i64,
        end: i64,
    },
    /// The index could not be read.
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error("{file} could not be read: {source}")]
    Io {
        /// File name inside the data directory.
        file: String,
        source: io::Error,
    },
}

/// Why a look-up table failed. Tables are rebuilt from the log, so a restart without the file
/// repairs it.
#[derive(Debug, thiserror::Error)]
#[error("the look-up file {file} failed while {doing}: {cause}; it is rebuilt when it is missing")]
pub struct TablesError {
    pub file: String,
    pub doing: &'static str,
    pub cause: String,
}
