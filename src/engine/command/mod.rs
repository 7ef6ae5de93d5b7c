//! Commands to the driver: plain data, each with the type of its answer. Each file of this folder
//! has one command: the request, the driver's work, and the method of the handle.

mod acknowledge;
mod delete_letters;
mod discard;
mod end;
mod end_topic;
mod export;
mod followers;
mod group_commits;
mod housekeeping;
mod import;
mod job;
mod join;
mod leave;
mod list_shapes;
mod nack;
mod operate;
mod page_due;
mod read;
mod reload;
mod settle;
mod take;

use tokio::sync::oneshot;

use crate::engine::delayed::DelayBatch;
use crate::engine::delayed::taking::{Cancel, CountDelayed};
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::model::GroupId;
use crate::retry::{LedgerInput, Policies};

use self::acknowledge::{Acknowledge, CheckAcknowledge};
use self::delete_letters::DeleteLetters;
use self::discard::Discard;
use self::end_topic::EndTopic;
use self::export::Export;
use self::job::{ChangeJob, ListJobs, StartJob};
use self::join::{FindSlot, Join};
use self::leave::Leave;
use self::nack::Nacks;
use self::operate::MayOperate;
use self::read::{FindGroup, FindStates, ListGroups, PageEntries, PageWaiting, ScanEntries};
use self::take::{DeadLetterDamaged, FetchRetries};
use group_commits::GroupCommits;
use page_due::{FindEntry, PageDue};

pub use self::end::TransactionEnd;
pub use self::import::{ImportBatch, ImportRequest};
pub use self::join::LaneSlot;
pub use self::operate::{OPERATE_MAX, OperateRequest};
pub use self::read::EntryState;
pub use self::settle::SettleRequest;
pub use self::take::RetryBatch;
pub use followers::Followers;
use list_shapes::ListShapes;

/// The sending end of an answer, with the sequence that must be durable before a client sees it.
pub(super) type ReplySender<T> = oneshot::Sender<Result<(T, u64), EngineError>>;

/// The receiving end of a [`ReplySender`].
pub(super) type PendingReply<T> = oneshot::Receiver<Result<(T, u64), EngineError>>;

/// A command that has an answer.
pub(super) trait Request: Sized {
    type Answer;

    /// The command that carries the request.
    fn command(call: Call<Self>) -> Command;

    /// The driver's work.
    fn run(self, driver: &mut Driver) -> Result<Self::Answer, EngineError>;

    /// The sequence that must be durable before a client sees the answer.
    fn rests_on(_: &Self::Answer, driver: &Driver) -> u64 {
        driver.last_seq
    }
}

/// A request and the sending end of its answer.
pub(super) struct Call<R: Request> {
    request: R,
    reply: ReplySender<R::Answer>,
}

impl<R: Request> Call<R> {
    pub(super) fn new(request: R) -> (Self, PendingReply<R::Answer>) {
        let (reply, pending) = oneshot::channel();
        (Self { request, reply }, pending)
    }

    /// Runs the request, even if the caller has gone.
    pub(super) fn answer(self, driver: &mut Driver) {
        let answer = self.request.run(driver).map(|answer| {
            let seq = R::rests_on(&answer, driver);
            (answer, seq)
        });
        drop(self.reply.send(answer));
    }

    /// Answers the caller with an error and keeps the request, without a caller.
    pub(super) fn detach(self, error: EngineError) -> Self {
        drop(self.reply.send(Err(error)));
        Self::new(self.request).0
    }
}

/// A message in the driver's queue.
pub(super) enum Command {
    Acknowledge(Call<Acknowledge>),
    Cancel(Call<Cancel>),
    ChangeJob(Call<ChangeJob>),
    CheckAcknowledge(Call<CheckAcknowledge>),
    CountDelayed(Call<CountDelayed>),
    DeadLetterDamaged(Call<DeadLetterDamaged>),
    Delay(Box<Call<DelayBatch>>),
    DeleteLetters(Box<Call<DeleteLetters>>),
    Discard(Call<Discard>),
    End(Box<Call<TransactionEnd>>),
    EndTopic(Call<EndTopic>),
    Export(Call<Export>),
    FindEntry(Call<FindEntry>),
    FindGroup(Call<FindGroup>),
    FindSlot(Call<FindSlot>),
    FindStates(Call<FindStates>),
    ListShapes(Call<ListShapes>),
    Follow(Box<Call<Followers>>),
    Import(Box<Call<ImportBatch>>),
    Join(Call<Join>),
    /// Housekeeping; the flusher answers.
    Keep(ReplySender<()>),
    /// The detector of a group has records for the journal.
    KeepDetector(GroupId),
    Leave(Leave),
    ListGroups(Call<ListGroups>),
    ListJobs(Call<ListJobs>),
    /// Wakes the driver, which checks its store between commands.
    Look,
    Nacks(Box<Call<Nacks>>),
    Operate(Box<Call<OperateRequest>>),
    MayOperate(Call<MayOperate>),
    PageDue(Call<PageDue>),
    PageEntries(Call<PageEntries>),
    PageWaiting(Call<PageWaiting>),
    Pass(Call<GroupCommits>),
    Reload(Box<Policies>),
    ScanEntries(Call<ScanEntries>),
    Settle(Box<Call<SettleRequest>>),
    StartJob(Box<Call<StartJob>>),
    Stop,
    Take(Call<FetchRetries>),
    /// An observation for the ledger.
    Tell(Box<LedgerInput>),
}

impl Driver {
    pub(super) fn run_command(&mut self, command: Command) {
        match command {
            Command::Acknowledge(call) => call.answer(self),
            Command::Cancel(call) => call.answer(self),
            Command::ChangeJob(call) => call.answer(self),
            Command::CheckAcknowledge(call) => call.answer(self),
            Command::CountDelayed(call) => call.answer(self),
            Command::DeadLetterDamaged(call) => call.answer(self),
            Command::Delay(call) => call.answer(self),
            Command::DeleteLetters(call) => call.answer(self),
            Command::Discard(call) => call.answer(self),
            Command::End(call) => call.answer(self),
            Command::EndTopic(call) => call.answer(self),
            Command::Export(call) => call.answer(self),
            Command::FindEntry(call) => call.answer(self),
            Command::FindGroup(call) => call.answer(self),
            Command::FindSlot(call) => call.answer(self),
            Command::FindStates(call) => call.answer(self),
            Command::MayOperate(call) => call.answer(self),
            Command::ListShapes(call) => call.answer(self),
            Command::Follow(call) => call.answer(self),
            Command::Import(call) => call.answer(self),
            Command::Join(call) => call.answer(self),
            Command::Keep(reply) => self.keep(reply),
            Command::KeepDetector(group) => self.keep_detector(&group),
            Command::Leave(leave) => leave.run(self),
            Command::ListGroups(call) => call.answer(self),
            Command::ListJobs(call) => call.answer(self),
            Command::Nacks(call) => call.answer(self),
            Command::Operate(call) => call.answer(self),
            Command::PageDue(call) => call.answer(self),
            Command::PageEntries(call) => call.answer(self),
            Command::PageWaiting(call) => call.answer(self),
            Command::Pass(call) => call.answer(self),
            Command::Reload(policies) => reload::run(*policies, self),
            Command::ScanEntries(call) => call.answer(self),
            Command::Settle(call) => call.answer(self),
            Command::StartJob(call) => call.answer(self),
            Command::Take(call) => call.answer(self),
            Command::Tell(input) => self.hear(*input, "an observation"),
            Command::Look | Command::Stop => {}
        }
    }
}
