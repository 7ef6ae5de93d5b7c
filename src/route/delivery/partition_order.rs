//! Groups with `order.mode: partition`: a partition waits for its failed record, and no later
//! record of it is delivered.
//!
//! **Invariant:** a stored commit never passes the record that its partition waits for, and no
//! member receives a higher offset. The next reader of the partition thus starts at that record.

use std::sync::{Arc, PoisonError};

use kafka_protocol::messages::OffsetCommitRequest;
use kafka_protocol::protocol::StrBytes;

use crate::engine::GroupDetector;
use crate::model::{GroupId, MemberId, Origin, TopicName, TopicPartition};
use crate::retry::OrderMode;
use crate::route::Router;
use crate::route::convert::topic_of;
use crate::route::delivery::TrackedFetch;
use crate::wire::ResponseError;

impl Router {
    /// Whether partitions of a group wait for their failed records.
    pub(in crate::route) fn is_in_order(&self, group: &GroupId) -> bool {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        policies.of(group).order == OrderMode::Partition
    }

    /// The offset of the record that a partition waits for.
    pub(in crate::route) fn awaited(
        &self,
        group: &GroupId,
        topic: &TopicName,
        partition: i32,
    ) -> Option<i64> {
        let place = TopicPartition { topic: topic.clone(), partition };
        self.detectors.find(group)?.lock().detector.awaited(&place)
    }

    /// The detector of a group, if one of its records may bound commits.
    fn binding(&self, group: &GroupId) -> Option<Arc<GroupDetector>> {
        self.detectors.find(group).filter(|of| of.lock().detector.binds_commits())
    }

    /// The positions of a commit that pass a withheld record.
    pub(in crate::route) fn passing_withheld(
        &self,
        group: &GroupId,
        commit: impl Iterator<Item = (TopicName, i32, i64)>,
    ) -> Vec<(TopicPartition, i64)> {
        let of = self.detectors.find(group).filter(|of| of.lock().detector.withholds());
        let Some(of) = of else { return Vec::new() };
        let state = of.lock();
        let place = |(topic, partition, offset)| (TopicPartition { topic, partition }, offset);
        let passes = |(place, offset): &(TopicPartition, i64)| {
            state.detector.withheld(place).is_some_and(|withheld| withheld < *offset)
        };
        commit.map(place).filter(passes).collect()
    }

    /// Makes the withheld records that a commit passes dead letters. A record that cannot be read
    /// now stays, and the commit is held back to it.
    pub(in crate::route) async fn settle_withheld(
        &self,
        group: &GroupId,
        passing: Vec<(TopicPartition, i64)>,
    ) {
        let Some(of) = self.detectors.find(group) else { return };
        for (place, offset) in passing {
            self.settle_before(group, &of, &place, offset).await;
        }
    }

    /// The partition stops waiting for a record that no longer exists.
    pub(in crate::route) fn no_more(&self, group: &GroupId, record: &Origin) {
        let Some(of) = self.detectors.find(group).filter(|_| self.is_in_order(group)) else {
            return;
        };
        let Origin { topic, partition, offset } = record.clone();
        let place = TopicPartition { topic, partition };
        self.tell(group, &of, |detector, now| {
            if detector.awaited(&place) == Some(offset) {
                detector.settled(now, &place, offset..=offset);
            }
        });
    }

    /// Records the start offsets of fetched partitions: no partition waits for a record below its
    /// start.
    pub(in crate::route) fn begin(
        &self,
        by: &TrackedFetch,
        starts: impl IntoIterator<Item = (TopicPartition, i64)>,
    ) {
        let group = by.group();
        if !by.detector().lock().detector.may_wait() {
            return;
        }
        for (partition, start) in starts {
            let begins = self.tell(group, by.detector(), |detector, now| {
                detector.begins(now, &partition, start)
            });
            for offset in begins {
                tracing::warn!(
                    %group, %partition, offset,
                    "R0517 a failed record is no longer in the log: its partition goes on"
                );
            }
        }
    }

    /// Lowers each offset of a commit to the record that its partition waits for.
    pub(in crate::route) fn hold_back(&self, group: &GroupId, request: &mut OffsetCommitRequest) {
        let Some(of) = self.binding(group) else { return };
        let state = of.lock();
        for topic in &mut request.topics {
            let name = topic_of(&topic.name);
            for asked in &mut topic.partitions {
                let partition = asked.partition_index;
                let place = TopicPartition { topic: name.clone(), partition };
                let Some(first) = state.detector.commit_bound(&place) else { continue };
                if asked.committed_offset > first {
                    tracing::debug!(
                        %group, topic = %name, partition,
                        offset = asked.committed_offset, first,
                        "a commit is held back to the record its partition waits for"
                    );
                    asked.committed_offset = first;
                    asked.committed_leader_epoch = -1;
                    asked.committed_metadata = Some(StrBytes::default());
                }
            }
        }
    }

    /// Whether a commit passes a record that its partition waits for. Such a transaction must
    /// abort, and its consumer continue from the committed offsets. Clients do both after
    /// `ILLEGAL_GENERATION`.
    pub(in crate::route) fn passes_awaited(
        &self,
        group: &GroupId,
        mut commit: impl Iterator<Item = (TopicName, i32, i64)>,
    ) -> bool {
        let Some(of) = self.binding(group) else { return false };
        let state = of.lock();
        commit.any(|(topic, partition, offset)| {
            let first = state.detector.commit_bound(&TopicPartition { topic, partition });
            first.is_some_and(|first| first < offset)
        })
    }

    /// The offset at which a member with this committed offset continues; −1: none.
    pub(in crate::route) fn goes_on(
        &self,
        group: &GroupId,
        (topic, partition): (&TopicName, i32),
        committed: i64,
    ) -> i64 {
        let Some(of) = self.detectors.find(group) else { return committed };
        let place = TopicPartition { topic: topic.clone(), partition };
        let state = of.lock();
        if committed < 0 {
            return state.detector.begins_at(&place).unwrap_or(committed);
        }
        state.detector.awaited(&place).map_or(committed, |first| first.min(committed))
    }

    /// Returns a heartbeat error for a member that has passed a record its partition waits for. The
    /// first error starts a rebalance, in which the member gives up its partitions. A cooperative
    /// client keeps its positions in a rebalance, so later errors end its generation.
    pub(in crate::route) fn calls_back(
        &self,
        group: &GroupId,
        key: &MemberId,
    ) -> Option<ResponseError> {
        let of = self.detectors.find(group)?;
        let times = self.tell(group, &of, |detector, now| detector.calls_back(now, key))?;
        self.called(group, key);
        tracing::info!(
            %group, member = %key, times,
            "a member has left a failed record behind that its partition waits for: it is made to \
             join anew (order.rewind)"
        );
        Some(match times {
            1 => ResponseError::RebalanceInProgress,
            _ => ResponseError::IllegalGeneration,
        })
    }
}
