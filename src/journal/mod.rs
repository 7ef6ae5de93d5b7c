//! The commit log and its indexes.
//!
//! ```text
//!  append ──▶ queue ──▶ Writer ──▶ segments (*.log, *.idx)        one write, one fdatasync
//!    │                    │
//!    ▼                    ▼
//!  keys, streams,      durable / visible: waiters and watchers wake
//!  releases in memory
//!    │  checkpoint (Housekeeper)
//!    ▼
//!  index.redb ── rebuilt from the log whenever it is missing
//! ```
//! A sequence number identifies an entry for ever. Compaction rewrites segments without their dead
//! entries: bytes move, sequence numbers do not. Start at [`Journal`].
//!
//! **Bounds.** Sequence numbers and offsets count up from the first start, so 64 bits suffice. Sums
//! of bytes are sizes of files. Saturation of them is never reached; it only replaces a panic.
//! Where a stored number is narrower, a comment names its bound.

mod compact;
mod config;
mod core;
mod disk;
mod error;
mod handle;
mod read;
mod read_all;
mod recover;
mod segment;
mod streams;
mod tables;
mod time_slice;
mod types;
mod writer;

pub use config::JournalOptions;
pub use disk::data_directory::{DirectoryFacts, ephemeral};
#[cfg(test)]
pub(crate) use disk::mem_disk::MemDisk;
pub use disk::real_disk::RealDisk;
pub use disk::{Disk, DiskFile};
pub use error::{
    AppendError, EntryReadError, HousekeepingFailure, JournalError, OpenError, Poisoned,
    TablesError,
};
pub use handle::{Housekeeper, Journal};
pub use recover::repair::{QuarantinedRange, repair};
pub use recover::replay::Recovery;
pub use recover::verify::{DamagedRange, VerifyReport, verify, verify_each};
pub use segment::encoded_head::{EncodedHead, EntryEncodeError};
pub use segment::entry::{
    AppendResult, Durability, EntryKind, EntryRef, JournalEntry, NewEntry, StreamAppend, StreamId,
    StreamPart,
};
pub use tables::{KeyVisitor, Pair, Pairs, Table, TableWrites, Tables};
pub use time_slice::TimeSlice;
pub use types::{
    Bounds, HousekeepingReport, ReadSize, Shortage, Stats, StepResult, StreamBatch, StreamRead,
};
pub use writer::Writer;
pub use writer::flush_probe::{FlushReport, NoProbe, Probe};

#[cfg(test)]
mod tests;
