//! Observations from the group APIs, for the detectors.

use crate::engine::{EngineError, seen_offset};
use crate::model::{GroupId, MemberId, TopicName, TopicPartition};
use crate::retry::detector::{AssignmentStep, GroupObservation, MemberStanding};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::wire::{ParallelProgress, ResponseError, read_progress};

/// Commit errors that a retry by the same member cannot overcome.
const FOR_GOOD: &[ResponseError] = &[
    ResponseError::IllegalGeneration,
    ResponseError::UnknownMemberId,
    ResponseError::FencedInstanceId,
    ResponseError::FencedMemberEpoch,
    ResponseError::StaleMemberEpoch,
];

/// Topic, partition and offset of each position in a commit.
type CommitPositions = Vec<(TopicName, i32, i64)>;

impl Router {
    /// Sends one observation to the group's detector.
    pub fn seen(&self, group: &GroupId, seen: GroupObservation) {
        self.all_seen(group, vec![seen]);
    }

    pub(super) fn all_seen(&self, group: &GroupId, all: Vec<GroupObservation>) {
        let Some(of) = self.detectors.find(group).filter(|_| !all.is_empty()) else { return };
        self.tell(group, &of, |detector, now| {
            for seen in all {
                detector.handle(now, seen);
            }
        });
    }

    /// Records the generation or epoch, or the assignment, that a member receives. An unchanged one
    /// changes no owner.
    pub(in crate::route) fn assigned(
        &self,
        conn: &Conn,
        group: &GroupId,
        (key, member_id): (&MemberId, &MemberId),
        epoch: i32,
        step: AssignmentStep,
    ) {
        let Some(of) = self.detector_of(group) else { return };
        let standing = MemberStanding { member_id: member_id.clone(), epoch, step, conn: conn.id };
        let is_news = self.tell(group, &of, |detector, now| detector.assign(now, key, standing));
        if is_news {
            self.detectors.change_owners();
        }
    }

    /// The coordinator answers the member with that generation. A member that was taken for lost
    /// still has its assignment, since the coordinator will not send it again.
    pub(in crate::route) fn note_generation(
        &self,
        conn: &Conn,
        group: &GroupId,
        (key, member_id): (&MemberId, &MemberId),
        generation: i32,
    ) {
        let of = self.detectors.find(group);
        if of.is_some_and(|of| of.lock().detector.is_gone(key)) {
            tracing::info!(%group, member = %key, "a member that was missed is heard of again");
            self.assigned(conn, group, (key, member_id), generation, AssignmentStep::Assigned);
        }
    }

    /// Records that the member got an answer that makes clients rejoin.
    pub(in crate::route) fn called(&self, group: &GroupId, key: &MemberId) {
        let Some(of) = self.detectors.find(group) else { return };
        self.tell(group, &of, |detector, _| detector.call(key));
    }

    /// Records that the member is alive.
    pub(in crate::route) fn alive(&self, group: &GroupId, key: &MemberId) {
        self.seen(group, GroupObservation::Alive { member: key.clone() });
    }

    /// The connection is closed: a process that crashed closes it long before its session expires.
    pub fn disconnected(&self, conn: &Conn) {
        for (group, member) in conn.members() {
            self.seen(&group, GroupObservation::Disconnected { member });
        }
    }

    /// Removes a member. `left`: it left the group; `member_id`: that process of it, if known.
    pub(in crate::route) fn lost(
        &self,
        group: &GroupId,
        key: &MemberId,
        member_id: Option<&MemberId>,
        left: bool,
    ) {
        let Some(of) = self.detectors.find(group) else { return self.detectors.change_owners() };
        self.tell(group, &of, |detector, now| detector.remove(now, key, member_id, left));
        self.detectors.change_owners();
    }

    /// Records the committed offsets that a member fetched.
    pub(in crate::route) fn offsets_read(
        &self,
        group: &GroupId,
        offsets: impl IntoIterator<Item = (TopicName, i32, i64, String)>,
    ) {
        let mut all = Vec::new();
        for (topic, partition, offset, metadata) in offsets {
            // A negative offset means that nothing is committed. A commit of that value means the
            // same.
            let is_none = offset < 0;
            let of = self.origin_offsets([(topic, partition, if is_none { 0 } else { offset })]);
            all.extend(of.map(|(partition, offset)| {
                if is_none {
                    GroupObservation::Uncommitted { partition }
                } else {
                    seen_offset(partition, offset, &metadata)
                }
            }));
        }
        self.all_seen(group, all);
    }

