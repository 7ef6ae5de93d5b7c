//! Retry topics: their partitions, and their readers.

use std::collections::BTreeSet;

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::mover::{GroupTopics, RetryPartitionLog, RetryTopicPlace};
use crate::model::{GroupId, MonoMs, RetryPair, RetryPartition, TopicName};
use crate::retry::{Entries, LedgerInput};

/// Partitions of a retry topic; without any it is deleted.
struct RetryTopicUpdate {
    pair: RetryPair,
    place: RetryTopicPlace,
    partitions: Vec<RetryPartitionLog>,
}

/// A command without effect: its answer follows the effects of all earlier commands.
struct Barrier;

/// The end of the retry topics that the start has found.
struct Reopened;

/// A client's first Fetch of a retry topic of the group, after none for a while.
struct FirstRead(GroupId);

impl Engine {
    /// Releases the pair's retries into these partitions of its retry topic. Without any the topic
    /// is deleted.
    pub fn serve_retry_topic(&self, pair: &RetryPair, partitions: Vec<RetryPartitionLog>) {
        self.serve(pair, RetryTopicPlace::Embedded, partitions);
    }

    /// [`Engine::serve_retry_topic`] for a topic of the cluster behind.
    pub fn serve_topic_behind(&self, pair: &RetryPair, partitions: Vec<RetryPartitionLog>) {
        self.serve(pair, RetryTopicPlace::Behind, partitions);
    }

    fn serve(&self, pair: &RetryPair, place: RetryTopicPlace, partitions: Vec<RetryPartitionLog>) {
        self.readers.set_served(pair, !partitions.is_empty());
        self.report(RetryTopicUpdate { pair: pair.clone(), place, partitions });
    }

    /// Whether the engine knows the partitions of the retry topic.
    pub fn serves_retry_topic(&self, pair: &RetryPair) -> bool {
        self.readers.is_served(pair)
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

    /// Notes a Fetch of a retry topic.
    pub fn reads_retries(&self, pair: &RetryPair, now: MonoMs) {
        if self.readers.note_fetch(pair, now) {
            self.report(FirstRead(pair.group.clone()));
        }
    }

    /// Nobody reads the group's retry topics before the next Fetch of each, besides these.
    pub fn no_retry_reader(&self, group: &GroupId, subscribed: &BTreeSet<RetryPair>) {
        self.readers.all_left(group, subscribed);
    }

    /// Notes that a member has subscribed to a retry topic of its group.
    pub fn subscribes_to_retries(&self, pair: &RetryPair) {
        self.readers.note_subscription(pair);
    }

    /// Whether the retry topic has or had a reader since the start.
    pub fn had_retry_reader(&self, pair: &RetryPair) -> bool {
        self.readers.was_read(pair)
    }

    /// The owners of the group's retry topics that were fetched lately.
    pub fn retry_topics_read(&self, group: &GroupId, now: MonoMs) -> BTreeSet<RetryPair> {
        self.readers.read(group, now)
    }
}

impl Request for RetryTopicUpdate {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        let Self { pair, place, partitions } = self;
        let streams = partitions.iter().map(|of| of.stream.0).collect();
        let name = driver.render.retry_topic(&pair);
        let (group, source) = (pair.group.clone(), pair.source.clone());
        let groups = &mut driver.mover.groups;
        if !partitions.is_empty() {
            let topics = groups.entry(group.clone()).or_insert_with(|| GroupTopics::new(place));
            topics.serve(name, &pair, &partitions);
            driver.skip_failed(&pair, &partitions);
        } else if let Some(topics) = groups.get_mut(&group) {
            topics.remove(source.as_ref());
            if topics.is_empty() {
                groups.remove(&group);
            }
        }
        driver.note(LedgerInput::RetryTopicServed { group: group.clone(), source, streams })?;
        for (index, of) in (0_u16..).zip(&partitions) {
            let known = pair.partition(of.stream.0, index);
            driver.commit_retries(&group, known.at(of.committed))?;
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
            let topics = driver.mover.groups.get(&group);
            let store = driver.ledger.store();
            let partitions = store.partitions(&group).into_iter();
            let lost = partitions.filter(|of| topics.is_none_or(|topics| !topics.has(*of)));
            let source = |of: RetryPartition| {
                let entry = store.get(store.unread(&group, of.at(0), 1).pop()?)?;
                Some(entry.source().cloned().filter(|_| of.by_topic))
            };
            let sources: BTreeSet<Option<TopicName>> = lost.filter_map(source).collect();
            for source in sources {
                let topics = driver.mover.groups.get(&group);
                let streams = topics.map(|topics| topics.streams(source.as_ref()));
                let (group, streams) = (group.clone(), streams.unwrap_or_default());
                driver.note(LedgerInput::RetryTopicServed { group, source, streams })?;
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
