//! The retry topic of a group: its partitions, and its readers.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::mover::{RetryPartitionLog, RetryTopic, RetryTopicPlace};
use crate::model::{GroupId, MonoMs, RetryPlace};
use crate::retry::{Entries, LedgerInput};

/// Partitions of a group's retry topic; without any it is deleted.
struct RetryTopicUpdate {
    group: GroupId,
    place: RetryTopicPlace,
    partitions: Vec<RetryPartitionLog>,
}

/// A command without effect: its answer follows the effects of all earlier commands.
struct Barrier;

/// The end of the retry topics that the start has found.
struct Reopened;

/// A client's first Fetch of the group's retry topic, after none for a while.
struct FirstRead(GroupId);

impl Engine {
    /// Releases the group's retries into these partitions of its retry topic. Without any the topic
    /// is deleted.
    pub fn serve_retry_topic(&self, group: &GroupId, partitions: Vec<RetryPartitionLog>) {
        self.serve(group, RetryTopicPlace::Embedded, partitions);
    }

    /// [`Engine::serve_retry_topic`] for a topic of the cluster behind.
    pub fn serve_topic_behind(&self, group: &GroupId, partitions: Vec<RetryPartitionLog>) {
        self.serve(group, RetryTopicPlace::Behind, partitions);
    }

    fn serve(&self, group: &GroupId, place: RetryTopicPlace, partitions: Vec<RetryPartitionLog>) {
        self.readers.set_served(group, !partitions.is_empty());
        self.report(RetryTopicUpdate { group: group.clone(), place, partitions });
    }

    /// Whether the engine knows the partitions of the group's retry topic.
    pub fn serves_retry_topic(&self, group: &GroupId) -> bool {
        self.readers.is_served(group)
    }

    /// Each retry topic has been served since the start: retries released to any other are due
    /// again.
    pub fn retry_topics_reopened(&self) {
        self.report(Reopened);
    }

    /// Waits until the commands queued before are done; a failure shows with the next one.
    pub async fn caught_up(&self) {
        let done = self.call_at_once(Barrier).await;
        if let Err(error) = done {
            tracing::debug!(%error, "the engine has not caught up");
        }
    }

    /// Notes a Fetch of the group's retry topic.
    pub fn reads_retries(&self, group: &GroupId, now: MonoMs) {
        if self.readers.note_fetch(group, now) {
            self.report(FirstRead(group.clone()));
        }
    }

    /// Nobody reads the group's retry topic before the next Fetch of it.
    pub fn no_retry_reader(&self, group: &GroupId) {
        self.readers.all_left(group);
    }

    /// Notes that a member has subscribed to the group's retry topic.
    pub fn subscribes_to_retries(&self, group: &GroupId) {
        self.readers.note_subscription(group);
    }

    /// Whether the group's retry topic has or had a reader since the start.
    pub fn had_retry_reader(&self, group: &GroupId) -> bool {
        self.readers.was_read(group)
    }

    /// Whether the group's retry topic was fetched lately.
    pub fn has_retry_reader(&self, group: &GroupId, now: MonoMs) -> bool {
        self.readers.is_read(group, now)
    }
}

impl Request for RetryTopicUpdate {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        let Self { group, place, partitions } = self;
        let streams = partitions.iter().map(|of| of.stream.0).collect();
        if partitions.is_empty() {
            driver.mover.topics.remove(&group);
        } else {
            let name = driver.render.retry_topic(&group);
            let topics = &mut driver.mover.topics;
            let topic = topics.entry(group.clone()).or_insert_with(|| RetryTopic::new(name, place));
            topic.set_partitions(&partitions);
            driver.skip_failed(&group, &partitions);
        }
        driver.note(LedgerInput::RetryTopicServed { group: group.clone(), streams })?;
        for (index, of) in (0_u16..).zip(&partitions) {
            let up_to = RetryPlace::in_stream(index, of.stream.0, of.committed);
            driver.commit_retries(&group, up_to)?;
        }
        driver.mover.wake(&group);
        Ok(())
    }
}

impl Request for Reopened {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        for group in driver.ledger.store().groups() {
            if driver.mover.topic(&group).is_none() {
                driver.note(LedgerInput::RetryTopicServed { group, streams: Vec::new() })?;
            }
        }
        Ok(())
    }
}

impl Request for Barrier {
    type Answer = ();

    fn run(self, _: &mut Driver) -> Result<(), EngineError> {
        Ok(())
    }
}

impl Request for FirstRead {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        driver.mover.wake(&self.0);
        Ok(())
    }
}
