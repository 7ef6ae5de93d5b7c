//! Inputs of the ledger, told by the engine.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::model::{
    ClientId, EntryId, GroupId, LaneOffset, MemberId, OrderKey, Origin, TopicName, TopicPartition,
    WallMs,
};
use crate::retry::detector::Settling;
use crate::retry::{Company, Disposition, Policies};

/// Ties an answer to its question; the engine chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// Who brought a piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reporter {
    /// The member, where the connection is known to be one's.
    pub member: Option<MemberId>,
    /// What the client calls itself.
    pub client: ClientId,
}

/// An operator's action on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A dead letter is delivered to its group again, from the first attempt on.
    Redrive,
    /// A dead letter is delivered again, changed, and stays until the record is acknowledged.
    Edit,
    /// The record has been sent to a topic; its dead letter is discarded.
    Send,
    /// A dead letter is discarded. It can be restored for a while.
    Discard,
    /// A dead letter is discarded for good.
    Delete,
    /// A discarded dead letter is one again.
    Restore,
    /// A retry is due now.
    RetryNow,
    /// A retry is due then.
    DelayUntil(WallMs),
    /// A retry becomes a dead letter now.
    DeadLetterNow,
}

impl Action {
    /// The word in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Edit => "edit",
            Self::Send => "send",
            Self::Discard => "discard",
            Self::Delete => "delete",
            Self::Restore => "restore",
            Self::RetryNow => "retry_now",
            Self::DelayUntil(_) => "delay_until",
            Self::DeadLetterNow => "dead_letter_now",
        }
    }
}

