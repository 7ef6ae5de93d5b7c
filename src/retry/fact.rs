//! What is journalled. Each fact is the latest state of what it names: replay is `apply` in order.

use serde::{Deserialize, Serialize};

use crate::model::{EntryId, GroupId, MemberId, Slot, WallMs};
use crate::retry::{Entry, Reporter};

/// One decision of the ledger. The order of variants is stored: append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// This entry is now so.
    Entry {
        /// All of it.
        entry: Box<Entry>,
        /// What led to it.
        cause: Cause,
        /// What becomes of its bytes.
        payload: PayloadChange,
    },
    /// The entry is forgotten; its bytes are not needed any more.
    Forgotten {
        /// Which.
        id: EntryId,
        /// Why.
        cause: Cause,
    },
    /// The slot is now so. Hand-outs raise `next_sequence` without a fact of their own.
    Slot {
        /// Whose lane partitions.
        group: GroupId,
        /// Which slot.
        slot: Slot,
        /// Who holds it; `None`: free.
        member: Option<MemberId>,
        /// The sequence of its next hand-out.
        next_sequence: u64,
        /// When.
        at: WallMs,
    },
    /// Stored due times were checked against these delay tables at that time.
    Tables {
        /// Which tables, as `Policies::tables_mark` counts them.
        mark: u64,
        /// When.
        at: WallMs,
    },
}

/// What led to a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// What was seen.
    pub evidence: Evidence,
    /// When the ledger saw it.
    pub at: WallMs,
    /// The client that brought it; `None` for time, for the ledger's own decisions and for
    /// operators. The text of operators is in the entry.
    pub by: Option<Reporter>,
}

/// What was seen. The order is stored: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// E2: produced to the retry topic.
    Nack,
    /// E7: the member went with the hand-out open.
    MemberLost,
    /// E9: open for the consume timeout while the member lives.
    Timeout,
    /// E11: a commit passed the hand-out.
    LaneCommit,
    /// A commit passed the origin.
    OriginCommit,
    /// A commit went back below the origin.
    Reset,
    /// Given to a member.
    HandOut,
    /// The time to remember a settled entry is over.
    MemoryEnded,
    /// The dead letter was deleted.
    DeadLetterGone,
    /// The wall clock or the delay table changed under a stored due time.
    Rescheduled,
    /// The dead letters have room for a held record again, or are not kept any more.
    HeldEnded,
    /// An operator set it aside for another sidecar.
    Exported,
    /// An operator says that the other sidecar has it.
    ExportEnded,
    /// An operator gave it back: it stays here.
    ExportUndone,
    /// An operator brought it from another sidecar.
    Imported,
    /// The transaction that was to acknowledge the hand-out was aborted.
    Aborted,
    /// E5: its member asked for it again.
    SeekBack,
    /// E6: the same after a commit that went back to it.
    BackwardCommit,
    /// E8: the commit that covered it was refused for good.
    CommitRefused,
    /// E1: a commit's metadata names it.
    CommitMarker,
    /// Produced, to enter its topic later.
    Delayed,
    /// It has entered its topic.
    Delivered,
    /// An operator ended its waiting.
    Cancelled,
    /// E3: an operator, or a program of theirs, says so on the admin port.
    AdminNack,
    /// An earlier record of its key is not settled.
    Behind,
    /// The record of its key before it is settled.
    Released,
    /// Something else was given to its member.
    Joined,
    /// The transaction it is a record of may still take it back.
    Undecided,
    /// The log cannot give its bytes back.
    Damaged,
    /// A dead letter is sent back, by an operator or by a nack that names its origin.
    Redrive,
    /// An operator discards a dead letter.
    Discard,
    /// An operator restores a discarded dead letter.
    Restore,
    /// A discarded dead letter can be restored no more.
    RestoreEnded,
    /// An operator wants a retry delivered now.
    RetryNow,
    /// An operator sets the time of a retry.
    DelayUntil,
    /// An operator ends the retries of a record.
    DeadLetterNow,
    /// A dead letter is deleted for good: by `DeleteRecords`, or by its retention.
    LetterDeleted,
    /// A dead letter is sent back with a changed record; the letter stays until that is
    /// acknowledged.
    Edit,
    /// An operator has sent the record to a topic.
    Send,
}

impl Evidence {
    /// The word in logs and lists.
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
            Self::BackwardCommit => "backward_commit",
            Self::CommitRefused => "commit_refused",
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

/// The change of an entry's bytes, which the ledger never sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PayloadChange {
    /// They begin here: those of the nack with this index in its batch.
    Begins(u32),
    /// They stay what they are.
    Keeps,
}

impl Fact {
    /// When it was decided.
    pub fn at(&self) -> WallMs {
        match self {
            Self::Entry { cause, .. } | Self::Forgotten { cause, .. } => cause.at,
            Self::Slot { at, .. } | Self::Tables { at, .. } => *at,
        }
    }
}
