//! Reports lost members to the detectors (evidence `lost-delivery`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::broker::groups::GroupEvent;
use crate::group::GoneCause;
use crate::model::{GroupId, MemberId, RetryPair, TopicName};
use crate::route::Router;

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
                router.reader_left(&group);
            }
            GroupEvent::Rebalanced { group, generation } => {
                tracing::debug!(%group, generation, "a group has rebalanced");
                router.metrics.rebalanced(group.as_str());
            }
        }
    }
}

/// The reason why no member receives retries of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTaker {
    /// The group has no retry topic.
    #[error("the group has no retry topic here (retry.delivery: off)")]
    RetriesOff,
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
    #[error("no member of the group that is connected here subscribes to it")]
    NotSubscribed,
}

impl Router {
    /// The retry topic by which members receive retries of `source` now: its own, or else that of
    /// the whole group.
    pub fn taker_of(
        &self,
        group: &GroupId,
        source: Option<&TopicName>,
    ) -> Result<RetryPair, NoTaker> {
        if !self.has_retry_topic(group) {
            return Err(NoTaker::RetriesOff);
        }
        let read = self.retry_topics_read(group);
        let pairs = [self.names.pair(group, source), RetryPair::of_group(group)];
        if let Some(pair) = pairs.into_iter().find(|pair| read.contains(pair)) {
            return Ok(pair);
        }
        Err(match self.live_members(group) {
            0 if self.upstream.is_none() => NoTaker::NoMember,
            0 if self.members.seen(group, self.clock.now().mono).is_empty() => NoTaker::NotHere,
            0 => NoTaker::Silent,
            _ => NoTaker::NotSubscribed,
        })
    }

    /// Whether a member subscribes to a retry topic of the group, or fetched one lately.
    pub fn is_retry_read(&self, group: &GroupId) -> bool {
        !self.retry_topics_read(group).is_empty()
    }

    /// The owners of the group's retry topics to which a member subscribes, or which one fetched
    /// lately.
    pub fn retry_topics_read(&self, group: &GroupId) -> BTreeSet<RetryPair> {
        let mut read = self.engine.retry_topics_read(group, self.clock.now().mono);
        read.extend(self.subscribed_pairs(group));
        read
    }

    /// The number of members that subscribe to a retry topic; in front of a cluster, those
    /// connected here.
    pub fn count_takers(&self, pair: &RetryPair) -> usize {
        let topic = self.names.retry_topic(pair);
        let subscriptions = self.subscriptions(&pair.group);
        subscriptions.iter().filter(|topics| topics.contains(&topic)).count()
    }

    /// A member has left: without another subscriber nobody reads a retry topic. A reader without
    /// a group shows with its next Fetch.
    fn reader_left(&self, group: &GroupId) {
        self.engine.no_retry_reader(group, &self.subscribed_pairs(group));
    }

    /// The owners of the group's retry topics to which a member subscribes.
    pub(in crate::route) fn subscribed_pairs(&self, group: &GroupId) -> BTreeSet<RetryPair> {
        let subscriptions = self.subscriptions(group);
        let topics = subscriptions.iter().flat_map(|topics| self.names.retry_topics(group, topics));
        topics.map(|(_, pair)| pair).collect()
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
        self.reader_left(group);
    }

    /// Called when a member of a cluster group receives its assignment. Silent members of the group
    /// are removed before the first Fetch of their former partitions.
    pub(super) fn missed(&self, group: &GroupId) {
        for member in self.members.missed(group, self.clock.now().mono) {
            tracing::info!(%group, %member, "a member was not heard of when its group went on");
            self.lost(group, &member, None, false);
        }
    }
}

/// In front of a cluster no coordinator reports lost members: the sidecar finds those without a
/// sign of life. One long-lived task, spawned by the server.
pub async fn watch(router: Arc<Router>) {
    if router.upstream.is_none() {
        return;
    }
    loop {
        tokio::time::sleep(LOOK).await;
        for (group, member, unheard) in router.members.unheard(router.clock.now().mono) {
            tracing::info!(%group, %member, ?unheard, "a member is not heard of");
            router.lost(&group, &member, None, false);
        }
    }
}
