//! Observations of the APIs of groups, for the detectors.

use crate::engine::seen_offset;
use crate::model::{GroupId, MemberId, Origin, TopicName, TopicPartition};
use crate::retry::detector::{MemberStanding, Seen, Step};
use crate::route::Router;
use crate::route::conn::Conn;
use crate::wire::{Progress, ResponseError, read_progress};

/// Refusals that a commit of the same member cannot get over.
const FOR_GOOD: &[ResponseError] = &[
    ResponseError::IllegalGeneration,
    ResponseError::UnknownMemberId,
    ResponseError::FencedInstanceId,
    ResponseError::FencedMemberEpoch,
    ResponseError::StaleMemberEpoch,
];

/// Offsets of partitions, as a commit names them.
type Offsets = Vec<(TopicName, i32, i64)>;

impl Router {
    /// Something is seen of a group.
    pub fn seen(&self, group: &GroupId, seen: Seen) {
        self.all_seen(group, vec![seen]);
    }

    pub(in crate::route) fn all_seen(&self, group: &GroupId, all: Vec<Seen>) {
        let Some(of) = self.detectors.find(group).filter(|_| !all.is_empty()) else { return };
        self.tell(group, &of, |detector, now| {
            for seen in all {
                detector.handle(now, seen);
            }
        });
    }

    /// A member is told its generation or epoch, or what it is to hold; what it knows already is
    /// no news.
    pub(in crate::route) fn assigned(
        &self,
        conn: &Conn,
        group: &GroupId,
        (key, member_id): (&MemberId, &MemberId),
        epoch: i32,
        step: Step,
    ) {
        let Some(of) = self.detector_of(group) else { return };
        let standing = MemberStanding { member_id: member_id.clone(), epoch, step, conn: conn.id };
        let is_news = self.tell(group, &of, |detector, now| detector.assign(now, key, standing));
        if is_news {
            self.detectors.change_owners();
        }
    }

    /// The coordinator goes on with a member as of that generation: one that was missed here holds
    /// what it held, and nobody will tell it anew.
    pub(in crate::route) fn goes_on_with(
        &self,
        conn: &Conn,
        group: &GroupId,
        (key, member_id): (&MemberId, &MemberId),
        generation: i32,
    ) {
        let of = self.detectors.find(group);
        if of.is_some_and(|of| of.lock().detector.is_gone(key)) {
            tracing::info!(%group, member = %key, "a member that was missed is heard of again");
            self.assigned(conn, group, (key, member_id), generation, Step::Assigned);
        }
    }

    /// A member was told something that makes clients join anew.
    pub(in crate::route) fn called(&self, group: &GroupId, key: &MemberId) {
        let Some(of) = self.detectors.find(group) else { return };
        self.tell(group, &of, |detector, _| detector.call(key));
    }

    /// A member was heard of.
    pub(in crate::route) fn alive(&self, group: &GroupId, key: &MemberId) {
        self.seen(group, Seen::Alive { member: key.clone() });
    }

    /// A member is gone; `left`: it says so; `member_id`: as that process, where it is known.
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

    /// A member was told from where to go on.
    pub(in crate::route) fn offsets_read(
        &self,
        group: &GroupId,
        offsets: impl IntoIterator<Item = (TopicName, i32, i64, String)>,
    ) {
        let mut all = Vec::new();
        for (topic, partition, offset, metadata) in offsets {
            // Whatever is below 0 says that nothing is committed; so a group may have committed it.
            let is_none = offset < 0;
            let of = self.real([(topic, partition, if is_none { 0 } else { offset })]);
            all.extend(of.map(|(partition, offset)| {
                if is_none {
                    Seen::Uncommitted { partition }
                } else {
                    seen_offset(partition, offset, &metadata)
                }
            }));
        }
        self.all_seen(group, all);
    }

    /// A commit was accepted.
    pub(in crate::route) fn commit_stored(
        &self,
        group: &GroupId,
        offsets: impl IntoIterator<Item = (TopicName, i32, i64)>,
    ) {
        let of = |(partition, offset)| Seen::Committed { partition, offset };
        self.all_seen(group, self.real(offsets).map(of).collect());
    }

    /// Of these offsets, committed by nobody's member, where the group stands now.
    pub(in crate::route) fn stands(
        &self,
        group: &GroupId,
        offsets: impl IntoIterator<Item = (TopicName, i32, i64)>,
    ) -> Vec<Seen> {
        let of = |(partition, offset): (TopicPartition, i64)| {
            let TopicPartition { topic, partition: index } = partition.clone();
            let before = self.committed(group, &Origin { topic, partition: index, offset });
            Seen::Reset { partition, offset, before }
        };
        self.real(offsets).map(of).collect()
    }

    /// The group was reset so.
    pub(in crate::route) fn was_reset(&self, group: &GroupId, resets: Vec<Seen>) {
        // Nobody reads yet: whoever does is watched from now on.
        if !resets.is_empty() && self.detector_of(group).is_some() {
            self.all_seen(group, resets);
        }
    }

    /// E10: what the metadata of an accepted commit says of the records above it, if it does.
    pub(in crate::route) fn commit_explained<'a>(
        &self,
        group: &GroupId,
        metadata: impl Iterator<Item = (&'a TopicName, i32, i64, &'a str)>,
    ) {
        let told = metadata.filter_map(|(topic, partition, offset, metadata)| {
            let Progress { done, end } = read_progress(offset, metadata)?;
            let topic = self.names.canonical(topic);
            Some(Seen::Progress { partition: TopicPartition { topic, partition }, done, end })
        });
        self.all_seen(group, told.collect());
    }

    /// A commit was refused. One of a process whose name goes on in another says nothing of that.
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
        let offsets: Offsets = refused.map(|(offset, _)| offset).collect();
        let Some(of) = self.detectors.find(group).filter(|_| !offsets.is_empty()) else { return };
        self.tell(group, &of, |detector, now| {
            if detector.is_replaced(key, member_id) {
                return;
            }
            for (partition, _) in self.real(offsets) {
                let member = key.clone();
                detector.handle(now, Seen::CommitRefused { member, partition });
            }
        });
    }

    /// A topic is another one than before, for every group.
    pub(in crate::route) fn watched_topic_gone(&self, topic: &TopicName) {
        for (group, of) in self.detectors.all() {
            self.tell(&group, &of, |detector, now| {
                detector.handle(now, Seen::TopicGone { topic: topic.clone() });
            });
        }
    }

    /// Of real topics, without −1 and −2, which are no offsets.
    pub(in crate::route) fn real(
        &self,
        offsets: impl IntoIterator<Item = (TopicName, i32, i64)>,
    ) -> impl Iterator<Item = (TopicPartition, i64)> {
        let offsets = offsets.into_iter().map(|(topic, partition, offset)| {
            let topic = self.names.canonical(&topic);
            (TopicPartition { topic, partition }, offset)
        });
        let is_ours = |partition: &TopicPartition| self.names.is_ours(&partition.topic);
        offsets.filter(move |(partition, offset)| *offset >= 0 && !is_ours(partition))
    }
}
