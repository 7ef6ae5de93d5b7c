//! Reports lost members to the engine and to the detectors (evidence `lost-delivery`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::broker::groups::GroupEvent;
use crate::engine::GroupSummary;
use crate::group::GoneCause;
use crate::model::{GroupId, MemberId};
use crate::route::Router;
use crate::route::groups::membership_cache::MemberSilence;

/// The interval at which silent members of the cluster's groups are searched for.
const LOOK: Duration = Duration::from_secs(1);

/// Runs until the coordinator ends, in one long-lived task that the server spawns.
pub async fn run(router: Arc<Router>, mut events: UnboundedReceiver<GroupEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            GroupEvent::MemberGone { group, member, cause: GoneCause::Replaced, .. } => {
                tracing::info!(%group, %member, "a static member goes on in a new process");
            }
            // The LeaveGroup handler has removed the member already; it may have rejoined by now.
            GroupEvent::MemberGone { group, member, cause: GoneCause::Left(reason), .. } => {
                tracing::info!(%group, %member, ?reason, "a member has left");
            }
            GroupEvent::MemberGone { group, member, member_id, cause } => {
                tracing::info!(%group, %member, ?cause, "a member is gone");
                router.lost(&group, &member, Some(&member_id), false);
                router.ended(&group, member);
            }
            GroupEvent::Rebalanced { group, generation } => {
                tracing::debug!(%group, generation, "a group has rebalanced");
                router.metrics.rebalanced(group.as_str());
            }
        }
    }
}

/// The reason why no member receives the retries of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTaker {
    /// The group has no retry topic.
    #[error("the group has no retry topic here (retry.delivery: off, or its name is taken)")]
    NoLane,
    /// The embedded coordinator has no member of the group.
    #[error("the group has no members")]
    NoMember,
    /// In front of a cluster: no member is connected here.
    #[error("no member of the group is connected through this sidecar")]
    NotHere,
    /// The last sign of life of every member is older than its session timeout.
    #[error("no member of the group was heard of for its session timeout")]
    Silent,
    /// The live members subscribe to other topics only.
    #[error("no member of the group that is connected here subscribes to its retry topic")]
    NotSubscribed,
}

impl Router {
    /// The reason why no live member receives retries of the group; `None`: one does.
    pub fn no_taker(&self, group: &GroupId, known: Option<&GroupSummary>) -> Option<NoTaker> {
        if !self.has_lane(group) {
            return Some(NoTaker::NoLane);
        }
        if self.upstream.is_none() {
            return match self.live_members(group) {
                _ if self.is_retry_read(group) => None,
                0 => Some(NoTaker::NoMember),
                _ => Some(NoTaker::NotSubscribed),
            };
        }
        if known.is_some_and(|known| self.has_taker(known)) {
            return None;
        }
        Some(match self.live_members(group) {
            0 if self.members.seen(group, self.clock.now().mono).is_empty() => NoTaker::NotHere,
            0 => NoTaker::Silent,
            _ => NoTaker::NotSubscribed,
        })
    }

    /// Whether a live member can receive retries of the group: it has a retry partition and is not
    /// silent.
    ///
    /// The topics of the member do not matter. Many groups run retries in a member that subscribes
    /// to nothing else. The topics are unknown with a manual assignment, with a pattern, or where
    /// the member is connected elsewhere. A wrong guess would park records for ever.
    pub fn has_taker(&self, known: &GroupSummary) -> bool {
        match self.upstream {
            Some(_) => !self.takers(known).is_empty(),
            None => self.is_retry_read(&known.group),
        }
    }

    /// Whether a member subscribes to the group's retry topic, or fetched it lately.
    fn is_retry_read(&self, group: &GroupId) -> bool {
        self.count_subscribers(group) > 0
            || self.engine.has_retry_reader(group, self.clock.now().mono)
    }

    /// The number of members that subscribe to the group's retry topic.
    fn count_subscribers(&self, group: &GroupId) -> usize {
        let retry = self.names.retry_topic(group);
        self.subscriptions(group).iter().filter(|topics| topics.contains(&retry)).count()
    }

    /// A member has left: its retries in flight return, or the retry topic has a reader less.
    fn ended(&self, group: &GroupId, member: MemberId) {
        if self.upstream.is_some() {
            self.engine.leave(group, member);
        } else {
            self.reader_left(group);
        }
    }

    /// A member has left: without another subscriber nobody reads the retry topic. A reader without
    /// a group shows with its next Fetch.
    fn reader_left(&self, group: &GroupId) {
        if self.count_subscribers(group) == 0 {
            self.engine.no_retry_reader(group);
        }
    }

    /// The number of members that receive retries of the group.
    pub fn count_takers(&self, known: &GroupSummary) -> usize {
        match self.upstream {
            Some(_) => self.takers(known).len(),
            None => self.count_subscribers(&known.group),
        }
    }

    /// The live members that receive retries of the group.
    fn takers<'a>(&self, known: &'a GroupSummary) -> BTreeSet<&'a MemberId> {
        let now = self.clock.now().mono;
        let is_live = |member: &MemberId| self.members.is_live(&known.group, member, now);
        let members = known.slots.iter().filter_map(|slot| slot.member.as_ref());
        members.filter(|member| is_live(member)).collect()
    }

    /// The number of members that are not silent; in front of a cluster, those connected here.
    pub fn live_members(&self, group: &GroupId) -> usize {
        match self.upstream {
            Some(_) => self.members.count_live(group, self.clock.now().mono),
            None => self.broker.groups.members(group).len(),
        }
    }

    /// Removes a member that leaves a group of this node. It is called before the answer leaves,
    /// and before another member receives its partitions. `member_id`: that process of it, if
    /// known.
    pub(in crate::route) fn left(
        &self,
        group: &GroupId,
        key: &MemberId,
        member_id: Option<&MemberId>,
    ) {
        self.lost(group, key, member_id, true);
        self.ended(group, key.clone());
    }

    /// Called when a member of a cluster group receives its assignment. Silent members of the group
    /// are removed before the first Fetch of their former partitions.
    pub(super) fn missed(&self, group: &GroupId) {
        for member in self.members.missed(group, self.clock.now().mono) {
            tracing::info!(%group, %member, "a member was not heard of when its group went on");
            self.lost(group, &member, None, false);
            self.engine.silent(group, member);
        }
    }
}

/// In front of a cluster no coordinator reports lost members: the sidecar finds those without a
/// sign of life. One long-lived task, spawned by the server.
pub async fn watch(router: Arc<Router>) {
    if router.upstream.is_none() {
        return;
    }
    remembered(&router).await;
    loop {
        tokio::time::sleep(LOOK).await;
        for (group, member, unheard) in router.members.unheard(router.clock.now().mono) {
            tracing::info!(%group, %member, ?unheard, "a member is not heard of");
            router.lost(&group, &member, None, false);
            match unheard {
                MemberSilence::Silent => router.engine.silent(&group, member),
                MemberSilence::Gone => router.engine.leave(&group, member),
            }
        }
    }
}

/// Loads the members that held a retry partition before the restart, so that they can become silent
/// too.
async fn remembered(router: &Router) {
    let groups = match router.engine.groups().await {
        Ok(groups) => groups,
        Err(error) => {
            tracing::warn!(
                %error,
                "R0426 members of the last run cannot be loaded: silent ones keep their retries; \
                 restart"
            );
            return;
        }
    };
    let now = router.clock.now().mono;
    for group in groups {
        for member in group.slots.iter().filter_map(|slot| slot.member.as_ref()) {
            router.members.remember(&group.group, member, now);
        }
    }
    router.detectors.change_owners();
}
