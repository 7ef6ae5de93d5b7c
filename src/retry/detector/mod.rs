//! The detector of one group: deliveries to its members, and the conclusions from what they do
//! next.
//!
//! The edge asks the detector before records are delivered ([`Detector::asked`]). It reports
//! deliveries ([`Detector::handed`]) and all other observations ([`Detector::handle`]). A healthy
//! consumer gets [`FetchDecision::Open`] and never anything else. Windows are journalled by
//! [`DetectorOutput`], so a restart keeps counts, holds and skipped offsets.

mod breaker;
mod crashes;
mod deliveries_lost;
mod explanation;
mod journalled_windows;
mod member;
mod member_assignments;
mod member_fetch;
mod observations;
mod observed_commit;
mod observed_nack;
mod observed_progress;
mod ordered;
mod plan;
mod recreated_topics;
mod rules;
mod seek_backs;
mod stalled;
mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use crate::model::{MemberId, Moment, MonoMs, TopicPartition};
use crate::retry::suspects::{Decision, Suspects, SuspectsRecord};

pub use breaker::BreakerView;
pub(super) use breaker::{Breaker, BreakerSettings, DeliveryOutcomes, Turnover};
pub(super) use crashes::limited;
pub use explanation::{DetectorView, SuspectStage, SuspectState, WindowView};
pub use journalled_windows::{SuspectRecord, WindowRecord};
use member::AssignedMember;
pub use member::{AssignmentStep, MemberStanding};
pub(super) use member::{DeliveryRight, DetectedMember, OutstandingDelivery, RemovedMembers};
use observations::RefetchedRecords;
pub use observations::{DeliveredRange, FetchPosition, GroupObservation, MemberFetch};
pub use observed_nack::NACKED_MAX;
pub use ordered::OrderEffect;
pub use plan::{ExhaustedRecord, FetchDecision, Plan};
pub use rules::Rules;
pub(super) use seek_backs::{SeekBacks, TOLD_AT};
pub(super) use window::{Holder, Suspect, WaitPhase, Window};

/// A group without a Fetch for this long is forgotten.
const IDLE_MS: u64 = 10 * 60 * 1000;

/// A request of the detector to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectorOutput {
    /// Journal the partition's window. The edge does not wait for it.
    Window {
        partition: TopicPartition,
        /// `None`: nothing to remember.
        window: Option<WindowRecord>,
    },
    /// Journal the group's suspects; `None`: nothing to remember. The edge does not wait for it.
    Suspects(Option<SuspectsRecord>),
    /// A decision of the suspects, for the log.
    Suspicion(Decision),
    /// A pending Fetch may get another answer now.
    Wake,
    /// A member went back to a record; nothing is concluded from it.
    SeekBack {
        partition: TopicPartition,
        offset: i64,
        /// The record the log names for the group: the first one with three returns.
        is_told: bool,
    },
    /// The breaker pauses the group (true), or resumes it (false).
    Held(bool),
    /// The group committed past this record elsewhere, so its partition no longer waits for it.
    Passed {
        /// A partition as produced to, not a retry partition.
        partition: TopicPartition,
        offset: i64,
    },
    /// The group no longer keeps order, so its partition stops waiting for these records.
    LetGo {
        partition: TopicPartition,
        offsets: Vec<i64>,
        /// The records become entries (`retry.delivery` is not `off`).
        has_queue: bool,
    },
}

#[derive(Debug)]
pub struct Detector {
    pub(super) rules: Rules,
    pub(super) members: BTreeMap<MemberId, DetectedMember>,
    standings: BTreeMap<MemberId, AssignedMember>,
    /// Time of the last Fetch of a member.
    asked_at: MonoMs,
    /// Partitions with an undecodable batch; each is logged once.
    pub(super) unreadable: BTreeSet<TopicPartition>,
    pub(super) gone: RemovedMembers,
    pub(super) windows: BTreeMap<TopicPartition, Window>,
    /// Partitions with suspects or skipped records.
    pub(super) troubled: BTreeSet<TopicPartition>,
    pub(super) breaker: Breaker,
    /// Records that may crash their consumer.
    pub(super) suspects: Suspects,
    /// The last journalled record of the suspects.
    pub(super) kept_suspects: Option<SuspectsRecord>,
    /// End of the last `order.interval` of a partition whose owner went back.
    pub(super) waits_until: MonoMs,
    /// The log has named a record of this group that a member went back to.
    pub(super) has_told_seek_back: bool,
    outputs: VecDeque<DetectorOutput>,
}

