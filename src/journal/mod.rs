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

mod append;
mod bitmap;
mod catalog;
mod checkpoint;
mod compact;
mod config;
mod copy;
mod core;
mod disk;
mod encoded;
mod entry;
mod error;
mod format;
mod handle;
mod index_file;
mod keyed;
mod live;
mod mem_disk;
mod mounts;
mod past;
mod place;
mod probe;
mod progress;
mod read;
mod real_disk;
mod recover;
mod repair;
mod replay;
mod scan;
mod segment;
mod stream_index;
mod stream_read;
mod streams;
mod table_file;
mod tables;
mod turn;
mod types;
mod verify;
mod writer;

pub use config::JournalOptions;
pub use disk::{Disk, DiskFile};
pub use encoded::{EncodedHead, EntryEncodeError};
pub use entry::{
    AppendResult, Durability, EntryKind, EntryRef, JournalEntry, NewEntry, StreamAppend, StreamId,
    StreamPart,
};
pub use error::{
    AppendError, EntryReadError, HousekeepingFailure, JournalError, OpenError, Poisoned,
    TablesError,
};
pub use handle::{Housekeeper, Journal};
pub use mem_disk::MemDisk;
pub use place::{DirectoryFacts, ephemeral};
pub use probe::{FlushReport, NoProbe, Probe};
pub use real_disk::RealDisk;
pub use repair::{QuarantinedRange, repair};
pub use replay::Recovery;
pub use tables::{KeyVisitor, Pair, Pairs, Table, TableWrites, Tables};
pub use turn::TimeSlice;
pub use types::{Bounds, HousekeepingReport, Stats, StepResult, StreamBatch, StreamRead};
pub use verify::{DamagedRange, VerifyReport, verify, verify_each};
pub use writer::Writer;

#[cfg(test)]
mod tests;
