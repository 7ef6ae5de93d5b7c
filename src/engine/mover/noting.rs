//! Retries of the cluster behind: a slice is handed to the server's writer, and its end is noted.

use std::collections::BTreeMap;

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::mover::release_queue::{ReleaseBatch, ReleaseOutcome};
use crate::engine::mover::releasing::{FULL_MS, Slice, UNREAD_MS};
use crate::engine::mover::scan::NextSlice;
use crate::engine::mover::{Mover, RetryTopicPlace};
use crate::model::{GroupId, Moment, Origin, RetryPlace};
use crate::retry::{Entries, Fact, LedgerInput, Nack, NackTarget, StateKind};
use crate::wire::batch::RawRecord;

/// A commit that is older is not seen lately.
const SEEN_MS: u64 = 5_000;

struct UnseenGroups;

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

    /// Groups whose retries wait for a reader or a commit, and whose commits were not seen here
    /// lately. Their members may be connected elsewhere.
    pub async fn groups_unseen(&self) -> Vec<GroupId> {
        self.call_at_once(UnseenGroups).await.map(|(groups, _)| groups).unwrap_or_default()
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

impl Request for UnseenGroups {
    type Answer = Vec<GroupId>;

    fn run(self, driver: &mut Driver) -> Result<Vec<GroupId>, EngineError> {
        let now = driver.clock.now();
        let store = driver.ledger.store();
        let waits = |group: &GroupId| {
            store.count_due(group, now.wall) > 0 || store.counts(group).of(StateKind::Inflight) > 0
        };
        let topics = driver.mover.topics.iter();
        let unseen = topics.filter(|(_, topic)| {
            let is_old = topic.committed_at.is_none_or(|at| now.mono.since(at) >= SEEN_MS);
            topic.place == RetryTopicPlace::Behind && is_old
        });
        let unseen = unseen.map(|(group, _)| group);
        Ok(unseen.filter(|group| waits(group)).cloned().collect())
    }
}

impl Mover {
    /// Whether the retries of a group go into the cluster behind.
    pub(in crate::engine) fn is_behind(&self, group: &GroupId) -> bool {
        self.topics.get(group).is_some_and(|topic| topic.place == RetryTopicPlace::Behind)
    }

    /// Whether a batch of the group is on its way.
    pub(super) fn is_sending(&self, group: &GroupId) -> bool {
        self.topics.get(group).is_some_and(|topic| !topic.sent.is_empty())
    }
}

impl Driver {
    /// Whether one of the nacks is of a retry that the cluster may have and the log has not.
    pub(in crate::engine) fn is_before_release<'a>(
        &self,
        group: &GroupId,
        mut nacks: impl Iterator<Item = &'a Nack>,
    ) -> bool {
        let Some(topic) = self.mover.topics.get(group).filter(|topic| !topic.sent.is_empty())
        else {
            return false;
        };
        let leaves = |origin: &Origin| {
            let entry = self.ledger.store().by_origin(group, origin);
            entry.is_some_and(|id| topic.sent.contains_key(&id))
        };
        nacks.any(|nack| match &nack.named {
            NackTarget::Delivery(delivery) => {
                let of = topic.partitions.get(usize::from(delivery.slot.0));
                of.is_some_and(|of| of.is_sending && of.end <= delivery.offset())
                    || nack.copied.as_ref().is_some_and(|copied| leaves(&copied.first))
            }
            NackTarget::Origin(origin) => leaves(origin),
            NackTarget::Nothing
            | NackTarget::Unreadable
            | NackTarget::NoDelivery
            | NackTarget::OtherGroup => false,
        })
    }

    /// Hands the records of a slice to the writer, a batch for each partition.
    pub(super) fn hand_over(&mut self, group: &GroupId, slice: Slice) {
        let Slice { records, released, .. } = slice;
        let mut batches: BTreeMap<u16, ReleaseBatch> = BTreeMap::new();
        for (id, index, record) in records {
            let Some(topic) = self.mover.topics.get_mut(group) else { return };
            let Some(of) = topic.partitions.get_mut(usize::from(index)) else { continue };
            let delivery = RetryPlace::in_stream(index, of.stream.0, 0);
            let Some(entry) = self.ledger.released(id, delivery) else { continue };
            let headers = self.render.retry_headers(&entry);
            of.is_sending = true;
            topic.sent.insert(id, of.stream);
            let batch = batches.entry(index).or_insert_with(|| ReleaseBatch {
                group: group.clone(),
                topic: topic.name.clone(),
                partition: index,
                records: Vec::new(),
                stream: of.stream,
                ids: Vec::new(),
                bytes: released.get(&index).map_or(0, |(_, bytes)| *bytes),
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
        let noted = self.note_release(&batch, outcome);
        let postponed = std::mem::take(&mut self.postponed);
        for (group, command) in postponed {
            if group == batch.group {
                self.take_command(command);
            } else {
                self.postponed.push((group, command));
            }
        }
        self.mover.wake(&batch.group);
        noted
    }

    fn note_release(
        &mut self,
        batch: &ReleaseBatch,
        outcome: ReleaseOutcome,
    ) -> Result<(), EngineError> {
        let now = self.clock.now();
        let Some(topic) = self.mover.topics.get_mut(&batch.group) else { return Ok(()) };
        // A lost topic's batch may end when its retries are on their way into the next topic.
        for id in &batch.ids {
            if topic.sent.get(id) == Some(&batch.stream) {
                topic.sent.remove(id);
            }
        }
        let of = topic.partitions.get_mut(usize::from(batch.partition));
        let Some(of) = of.filter(|of| of.stream == batch.stream) else { return Ok(()) };
        of.is_sending = false;
        of.alone = of.alone.saturating_sub(batch.ids.len());
        match outcome {
            ReleaseOutcome::Written { base } => self.note_written(batch, base),
            ReleaseOutcome::Later => {
                topic.scan.set_next(now.mono, NextSlice::Pause(FULL_MS));
                Ok(())
            }
            ReleaseOutcome::Refused(why) => {
                self.note_refused(batch, &why, now);
                Ok(())
            }
        }
    }

    fn note_written(&mut self, batch: &ReleaseBatch, base: i64) -> Result<(), EngineError> {
        let delivery = |offset| RetryPlace::in_stream(batch.partition, batch.stream.0, offset);
        let mut facts: Vec<Fact> = Vec::with_capacity(batch.ids.len());
        let mut end = base;
        for id in &batch.ids {
            facts.extend(self.handle(LedgerInput::Release { id: *id, place: delivery(end) }).1);
            end = end.saturating_add(1);
        }
        self.persist(&facts, &[], Vec::new())?;
        let Some(topic) = self.mover.topics.get_mut(&batch.group) else { return Ok(()) };
        for id in &batch.ids {
            topic.scan.released(*id);
        }
        topic.released(batch.partition, end.saturating_sub(1), batch.bytes);
        let Some(of) = topic.partitions.get_mut(usize::from(batch.partition)) else {
            return Ok(());
        };
        of.end = end;
        let committed = of.committed;
        // The group may have committed past the retries before they were noted.
        if committed > base {
            self.commit_retries(&batch.group, delivery(committed))
        } else {
            Ok(())
        }
    }

    /// The cluster refuses a batch: its retries are sent alone, and a single one waits.
    fn note_refused(&mut self, batch: &ReleaseBatch, why: &str, now: Moment) {
        let Some(topic) = self.mover.topics.get_mut(&batch.group) else { return };
        if let [id] = batch.ids.as_slice() {
            tracing::warn!(
                group = %batch.group, topic = %batch.topic, entry = %id, %why,
                "R0430 the cluster refuses a due retry: it waits and is tried again every 30 s; \
                 change the topic"
            );
            topic.scan.set_aside(*id, now.mono.plus(UNREAD_MS));
        } else if let Some(of) = topic.partitions.get_mut(usize::from(batch.partition)) {
            of.alone = batch.ids.len();
        }
    }
}
