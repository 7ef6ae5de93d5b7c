//! Retries of the cluster behind: a slice is handed to the server's writer, and its end is noted.

use std::collections::BTreeMap;

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::mover::release_queue::{ReleaseBatch, ReleaseOutcome, ReleaseTarget};
use crate::engine::mover::releasing::Slice;
use crate::engine::mover::scan::{FULL_MS, NextSlice, UNSERVED_MS};
use crate::engine::mover::{Mover, RetryTopic, RetryTopicPlace};
use crate::model::{GroupId, Moment, Origin, RetryPair, RetryPartition, TopicName};
use crate::retry::{Entries, Fact, LedgerInput, Nack, NackTarget, StateKind};
use crate::wire::batch::RawRecord;

/// A commit that is older is not seen lately.
const SEEN_MS: u64 = 5_000;

struct UnseenTopics;

struct RetryCommits;

/// The end of a batch.
struct ReleaseEnd {
    batch: ReleaseBatch,
    outcome: ReleaseOutcome,
}

impl Engine {
    /// Waits for a batch of due retries for the cluster behind.
    pub async fn next_release(&self) -> ReleaseBatch {
        self.queued_releases.take().await
    }

    /// Retry topics of groups whose retries wait for a reader or a commit, and whose readers or
    /// commits were not seen here lately. Their members may be connected elsewhere.
    pub async fn topics_unseen(&self) -> Vec<RetryPair> {
        self.call_at_once(UnseenTopics).await.map(|(topics, _)| topics).unwrap_or_default()
    }

    /// The committed offset of each partition of a retry topic in the cluster behind.
    pub async fn retry_commits(&self) -> Vec<(TopicName, i32, i64)> {
        self.call_at_once(RetryCommits).await.map(|(commits, _)| commits).unwrap_or_default()
    }

    /// Notes the end of a batch.
    pub fn release_ended(&self, batch: ReleaseBatch, outcome: ReleaseOutcome) {
        self.report(ReleaseEnd { batch, outcome });
    }
}

impl Request for ReleaseEnd {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        driver.end_release(self)
    }
}

impl Request for RetryCommits {
    type Answer = Vec<(TopicName, i32, i64)>;

    fn run(self, driver: &mut Driver) -> Result<Self::Answer, EngineError> {
        let groups = driver.mover.groups.values();
        let behind = groups.filter(|topics| topics.place == RetryTopicPlace::Behind);
        let topics = behind.flat_map(|topics| &topics.topics);
        let commits = topics.flat_map(|topic| {
            let partitions = (0..).zip(&topic.partitions);
            partitions.map(|(index, of)| (topic.name.clone(), index, of.committed))
        });
        Ok(commits.collect())
    }
}

impl Request for UnseenTopics {
    type Answer = Vec<RetryPair>;

    fn run(self, driver: &mut Driver) -> Result<Vec<RetryPair>, EngineError> {
        let now = driver.clock.now();
        let store = driver.ledger.store();
        let waits = |group: &GroupId| {
            store.count_due(group, now.wall) > 0 || store.counts(group).of(StateKind::Unread) > 0
        };
        let groups = driver.mover.groups.iter();
        let waiting = groups
            .filter(|(group, topics)| topics.place == RetryTopicPlace::Behind && waits(group));
        let is_unseen = |topic: &&RetryTopic| {
            let is_old = |at| now.mono.since(at) >= SEEN_MS;
            topic.committed_at.is_none_or(is_old) || !driver.readers.is_read(&topic.pair, now.mono)
        };
        let unseen = waiting.flat_map(|(_, topics)| topics.topics.iter().filter(is_unseen));
        Ok(unseen.map(|topic| topic.pair.clone()).collect())
    }
}

impl Mover {
    /// Whether the retries of a group go into the cluster behind.
    pub(in crate::engine) fn is_behind(&self, group: &GroupId) -> bool {
        self.groups.get(group).is_some_and(|topics| topics.place == RetryTopicPlace::Behind)
    }

    /// Whether a batch of the group is on its way.
    pub(super) fn is_sending(&self, group: &GroupId) -> bool {
        self.groups.get(group).is_some_and(|topics| !topics.sent.is_empty())
    }
}