impl Detector {
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            members: BTreeMap::new(),
            standings: BTreeMap::new(),
            asked_at: MonoMs::default(),
            unreadable: BTreeSet::new(),
            gone: RemovedMembers::default(),
            windows: BTreeMap::new(),
            troubled: BTreeSet::new(),
            breaker: Breaker::default(),
            suspects: Suspects::new(rules.suspects),
            kept_suspects: None,
            waits_until: MonoMs::default(),
            has_told_seek_back: false,
            outputs: VecDeque::new(),
        }
    }

    /// Replaces the rules after the configuration was reloaded.
    pub fn rule(&mut self, now: Moment, rules: Rules) {
        let was_in_order = std::mem::replace(&mut self.rules, rules).in_order;
        self.suspects.set_rules(rules.suspects);
        for (partition, window) in &self.windows {
            if window.is_troubled() {
                self.troubled.insert(partition.clone());
            }
        }
        if rules.breaker.is_none()
            && let Some(since) = self.breaker.reset()
        {
            self.was_held(now, since);
        }
        if was_in_order && !rules.in_order {
            let partitions: Vec<TopicPartition> = self.windows.keys().cloned().collect();
            for partition in partitions {
                self.let_go(&partition);
            }
        }
        self.outputs.push_back(DetectorOutput::Wake);
    }

    /// Restores the window of a partition from the journal.
    pub fn restore(&mut self, now: Moment, partition: TopicPartition, window: WindowRecord) {
        let window = Window::restored(window, now, &self.rules);
        if window.has_committed() {
            self.suspects.note_committed(&partition.topic);
        }
        if window.is_troubled() {
            self.troubled.insert(partition.clone());
        }
        let of = partition.clone();
        self.windows.insert(partition, window);
        if !self.rules.in_order {
            self.let_go(&of);
        }
    }

    /// Restores the suspects from the journal.
    pub fn restore_suspects(&mut self, now: Moment, record: SuspectsRecord) {
        self.suspects.restore(now, &record);
        self.kept_suspects = Some(record);
    }

    /// Whether the group may be forgotten: it has no member, no Fetch lately, nothing in the
    /// journal, and no entry that a commit still has to pass.
    pub fn is_idle(&self, now: Moment) -> bool {
        self.standings.is_empty()
            && self.windows.values().all(|window| window.kept.is_idle() && window.nacked.is_empty())
            && self.kept_suspects.is_none()
            && now.mono.since(self.asked_at) > IDLE_MS
    }

    /// Plans the answer to a Fetch of a member.
    pub fn asked(&mut self, now: Moment, by: &MemberFetch, asked: &[FetchPosition]) -> Plan {
        self.asked_at = now.mono;
        if self.gone.has(&by.member) {
            return self.plan_of_gone(asked);
        }
        self.note_fetch(now, by);
        self.suspects.handle_timeout(now);
        self.expire_breaker(now);
        self.lose_given_up(now, &by.member, asked);
        let returned = asked.iter().filter_map(|ask| self.on_asked(now, by, ask)).collect();
        self.lose_returned(now, &by.member, returned);
        self.decide();
        let is_shut = !self.breaker.is_closed();
        let is_free = self.troubled.is_empty()
            && self.suspects.is_unlimited()
            && self.waits_until <= now.mono;
        let is_open = is_free && !is_shut;
        if is_open {
            return Plan {
                serve: asked.iter().map(|_| FetchDecision::Open).collect(),
                until: None,
            };
        }
        if let Some(plan) = self.paused(asked) {
            return plan;
        }
        self.end_holds(now, by);
        let plan = self.plan(now, by, asked);
        self.decide();
        self.keep_all();
        plan
    }

    /// Notes a delivery to a member.
    pub fn handed(&mut self, now: Moment, by: &MemberFetch, handed: &[DeliveredRange]) {
        for left in handed {
            let Some(window) = self.windows.get_mut(&left.partition) else { continue };
            if !window.is_held_by(&by.member) {
                continue;
            }
            window.end = window.end.max(left.end);
            window.furthest = window.furthest.max(left.end);
            window.hidden.extend(left.hidden.iter().cloned());
            window.handed_at = now.mono;
            window.wait_on(now.mono);
            self.count_handed(now, left);
            self.on_awaited_handed(now, left);
            self.on_turn_handed(now, by, left);
            self.keep(&left.partition);
        }
        self.keep_all();
    }

    /// Notes that these offsets are durable as dead letters or entries. A range of several offsets
    /// is a batch that cannot be decoded.
    pub fn settled(
        &mut self,
        now: Moment,
        partition: &TopicPartition,
        offsets: RangeInclusive<i64>,
    ) {
        let (first, last) = (*offsets.start(), *offsets.end());
        let Some(window) = self.windows.get_mut(partition) else { return };
        window.suspects.retain(|suspect, _| !offsets.contains(suspect));
        let committed = window.committed;
        let open = offsets.filter(|offset| committed.is_none_or(|committed| committed <= *offset));
        window.skipped.extend(open);
        window.wait_on(now.mono);
        let settled = first..last.saturating_add(1);
        let holder = window.holder.as_ref().map(|holder| holder.member.clone());
        if let Some(member) = holder.and_then(|member| self.members.get_mut(&member)) {
            let of_it = |turn: &mut DeliveryRight| turn.partition == *partition;
            member.turn.take_if(of_it);
        }
        self.drop_suspects(now, partition, settled);
        self.changed(partition);
    }

    /// Handles any other observation.
    pub fn handle(&mut self, now: Moment, seen: GroupObservation) {
        match seen {
            GroupObservation::Assigned { member, epoch } => {
                self.gone.is_back(&member);
                self.begins_anew(&member);
                let new = || DetectedMember { since: now.mono, ..DetectedMember::default() };
                self.members.entry(member).or_insert_with(new).epoch = epoch;
            }
            GroupObservation::Committed { partition, offset } => {
                self.count_committed(now, &partition, offset);
                self.on_committed(now, &partition, offset);
            }
            GroupObservation::Reset { partition, offset } => {
                self.on_committed(now, &partition, offset);
                self.on_reset(now, &partition);
            }
            GroupObservation::Progress { partition, done, end } => {
                self.on_progress(now, &partition, done, end);
            }
            GroupObservation::Nacked { partition, offset } => {
                self.on_nacked(now, &partition, offset);
            }
            GroupObservation::RetryNacked { partition, offset } => {
                self.on_nacked(now, &partition, offset);
                self.settled_before(&partition, [offset]);
            }
            GroupObservation::Read { partition, offset, done } => {
                let known = self.windows.get(&partition).and_then(|window| window.committed);
                match known {
                    None => {
                        self.on_committed(now, &partition, offset);
                        self.on_done(now, &partition, done);
                    }
                    // The commit did not pass through this sidecar.
                    Some(before) if offset < before => self.on_reset(now, &partition),
                    Some(before) if before < offset => {
                        self.on_passed_elsewhere(now, &partition, offset);
                    }
                    Some(_) => {}
                }
            }
            GroupObservation::CommitRefused { member, partitions } => {
                self.on_commit_refused(now, &member, partitions);
            }
            GroupObservation::Alive { member } => self.note_alive(now, &member),
            GroupObservation::Disconnected { member } => self.on_disconnected(now, member),
            GroupObservation::Lost { member, left } => self.on_member_gone(now, &member, left),
            GroupObservation::GaveUp { member } => self.on_gave_up(&member),
            GroupObservation::Uncommitted { partition } => self.on_uncommitted(now, &partition),
            GroupObservation::TopicGone { topic } => self.on_topic_gone(now, &topic),
        }
    }

    /// Handles due timeouts; early or repeated calls change nothing.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.expire_breaker(now);
        self.suspects.handle_timeout(now);
        self.decide();
    }

    /// The sidecar stops: deliveries that end with it are not counted.
    pub fn close(&mut self) {
        self.members.clear();
    }

    pub fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.outputs.pop_front()
    }

    /// Updates the state that depends on suspects or turns in a window.
    pub(super) fn changed(&mut self, partition: &TopicPartition) {
        let Some(window) = self.windows.get(partition) else { return };
        if window.is_troubled() {
            self.troubled.insert(partition.clone());
        } else {
            self.troubled.remove(partition);
        }
        self.outputs.push_back(DetectorOutput::Wake);
        self.keep(partition);
    }

    pub(super) fn push(&mut self, output: DetectorOutput) {
        self.outputs.push_back(output);
    }

    /// Whether a member was lost and has had no assignment since.
    pub fn is_gone(&self, member: &MemberId) -> bool {
        self.gone.has(member)
    }

    pub(super) fn epoch_of(&self, member: &MemberId) -> i32 {
        self.members.get(member).map_or(0, |member| member.epoch)
    }
}
