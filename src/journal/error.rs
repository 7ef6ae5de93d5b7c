//! What can go wrong, as sentences that say what to do next.

use std::io;

use super::{EncodeError, Housekept};

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the directory.
    #[error(
        "the data directory {dir} is in use by another process; stop that one first, \
         or give this one a directory of its own"
    )]
    InUse {
        /// The directory.
        dir: String,
    },
    /// The directory does not exist and could not be made.
    #[error("the data directory {dir} cannot be made: {source}; create it or choose another")]
    Missing {
        /// The directory.
        dir: String,
        /// What the system said.
        source: io::Error,
    },
    /// The directory cannot be written to.
    #[error(
        "the data directory {dir} cannot be written to: {source}; \
         give this user write permission, or mount it read-write"
    )]
    ReadOnly {
        /// The directory.
        dir: String,
        /// What the system said.
        source: io::Error,
    },
    /// No room to start.
    #[error("the disk of the data directory {dir} is full; free some space and start again")]
    DiskFull {
        /// The directory.
        dir: String,
    },
    /// The directory was written by a newer build.
    #[error(
        "the data directory {dir} has journal format {found}, this build reads up to {known}; \
         start the newer build again (a newer format cannot be read by an older build)"
    )]
    Newer {
        /// The directory.
        dir: String,
        /// The format of the directory.
        found: u32,
        /// The newest format this build reads.
        known: u32,
    },
    /// Bytes that had been durable are damaged.
    #[error(
        "{file} in {dir} is damaged at byte {offset}; nothing was changed. \
         `reprise log repair` moves the damaged bytes to a quarantine file and keeps the rest"
    )]
    Corrupt {
        /// The directory.
        dir: String,
        /// The segment's file name.
        file: String,
        /// First damaged byte.
        offset: u64,
    },
    /// A segment the index knows is not there.
    #[error(
        "{file} is missing from {dir}; put it back, \
         or remove index.redb there to start without the entries it held"
    )]
    SegmentMissing {
        /// The directory.
        dir: String,
        /// The segment's file name.
        file: String,
    },
    /// A setting is outside its bounds.
    #[error("journal setting {name} is {value}, it must be between {least} and {most}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// The look-up tables could not be made.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Any other failure of the disk.
    #[error("the data directory {dir} failed while {doing}: {source}")]
    Io {
        /// The directory.
        dir: String,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Why an append was refused; nothing of its group was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The disk has no room beyond the reserve; try again when space was freed.
    #[error("the journal's disk is full: {free_bytes} bytes free, {needed_bytes} needed")]
    DiskFull {
        /// Free bytes.
        free_bytes: u64,
        /// Bytes of the append, before it and kept for compaction.
        needed_bytes: u64,
    },
    /// A write or fdatasync has failed; only a restart helps.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
    /// The writer cannot keep up.
    #[error("{queued_bytes} bytes already wait for the journal's disk")]
    Overloaded {
        /// Bytes waiting.
        queued_bytes: u64,
    },
    /// An entry or group is larger than the format allows.
    #[error("an entry or group of {bytes} bytes is larger than the {most} allowed")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The largest allowed.
        most: u64,
    },
    /// An entry has no bytes because its encoder failed.
    #[error(transparent)]
    Unencodable(#[from] EncodeError),
    /// No stream has this id.
    #[error("there is no stream {stream}")]
    UnknownStream {
        /// The id.
        stream: u32,
    },
    /// The group has no entries.
    #[error("an empty group cannot be appended")]
    Empty,
    /// Kinds below 16 are the journal's own.
    #[error("kind {kind} belongs to the journal itself")]
    Reserved {
        /// The kind.
        kind: u8,
    },
    /// The writer has gone.
    #[error("the journal has been closed")]
    Closed,
}

/// A write or an fdatasync failed: what reached the disk is unknown, so nothing more is
/// acknowledged until a restart has read it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the journal stopped acknowledging because {doing} {file} failed: {cause}; \
     check the disk, then restart"
)]
pub struct Poisoned {
    /// `writing` or `syncing`.
    pub doing: &'static str,
    /// The file.
    pub file: String,
    /// What the system said.
    pub cause: String,
}

/// Why a wait for durability ended without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// A write or fdatasync has failed.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
    /// The writer has gone before writing this.
    #[error("the journal was closed before this was durable")]
    Closed,
    /// The look-up tables failed.
    #[error("{0}")]
    Tables(String),
    /// The log could not be read or copied.
    #[error("{0}")]
    Read(String),
    /// The journal did not take the entry.
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// A step of housekeeping that failed, and what was done all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct Unfinished {
    /// What was done.
    pub kept: Housekept,
    /// What kept the rest from being done.
    pub cause: JournalError,
}

/// Why an entry could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Released and compacted away, or never written.
    #[error("entry {seq} is no longer in the journal")]
    Gone {
        /// Its sequence number.
        seq: u64,
    },
    /// Appended but not yet written; wait for it first.
    #[error("entry {seq} has not been written yet")]
    NotWritten {
        /// Its sequence number.
        seq: u64,
    },
    /// The bytes on disk fail their checksum.
    #[error(
        "{file} is damaged at byte {offset}; \
         `reprise log verify` shows how much, `reprise log repair` keeps the rest"
    )]
    Corrupt {
        /// The segment's file name.
        file: String,
        /// Where the entry begins.
        offset: u64,
    },
    /// No stream has this id.
    #[error("there is no stream {stream}")]
    UnknownStream {
        /// The id.
        stream: u32,
    },
    /// The offset is before the first or after the last of the stream.
    #[error("offset {offset} is outside {start}..{end}")]
    OutOfRange {
        /// The offset asked for.
        offset: i64,
        /// First offset kept.
        start: i64,
        /// One past the last readable offset.
        end: i64,
    },
    /// The index could not be read.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// The disk failed.
    #[error("{file} could not be read: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a look-up table failed. Tables are rebuilt from the log, so a restart without the file
/// repairs it.
#[derive(Debug, thiserror::Error)]
#[error("the look-up file {file} failed while {doing}: {cause}; it is rebuilt when it is missing")]
pub struct TablesError {
    /// The file.
    pub file: String,
    /// What was being done.
    pub doing: &'static str,
    /// What the system said.
    pub cause: String,
}
