//! Journalled facts. Each fact is the latest state of one entry or slot; replay applies the facts
//! in order.

use serde::{Deserialize, Serialize};

use crate::model::{EntryId, GroupId, MemberId, RetryPartition, WallMs};
use crate::retry::{Entry, Reporter};

/// One decision of the ledger. The order of variants is stored: append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// The new state of an entry, whole.
    Entry {
        /// Replaces the entry with its id.
        entry: Box<Entry>,
        cause: Cause,
        payload: PayloadChange,
    },
    /// The entry is forgotten and its bytes may be deleted.
    Forgotten {
        /// Never used for another entry.
        id: EntryId,
        cause: Cause,
    },
    /// The new state of a slot. A delivery raises `next_sequence` without a fact of its own.
    Slot {
        group: GroupId,
        slot: RetryPartition,
        /// The assigned member; `None`: the slot is free.
        member: Option<MemberId>,
        /// Sequence of the next delivery.
        next_sequence: u64,
        at: WallMs,
    },
    /// Stored due times were checked against these delay tables.
    Tables {
        /// Hash of the tables, by `Policies::tables_mark`.
        mark: u64,
        at: WallMs,
    },
}

/// Reason of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    pub evidence: Evidence,
    pub at: WallMs,
    /// The reporting client; `None` for timers, for the ledger's own decisions and for operators.
    /// An operator's text is in the entry.
    pub by: Option<Reporter>,
}

/// Kind of observation. The order is stored: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// `produced-nack`: a record produced to the retry topic.
    Nack,
    /// `lost-delivery`: the member left with the delivery outstanding.
    MemberLost,
    /// `timeout`: outstanding for the consume timeout while the member lives.
    Timeout,
    /// `commit`: a commit of the retry partition passed the delivery.
    LaneCommit,
    /// A commit passed the origin.
    OriginCommit,
    /// A commit went back below the origin.
    Reset,
    /// A delivery to a member.
    HandOut,
    /// The time for which a final entry is remembered is over.
    MemoryEnded,
    /// The dead letter was deleted.
    DeadLetterGone,
    /// The wall clock or the delay table changed under a stored due time.
    Rescheduled,
    /// The dead-letter quota has room for a held record, or the group stopped keeping dead letters.
    HeldEnded,
    /// An operator set the entry aside for another sidecar.
    Exported,
    /// An operator confirmed that the other sidecar has the entry.
    ExportEnded,
    /// An operator undid the export.
    ExportUndone,
    /// An operator imported the entry from another sidecar.
    Imported,
    /// The transaction with the acknowledging commit was aborted.
    Aborted,
    /// `lost-delivery`: the member fetched the record again.
    SeekBack,
    /// `commit-nack`: the metadata of a commit names the record.
    CommitMarker,
    /// A record was produced with a delay before it enters its topic.
    Delayed,
    /// A delayed record entered its topic.
    Delivered,
    /// An operator cancelled a delayed record.
    Cancelled,
    /// `admin-nack`: a nack on the admin port.
    AdminNack,
    /// An earlier record of the key is not final.
    Behind,
    /// The earlier record of the key became final.
    Released,
    /// Another record was delivered to the member of an isolated retry.
    Joined,
    /// The record's own transaction is open and may still abort.
    Undecided,
    /// The journal cannot read the record's bytes.
    Damaged,
    /// A redrive, by an operator or by a nack that names the origin.
    Redrive,
    /// An operator discarded a dead letter.
    Discard,
    /// An operator restored a discarded dead letter.
    Restore,
    /// The time in which a discarded dead letter can be restored is over.
    RestoreEnded,
    /// An operator made a retry due at once.
    RetryNow,
    /// An operator set the due time of a retry.
    DelayUntil,
    /// An operator turned a retry into a dead letter.
    DeadLetterNow,
    /// A dead letter was deleted for good: by `DeleteRecords`, or by its retention.
    LetterDeleted,
    /// A dead letter was redriven with a changed record; the dead letter stays until that record is
    /// acknowledged.
    Edit,
    /// An operator sent the record to a topic.
    Send,
}

impl Evidence {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nack => "nack",
            Self::MemberLost => "member_lost",
            Self::Timeout => "timeout",
            Self::LaneCommit => "lane_commit",
            Self::OriginCommit => "origin_commit",
            Self::Reset => "reset",
            Self::HandOut => "hand_out",
            Self::MemoryEnded => "memory_ended",
            Self::DeadLetterGone => "dead_letter_gone",
            Self::Rescheduled => "rescheduled",
            Self::HeldEnded => "held_ended",
            Self::Exported => "exported",
            Self::ExportEnded => "export_ended",
            Self::ExportUndone => "export_undone",
            Self::Imported => "imported",
            Self::Aborted => "aborted",
            Self::SeekBack => "seek_back",
            Self::CommitMarker => "commit_marker",
            Self::Delayed => "delayed",
            Self::Delivered => "delivered",
            Self::Cancelled => "cancelled",
            Self::AdminNack => "admin_nack",
            Self::Behind => "behind",
            Self::Released => "released",
            Self::Joined => "joined",
            Self::Undecided => "undecided",
            Self::Damaged => "damaged",
            Self::Redrive => "redrive",
            Self::Discard => "discard",
            Self::Restore => "restore",
            Self::RestoreEnded => "restore_ended",
            Self::RetryNow => "retry_now",
            Self::DelayUntil => "delay_until",
            Self::DeadLetterNow => "dead_letter_now",
            Self::LetterDeleted => "letter_deleted",
            Self::Edit => "edit",
            Self::Send => "send",
        }
    }
}

/// Change of an entry's bytes. The ledger itself never sees the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PayloadChange {
    /// New bytes, from the nack with this index in its batch.
    Begins(u32),
    /// The bytes stay unchanged.
    Keeps,
}

impl Fact {
    pub fn at(&self) -> WallMs {
        match self {
            Self::Entry { cause, .. } | Self::Forgotten { cause, .. } => cause.at,
            Self::Slot { at, .. } | Self::Tables { at, .. } => *at,
        }
    }
}
