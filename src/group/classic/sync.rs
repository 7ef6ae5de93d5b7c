//! `SyncGroup` and `Heartbeat` of classic groups.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::group::classic::Classic;
use crate::group::error::GroupError;
use crate::group::input::{RequestId, Sync};
use crate::group::output::{GroupAnswer, SyncResult};
use crate::group::state::GroupPhase;
use crate::model::{MemberId, Moment};

impl Classic {
    pub(super) fn sync(&mut self, now: Moment, token: RequestId, sync: Sync) {
        if let Err(error) = self.check_sync(&sync) {
            return self.answer(token, GroupAnswer::Sync(Err(error)));
        }
        let id = sync.member_id;
        self.synced(&id);
        let Some(member) = self.members.get_mut(&id) else { return };
        let older = member.syncing.replace(token);
        if let Some(older) = older {
            // The client gave up on the older request, but every request is answered.
            self.answer(older, GroupAnswer::Sync(Err(GroupError::RebalanceInProgress)));
        }
        if self.phase == GroupPhase::CompletingRebalance {
            if !self.is_leader(&id) {
                return;
            }
            self.assign(sync.assignments);
        }
        self.answer_syncs(now);
    }

    pub(super) fn heartbeat(
        &mut self,
        now: Moment,
        id: &MemberId,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), GroupError> {
        if self.phase == GroupPhase::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        self.check_member(id, instance)?;
        if generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        if let Some(member) = self.members.get_mut(id) {
            member.beat(now);
        }
        if self.phase == GroupPhase::PreparingRebalance {
            return Err(GroupError::RebalanceInProgress);
        }
        Ok(())
    }

    /// Marks the member as synced.
    pub(super) fn synced(&mut self, id: &MemberId) {
        self.unsynced.remove(id);
        if self.unsynced.is_empty() {
            self.sync_by = None;
        }
    }

    fn check_sync(&self, sync: &Sync) -> Result<(), GroupError> {
        let differs = |theirs: &Option<String>, ours: &Option<String>| {
            theirs.is_some() && ours.is_some() && theirs != ours
        };
        if self.phase == GroupPhase::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        self.check_member(&sync.member_id, sync.instance_id.as_deref())?;
        if sync.generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        if differs(&sync.protocol_type, &self.protocol_type)
            || differs(&sync.protocol, &self.protocol)
        {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        if self.phase == GroupPhase::PreparingRebalance {
            return Err(GroupError::RebalanceInProgress);
        }
        Ok(())
    }

    fn assign(&mut self, assignments: Vec<(MemberId, Bytes)>) {
        let mut assignments: BTreeMap<MemberId, Bytes> = assignments.into_iter().collect();
        for (id, member) in &mut self.members {
            member.assignment = assignments.remove(id).unwrap_or_default();
        }
        self.phase = GroupPhase::Stable;
        self.persist();
    }

    fn answer_syncs(&mut self, now: Moment) {
        let mut answers = Vec::new();
        for member in self.members.values_mut() {
            if let Some(token) = member.syncing.take() {
                member.beat(now);
                answers.push((token, member.assignment.clone()));
            }
        }
        for (token, assignment) in answers {
            let synced = SyncResult {
                protocol_type: self.protocol_type.clone(),
                protocol: self.protocol.clone(),
                assignment,
                held: None,
            };
            self.answer(token, GroupAnswer::Sync(Ok(synced)));
        }
    }
}
