//! All groups of the embedded cluster, classic and KIP-848. They drive the group state machines,
//! persist group state and release answers once the state is durable.

mod cell;
mod consumer;
mod group_record;
mod machine;
mod member_subscription;
mod simple;
#[cfg(test)]
mod tests;
mod upgrade;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

use crate::broker::fact_encoding::FactError;
use crate::group::{
    Classic, ClassicConfig, CommitCheck, ConsumerConfig, Description, GoneCause, GroupAnswer,
    GroupError, GroupInput, Heartbeat, JoinRefusal, JoinRequest, JoinResult, LeaveRequest,
    LeaveResult, RequestId, Sync, SyncResult, TopicImage,
};
use crate::journal::{EntryKind, Journal, JournalEntry};
use crate::model::{Deadline, GroupId, MemberId, Moment, MonoMs, TopicName, WallMs};

use cell::{GroupCell, GroupReply};
pub use machine::GroupKind;
use machine::Machine;
pub use member_subscription::MemberSubscription;

/// The state of a group; key = the group id, head = the state, body empty.
pub const GROUP_KIND: EntryKind = EntryKind(18);
/// Pause before a state that the journal refused is appended again.
const KEEP_AGAIN_MS: u64 = 1_000;
/// Lifetime of an empty group without offsets (Kafka `offsets.retention.check.interval.ms`).
const VACANT_MS_MAX: u64 = 600_000;

/// Changes of membership, for the engine that delivers records to members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// A member is no longer part of the group.
    MemberGone {
        group: GroupId,
        /// The member id, or `instance:<id>` for a static member.
        member: MemberId,
        member_id: MemberId,
        /// `Replaced`: the same static member continues in a new process.
        cause: GoneCause,
    },
    /// The join phase ended, or the target assignment changed.
    Rebalanced {
        group: GroupId,
        /// The new generation or group epoch.
        generation: i32,
    },
}

/// A group in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    pub group: GroupId,
    /// The protocol of the members.
    pub kind: GroupKind,
    /// The group state as Kafka spells it in `ListGroups`.
    pub phase: String,
    /// `consumer`, `connect`, …; empty before the first member.
    pub protocol_type: String,
}

/// Membership of a group, by which its offsets expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupancy {
    Occupied,
    /// The last member left at that time.
    VacantSince(WallMs),
    /// No member ever joined, or the group was forgotten.
    Unknown,
}

/// All groups; clones share them.
#[derive(Clone)]
pub struct Groups {
    inner: Arc<GroupsCore>,
}

struct GroupsCore {
    journal: Journal,
    classic: ClassicConfig,
    consumer: ConsumerConfig,
    clock: Box<dyn Fn() -> Moment + Send + std::marker::Sync>,
    state: Mutex<GroupTable>,
    /// Notified when a deadline comes before the one that the timer waits for.
    nearer: Notify,
    events: mpsc::UnboundedSender<GroupEvent>,
}

struct GroupTable {
    cells: BTreeMap<GroupId, GroupCell>,
    tokens: u64,
    /// The next wake-up of the timer.
    armed: Option<MonoMs>,
}

impl Groups {
    /// Starts without groups; [`Groups::replay`] fills them. The receiver gets every event in
    /// order. Its owner reads without pause, because the channel is unbounded.
    pub fn new(
        journal: Journal,
        classic: ClassicConfig,
        consumer: ConsumerConfig,
        clock: impl Fn() -> Moment + Send + std::marker::Sync + 'static,
    ) -> (Self, mpsc::UnboundedReceiver<GroupEvent>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let state = GroupTable { cells: BTreeMap::new(), tokens: 0, armed: None };
        let inner = GroupsCore {
            journal,
            classic,
            consumer,
            clock: Box::new(clock),
            state: Mutex::new(state),
            nearer: Notify::new(),
            events,
        };
        (Self { inner: Arc::new(inner) }, receiver)
    }

    /// Restores a group from an entry found at start; entries of other kinds are ignored.
    pub fn replay(&self, entry: &JournalEntry) -> Result<(), FactError> {
        let Some(key) = entry.key.as_ref().filter(|_| entry.kind == GROUP_KIND) else {
            return Ok(());
        };
        let group = group_record::group_of(key)?;
        if entry.is_tombstone() {
            self.lock().cells.remove(&group);
            return Ok(());
        }
        let kept = group_record::read(&entry.head)?;
        let machine =
            Machine::restored(self.inner.classic, self.inner.consumer, self.now(), kept.state);
        self.lock().cells.insert(group, GroupCell::restored(machine, kept.at));
        Ok(())
    }