impl Driver {
    /// Whether one of the nacks is of a retry that the cluster may have and the log has not.
    pub(in crate::engine) fn is_before_release<'a>(
        &self,
        group: &GroupId,
        mut nacks: impl Iterator<Item = &'a Nack>,
    ) -> bool {
        let topics = self.mover.groups.get(group).filter(|topics| !topics.sent.is_empty());
        let Some(topics) = topics else { return false };
        let leaves = |origin: &Origin| {
            let entry = self.ledger.store().by_origin(group, origin);
            entry.is_some_and(|id| topics.sent.contains_key(&id))
        };
        nacks.any(|nack| match &nack.named {
            NackTarget::Delivery(delivery) => {
                let of = topics.partition(delivery.partition);
                of.is_some_and(|of| of.is_sending && of.end <= delivery.offset)
                    || nack.copied.as_ref().is_some_and(|copied| leaves(&copied.first))
            }
            NackTarget::Origin(origin) => leaves(origin),
            NackTarget::Nothing
            | NackTarget::Orphan
            | NackTarget::Unreadable
            | NackTarget::NoDelivery
            | NackTarget::OtherGroup => false,
        })
    }

    /// Hands the records of a slice to the writer, a batch for each partition.
    pub(super) fn hand_over(&mut self, group: &GroupId, slice: Slice) {
        let Slice { records, released, .. } = slice;
        let mut batches: BTreeMap<RetryPartition, ReleaseBatch> = BTreeMap::new();
        for (id, partition, record) in records {
            let Some(topics) = self.mover.groups.get_mut(group) else { return };
            let Some(of) = topics.partition_mut(partition) else { continue };
            let Some(entry) = self.ledger.released(id, partition.at(0)) else { continue };
            let headers = self.render.retry_headers(&entry);
            of.is_sending = true;
            topics.sent.insert(id, partition);
            let Some(topic) = topics.topic_of(partition) else { continue };
            let batch = batches.entry(partition).or_insert_with(|| ReleaseBatch {
                target: ReleaseTarget::Retries(topic.pair.clone(), partition),
                topic: topic.name.clone(),
                records: Vec::new(),
                ids: Vec::new(),
                bytes: released.get(&partition).map_or(0, |(_, bytes)| *bytes),
            });
            batch.ids.push(id);
            batch.records.push(RawRecord { headers: record.headers.with(&headers), ..record });
        }
        for batch in batches.into_values() {
            self.queued_releases.put(batch);
        }
    }

    fn end_release(&mut self, end: ReleaseEnd) -> Result<(), EngineError> {
        let ReleaseEnd { batch, outcome } = end;
        let ended = batch.group().clone();
        let noted = match &batch.target {
            ReleaseTarget::Retries(_, partition) => {
                self.note_release((&ended, *partition), &batch, outcome)
            }
            ReleaseTarget::Letters(_) => {
                self.end_letters(&ended, &batch, outcome);
                Ok(())
            }
        };
        let postponed = std::mem::take(&mut self.postponed);
        for (group, command) in postponed {
            if group == ended {
                self.take_command(command);
            } else {
                self.postponed.push((group, command));
            }
        }
        self.mover.wake(&ended);
        noted
    }

    fn note_release(
        &mut self,
        (group, partition): (&GroupId, RetryPartition),
        batch: &ReleaseBatch,
        outcome: ReleaseOutcome,
    ) -> Result<(), EngineError> {
        let now = self.clock.now();
        let Some(topics) = self.mover.groups.get_mut(group) else { return Ok(()) };
        // A lost topic's batch may end when its retries are on their way into the next topic.
        for id in &batch.ids {
            if topics.sent.get(id) == Some(&partition) {
                topics.sent.remove(id);
            }
        }
        let Some(of) = topics.partition_mut(partition) else { return Ok(()) };
        of.is_sending = false;
        of.alone = of.alone.saturating_sub(batch.ids.len());
        match outcome {
            ReleaseOutcome::Written { base } => self.note_written((group, partition), batch, base),
            ReleaseOutcome::Later => {
                topics.scan.set_next(now.mono, NextSlice::Pause(FULL_MS));
                Ok(())
            }
            ReleaseOutcome::Refused(why) => {
                self.note_refused((group, partition), batch, why, now);
                Ok(())
            }
            ReleaseOutcome::Denied(why) => {
                let until = now.mono.plus(UNSERVED_MS);
                of.not_before = until;
                for id in &batch.ids {
                    topics.scan.set_aside(*id, until, why.clone());
                }
                Ok(())
            }
        }
    }

    fn note_written(
        &mut self,
        (group, partition): (&GroupId, RetryPartition),
        batch: &ReleaseBatch,
        base: i64,
    ) -> Result<(), EngineError> {
        let delivery = |offset| partition.at(offset);
        let mut facts: Vec<Fact> = Vec::with_capacity(batch.ids.len());
        let mut end = base;
        for id in &batch.ids {
            facts.extend(self.handle(LedgerInput::Release { id: *id, place: delivery(end) }).1);
            end = end.saturating_add(1);
        }
        self.persist(&facts, &[], Vec::new())?;
        let Some(topics) = self.mover.groups.get_mut(group) else { return Ok(()) };
        for id in &batch.ids {
            topics.scan.released(*id);
        }
        topics.released(partition, end.saturating_sub(1), batch.bytes);
        let Some(of) = topics.partition_mut(partition) else { return Ok(()) };
        of.end = end;
        let committed = of.committed;
        // The group may have committed past the retries before they were noted.
        if committed > base { self.commit_retries(group, delivery(committed)) } else { Ok(()) }
    }

    /// The cluster refuses a batch: its retries are sent alone, and a single one waits.
    fn note_refused(
        &mut self,
        (group, partition): (&GroupId, RetryPartition),
        batch: &ReleaseBatch,
        why: String,
        now: Moment,
    ) {
        let Some(topics) = self.mover.groups.get_mut(group) else { return };
        if let [id] = batch.ids.as_slice() {
            // One line for many: the list of blocked retries has each.
            if topics.scan.aside().next().is_none() {
                tracing::warn!(
                    %group, topic = %batch.topic, entry = %id, %why,
                    "R0430 the cluster refuses a due retry: it waits and is tried again every \
                     30 s; change the topic"
                );
            }
            topics.scan.set_aside(*id, now.mono.plus(UNSERVED_MS), why);
        } else if let Some(of) = topics.partition_mut(partition) {
            of.alone = batch.ids.len();
        }
    }
}