/// One piece of evidence, or a change around the ledger.
#[derive(Clone, Debug)]
pub enum Input {
    /// E2: records produced to the group's retry topic. One bad one: none is taken.
    /// Answered by `Answer::Nacked` or `Answer::BadNacks`.
    Nacks {
        /// For the answer.
        token: Token,
        /// Whose retry topic.
        group: GroupId,
        /// Who produced.
        by: Reporter,
        /// In the order of the batch.
        nacks: Vec<Nack>,
    },
    /// E1: what the metadata of one partition's commit names. One bad one: none is taken.
    /// Answered by `Answer::Nacked` or `Answer::BadNacks`.
    Marked {
        /// For the answer.
        token: Token,
        /// Whose commit.
        group: GroupId,
        /// Who commits.
        by: Reporter,
        /// In the order of the marker.
        nacks: Vec<Nack>,
    },
    /// E3: what the admin port was told. One bad one: none is taken.
    /// Answered by `Answer::Nacked` or `Answer::BadNacks`.
    Posted {
        /// For the answer.
        token: Token,
        /// Whose.
        group: GroupId,
        /// Who says so.
        by: Reporter,
        /// In the order they were told.
        nacks: Vec<Nack>,
    },
    /// A Fetch at a lane offset, answered by `Answer::Taken`.
    Take {
        /// For the answer.
        token: Token,
        /// Whose lane.
        group: GroupId,
        /// The fetch offset; it names the slot.
        from: LaneOffset,
        /// At most so many entries; the ledger's own limit is `TAKE_MAX`.
        max: usize,
        /// What else is out there: an entry that was lost again and again has none.
        company: Company,
    },
    /// Something else was given to the member at which this hand-out was alone. Not answered.
    Joined {
        /// Whose lane.
        group: GroupId,
        /// The hand-out.
        lane: LaneOffset,
    },
    /// E11: an `OffsetCommit` of the lane partition; acknowledges that slot's inflight entries
    /// below `up_to`. Answered by `Answer::Committed` or `Answer::CommitRefused`.
    LaneCommit {
        /// For the answer.
        token: Token,
        /// Whose lane.
        group: GroupId,
        /// The committed offset: the first one not acknowledged.
        up_to: LaneOffset,
    },
    /// The transaction that was to acknowledge a slot's inflight entries below `up_to` was aborted:
    /// they are free to be handed out again. Not answered.
    Aborted {
        /// Whose lane.
        group: GroupId,
        /// The offset it would have committed.
        up_to: LaneOffset,
    },
    /// The group's committed offset of a real partition is now this. Tell it for every commit and
    /// reset, and once for each known offset after a restart. Not answered.
    OriginCommit {
        /// Whose.
        group: GroupId,
        /// The partition's topic.
        topic: TopicName,
        /// The partition.
        partition: i32,
        /// The first offset not acknowledged.
        offset: i64,
    },
    /// A record was taken back by its transaction: it is nobody's. Not answered.
    TakenBack {
        /// Whose queue it is in.
        group: GroupId,
        /// Which.
        origin: Origin,
    },
    /// The log cannot give an entry's bytes back: nobody will ever be given them. Not answered.
    Damaged {
        /// Which.
        id: EntryId,
        /// What is wrong with them, for people.
        why: String,
    },
    /// A record was taken for a member, and stays: its transaction is open. Not answered.
    Undecided {
        /// Whose queue it is in.
        group: GroupId,
        /// Which.
        origin: Origin,
    },
    /// The group was reset below these originals, and has been handed them again. Not answered.
    Replayed {
        /// Whose.
        group: GroupId,
        /// The partition's topic.
        topic: TopicName,
        /// The partition.
        partition: i32,
        /// Which.
        offsets: Range<i64>,
    },
    /// A topic is no more, or another one by the same name: no origin in it is what it was. Not
    /// answered.
    TopicGone {
        /// Its name.
        topic: TopicName,
    },
    /// A member joined or is assigned the lane: answered by `Answer::Slot`, the same slot for the
    /// same member while it has not left.
    Join {
        /// For the answer.
        token: Token,
        /// Which group.
        group: GroupId,
        /// Who.
        member: MemberId,
    },
    /// E7: a member left, expired or lost its connection for good. Not answered.
    Leave {
        /// Which group.
        group: GroupId,
        /// Who.
        member: MemberId,
    },
    /// A member is not heard of, and nobody has said that it is gone: what it has open returns to
    /// the queue, its slot stays its own. Not answered.
    Silent {
        /// Which group.
        group: GroupId,
        /// Who.
        member: MemberId,
    },
    /// An operator acts on entries. Each is judged for itself. Answered by `Answer::Operated`.
    Operate {
        /// For the answer.
        token: Token,
        /// The group of all entries.
        group: GroupId,
        /// The action. A redrive brings the record of each entry, in the order of `ids`.
        action: Action,
        /// Entries of the group.
        ids: Vec<EntryId>,
    },
    /// A kept dead letter was deleted: its origin may be forgotten. Not answered.
    DeadLetterGone {
        /// Which.
        id: EntryId,
    },
    /// What the kept dead letters of a group take now. Tell it before the nacks of a group with a
    /// bound, and before a timeout for the groups of `looks_due`. Not answered.
    DeadLetterBytes {
        /// Whose.
        group: GroupId,
        /// Bytes, as the bound counts them.
        bytes: u64,
    },
    /// An operator moves entries to another sidecar. Answered by `Answer::Exported`.
    Export {
        /// For the answer.
        token: Token,
        /// What becomes of them.
        step: ExportStep,
        /// Which.
        ids: Vec<EntryId>,
    },
    /// An operator brings entries from another sidecar. Answered by `Answer::Imported`.
    Import {
        /// For the answer.
        token: Token,
        /// Whose.
        group: GroupId,
        /// In the order of their bytes.
        imports: Vec<Import>,
    },
    /// A record that inference has charged leaves its partition. Answered by `Answer::Nacked` with
    /// one outcome.
    Settle {
        /// For the answer.
        token: Token,
        /// Whose.
        group: GroupId,
        /// What is known of it.
        settling: Box<Settling>,
        /// How many its bytes are.
        record_bytes: u64,
        /// Of its key, where keys are kept in order.
        key: Option<OrderKey>,
    },
    /// Records that would be handed out, or were: those with an earlier one of their key that is
    /// not settled wait behind it. Answered by `Answer::Ordered`.
    Behind {
        /// For the answer.
        token: Token,
        /// Whose.
        group: GroupId,
        /// Of which partition.
        partition: TopicPartition,
        /// Offset and key of each, by offset.
        records: Vec<(i64, OrderKey)>,
    },
    /// Records of one partition wait before they enter it: they begin, in this order. Not answered.
    Delay {
        /// Which topic.
        topic: TopicName,
        /// Which partition.
        partition: i32,
        /// Until when each.
        records: Vec<Until>,
    },
    /// One of those is let in. Not answered.
    Delivered {
        /// Which.
        id: EntryId,
        /// It is in its topic; otherwise that is no more.
        arrived: bool,
    },
    /// An operator ends the waiting of some, by their names. Answered by `Answer::Cancelled`.
    Cancel {
        /// For the answer.
        token: Token,
        /// Topic, partition, and their number in the place of an offset.
        records: Vec<Origin>,
    },
    /// The configuration was read anew. Not answered.
    Policies(Box<Policies>),
}

