//! One group with its waiting requests and its persisted state.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};

use crate::broker::groups::group_record::{self, GroupRecord, StoredState};
use crate::broker::groups::machine::Machine;
use crate::broker::groups::upgrade::upgraded;
use crate::broker::groups::{GROUP_KIND, GroupEvent, Occupancy};
use crate::group::{
    Consumer, ConsumerConfig, GroupAnswer, GroupOutput, RequestId, TopicImage, member_key,
};
use crate::journal::{Journal, NewEntry};
use crate::model::{GroupId, Moment, TopicName, WallMs};

/// An answer and the journal entry that must be durable before the answer is sent.
#[derive(Debug)]
pub(super) struct GroupReply {
    pub(super) answer: GroupAnswer,
    /// Sequence of that entry, 0 = none; `None` if the journal refused the entry.
    pub(super) rests_on: Option<u64>,
}

pub(super) struct GroupCell {
    pub(super) machine: Machine,
    /// The machine that a join of the other kind replaced, until the join is accepted.
    before: Option<Machine>,
    pub(super) waiting: BTreeMap<RequestId, oneshot::Sender<GroupReply>>,
    /// The group has offsets, so it exists without a member.
    pub(super) is_simple: bool,
    /// The journal has a state of the group.
    is_stored: bool,
    /// The state that the journal refused; appended again until the journal accepts it.
    pub(super) pending: Option<NewEntry>,
    /// The group's last journal entry, 0 = none since the start.
    kept_seq: u64,
    /// Time of the last persisted change; an empty group is vacant since then.
    kept_at: WallMs,
}

impl GroupCell {
    pub(super) fn new(machine: Machine, at: WallMs) -> Self {
        Self {
            machine,
            before: None,
            waiting: BTreeMap::new(),
            is_simple: false,
            is_stored: false,
            pending: None,
            kept_seq: 0,
            kept_at: at,
        }
    }

    /// A group restored from the journal.
    pub(super) fn restored(machine: Machine, at: WallMs) -> Self {
        Self { is_stored: true, ..Self::new(machine, at) }
    }

    /// Turns an empty group into the other kind; a group with members stays as it is.
    pub(super) fn turn_into(&mut self, machine: Machine) {
        if self.machine.is_empty() && self.machine.kind() != machine.kind() {
            self.before = Some(std::mem::replace(&mut self.machine, machine));
        }
    }

    /// Turns a classic group of consumers into a KIP-848 group with all its members.
    pub(super) fn upgrade(
        &mut self,
        config: ConsumerConfig,
        now: Moment,
        image: impl Fn(&TopicName) -> Option<TopicImage>,
    ) {
        let upgraded = self.machine.as_classic().and_then(|known| upgraded(known, image));
        let Some(state) = upgraded.filter(|state| state.members.len() <= config.members_max) else {
            return;
        };
        let group = Box::new(Consumer::restored(config, now, state));
        let before = std::mem::replace(&mut self.machine, Machine::Consumer(group));
        if let Machine::Classic(mut before) = before {
            for (token, answer) in before.dissolve() {
                self.reply(token, answer);
            }
        }
    }

    /// Undoes [`GroupCell::turn_into`] when the join was refused.
    pub(super) fn turn_back_if_blank(&mut self) {
        if let Some(before) = self.before.take().filter(|_| self.machine.is_blank()) {
            self.machine = before;
        }
    }

    /// Handles all outputs of the machine, in their order.
    pub(super) fn drain(
        &mut self,
        group: &GroupId,
        at: WallMs,
        journal: &Journal,
        events: &mpsc::UnboundedSender<GroupEvent>,
    ) {
        if let Some(entry) = self.pending.clone() {
            self.keep(group, entry, journal);
        }
        while let Some(output) = self.machine.poll_output() {
            let event = match output {
                GroupOutput::Answer(token, answer) => {
                    self.reply(token, answer);
                    continue;
                }
                GroupOutput::Persist(state) => {
                    self.persist(group, at, StoredState::Classic(state), journal);
                    continue;
                }
                GroupOutput::PersistConsumer(state) => {
                    self.persist(group, at, StoredState::Consumer(state), journal);
                    continue;
                }
                GroupOutput::Forget if !self.is_stored => continue,
                GroupOutput::Forget => {
                    let entry = NewEntry::tombstone(GROUP_KIND, group_record::key_of(group));
                    self.keep(group, entry, journal);
                    continue;
                }
                GroupOutput::MemberGone(gone) => GroupEvent::MemberGone {
                    group: group.clone(),
                    member: member_key(&gone.member_id, gone.instance_id.as_deref()),
                    member_id: gone.member_id,
                    cause: gone.cause,
                },
                GroupOutput::Generation(generation) => {
                    GroupEvent::Rebalanced { group: group.clone(), generation }
                }
            };
            // The receiver is closed only while the server stops.
            drop(events.send(event));
        }
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        if self.machine.is_deleted() || self.machine.is_blank() {
            Occupancy::Unknown
        } else if self.machine.is_empty() {
            Occupancy::VacantSince(self.kept_at)
        } else {
            Occupancy::Occupied
        }
    }

    /// Time since which the group has no member; `None` while it has one, or after its deletion.
    pub(super) fn empty_since(&self) -> Option<WallMs> {
        (self.machine.is_empty() && !self.machine.is_deleted()).then_some(self.kept_at)
    }

    /// Whether the cell can be dropped: the group is deleted, or it has no state, no waiting
    /// request and no offsets.
    pub(super) fn is_over(&self) -> bool {
        let over = self.machine.is_deleted() || self.machine.is_blank() && !self.is_simple;
        self.pending.is_none() && self.waiting.is_empty() && over
    }

    fn reply(&mut self, token: RequestId, answer: GroupAnswer) {
        let Some(sender) = self.waiting.remove(&token) else { return };
        let rests_on = self.pending.is_none().then_some(self.kept_seq);
        // The client may have disconnected; then the session timeout removes the member.
        drop(sender.send(GroupReply { answer, rests_on }));
    }

    fn persist(&mut self, group: &GroupId, at: WallMs, state: StoredState, journal: &Journal) {
        self.kept_at = at;
        self.is_stored = true;
        let head = group_record::write(&GroupRecord { at, state });
        let key = group_record::key_of(group);
        self.keep(group, NewEntry::keyed(GROUP_KIND, key, head, bytes::Bytes::new()), journal);
    }

    fn keep(&mut self, group: &GroupId, entry: NewEntry, journal: &Journal) {
        match journal.append(vec![entry.clone()]) {
            Ok(appended) => {
                self.kept_seq = appended.seq();
                self.pending = None;
            }
            Err(error) => {
                if self.pending.is_none() {
                    tracing::warn!(
                        %group, %error,
                        "R0420 the state of a group is not journalled: its members wait, and it is \
                         tried again; check the disk"
                    );
                }
                self.pending = Some(entry);
            }
        }
    }
}