    /// Records an accepted commit.
    pub(in crate::route) fn commit_stored(
        &self,
        group: &GroupId,
        offsets: impl IntoIterator<Item = (TopicName, i32, i64)>,
    ) {
        let of = |(partition, offset)| GroupObservation::Committed { partition, offset };
        self.all_seen(group, self.origin_offsets(offsets).map(of).collect());
    }

    /// Records an offset reset.
    pub(in crate::route) fn was_reset(
        &self,
        group: &GroupId,
        offsets: impl IntoIterator<Item = (TopicName, i32, i64)>,
    ) {
        let of = |(partition, offset)| GroupObservation::Reset { partition, offset };
        let resets: Vec<_> = self.origin_offsets(offsets).map(of).collect();
        // Creates the detector: the group may have no reader yet, and tracking starts with the
        // reset.
        if !resets.is_empty() && self.detector_of(group).is_some() {
            self.all_seen(group, resets);
        }
    }

    /// Evidence `incomplete-offsets`: the progress that an accepted commit's metadata reports above
    /// its offset.
    pub(in crate::route) fn report_progress<'a>(
        &self,
        group: &GroupId,
        metadata: impl Iterator<Item = (&'a TopicName, i32, i64, &'a str)>,
    ) {
        let told = metadata.filter_map(|(topic, partition, offset, metadata)| {
            let ParallelProgress { done, end } = read_progress(offset, metadata)?;
            Some(GroupObservation::Progress {
                partition: TopicPartition { topic: topic.clone(), partition },
                done,
                end,
            })
        });
        self.all_seen(group, told.collect());
    }

    /// Records a refused commit. A refusal of a process that a newer one replaced is no evidence.
    pub(in crate::route) fn commit_refused(
        &self,
        group: &GroupId,
        (key, member_id): (&MemberId, &MemberId),
        refused: impl IntoIterator<Item = ((TopicName, i32, i64), ResponseError)>,
    ) {
        if key.as_str().is_empty() {
            return;
        }
        let mut refused = refused.into_iter().peekable();
        if refused.peek().is_some() {
            self.called(group, key);
        }
        let refused = refused.filter(|(_, error)| FOR_GOOD.contains(error));
        let offsets: CommitPositions = refused.map(|(offset, _)| offset).collect();
        let Some(of) = self.detectors.find(group).filter(|_| !offsets.is_empty()) else { return };
        self.tell(group, &of, |detector, now| {
            if detector.is_replaced(key, member_id) {
                return;
            }
            let partitions = self.origin_offsets(offsets).map(|(partition, _)| partition).collect();
            let member = key.clone();
            detector.handle(now, GroupObservation::CommitRefused { member, partitions });
        });
    }

    /// The topic was deleted or recreated: every group's detector forgets it.
    pub(in crate::route) fn watched_topic_gone(&self, topic: &TopicName) {
        for (group, of) in self.detectors.all() {
            self.tell(&group, &of, |detector, now| {
                detector.handle(now, GroupObservation::TopicGone { topic: topic.clone() });
            });
        }
    }

    /// Keeps offsets of topics that are not ours, without the special values −1 and −2.
    pub(in crate::route) fn origin_offsets(
        &self,
        offsets: impl IntoIterator<Item = (TopicName, i32, i64)>,
    ) -> impl Iterator<Item = (TopicPartition, i64)> {
        let offsets = offsets.into_iter();
        let offsets =
            offsets.map(|(topic, partition, offset)| (TopicPartition { topic, partition }, offset));
        let is_ours = |partition: &TopicPartition| self.names.is_dead_letters(&partition.topic);
        offsets.filter(move |(partition, offset)| *offset >= 0 && !is_ours(partition))
    }

    /// Reports committed offsets to the engine, then caches them.
    pub(in crate::route) async fn note(
        &self,
        group: &GroupId,
        news: Vec<(TopicName, i32, i64)>,
    ) -> Result<(), EngineError> {
        if news.is_empty() {
            return Ok(());
        }
        self.engine.origin_commits(group, news.clone()).await?;
        self.positions.see(group, news);
        Ok(())
    }
}
