//! Rebalance: from a change of membership to the next generation.

use std::collections::BTreeMap;

use crate::group::classic::Classic;
use crate::group::error::GroupError;
use crate::group::output::{GoneCause, GroupAnswer, GroupOutput, MemberGone};
use crate::group::state::GroupPhase;
use crate::model::{MemberId, Moment, MonoMs};

/// Deadlines of the join phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinWait {
    /// The latest end of the join phase.
    pub(super) until: MonoMs,
    /// Set for the first rebalance of an empty group, which waits even though all have joined.
    pub(super) initial: Option<Initial>,
}

/// The first rebalance waits again as long as members keep joining.
#[derive(Clone, Copy, Debug)]
pub(super) struct Initial {
    /// Remaining time for further waits.
    pub(super) left_ms: u64,
    /// A member joined since the wait began.
    pub(super) grown: bool,
}

impl Classic {
    /// Begins a rebalance, or checks whether the running one can complete.
    pub(super) fn rebalance_or_complete(&mut self, now: Moment) {
        match self.phase {
            GroupPhase::Empty | GroupPhase::Stable | GroupPhase::CompletingRebalance => {
                self.prepare(now);
            }
            GroupPhase::PreparingRebalance => self.maybe_complete_join(now),
            GroupPhase::Dead => {}
        }
    }

    pub(super) fn prepare(&mut self, now: Moment) {
        if self.phase == GroupPhase::CompletingRebalance {
            self.cancel_syncs(now);
        }
        self.sync_by = None;
        self.unsynced.clear();
        let first = self.phase == GroupPhase::Empty;
        let delay_ms = if first { self.config.initial_rebalance_delay_ms } else { 0 };
        self.phase = GroupPhase::PreparingRebalance;
        if first && delay_ms == 0 {
            self.complete_join(now);
        } else if first {
            let left_ms = self.rebalance_timeout_ms().saturating_sub(delay_ms);
            let initial = Some(Initial { left_ms, grown: false });
            self.join_wait = Some(JoinWait { until: now.mono.plus(delay_ms), initial });
        } else {
            self.wait_for_joins(now);
            self.maybe_complete_join(now);
        }
    }

    pub(super) fn maybe_complete_join(&mut self, now: Moment) {
        let waits_anyway = self.join_wait.is_some_and(|wait| wait.initial.is_some());
        let all = self.pending.is_empty() && self.members.values().all(|m| m.joining.is_some());
        if self.phase == GroupPhase::PreparingRebalance && all && !waits_anyway {
            self.complete_join(now);
        }
    }

    /// Handles the end of a join wait.
    pub(super) fn join_wait_over(&mut self, now: Moment, wait: JoinWait) {
        match wait.initial {
            Some(Initial { left_ms, grown: true }) if 0 < left_ms => {
                let delay_ms = self.config.initial_rebalance_delay_ms.clamp(1, left_ms);
                let left_ms = left_ms.saturating_sub(delay_ms);
                let initial = Some(Initial { left_ms, grown: false });
                self.join_wait = Some(JoinWait { until: now.mono.plus(delay_ms), initial });
            }
            _ => self.complete_join(now),
        }
    }

