//! Export of a classic group of consumers for its upgrade to KIP-848.

use bytes::Bytes;

use crate::group::classic::Classic;
use crate::group::consumer::CONSUMERS;
use crate::group::error::GroupError;
use crate::group::input::RequestId;
use crate::group::output::{GroupAnswer, JoinRefusal};
use crate::group::state::MemberState;

impl Classic {
    /// Generation and members, each with its metadata for the chosen assignor. `None` if the group
    /// is empty or is not a group of consumers. Members without a JoinGroup answer yet are left
    /// out.
    pub fn consumers(&self) -> Option<(i32, Vec<(MemberState, Bytes)>)> {
        if self.members.is_empty() || self.protocol_type.as_deref() != Some(CONSUMERS) {
            return None;
        }
        let members = self.members.iter().filter(|(_, member)| !member.is_new);
        let members = members.map(|(id, member)| {
            let chosen = self.protocol.as_deref().and_then(|name| member.metadata(name));
            let first = || member.protocols.first().map(|protocol| protocol.metadata.clone());
            (member.kept(id), chosen.or_else(first).unwrap_or_default())
        });
        Some((self.generation, members.collect()))
    }

    /// Answers all waiting requests with `REBALANCE_IN_PROGRESS`, so that the members join again.
    pub fn dissolve(&mut self) -> Vec<(RequestId, GroupAnswer)> {
        let error = GroupError::RebalanceInProgress;
        let mut answers = Vec::new();
        for (id, member) in &mut self.members {
            let refusal = JoinRefusal { error, member_id: id.clone() };
            let joining = member.joining.take();
            answers.extend(joining.map(|token| (token, GroupAnswer::Join(Err(refusal)))));
            let syncing = member.syncing.take();
            answers.extend(syncing.map(|token| (token, GroupAnswer::Sync(Err(error)))));
        }
        answers
    }
}
