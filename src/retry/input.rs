//! Inputs of the ledger, from the engine.

use serde::{Deserialize, Serialize};

use crate::model::{EntryId, GroupId, Origin, RetryPlace, TopicName, WallMs};
use crate::retry::detector::ExhaustedRecord;
use crate::retry::{Disposition, Nack, Policies, Reporter};

/// An operator's action on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A dead letter is delivered to its group again, with `reconsume_times` 0.
    Redrive,
    /// A dead letter is delivered again with changed bytes, and stays until the record is
    /// acknowledged.
    Edit,
    /// The record was sent to a topic; its dead letter is discarded.
    Send,
    /// A dead letter is discarded; `Restore` is possible for `RESTORE_MS`.
    Discard,
    /// A dead letter is discarded for good.
    Delete,
    /// A discarded dead letter is a dead letter again.
    Restore,
    /// A retry is due now.
    RetryNow,
    /// A retry is due at this time.
    DelayUntil(WallMs),
    /// A retry becomes a dead letter now.
    DeadLetterNow,
}

impl Action {
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

/// One observation, or a change around the ledger.
#[derive(Clone, Debug)]
pub enum LedgerInput {
    /// `produced-nack`: records produced to the group's retry topic. One bad nack refuses the
    /// batch. Answered by `LedgerAnswer::Nacked` or `LedgerAnswer::BadNacks`.
    Nacks {
        group: GroupId,
        by: Reporter,
        /// In the order of the batch.
        nacks: Vec<Nack>,
    },
    /// `commit-nack`: failed records named by the metadata of one partition's commit. One bad nack
    /// refuses all. Answered by `LedgerAnswer::Nacked` or `LedgerAnswer::BadNacks`.
    Marked {
        group: GroupId,
        by: Reporter,
        /// In the order of the metadata.
        nacks: Vec<Nack>,
    },
    /// `admin-nack`: nacks from the admin port. One bad nack refuses all. Answered by
    /// `LedgerAnswer::Nacked` or `LedgerAnswer::BadNacks`.
    Posted {
        group: GroupId,
        by: Reporter,
        /// In the order of the request.
        nacks: Vec<Nack>,
    },
    /// A due retry enters the retry topic. Not answered.
    Release {
        id: EntryId,
        /// The place in the retry topic.
        place: RetryPlace,
    },
    /// `commit`: the group committed an offset of its retry topic. Answered by
    /// `LedgerAnswer::Acknowledged`.
    RetryCommit {
        group: GroupId,
        /// The first unacknowledged place.
        up_to: RetryPlace,
    },
    /// A retry topic of a group has these streams; without any it is deleted. Not answered.
    RetryTopicServed {
        group: GroupId,
        /// The topic whose retries it has; `None`: it is that of the whole group.
        source: Option<TopicName>,
        streams: Vec<u32>,
    },
    /// The group's committed offset of a real partition. The engine passes every commit and reset,
    /// and after a restart each known offset once. Not answered.
    OriginCommit {
        group: GroupId,
        topic: TopicName,
        partition: i32,
        /// The first unacknowledged offset.
        offset: i64,
    },
    /// The journal cannot read an entry's bytes: the entry cannot be delivered. Not answered.
    Damaged {
        id: EntryId,
        /// Cause, as text for people.
        why: String,
    },
    /// A topic was deleted, or created again by the same name: its origins are void. Not answered.
    TopicGone {
        /// Name of the deleted topic; a new topic may have it.
        topic: TopicName,
    },
    /// An operator acts on entries; each has an outcome of its own. Answered by
    /// `LedgerAnswer::Operated`.
    Operate {
        /// The group of all entries.
        group: GroupId,
        /// A redrive brings the record of each entry, in the order of `ids`.
        action: Action,
        ids: Vec<EntryId>,
    },
    /// A dead letter was deleted: the ledger may forget its origin. Not answered.
    DeadLetterGone {
        /// The entry of the deleted dead letter.
        id: EntryId,
    },
    /// Present size of a group's dead letters. Pass it before the nacks of a group with a quota,
    /// and before a timeout for the groups of `looks_due`. Not answered.
    DeadLetterBytes {
        group: GroupId,
        /// Bytes, counted like the quota.
        bytes: u64,
    },
    /// An operator imports dead letters of another sidecar. Answered by `LedgerAnswer::Imported`.
    Import {
        group: GroupId,
        /// In the order of their bytes.
        imports: Vec<Import>,
    },
    /// Records of the group's dead-letter topic. Not answered.
    Letters {
        group: GroupId,
        /// In the order of the topic.
        letters: Vec<FoundLetter>,
    },
    /// A record with inferred failures leaves its partition. Answered by `LedgerAnswer::Nacked`
    /// with one outcome.
    Settle {
        group: GroupId,
        /// The record and its failures so far.
        settling: Box<ExhaustedRecord>,
        /// The delivery, if the record is one of the group's retry topic.
        place: Option<RetryPlace>,
        /// Size of the record.
        record_bytes: u64,
    },
    /// Produced records of one partition begin a delay before they enter it. Not answered.
    Delay {
        topic: TopicName,
        partition: i32,
        /// End of each delay, in the order of the batch.
        records: Vec<DelayEnd>,
    },
    /// A delayed record entered its topic, or the topic is deleted. Not answered.
    Delivered {
        id: EntryId,
        /// The record is in its topic; `false`: the topic is deleted.
        arrived: bool,
    },
    /// An operator cancels delayed records. Answered by `LedgerAnswer::Cancelled`.
    Cancel {
        /// Topic, partition, and the entry's id in place of an offset.
        records: Vec<Origin>,
    },
    /// The configuration was reloaded. Not answered.
    Policies(Box<Policies>),
}

/// End of a produced record's delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayEnd {
    /// In milliseconds from now.
    After(u64),
    At(WallMs),
}

/// A record of a dead-letter topic, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLetter {
    /// The entry whose dead letter was written there; `None`: not known.
    pub id: Option<EntryId>,
    /// The dead letter by its headers.
    pub letter: Import,
}

/// A dead letter of another sidecar, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Topic, partition and offset as produced.
    pub origin: Option<Origin>,
    /// The group's committed offset is past the origin.
    pub passed: bool,
    /// Time at which it became a dead letter.
    pub died: WallMs,
    /// Redrives of the dead letter so far.
    pub redrives: u32,
    pub reconsume_times: u32,
    /// The limit in force at the last failure.
    pub max_reconsume_times: u32,
    pub handouts: u32,
    pub first_failed: Option<WallMs>,
    pub last_failed: Option<WallMs>,
    /// Reason of the present state.
    pub disposition: Option<Disposition>,
    pub reason: Option<String>,
    /// The latest failures, latest last.
    pub history: Vec<(WallMs, Disposition)>,
    /// Size of the record; set by the engine.
    pub record_bytes: u64,
}