    fn complete_join(&mut self, now: Moment) {
        self.join_wait = None;
        // A static member stays until its session times out, because it may be restarting.
        let absent: Vec<MemberId> = self
            .members
            .iter()
            .filter(|(_, m)| m.joining.is_none() && m.instance_id.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in absent {
            self.remove(&id, GoneCause::Expired);
        }
        if self.members.is_empty() {
            self.become_empty();
        } else if self.elect() {
            self.begin_generation(now);
        } else {
            // Only silent static members are left: their sessions time out, or one of them joins.
            self.wait_for_joins(now);
        }
    }

    fn become_empty(&mut self) {
        self.next_generation();
        self.phase = GroupPhase::Empty;
        self.protocol = None;
        self.leader = None;
        self.unsynced.clear();
        self.persist();
    }

    fn begin_generation(&mut self, now: Moment) {
        self.next_generation();
        self.protocol = self.vote();
        self.phase = GroupPhase::CompletingRebalance;
        self.unsynced = self.members.keys().cloned().collect();
        self.sync_by = Some(now.mono.plus(self.rebalance_timeout_ms()));
        let mut roster = self.roster();
        let mut joins = Vec::new();
        for (id, member) in &mut self.members {
            member.is_new = false;
            if let Some(token) = member.joining.take() {
                member.beat(now);
                joins.push((id.clone(), token));
            }
        }
        for (id, token) in joins {
            let members =
                if self.is_leader(&id) { std::mem::take(&mut roster) } else { Vec::new() };
            let joined = self.joined(&id, members);
            self.answer(token, GroupAnswer::Join(Ok(joined)));
        }
    }

    fn next_generation(&mut self) {
        self.generation = self.generation.saturating_add(1);
        self.output.push_back(GroupOutput::Generation(self.generation));
    }

    /// Keeps the leader if it has joined, otherwise elects the first member that has. Returns
    /// false if no member has joined.
    fn elect(&mut self) -> bool {
        let has_joined = |id: &MemberId| self.members.get(id).is_some_and(|m| m.joining.is_some());
        if self.leader.as_ref().is_some_and(has_joined) {
            return true;
        }
        let next = self.members.keys().find(|id| has_joined(id)).cloned();
        let found = next.is_some();
        self.leader = next.or_else(|| self.leader.take());
        found
    }

    /// Each member votes for its first protocol that all support; a tie goes to the first in
    /// alphabetical order.
    pub(super) fn vote(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        let first = self.members.values().next()?;
        let candidates: Vec<&str> = first
            .protocols
            .iter()
            .map(|p| p.name.as_str())
            .filter(|name| self.members.values().all(|m| m.supports(name)))
            .collect();
        for member in self.members.values() {
            let choice = member.protocols.iter().find(|p| candidates.contains(&p.name.as_str()));
            if let Some(choice) = choice {
                *votes.entry(choice.name.as_str()).or_default() += 1;
            }
        }
        let most = votes.values().max()?;
        votes.iter().find(|(_, count)| *count == most).map(|(name, _)| (*name).to_owned())
    }

    /// Removes a member and answers its waiting requests; the caller starts the rebalance.
    pub(super) fn remove(&mut self, id: &MemberId, cause: GoneCause) {
        let Some(member) = self.members.remove(id) else { return };
        if let Some(token) = member.joining {
            self.refuse(token, GroupError::UnknownMemberId, id.clone());
        }
        if let Some(token) = member.syncing {
            self.answer(token, GroupAnswer::Sync(Err(GroupError::UnknownMemberId)));
        }
        if let Some(instance) = &member.instance_id {
            self.statics.remove(instance);
        }
        self.synced(id);
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.output.push_back(GroupOutput::MemberGone(MemberGone {
            member_id: id.clone(),
            instance_id: member.instance_id,
            cause,
        }));
    }

    fn cancel_syncs(&mut self, now: Moment) {
        let mut tokens = Vec::new();
        for member in self.members.values_mut() {
            member.assignment.clear();
            if let Some(token) = member.syncing.take() {
                member.beat(now);
                tokens.push(token);
            }
        }
        for token in tokens {
            self.answer(token, GroupAnswer::Sync(Err(GroupError::RebalanceInProgress)));
        }
    }

    fn wait_for_joins(&mut self, now: Moment) {
        let until = now.mono.plus(self.rebalance_timeout_ms());
        self.join_wait = Some(JoinWait { until, initial: None });
    }

    /// The longest rebalance timeout of a member; at least 1 ms, so that a wait always ends later
    /// than now.
    fn rebalance_timeout_ms(&self) -> u64 {
        self.members.values().map(|m| m.rebalance_timeout_ms).max().unwrap_or(0).max(1)
    }
}
