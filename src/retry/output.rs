//! Outputs of the ledger, for the engine.

use crate::model::{EntryId, GroupId, LaneOffset, Slot, WallMs};
use crate::retry::{Entry, Fact, Single, StateKind, Token};

/// One thing to do, in order: the facts an answer rests on come before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Journal this; the ledger has applied it already.
    Fact(Fact),
    /// Send this once every fact before it is durable. Also an answer without facts of its own
    /// waits for the facts before it: it may rest on them.
    Answer {
        /// Of the question.
        token: Token,
        /// The answer.
        answer: Answer,
    },
    /// Something of this group is due: let its waiting Fetches try again.
    Wake {
        /// Which group.
        group: GroupId,
    },
}

/// The answer to an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Every nack was taken; one outcome each, in order.
    Nacked(Vec<NackOutcome>),
    /// None was taken; the index of each bad one and why.
    BadNacks(Vec<(usize, BadNack)>),
    /// Entries for a Fetch.
    Taken {
        /// By lane offset, ascending, each once; those handed out before and open come first.
        entries: Vec<(LaneOffset, Entry)>,
        /// The first unacknowledged offset of the slot.
        position: LaneOffset,
        /// The offset after the last hand-out: log end and high watermark.
        next: LaneOffset,
        /// The first due time among what still waits in the group; may have come already.
        next_due: Option<WallMs>,
        /// An entry that goes alone is due, or out at this slot.
        single: Option<Single>,
    },
    /// The commit was applied.
    Committed {
        /// Entries it acknowledged.
        acknowledged: Vec<EntryId>,
        /// The first unacknowledged offset of the slot.
        position: LaneOffset,
    },
    /// The commit lies beyond the last hand-out of its slot, or no such slot was ever given.
    CommitRefused,
    /// The member's slot.
    Slot(SlotView),
    /// All 65 536 slots of the group are held.
    NoSlot,
    /// Which of the named records were waiting, and do not any more.
    Cancelled(Vec<bool>),
    /// What a step of an export came to; one outcome each, in order.
    Exported(Vec<ExportOutcome>),
    /// What an import came to; one outcome each, in order.
    Imported(Vec<ImportOutcome>),
    /// Which records wait behind others of their key; one each, in order.
    Ordered(Vec<Ordered>),
    /// The outcome of an operator's action; one each, in order.
    Operated(Vec<ActionOutcome>),
}

/// The outcome of an operator's action on one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// The entry changed.
    Done,
    /// The entry is in that state already.
    Already,
    /// The action does not apply to an entry in this state.
    Refused(StateKind),
    /// The group has no such entry.
    Unknown,
}

/// What becomes of a record that would be handed out in a group that keeps keys in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// No earlier one of its key is in the way.
    Free,
    /// It has an entry already.
    Known,
    /// It has one now, behind another.
    Behind,
}

/// What a step of an export did to one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportOutcome {
    /// The step was taken now.
    Done,
    /// It was so before.
    Already,
    /// It does not stand where the step begins: it is as it was.
    Left,
}

/// What became of one entry that was brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The entry waits here now, or is a dead letter here.
    Imported {
        /// Its number here.
        id: EntryId,
    },
    /// It is here, or was before: nothing changed.
    Known,
    /// It cannot be taken: nothing changed.
    Refused(BadImport),
}

/// Why an entry cannot be brought here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadImport {
    /// Nobody would ever get it.
    #[error("the group has no retry topic here (lane: off)")]
    NoLane,
    /// Beyond every horizon.
    #[error("its delay is longer than 366 days")]
    DelayTooLong,
    /// The end of a record there is nothing here.
    #[error("the group keeps no dead letters here (dead_letters.keep: false)")]
    KeepsNone,
    /// The dead letters would exceed their bound.
    #[error("the group's dead letters have no room here; raise dead_letters.max_bytes and reload")]
    NoRoom,
}

/// A slot as a member sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotView {
    /// Which.
    pub slot: Slot,
    /// The first unacknowledged offset.
    pub position: LaneOffset,
    /// The offset after the last hand-out.
    pub next: LaneOffset,
}

/// What became of one nack that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NackOutcome {
    /// Its record comes back at `due`.
    Scheduled {
        /// Which entry.
        id: EntryId,
        /// When.
        due: WallMs,
    },
    /// Its record is in the dead letters.
    Dead {
        /// Which entry.
        id: EntryId,
    },
    /// Its record was dropped: the group keeps no dead letters.
    Discarded {
        /// Which entry.
        id: EntryId,
    },
    /// Its record is exhausted and kept; it is a dead letter once there is room for it.
    Held {
        /// Which entry.
        id: EntryId,
    },
    /// That failure was known or its hand-out is not the current one: nothing changed.
    Nothing {
        /// Which entry.
        id: EntryId,
    },
}

/// Why a nack is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNack {
    /// The origin text is none.
    #[error("x-retry-origin must have the form <topic>-<partition>@<offset>, such as orders-3@812")]
    Unreadable,
    /// A hand-out of another group.
    #[error("the record was handed out to another group; only that group can fail it")]
    OtherGroup,
    /// The hand-out is not known, or too old to be charged.
    #[error("this hand-out is no longer remembered; it was settled or replaced long ago")]
    NotRemembered,
    /// Nothing to keep.
    #[error("the record's bytes are gone at its origin; send them with the nack")]
    BytesGone,
    /// By reference to nothing.
    #[error("a nack by reference needs x-retry-origin")]
    ReferenceWithoutOrigin,
    /// A delay beyond every horizon.
    #[error("the delay is longer than 366 days")]
    DelayTooLong,
}