    /// Opens the groups to clients. Every session timeout starts now, so a long start removes no
    /// member.
    pub fn open(&self) {
        let now = self.now();
        for cell in self.lock().cells.values_mut() {
            cell.machine.restart_sessions(now);
            cell.machine.turn_classic(self.inner.classic, now);
        }
        self.inner.nearer.notify_one();
    }

    /// `JoinGroup`: answers when the join phase ends. The method fills `fresh_id` and `consuming`
    /// of `join`; `image` looks a topic up.
    pub async fn join(
        &self,
        group: &GroupId,
        mut join: JoinRequest,
        image: impl Fn(&TopicName) -> Option<TopicImage>,
    ) -> Result<JoinResult, JoinRefusal> {
        let member_id = join.member_id.clone();
        let prefix = join.instance_id.as_deref().unwrap_or(join.client_id.as_str());
        join.fresh_id = MemberId::from(format!("{prefix}-{}", Uuid::new_v4()));
        join.consuming =
            upgrade::consuming(&join.protocols, self.topics_of(group), image).map(Box::new);
        let is_new = member_id.as_str().is_empty();
        let kind = is_new.then_some(GroupKind::Classic);
        let asked = self.ask(group, kind, |token| GroupInput::Join(token, join));
        match self.wait(asked).await {
            Ok(GroupAnswer::Join(result)) => result,
            Ok(_) => Err(JoinRefusal { error: GroupError::CoordinatorNotAvailable, member_id }),
            Err(error) => Err(JoinRefusal { error, member_id }),
        }
    }

    /// `SyncGroup`: answers when the leader's assignment is durable.
    pub async fn sync(&self, group: &GroupId, sync: Sync) -> Result<SyncResult, GroupError> {
        let asked = self.ask(group, None, |token| GroupInput::Sync(token, sync));
        match self.wait(asked).await? {
            GroupAnswer::Sync(result) => result.map(|synced| match synced.held {
                None => synced,
                Some(held) => {
                    SyncResult { assignment: upgrade::assignment(held), held: None, ..synced }
                }
            }),
            _ => Err(GroupError::CoordinatorNotAvailable),
        }
    }

    pub fn heartbeat(&self, group: &GroupId, beat: Heartbeat) -> Result<(), GroupError> {
        match self.ask_now(group, |token| GroupInput::Heartbeat(token, beat))? {
            GroupAnswer::Heartbeat(result) => result,
            _ => Err(GroupError::CoordinatorNotAvailable),
        }
    }

    /// `LeaveGroup`. Does not wait for the journal: if the entry is lost, the session timeout
    /// removes the member.
    pub fn leave(
        &self,
        group: &GroupId,
        leave: LeaveRequest,
    ) -> Result<Vec<LeaveResult>, GroupError> {
        let unknown = leave.members.clone();
        match self.ask_now(group, |token| GroupInput::Leave(token, leave)) {
            Ok(GroupAnswer::Leave(result)) => result,
            // The group does not exist, so each member is unknown.
            Err(GroupError::UnknownMemberId) => Ok(unknown
                .into_iter()
                .map(|leaver| LeaveResult {
                    member_id: leaver.member_id,
                    instance_id: leaver.instance_id,
                    result: Err(GroupError::UnknownMemberId),
                })
                .collect()),
            Ok(_) => Err(GroupError::CoordinatorNotAvailable),
            Err(error) => Err(error),
        }
    }

    /// Checks whether a client may commit offsets of the group. A successful check counts as a
    /// heartbeat.
    pub fn commit_check(&self, group: &GroupId, check: CommitCheck) -> Result<(), GroupError> {
        let (outside, transactional) = (check.generation < 0, check.transactional);
        match self.ask_now(group, |token| GroupInput::CommitCheck(token, check)) {
            Ok(GroupAnswer::CommitCheck(result)) => result,
            // A group that only has offsets has no members, so a member id in the request is stale.
            Err(GroupError::UnknownMemberId) if outside => Ok(()),
            Err(GroupError::UnknownMemberId) if transactional => Err(GroupError::IllegalGeneration),
            Err(GroupError::UnknownMemberId) => Err(GroupError::GroupIdNotFound),
            Ok(_) => Err(GroupError::CoordinatorNotAvailable),
            Err(error) => Err(error),
        }
    }

