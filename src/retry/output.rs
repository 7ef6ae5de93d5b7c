//! Outputs of the ledger, for the engine.

use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::{Fact, StateKind};

/// One output, in order: the facts an answer depends on come before the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerOutput {
    /// Journal this fact; the ledger has already applied it.
    Fact(Fact),
    /// Send this answer once every fact before it is durable. An answer without facts of its own
    /// also waits: its content may depend on them.
    Answer(LedgerAnswer),
    /// A retry of the group is due.
    Wake {
        /// The group of the due retry.
        group: GroupId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerAnswer {
    /// Every nack was applied; one outcome each, in order.
    Nacked(Vec<NackOutcome>),
    /// No nack was applied; the index and error of each bad one.
    BadNacks(Vec<(usize, BadNack)>),
    /// The number of retries that a commit of the retry topic acknowledged.
    Acknowledged(usize),
    /// One for each named record, in order: whether it was waiting.
    Cancelled(Vec<bool>),
    /// One outcome each, in order.
    Imported(Vec<ImportOutcome>),
    /// One outcome each, in order.
    Operated(Vec<ActionOutcome>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    Done,
    /// The entry was in the requested state before.
    Already,
    /// The action does not apply to an entry in this state.
    Refused(StateKind),
    /// The group has no such entry.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The entry is a dead letter here.
    Imported {
        /// The id of the entry in this sidecar.
        id: EntryId,
    },
    /// The group knows the origin already; nothing changed.
    Known,
    Refused(BadImport),
}

/// Reasons to refuse an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadImport {
    #[error("the group keeps no dead letters here (dead_letters.keep: false)")]
    KeepsNone,
    /// The dead-letter quota of the group is used up.
    #[error("the group's dead letters have no room here; raise dead_letters.max_bytes and reload")]
    NoRoom,
}

/// Outcome of one applied nack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NackOutcome {
    /// The record is delivered again at `due`.
    Scheduled {
        /// The entry that waits.
        id: EntryId,
        due: WallMs,
    },
    /// The record is a dead letter.
    Dead {
        /// The entry of the dead letter.
        id: EntryId,
    },
    /// The record was dropped: the group keeps no dead letters.
    Discarded {
        /// The entry, remembered as discarded.
        id: EntryId,
    },
    /// The record is exhausted and withheld until the dead-letter quota has room.
    Blocked {
        /// The withheld entry.
        id: EntryId,
    },
    /// Nothing changed: the failure was charged before, or the delivery is not the current one.
    Nothing {
        /// The entry that the nack names.
        id: EntryId,
    },
}

/// Reasons to refuse a nack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNack {
    /// The text of `x-retry-origin` does not parse.
    #[error("x-retry-origin must have the form <topic>-<partition>@<offset>, such as orders-3@812")]
    Unreadable,
    /// The named delivery went to another group.
    #[error("the record was handed out to another group; only that group can fail it")]
    OtherGroup,
    #[error("its retry topic has no hand-out at that offset")]
    NoDelivery,
    /// The delivery is unknown.
    #[error("this hand-out is no longer remembered; it was settled or replaced long ago")]
    NotRemembered,
    /// The record's bytes are in neither the nack nor the origin's partition.
    #[error("the record's bytes are gone or may not be read; send them with the nack")]
    BytesGone,
    /// A nack without bytes needs an origin.
    #[error("a nack by reference needs x-retry-origin")]
    ReferenceWithoutOrigin,
    #[error("the delay is longer than 366 days")]
    DelayTooLong,
}
