//! The engine: the owner of all retry state, on its own thread.
//!
//! ```text
//! Engine (handle) ── command ──▶ Driver ── input ──▶ retry::Ledger
//!    ▲                             │ facts ──▶ journal (one atomic group per command)
//!    └──── answer + sequence ◀─────┘
//! ```
//! **Invariant:** an answer has the sequence of the last fact it may depend on. The handle waits
//! until that fact is durable before a client sees the answer. Lists for the admin port are not
//! delayed. The driver itself never waits for a disk.
//!
//! **Invariant:** the fact of a delivery is durable before its bytes are sent.
//!
//! **Bounds.** A sum of bytes that saturates is larger than any limit it is compared with, and is
//! refused. Ids and sequences count up from the first start and cannot reach 2^64.

mod arrival;
mod audit;
mod batch_limits;
mod command;
mod commit;
mod delayed;
mod detectors;
mod driver;
mod engine_trouble;
mod error;
mod fact_counts;
mod facts;
mod group_summary;
mod handle;
mod job;
mod kind;
mod letters;
mod mover;
mod nack_batch;
mod operator;
mod producer_sequences;
mod record_events;
mod recover;
mod render;
mod renewal;
#[cfg(test)]
mod stepped;
mod store;
mod topic_ids;

pub use arrival::Arrival;
pub use audit::AuditRecord;
pub use batch_limits::RECORD_BYTES_MAX;
pub use command::{
    EntryState, ImportBatch, ImportRequest, OPERATE_MAX, OperateRequest, SettleRequest,
};
pub use delayed::{AppendBatch, DelayBatch, DelayedRecord, DelayedTotals, EntrySource};
pub use driver::Driver;
pub use error::EngineError;
pub use handle::Engine;
pub use job::{
    CountedLetters, Job, JobAction, JobChange, JobError, JobStep, JobTerms, PatchError,
    RecordPatch, RedriveOutcomes, SendTarget, WATCHED_MAX,
};
pub use letters::dead_letter::{DeadLetter, Letters};
pub use letters::final_log::ROUND as FINAL_ROUND;
pub use letters::following::{ReadLetters, is_letter};
pub use letters::produced::ProducedLetters;
pub use letters::start_names::{StartNamesError, check_start_names};
pub use mover::RetryPartitionLog;
pub use mover::release_queue::{ReleaseBatch, ReleaseOutcome, ReleaseTarget};
pub use nack_batch::{NackBatch, NackReply, NackRequest};
pub use operator::Operator;
pub use producer_sequences::{LETTERS, ProducerSequence};
pub use record_events::{EventKind, HistoryQuery, RecordEvent, Teller};
pub use recover::{EngineParts, Replay};
pub use store::{Flusher, Shape, ShapeList, ShapeView, TakenEntry};

pub use detectors::{DetectorState, Detectors, GroupDetector, seen_offset};
pub use group_summary::GroupSummary;
pub use render::dead_letter_headers;
pub use topic_ids::TopicIds;