    /// `DeleteGroups`, durable. The caller deletes the group's offsets in the offset store.
    pub async fn delete(&self, group: &GroupId) -> Result<(), GroupError> {
        let asked = self.ask(group, None, GroupInput::Delete);
        match self.wait(asked).await {
            Ok(GroupAnswer::Delete(result)) => result,
            Err(GroupError::UnknownMemberId) => Err(GroupError::GroupIdNotFound),
            Ok(_) => Err(GroupError::CoordinatorNotAvailable),
            Err(error) => Err(error),
        }
    }

    /// Every group, empty groups included.
    pub fn list(&self) -> Vec<ListedGroup> {
        let state = self.lock();
        let listed = |(group, cell): (&GroupId, &GroupCell)| ListedGroup {
            group: group.clone(),
            kind: cell.machine.kind(),
            phase: cell.machine.phase(),
            protocol_type: cell.machine.protocol_type().to_owned(),
        };
        state.cells.iter().map(listed).collect()
    }

    /// Whether the group exists; empty and simple groups count.
    pub fn has(&self, group: &GroupId) -> bool {
        self.lock().cells.contains_key(group)
    }

    /// One classic group; `None` if the group does not exist or has the other kind.
    pub fn describe(&self, group: &GroupId) -> Option<Description> {
        self.lock().cells.get(group)?.machine.as_classic().map(Classic::describe)
    }

    /// The member's metadata for the chosen assignor; for consumers, the subscription. `member` is
    /// a member id or `instance:<id>`.
    pub fn subscription(&self, group: &GroupId, member: &MemberId) -> Option<Bytes> {
        self.lock().cells.get(group)?.machine.subscription(member)
    }

    /// The member's stable name: `instance:<id>` for a static member, which outlives its process.
    pub fn key_of(&self, group: &GroupId, member: &MemberId) -> Option<MemberId> {
        self.lock().cells.get(group)?.machine.key_of(member)
    }

    /// The members of a group, static ones as `instance:<id>`.
    pub fn members(&self, group: &GroupId) -> Vec<MemberId> {
        let state = self.lock();
        state.cells.get(group).map(|cell| cell.machine.member_keys()).unwrap_or_default()
    }

    pub fn occupancy(&self, group: &GroupId) -> Occupancy {
        match self.lock().cells.get(group) {
            None => Occupancy::Unknown,
            Some(cell) => cell.occupancy(),
        }
    }

    /// Forgets groups that have been empty for ten minutes and keep no offsets.
    pub fn expire(&self, has_offsets: impl Fn(&GroupId) -> bool) {
        let now = self.now();
        let idle: Vec<GroupId> = self
            .lock()
            .cells
            .iter()
            .filter(|(_, cell)| {
                let since = cell.empty_since();
                since.is_some_and(|since| VACANT_MS_MAX <= now.wall.since(since))
            })
            .map(|(group, _)| group.clone())
            .collect();
        for group in idle.iter().filter(|group| !has_offsets(group)) {
            // No client waits for the answer. The group refuses the deletion if a member joined
            // meanwhile.
            drop(self.ask(group, None, GroupInput::Delete));
        }
    }

