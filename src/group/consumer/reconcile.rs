//! Reconciliation of one member with its target: revocations first, then free partitions.

use std::collections::BTreeSet;

use crate::group::consumer::Consumer;
use crate::group::partition::TopicIdPartition;
use crate::model::{MemberId, Moment};

type Partitions = BTreeSet<TopicIdPartition>;

impl Consumer {
    /// `owned` lists the member's partitions; without it, the member still owns all of them.
    pub(super) fn reconcile(
        &mut self,
        now: Moment,
        id: &MemberId,
        owned: Option<&Partitions>,
        resubscribed: bool,
    ) {
        let holds_any =
            |of: &Partitions| owned.is_none_or(|owned| of.iter().any(|one| owned.contains(one)));
        let Some(member) = self.members.get_mut(id) else { return };
        if member.is_settled(self.epoch) {
            return;
        }
        let lost: Partitions = member.assigned.difference(&member.target).copied().collect();
        if !member.revoking.is_empty() {
            if holds_any(&member.revoking) {
                if resubscribed {
                    // The answer must not list partitions of a topic that the member no longer
                    // subscribes to.
                    self.is_changed |= !lost.is_empty();
                    member.assigned.retain(|one| !lost.contains(one));
                    member.revoking.extend(lost);
                }
                return;
            }
            let given_up = std::mem::take(&mut member.revoking);
            member.revoke_by = None;
            member.move_to(member.epoch.saturating_add(1));
            self.release(&given_up);
        }
        self.is_changed = true;
        let Some(member) = self.members.get_mut(id) else { return };
        member.assigned.retain(|one| !lost.contains(one));
        if !lost.is_empty() && holds_any(&lost) {
            member.revoking = lost;
            member.wait(now);
            return;
        }
        for one in &lost {
            self.owners.remove(one);
        }
        member.since.retain(|one, _| member.assigned.contains(one));
        for one in &member.target {
            if !self.owners.contains_key(one) {
                self.owners.insert(*one, id.clone());
                member.assigned.insert(*one);
                member.since.insert(*one, self.epoch);
            }
        }
        member.move_to(self.epoch);
    }
}
