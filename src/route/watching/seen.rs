//! What the APIs of groups tell the watches.

use crate::model::{GroupId, LaneOffset, MemberId, Now, Origin, TopicName, TopicPartition};
use crate::retry::Carried;
use crate::retry::watch::Seen;
use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::watching::{State, Watches};
use crate::wire::{Progress, ResponseError, read_progress};

/// Refusals that a commit of the same member cannot get over.
const FOR_GOOD: &[ResponseError] = &[
    ResponseError::IllegalGeneration,
    ResponseError::UnknownMemberId,
    ResponseError::FencedInstanceId,
    ResponseError::FencedMemberEpoch,
    ResponseError::StaleMemberEpoch,
];

/// As what a member was last told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Of its process: another one has another id under the same key.
    member_id: MemberId,
    epoch: i32,
    step: Step,
    /// On which connection it was told.
    conn: u64,
    /// It was told since that its generation is over.
    is_called: bool,
}

impl Standing {
    fn is_same(&self, next: &Self) -> bool {
        self.member_id == next.member_id && self.epoch == next.epoch && self.step == next.step
    }

    /// Whether a member that stands like `next` now has joined anew by itself: it knew its
    /// partitions, and was told nothing that would explain it. A client that has lost its
    /// connection joins anew as well.
    fn has_given_up(&self, next: &Self) -> bool {
        let joins = next.step == Step::Joined && next.epoch > self.epoch;
        joins && self.step == Step::Assigned && !self.is_called && self.conn == next.conn
    }
}

/// How far a member's assignment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::route) enum Step {
    /// It knows the generation.
    Joined,
    /// It knows its partitions.
    Assigned,
}

/// Offsets of partitions, as a commit names them.
type Offsets = Vec<(TopicName, i32, i64)>;

pub(in crate::route) fn place_of(origin: &Origin) -> TopicPartition {
    TopicPartition { topic: origin.topic.clone(), partition: origin.partition }
}

/// A group has committed this, with that metadata, as whoever keeps it says.
pub(super) fn read(partition: TopicPartition, offset: i64, metadata: &str) -> Seen {
    let done = read_progress(offset, metadata).map(|progress| progress.done).unwrap_or_default();
    Seen::Read { partition, offset, done }
}

impl Watches {
    /// What a group had committed before the start.
    pub fn read(&self, now: Now, group: &GroupId, of: TopicPartition, offset: i64, metadata: &str) {
        if let Some(watch) = self.find(group) {
            watch.lock().watch.handle(now, read(of, offset, metadata));
        }
    }
}

impl State {
    /// Whether a static member's name goes on in another process than that.
    fn is_replaced(&self, key: &MemberId, member_id: &MemberId) -> bool {
        self.members.get(key).is_some_and(|known| known.member_id != *member_id)
    }
}

impl Router {
    /// Something is seen of a group.
    pub fn seen(&self, group: &GroupId, seen: Seen) {
        self.all_seen(group, vec![seen]);
    }

    pub(in crate::route) fn all_seen(&self, group: &GroupId, all: Vec<Seen>) {
        let Some(of) = self.watches.find(group).filter(|_| !all.is_empty()) else { return };
        self.tell(group, &of, |state, now| {
            for seen in all {
                state.watch.handle(now, seen);
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
        let Some(of) = self.watch_of(group) else { return };
        let (member_id, conn) = (member_id.clone(), conn.id);
        let standing = Standing { member_id, epoch, step, conn, is_called: false };
        let is_news = self.tell(group, &of, |state, now| {
            let known = state.members.get_mut(key).filter(|known| known.is_same(&standing));
            if let Some(known) = known {
                known.conn = conn;
                return false;
            }
            let before = state.members.insert(key.clone(), standing.clone());
            let member = key.clone();
            match before {
                // A static member goes on in a new process: the former one is gone.
                Some(before) if before.member_id != standing.member_id => {
                    state.watch.handle(now, Seen::Lost { member, left: false });
                }
                Some(before) if before.has_given_up(&standing) => {
                    state.watch.handle(now, Seen::GaveUp { member });
                }
                Some(_) | None => {}
            }
            state.watch.handle(now, Seen::Assigned { member: key.clone(), epoch });
            true
        });
        if is_news {
            self.watches.changed();
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
        let of = self.watches.find(group);
        if of.is_some_and(|of| of.lock().watch.is_gone(key)) {
            tracing::info!(%group, member = %key, "a member that was missed is heard of again");
            self.assigned(conn, group, (key, member_id), generation, Step::Assigned);
        }
    }

    /// A member was told something that makes clients join anew.
    pub(in crate::route) fn called(&self, group: &GroupId, key: &MemberId) {
        let Some(of) = self.watches.find(group) else { return };
        if let Some(known) = of.lock().members.get_mut(key) {
            known.is_called = true;
        }
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
        let Some(of) = self.watches.find(group) else { return self.watches.changed() };
        self.tell(group, &of, |state, now| {
            if member_id.is_some_and(|gone| state.is_replaced(key, gone)) {
                // Its name goes on in a new process, and its end was told when that came.
                return;
            }
            state.members.remove(key);
            state.watch.handle(now, Seen::Lost { member: key.clone(), left });
        });
        self.watches.changed();
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
                    read(partition, offset, &metadata)
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
        if !resets.is_empty() && self.watch_of(group).is_some() {
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

    /// What a record was charged with by inference.
    pub(in crate::route) fn charged(&self, group: &GroupId, origin: &Origin) -> Carried {
        let of = self.watches.find(group);
        of.map(|of| of.lock().watch.charged(&place_of(origin), origin.offset)).unwrap_or_default()
    }

    /// The same of a record that is no real partition's: `lane` says which hand-out, if any.
    pub(in crate::route) fn spared(&self, group: &GroupId, lane: Option<LaneOffset>) -> Carried {
        let of = self.watches.find(group).filter(|_| lane.is_some());
        let spared = of.is_some_and(|of| of.lock().watch.is_paused());
        Carried { spared, ..Carried::default() }
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
        let Some(of) = self.watches.find(group).filter(|_| !offsets.is_empty()) else { return };
        self.tell(group, &of, |state, now| {
            if state.is_replaced(key, member_id) {
                return;
            }
            for (partition, _) in self.real(offsets) {
                let member = key.clone();
                state.watch.handle(now, Seen::CommitRefused { member, partition });
            }
        });
    }

    /// A topic is another one than before, for every group.
    pub(in crate::route) fn watched_topic_gone(&self, topic: &TopicName) {
        for (group, of) in self.watches.all() {
            self.tell(&group, &of, |state, now| {
                state.unreadable.retain(|partition| partition.topic != *topic);
                state.watch.handle(now, Seen::TopicGone { topic: topic.clone() });
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
