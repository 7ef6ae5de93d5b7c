//! Commands to the driver. Each file of this folder has the requests of one verb with their
//! answers, the driver's work, and the methods of the handle.

mod delete_letters;
mod end_topic;
mod group_commits;
mod housekeeping;
mod import;
mod job;
mod list_shapes;
mod nack;
mod operate;
mod page_due;
mod read;
mod reload;
mod retry_topic;
mod settle;

use tokio::sync::oneshot;

use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::model::GroupId;

pub use self::import::{ImportBatch, ImportRequest};
pub use self::operate::{OPERATE_MAX, OperateRequest};
pub use self::read::EntryState;
pub use self::settle::SettleRequest;

/// The sending end of an answer, with the sequence that must be durable before a client sees it.
pub(super) type ReplySender<T> = oneshot::Sender<Result<(T, u64), EngineError>>;

/// The receiving end of a [`ReplySender`].
pub(super) type PendingReply<T> = oneshot::Receiver<Result<(T, u64), EngineError>>;

/// A request to the driver.
pub(super) trait Request: Sized + Send + 'static {
    type Answer: Send;

    /// No client repeats the request, so it waits while a failed store is renewed.
    const IS_EVENT: bool = false;

    /// The driver's work.
    fn run(self, driver: &mut Driver) -> Result<Self::Answer, EngineError>;

    /// The group whose batch of due retries has to end before the request runs.
    fn waits_for(&self, _: &Driver) -> Option<GroupId> {
        None
    }

    /// The sequence that must be durable before a client sees the answer.
    fn rests_on(_: &Self::Answer, driver: &Driver) -> u64 {
        driver.last_seq
    }
}

/// A request and the sending end of its answer.
struct Call<R: Request> {
    request: R,
    reply: ReplySender<R::Answer>,
}

/// A [`Call`] of any request.
pub(super) trait QueuedCall: Send {
    fn is_event(&self) -> bool;

    fn waits_for(&self, driver: &Driver) -> Option<GroupId>;

    /// Runs the request, even if the caller has gone.
    fn answer(self: Box<Self>, driver: &mut Driver);

    /// Answers the caller with an error and keeps the request, without a caller.
    fn detach(self: Box<Self>, error: EngineError) -> Box<dyn QueuedCall>;
}

impl<R: Request> QueuedCall for Call<R> {
    fn is_event(&self) -> bool {
        R::IS_EVENT
    }

    fn waits_for(&self, driver: &Driver) -> Option<GroupId> {
        self.request.waits_for(driver)
    }

    fn answer(self: Box<Self>, driver: &mut Driver) {
        let answer = self.request.run(driver).map(|answer| {
            let seq = R::rests_on(&answer, driver);
            (answer, seq)
        });
        drop(self.reply.send(answer));
    }

    fn detach(self: Box<Self>, error: EngineError) -> Box<dyn QueuedCall> {
        let Self { request, reply } = *self;
        drop(reply.send(Err(error)));
        let (reply, _) = oneshot::channel();
        Box::new(Self { request, reply })
    }
}

/// A message in the driver's queue.
pub(super) enum Command {
    Call(Box<dyn QueuedCall>),
    /// Housekeeping; the flusher answers.
    Keep(ReplySender<()>),
    /// The detector of a group has records for the journal.
    KeepDetector(GroupId),
    /// Wakes the driver, which checks its store between commands.
    Look,
    Stop,
}

impl Command {
    /// The command of a request, and the receiving end of the answer.
    pub(super) fn call<R: Request>(request: R) -> (Self, PendingReply<R::Answer>) {
        let (reply, pending) = oneshot::channel();
        (Self::Call(Box::new(Call { request, reply })), pending)
    }

    /// The group whose batch of due retries has to end before the command runs.
    pub(super) fn waits_for(&self, driver: &Driver) -> Option<GroupId> {
        match self {
            Self::Call(call) => call.waits_for(driver),
            Self::Keep(_) | Self::KeepDetector(_) | Self::Look | Self::Stop => None,
        }
    }

    /// Whether the command waits while a failed store is renewed.
    pub(super) fn is_event(&self) -> bool {
        match self {
            Self::Call(call) => call.is_event(),
            Self::Keep(_) | Self::KeepDetector(_) | Self::Look | Self::Stop => false,
        }
    }
}

impl Driver {
    pub(super) fn run_command(&mut self, command: Command) {
        match command {
            Command::Call(call) => call.answer(self),
            Command::Keep(reply) => self.keep(reply),
            Command::KeepDetector(group) => self.keep_detector(&group),
            Command::Look | Command::Stop => {}
        }
    }
}