    /// Expires sessions and waits at their deadlines; runs until the server stops.
    pub async fn run_timers(self) {
        loop {
            match self.tick() {
                None => self.inner.nearer.notified().await,
                Some(at) => {
                    let pause = Duration::from_millis(at.0.since(self.now().mono));
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.inner.nearer.notified() => {}
                    }
                }
            }
        }
    }

    /// Handles every deadline that has passed; returns the next one.
    fn tick(&self) -> Option<Deadline> {
        let now = self.now();
        let mut state = self.lock();
        let mut next: Option<MonoMs> = None;
        let ids: Vec<GroupId> = state.cells.keys().cloned().collect();
        for group in ids {
            let Some(cell) = state.cells.get_mut(&group) else { continue };
            let due = cell.machine.poll_timeout().is_some_and(|due| due.0 <= now.mono);
            if due || cell.pending.is_some() {
                cell.machine.handle_timeout(now);
                self.drain(&group, cell, now);
            }
            let again = cell.pending.is_some().then(|| now.mono.plus(KEEP_AGAIN_MS));
            let wanted = cell.machine.poll_timeout().map(|due| due.0).into_iter().chain(again);
            next = next.into_iter().chain(wanted).min();
            if cell.is_over() {
                state.cells.remove(&group);
            }
        }
        state.armed = next;
        next.map(Deadline)
    }

    /// Sends a request to a group. `create` makes a missing group, and turns an empty group of the
    /// other kind into that kind. A missing group without `create` is `UnknownMemberId`.
    fn ask(
        &self,
        group: &GroupId,
        create: Option<GroupKind>,
        input: impl FnOnce(RequestId) -> GroupInput,
    ) -> Result<oneshot::Receiver<GroupReply>, GroupError> {
        self.ask_after(group, create, |_, _| {}, input)
    }

    /// [`Groups::ask`] that runs `first` on the group before the request.
    fn ask_after(
        &self,
        group: &GroupId,
        create: Option<GroupKind>,
        first: impl FnOnce(&mut GroupCell, Moment),
        input: impl FnOnce(RequestId) -> GroupInput,
    ) -> Result<oneshot::Receiver<GroupReply>, GroupError> {
        let now = self.now();
        let mut state = self.lock();
        state.tokens = state.tokens.saturating_add(1);
        let token = RequestId(state.tokens);
        let input = input(token);
        // Kafka accepts offsets of the group with the empty name, which no member can join.
        let keeps_unnamed = matches!(input, GroupInput::CommitCheck(..) | GroupInput::Delete(_));
        if group.is_reserved() || !(group.is_legal() || keeps_unnamed) {
            return Err(GroupError::InvalidGroupId);
        }
        let (sender, receiver) = oneshot::channel();
        let machine =
            create.map(|kind| Machine::new(kind, self.inner.classic, self.inner.consumer));
        match (machine, state.cells.get_mut(group)) {
            (Some(machine), Some(cell)) => cell.turn_into(machine),
            (Some(machine), None) => {
                state.cells.insert(group.clone(), GroupCell::new(machine, now.wall));
            }
            (None, _) => {}
        }
        let armed = state.armed;
        let cell = state.cells.get_mut(group).ok_or(GroupError::UnknownMemberId)?;
        first(cell, now);
        cell.waiting.insert(token, sender);
        cell.machine.handle(now, input);
        self.drain(group, cell, now);
        cell.turn_back_if_blank();
        let wanted = cell.machine.poll_timeout().map(|due| due.0);
        let pending = cell.pending.is_some();
        if cell.is_over() {
            state.cells.remove(group);
        }
        if pending || wanted.is_some_and(|due| armed.is_none_or(|armed| due < armed)) {
            self.inner.nearer.notify_one();
        }
        Ok(receiver)
    }

    /// Waits for the answer, then until the journal entry behind the answer is durable.
    async fn wait(
        &self,
        asked: Result<oneshot::Receiver<GroupReply>, GroupError>,
    ) -> Result<GroupAnswer, GroupError> {
        let reply = asked?.await.map_err(|_| GroupError::CoordinatorNotAvailable)?;
        let seq = reply.rests_on.ok_or(GroupError::CoordinatorNotAvailable)?;
        if self.inner.journal.durable_seq() < seq {
            let durable = self.inner.journal.durable(seq).await;
            durable.map_err(|_| GroupError::CoordinatorNotAvailable)?;
        }
        Ok(reply.answer)
    }

    /// For requests that the machine answers at once and whose answer needs no journal entry.
    fn ask_now(
        &self,
        group: &GroupId,
        input: impl FnOnce(RequestId) -> GroupInput,
    ) -> Result<GroupAnswer, GroupError> {
        let mut receiver = self.ask(group, None, input)?;
        let reply = receiver.try_recv().map_err(|_| GroupError::CoordinatorNotAvailable)?;
        Ok(reply.answer)
    }

    fn drain(&self, group: &GroupId, cell: &mut GroupCell, now: Moment) {
        cell.drain(group, now.wall, &self.inner.journal, &self.inner.events);
        cell.machine.turn_classic(self.inner.classic, now);
    }

    fn now(&self) -> Moment {
        (self.inner.clock)()
    }

    fn lock(&self) -> MutexGuard<'_, GroupTable> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups").field("count", &self.lock().cells.len()).finish_non_exhaustive()
    }
}
