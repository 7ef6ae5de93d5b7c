//! Leads one member towards its target: first it gives up, then it is given what is free.

use std::collections::BTreeSet;

use crate::group::consumer::Consumer;
use crate::group::partition::TopicPartition;
use crate::model::{MemberId, Now};

type Partitions = BTreeSet<TopicPartition>;

impl Consumer {
    /// `owned` is what the member says it holds; a member that says nothing still holds all.
    pub(super) fn reconcile(
        &mut self,
        now: Now,
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
                    // It must not be told partitions of a topic it no longer wants.
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
