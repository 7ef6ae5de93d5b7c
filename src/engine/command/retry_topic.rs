//! The retry topic of a group: its partitions, and its readers.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::mover::RetryPartitionLog;
use crate::model::{GroupId, MonoMs};
use crate::retry::LedgerInput;

/// The retry topic of a group has these partitions now; without any it is deleted.
struct ServeTopic {
    group: GroupId,
    partitions: Vec<RetryPartitionLog>,
}

/// Nothing: the answer comes behind the commands before it.
struct CatchUp;

/// Somebody began to read the retry topic of the group.
struct Reads(GroupId);

impl Engine {
    /// Releases the group's retries into these partitions of its retry topic. Without any the topic
    /// is deleted.
    pub fn serve_retry_topic(&self, group: &GroupId, partitions: Vec<RetryPartitionLog>) {
        self.report(ServeTopic { group: group.clone(), partitions });
    }

    /// Waits until the commands queued before are done; a failure shows with the next one.
    pub async fn caught_up(&self) {
        let done = self.call_at_once(CatchUp).await;
        if let Err(error) = done {
            tracing::debug!(%error, "the engine has not caught up");
        }
    }

    /// Notes a Fetch of the group's retry topic.
    pub fn reads_retries(&self, group: &GroupId, now: MonoMs) {
        if self.readers.read(group, now) {
            self.report(Reads(group.clone()));
        }
    }

    /// Nobody reads the group's retry topic before the next Fetch of it.
    pub fn no_retry_reader(&self, group: &GroupId) {
        self.readers.forget(group);
    }

    /// Whether the group's retry topic was fetched lately.
    pub fn has_retry_reader(&self, group: &GroupId, now: MonoMs) -> bool {
        self.readers.is_read(group, now)
    }
}

impl Request for ServeTopic {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        let Self { group, partitions } = self;
        if partitions.is_empty() {
            driver.mover.topics.remove(&group);
            return driver.note(LedgerInput::RetryTopicGone { group });
        }
        driver.skip_failed(&group, &partitions);
        let streams = partitions.iter().map(|of| of.stream).collect();
        driver.mover.topics.entry(group.clone()).or_default().streams = streams;
        driver.mover.wake(&group);
        Ok(())
    }
}

impl Request for CatchUp {
    type Answer = ();

    fn run(self, _: &mut Driver) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Request for Reads {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        driver.mover.wake(&self.0);
        Ok(())
    }
}
