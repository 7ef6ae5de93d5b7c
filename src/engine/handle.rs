//! The handle: it sends commands to the driver and waits until their answers are durable.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::engine::command::{Command, PendingReply, Request};
use crate::engine::detectors::Detectors;
use crate::engine::engine_trouble::EngineTrouble;
use crate::engine::error::EngineError;
use crate::engine::letters::final_log::FinalLog;
use crate::engine::mover::RetryReaders;
use crate::engine::mover::release_queue::ReleaseQueue;
use crate::engine::render::Render;
use crate::engine::topic_ids::TopicIds;
use crate::journal::Journal;
use crate::observe::Metrics;

/// Sends commands to the driver. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) commands: Sender<Command>,
    pub(super) journal: Journal,
    pub(super) render: Render,
    pub(super) finals: Arc<FinalLog>,
    pub(super) trouble: EngineTrouble,
    pub(super) detectors: Arc<Detectors>,
    pub(super) topic_ids: TopicIds,
    pub(super) readers: Arc<RetryReaders>,
    pub(super) queued_releases: Arc<ReleaseQueue>,
    pub(super) metrics: Metrics,
}

impl Engine {
    /// The reason why nothing is acknowledged now.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.reason()
    }

    /// The reason why nothing is acknowledged until a restart.
    pub fn restart_reason(&self) -> Option<String> {
        self.trouble.final_reason()
    }

    /// The ids of topics.
    pub fn topic_ids(&self) -> TopicIds {
        self.topic_ids.clone()
    }

    /// Waits for final outcomes of records and logs them once they are durable.
    pub async fn log_finals(&self) {
        self.finals.log_next(&self.journal, &self.render).await;
    }

    /// Logs the final outcomes of groups whose outcomes are all durable.
    pub fn log_durable_finals(&self) {
        self.finals.log_durable(&self.journal, &self.render);
    }

    /// Stops the driver after the commands queued before.
    pub fn stop(&self) {
        self.tell(Command::Stop);
    }

    /// Queues a request at once; the future waits for the answer and its durability.
    pub(super) fn call<R: Request>(
        &self,
        request: R,
    ) -> impl Future<Output = Result<R::Answer, EngineError>> + use<R> {
        let (command, pending) = Command::call(request);
        self.wait(self.send(command), pending)
    }

    /// The answer to a request, durable or not, and the sequence it depends on. For the admin port.
    pub(super) async fn call_at_once<R: Request>(
        &self,
        request: R,
    ) -> Result<(R::Answer, u64), EngineError> {
        let (command, pending) = Command::call(request);
        self.send(command)?;
        pending.await.map_err(|_| EngineError::Stopped)?
    }

    /// Waits for the answer to a queued command, and for its durability.
    pub(super) fn wait<T>(
        &self,
        sent: Result<(), EngineError>,
        pending: PendingReply<T>,
    ) -> impl Future<Output = Result<T, EngineError>> + use<T> {
        let journal = self.journal.clone();
        async move {
            sent?;
            let (answer, seq) = pending.await.map_err(|_| EngineError::Stopped)??;
            journal.durable(seq).await?;
            debug_assert!(journal.durable_seq() >= seq, "an answer precedes its entries");
            Ok(answer)
        }
    }

    pub(super) fn send(&self, command: Command) -> Result<(), EngineError> {
        self.commands.send(command).map_err(|_| EngineError::Stopped)
    }

    pub(super) fn tell(&self, command: Command) {
        if self.send(command).is_err() {
            tracing::debug!("the retry engine has stopped already");
        }
    }

    /// Queues an event, whose answer nobody waits for.
    pub(super) fn report<R: Request<Answer = ()>>(&self, event: R) {
        self.tell(Command::call(event).0);
    }
}
