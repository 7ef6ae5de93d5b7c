//! Journalled facts. Each fact is the latest state of one entry; replay applies the facts
//! in order.

use serde::{Deserialize, Serialize};

use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::{Entry, Reporter, RetryState};

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
        group: GroupId,
        cause: Cause,
        /// The entry's last state and redrives: its dead letters may be in their topic for longer.
        last: RetryState,
        redrives: u32,
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

/// Declares [`Evidence`]: the word of each kind in answers and lists, and its sentence in the
/// history of a record.
macro_rules! evidence {
    ($($kind:ident $word:literal $sentence:literal;)+) => {
        /// Kind of observation. The order is stored: append only.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Evidence {
            $($kind),+
        }

        impl Evidence {
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word),+
                }
            }

            pub fn sentence(self) -> &'static str {
                match self {
                    $(Self::$kind => $sentence),+
                }
            }
        }
    };
}

evidence! {
    Nack "nack" "the application says that it failed";
    MemberLost "member_lost" "its member was lost with it";
    RetryCommit "retry_commit" "a commit passed the hand-out";
    OriginCommit "origin_commit" "a commit passed the record as produced";
    Reset "reset" "a commit went back below it";
    HandOut "hand_out" "released into its retry topic";
    MemoryEnded "memory_ended" "the time to remember it is over";
    DeadLetterGone "dead_letter_gone" "the dead letter was deleted";
    Rescheduled "rescheduled" "the clock or the delay table was changed";
    Unblocked "unblocked" "there is room for it among the dead letters again";
    Imported "imported" "brought from another sidecar";
    SeekBack "seek_back" "its member asked for it again";
    CommitMarker "commit_marker" "a commit's metadata says that it failed";
    Delayed "delayed" "produced, to enter its topic later";
    Delivered "delivered" "it has entered its topic";
    Cancelled "cancelled" "an operator ended its waiting";
    AdminNack "admin_nack" "the admin port was told that it failed";
    Damaged "damaged" "its bytes cannot be read back from the log";
    Redrive "redrive" "sent back from the dead letters";
    Discard "discard" "an operator discarded the dead letter";
    Restore "restore" "an operator restored the dead letter";
    RestoreEnded "restore_ended" "the discarded dead letter can be restored no more";
    RetryNow "retry_now" "an operator wants it delivered now";
    DelayUntil "delay_until" "an operator set its time";
    DeadLetterNow "dead_letter_now" "an operator ended its retries";
    LetterDeleted "letter_deleted"
        "the dead letter was deleted: by DeleteRecords, or its retention was over";
    Edit "edit" "changed and sent back from the dead letters";
    Send "send" "an operator sent the record to a topic";
    ConsumeTimeout "consume_timeout" "its member did not commit it for consume_timeout";
    LetterWritten "letter_written" "it is a record of its dead-letter topic";
    LetterFound "letter_found" "found in the dead-letter topic";
}

impl Evidence {
    /// Whether the application reported the failure, perhaps with a reason.
    pub fn is_nack(self) -> bool {
        matches!(self, Self::Nack | Self::CommitMarker | Self::AdminNack)
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
            Self::Tables { at, .. } => *at,
        }
    }
}