/// Until when a record waits before it enters its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// For so many milliseconds.
    After(u64),
    /// Until this moment.
    At(WallMs),
}

/// One record that says another one failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    /// What it says failed.
    pub named: Named,
    /// When it is to come back.
    pub want: Want,
    /// Its limit, where the application says one with this failure; `None`: the rules' own.
    pub max_reconsume_times: Option<u32>,
    /// The application's text.
    pub reason: Option<String>,
    /// The group's committed offset of the origin's partition, where the engine knows it.
    pub committed: Option<i64>,
    /// What inference had charged it with.
    pub carried: Carried,
    /// Where its bytes would come from, should an entry begin here.
    pub bytes: Bytes,
    /// How many they are.
    pub record_bytes: u64,
    /// Of the record's key, where keys are kept in order; the engine fills it in.
    pub key: Option<OrderKey>,
}

impl Nack {
    /// Of no bytes, and nothing else is said.
    pub fn of(named: Named) -> Self {
        Self {
            named,
            want: Want::default(),
            max_reconsume_times: None,
            reason: None,
            committed: None,
            carried: Carried::default(),
            bytes: Bytes::Value,
            record_bytes: 0,
            key: None,
        }
    }
}

/// Failures of a record before any entry of it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// How many.
    pub reconsume_times: u32,
    /// The last of them, latest last.
    pub history: Vec<(WallMs, Disposition)>,
    /// The group is held: whatever fails now comes back, and is not charged.
    pub spared: bool,
}

/// What a nack names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The record as produced.
    Origin(Origin),
    /// One hand-out of the group's own lane.
    Lane(LaneOffset),
    /// Nothing: a new delayed record for the group.
    Nothing,
    /// An origin was given and cannot be read: a bad nack.
    Unreadable,
    /// A hand-out of another group's lane: a bad nack.
    OtherGroup,
}

impl Named {
    /// The hand-out it names, if it does.
    pub fn lane(&self) -> Option<LaneOffset> {
        match self {
            Self::Lane(lane) => Some(*lane),
            _ => None,
        }
    }
}

/// What the application asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// `None` or 0: the ladder. Above 0: that level. Below 0: the dead letters, now.
    pub level: Option<i32>,
    /// An exact delay; goes before a level that is not below 0.
    pub delay_ms: Option<u64>,
}

/// One step of moving entries away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportStep {
    /// What waits is set aside: nobody gets it here.
    Begin,
    /// What was set aside is the other sidecar's now.
    End,
    /// What was set aside waits here again.
    Undo,
}

/// An entry of another sidecar that waits, or a dead letter of it, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Where the record was produced.
    pub origin: Option<Origin>,
    /// The group's committed offset has passed the origin.
    pub passed: bool,
    /// When it became a dead letter; `None`: it waits.
    pub died: Option<WallMs>,
    /// When it may be handed out; a dead letter has no due time, delay or level.
    pub due: WallMs,
    /// The delay that led to `due`, in milliseconds.
    pub delay_ms: u64,
    /// Level in the delay table; `None` for an exact delay or a back-off.
    pub level: Option<u32>,
    /// Times it was a dead letter and was sent back.
    pub redrives: u32,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// The limit that was in force at its last failure.
    pub max_reconsume_times: u32,
    /// Times its bytes left for a member.
    pub handouts: u32,
    /// Time of the first failure.
    pub first_failed: Option<WallMs>,
    /// Time of the last failure.
    pub last_failed: Option<WallMs>,
    /// Why it waits.
    pub disposition: Option<Disposition>,
    /// The application's text.
    pub reason: Option<String>,
    /// Its last failures, latest last.
    pub history: Vec<(WallMs, Disposition)>,
    /// Of the record's key, where keys are kept in order; the engine fills it in.
    pub key: Option<OrderKey>,
    /// Bytes of the record; the engine fills it in.
    pub record_bytes: u64,
}

/// Where the bytes of a new entry would come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// The produced record itself.
    Value,
    /// The origin, and they are still there.
    ReferenceOk,
    /// The origin, and they are gone: bad when an entry would begin with them.
    ReferenceGone,
}
