//! What the handle sends to the driver.

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::engine::delayed::{DelayBatch, DelayedTotals};
use crate::engine::ending::Ending;
use crate::engine::error::EngineError;
use crate::engine::nacks::Said;
use crate::engine::ordered::Followers;
use crate::engine::settle::SettleRequest;
use crate::engine::view::{EntryView, GroupView};
use crate::model::{EntryId, GroupId, LaneOffset, MemberId, Origin, TopicName};
use crate::retry::{
    Company, ExportOutcome, ExportStep, Import, ImportOutcome, Input, Nack, NackOutcome, Ordered,
    Reporter, Single, SlotView,
};

/// A reply and the sequence that must be durable before it is believed.
pub(super) type Reply<T> = oneshot::Sender<Result<(T, u64), EngineError>>;

/// One record of a nack batch.
#[derive(Clone, Debug)]
pub struct NackRequest {
    /// What the machine judges.
    pub nack: Nack,
    /// The record's stored form (`wire::batch::RawRecord`), should an entry begin with it; empty
    /// when the nack is by reference to an entry.
    pub record: Bytes,
}

/// The stamp of an idempotent producer's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Producer id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// Sequence number of the batch's first record.
    pub first: i32,
    /// Sequence number of its last record.
    pub last: i32,
}

/// A batch produced to a retry topic, or what one partition's commit names: all of it is taken, or
/// nothing.
#[derive(Clone, Debug)]
pub struct NackBatch {
    /// Whose retry topic, or commit.
    pub group: GroupId,
    /// Who produced, or commits.
    pub by: Reporter,
    /// Absent for a producer without idempotence, and for a commit.
    pub producer: Option<Producer>,
    /// One per record, in order.
    pub nacks: Vec<NackRequest>,
}

/// One entry of another sidecar.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// Its number there.
    pub id: u64,
    /// What is known of it.
    pub import: Import,
    /// Its record's stored form (`wire::batch::RawRecord`).
    pub record: Bytes,
}

/// Entries of one group, brought from another sidecar.
#[derive(Clone, Debug)]
pub struct ImportBatch {
    /// Whose.
    pub group: GroupId,
    /// The cluster id of the other sidecar: with the number an entry's identity.
    pub source: String,
    /// In any order.
    pub entries: Vec<ImportRequest>,
}

/// What became of a nack batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NackReply {
    /// Taken now; what became of each. `None`: its partition waits for it.
    Taken(Vec<Option<NackOutcome>>),
    /// Taken before: the producer repeated it.
    Repeated,
}

/// A member's slot.
pub type LaneSlot = SlotView;

/// One hand-out, before its bytes are read.
#[derive(Clone, Debug)]
pub struct TakenEntry {
    /// Its lane offset.
    pub lane: LaneOffset,
    /// The entry as handed out.
    pub entry: crate::retry::Entry,
    /// Where its bytes are; `None` only if the journal lost them.
    pub payload: Option<crate::journal::EntryRef>,
}

/// The driver's half of a `take`.
#[derive(Debug)]
pub(super) struct TakenRaw {
    pub entries: Vec<TakenEntry>,
    pub position: LaneOffset,
    pub next: LaneOffset,
    pub member: Option<MemberId>,
    pub is_due: bool,
    pub single: Option<Single>,
}

/// One question or piece of news.
pub(super) enum Command {
    Nacks(Box<Said>, Reply<NackReply>),
    /// A transaction is to be committed, with what it says has failed.
    Ends(Box<Ending>, Reply<Vec<NackReply>>),
    Take {
        group: GroupId,
        from: LaneOffset,
        max: usize,
        company: Company,
        reply: Reply<TakenRaw>,
    },
    LaneCommit {
        group: GroupId,
        up_to: LaneOffset,
        reply: Reply<usize>,
    },
    OriginCommits {
        group: GroupId,
        offsets: Vec<(TopicName, i32, i64)>,
        reply: Reply<()>,
    },
    /// What is just told to the machine; nobody waits.
    News(Box<Input>),
    TopicGone {
        topic: TopicName,
        reply: Reply<()>,
    },
    Join {
        group: GroupId,
        member: MemberId,
        reply: Reply<LaneSlot>,
    },
    Leave {
        group: GroupId,
        member: MemberId,
    },
    Silent {
        group: GroupId,
        member: MemberId,
    },
    /// Its bytes cannot be read back.
    Damaged {
        id: EntryId,
        why: String,
        reply: Reply<()>,
    },
    /// Dead letters that the cluster has taken may go.
    Discard {
        topic: TopicName,
        up_to: i64,
        reply: Reply<u64>,
    },
    Export {
        step: ExportStep,
        ids: Vec<EntryId>,
        reply: Reply<Vec<ExportOutcome>>,
    },
    Import(ImportBatch, Reply<Vec<ImportOutcome>>),
    /// A group's watch has records for the journal; nobody waits.
    KeepWatch(GroupId),
    /// A record at its end leaves its partition.
    Settle(Box<SettleRequest>, Reply<Option<NackOutcome>>),
    /// Records that may have to wait behind others of their key.
    Follow(Followers, Reply<Vec<Ordered>>),
    Delayed(DelayedCommand),
    Query(Query),
    Policies(Box<crate::retry::Policies>),
    /// Housekeeping: forget silent producers, release what is gone, make a checkpoint.
    Keep(Reply<()>),
    /// Something has changed that the driver looks at between commands.
    Look,
    Stop,
}

/// A question that changes nothing.
pub(super) enum Query {
    HandedOut {
        group: GroupId,
        up_to: LaneOffset,
        reply: Reply<()>,
    },
    SlotOf {
        group: GroupId,
        member: MemberId,
        reply: Reply<Option<LaneSlot>>,
    },
    Page {
        group: GroupId,
        after: Option<EntryId>,
        limit: usize,
        reply: Reply<Vec<EntryView>>,
    },
    Waiting {
        group: GroupId,
        from: usize,
        limit: usize,
        reply: Reply<Snapshot>,
    },
    /// Entries that wait or are set aside, by id, with the place of their bytes, among the next
    /// few; and the id to go on after.
    Portable {
        group: GroupId,
        after: Option<EntryId>,
        limit: usize,
        reply: Reply<(Vec<TakenEntry>, Option<EntryId>)>,
    },
    Groups {
        reply: Reply<Vec<GroupView>>,
    },
}

/// A command about records that a producer delays.
pub(super) enum DelayedCommand {
    /// A batch with delayed records.
    Delay(DelayBatch, Reply<()>),
    /// The records are not to enter their topics; the reply tells which of them waited.
    Cancel(Vec<Origin>, Reply<Vec<bool>>),
    Totals(Reply<DelayedTotals>),
}

/// What waits in a group, for readers that are no members.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// How many wait in all.
    pub total: usize,
    /// A page of them, oldest due first.
    pub entries: Vec<TakenEntry>,
}
