//! One group with the requests that wait for it and what of it is kept.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};

use crate::broker::groups::machine::Machine;
use crate::broker::groups::record::{self, Kept, State};
use crate::broker::groups::upgrade::upgraded;
use crate::broker::groups::{GROUP_KIND, GroupEvent, Occupancy};
use crate::group::{Answer, Consumer, ConsumerConfig, Output, Token, TopicImage, member_key};
use crate::journal::{Journal, NewEntry};
use crate::model::{GroupId, Now, TopicName, WallMs};

/// An answer and what it rests on.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    /// The entry that must be durable first, 0 = none; absent if the journal did not take it.
    pub(super) rests_on: Option<u64>,
}

pub(super) struct Cell {
    pub(super) machine: Machine,
    /// What it was when a join asked for a group of the other kind.
    before: Option<Machine>,
    pub(super) waiting: BTreeMap<Token, oneshot::Sender<Reply>>,
    /// Offsets keep the group without a member.
    pub(super) is_simple: bool,
    /// The journal has a state of it.
    is_stored: bool,
    /// What the journal did not take; offered again until it does.
    pub(super) unkept: Option<NewEntry>,
    /// The last entry it took, 0 = none since the start.
    kept_seq: u64,
    /// When the state last changed for good; an empty group is vacant since then.
    kept_at: WallMs,
}

impl Cell {
    pub(super) fn new(machine: Machine, at: WallMs) -> Self {
        Self {
            machine,
            before: None,
            waiting: BTreeMap::new(),
            is_simple: false,
            is_stored: false,
            unkept: None,
            kept_seq: 0,
            kept_at: at,
        }
    }

    /// A group that the journal has.
    pub(super) fn restored(machine: Machine, at: WallMs) -> Self {
        Self { is_stored: true, ..Self::new(machine, at) }
    }

    /// An empty group becomes one of the other kind; any other stays what it is.
    pub(super) fn turn_into(&mut self, machine: Machine) {
        if self.machine.is_empty() && self.machine.kind() != machine.kind() {
            self.before = Some(std::mem::replace(&mut self.machine, machine));
        }
    }

    /// A classic group of consumers becomes one by KIP-848 with all its members.
    pub(super) fn upgrade(
        &mut self,
        config: ConsumerConfig,
        now: Now,
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

    /// A join that was refused changes nothing.
    pub(super) fn turn_back_if_blank(&mut self) {
        if let Some(before) = self.before.take().filter(|_| self.machine.is_blank()) {
            self.machine = before;
        }
    }

    /// Does all the machine says, in its order.
    pub(super) fn drain(
        &mut self,
        group: &GroupId,
        at: WallMs,
        journal: &Journal,
        events: &mpsc::UnboundedSender<GroupEvent>,
    ) {
        if let Some(entry) = self.unkept.clone() {
            self.keep(entry, journal);
        }
        while let Some(output) = self.machine.poll_output() {
            let event = match output {
                Output::Answer(token, answer) => {
                    self.reply(token, answer);
                    continue;
                }
                Output::Persist(state) => {
                    self.persist(group, at, State::Classic(state), journal);
                    continue;
                }
                Output::PersistConsumer(state) => {
                    self.persist(group, at, State::Consumer(state), journal);
                    continue;
                }
                Output::Forget if !self.is_stored => continue,
                Output::Forget => {
                    self.keep(NewEntry::tombstone(GROUP_KIND, record::key_of(group)), journal);
                    continue;
                }
                Output::MemberGone(gone) => GroupEvent::MemberGone {
                    group: group.clone(),
                    member: member_key(&gone.member_id, gone.instance_id.as_deref()),
                    member_id: gone.member_id,
                    cause: gone.cause,
                },
                Output::Generation(generation) => {
                    GroupEvent::Rebalanced { group: group.clone(), generation }
                }
            };
            // Nobody listens any more only while the server stops.
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

    /// Since when the group has had no member; `None`: it has one, or is deleted.
    pub(super) fn empty_since(&self) -> Option<WallMs> {
        (self.machine.is_empty() && !self.machine.is_deleted()).then_some(self.kept_at)
    }

    /// Nothing is lost when this cell is dropped: the group is deleted, or nobody ever joined it
    /// and no offsets keep it.
    pub(super) fn is_over(&self) -> bool {
        let over = self.machine.is_deleted() || self.machine.is_blank() && !self.is_simple;
        self.unkept.is_none() && self.waiting.is_empty() && over
    }

    fn reply(&mut self, token: Token, answer: Answer) {
        let Some(sender) = self.waiting.remove(&token) else { return };
        let rests_on = self.unkept.is_none().then_some(self.kept_seq);
        // The client may have gone; the machine will notice by its silence.
        drop(sender.send(Reply { answer, rests_on }));
    }

    fn persist(&mut self, group: &GroupId, at: WallMs, state: State, journal: &Journal) {
        self.kept_at = at;
        self.is_stored = true;
        let head = record::write(&Kept { at, state });
        let key = record::key_of(group);
        self.keep(NewEntry::keyed(GROUP_KIND, key, head, bytes::Bytes::new()), journal);
    }

    fn keep(&mut self, entry: NewEntry, journal: &Journal) {
        match journal.append(vec![entry.clone()]) {
            Ok(appended) => {
                self.kept_seq = appended.seq();
                self.unkept = None;
            }
            Err(error) => {
                if self.unkept.is_none() {
                    tracing::warn!(%error, "a group's state is not kept yet; its members wait");
                }
                self.unkept = Some(entry);
            }
        }
    }
}
