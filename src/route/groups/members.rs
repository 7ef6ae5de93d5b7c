//! Members of groups: their connections, their end (evidence `lost-delivery`), and members of one
//! group that read its retry topic, and beside it unlike topics. A retry goes to any of these, also
//! to one that does not read the topic of its origin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::broker::groups::GroupEvent;
use crate::group::{GoneCause, member_key};
use crate::model::{GroupId, MemberId, RetryPair, TopicName};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::wire::assignment::Subscription;

/// The interval at which silent members of the cluster's groups are searched for.
const LOOK: Duration = Duration::from_secs(1);
/// Groups whose subscriptions are remembered. A further one replaces another, whose warning may
/// come again.
const GROUPS_MAX: usize = 1_000;

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

/// The topics of one member beside those of the sidecar.
type TopicSet = BTreeSet<TopicName>;

/// The topics of members that read the retry topic, by group.
#[derive(Debug, Default)]
pub struct ReaderTopics(Mutex<BTreeMap<GroupId, BTreeSet<TopicSet>>>);

impl ReaderTopics {
    /// Whether `topics` are the only ones remembered of a group.
    fn are_alone(&self, group: &GroupId, topics: &TopicSet) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(group).is_some_and(|known| known.len() == 1 && known.contains(topics))
    }

    /// Remembers the topics of a group's readers; whether they are unlike and have changed.
    fn differ_anew(&self, group: &GroupId, readers: &BTreeSet<TopicSet>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= GROUPS_MAX && !known.contains_key(group) {
            known.pop_first();
        }
        let before = known.insert(group.clone(), readers.clone());
        readers.len() > 1 && before.as_ref() != Some(readers)
    }
}

impl Router {
    /// Records the member of `group` on this connection.
    pub(in crate::route) fn bind_member(&self, conn: &Conn, group: &GroupId, member: MemberId) {
        self.alive(group, &member);
        let bind = |token| self.tokens.bind(token, group, member.clone());
        let bound = conn.token.is_some_and(bind);
        if conn.bind_member(group, member) || bound {
            self.detectors.change_owners();
        }
    }

    /// The `member_key` of a member. A request may name a static member by its member id alone.
    pub(in crate::route) fn key_of(
        &self,
        group: &GroupId,
        member: &MemberId,
        instance_id: Option<&str>,
    ) -> MemberId {
        if instance_id.is_some() {
            return member_key(member, instance_id);
        }
        let known = match self.upstream {
            Some(_) => self.members.key_of(group, member),
            None => self.broker.groups.key_of(group, member),
        };
        known.unwrap_or_else(|| member.clone())
    }

    /// Records a sign of life of a member on this connection.
    pub(in crate::route) fn note_alive(
        &self,
        conn: &Conn,
        group: &GroupId,
        (key, member_id): (&MemberId, &MemberId),
    ) {
        // The embedded coordinator knows its members.
        if self.upstream.is_some() {
            let is_live_anew = self.members.heard(group, (key, member_id), self.clock.now().mono);
            let is_other = self.members.speaks(group, key, conn.client(), conn.host());
            if is_live_anew || is_other {
                self.detectors.change_owners();
            }
        }
        self.bind_member(conn, group, key.clone());
    }

    /// The coordinator does not know the member. The embedded one has reported its loss before.
    pub(super) fn unknown(&self, group: &GroupId, key: &MemberId) {
        if self.upstream.is_some() {
            self.members.gone(group, key);
            self.lost(group, key, None, false);
        }
    }

    /// The leader of a cluster group received the member list: other members known here are lost.
    /// They are removed before their partitions are delivered to anyone.
    pub(super) fn gone_but(&self, group: &GroupId, members: &BTreeSet<MemberId>) {
        for known in self.members.seen(group, self.clock.now().mono) {
            if !known.has_epoch && !members.contains(&known.key) {
                self.unknown(group, &known.key);
            }
        }
    }

    /// The member of `group` on this connection: from its JoinGroup or SyncGroup here, otherwise
    /// from the client address.
    pub(in crate::route) fn member_of(&self, conn: &Conn, group: &GroupId) -> Option<MemberId> {
        conn.member(group).or_else(|| conn.token.and_then(|token| self.tokens.member(token, group)))
    }

    /// All topics in a listing of topics.
    pub(in crate::route) fn listed(&self) -> BTreeSet<TopicName> {
        let local = self.broker.topics.list();
        let mut names: BTreeSet<_> = local.iter().map(|topic| topic.name.clone()).collect();
        names.extend(self.names.listed().into_iter().filter(|name| self.place(name).is_some()));
        names
    }

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

    /// Removes a member that leaves. It is called before the answer leaves, and before another
    /// member receives its partitions. `member_id`: that process of it, if known.
    pub(in crate::route) fn left(
        &self,
        group: &GroupId,
        key: &MemberId,
        member_id: Option<&MemberId>,
    ) {
        self.members.gone(group, key);
        self.lost(group, key, member_id, true);
        // In front of a cluster members elsewhere may read the retry topic.
        if self.upstream.is_none() {
            self.reader_left(group);
        }
    }

    /// Called when a member of a cluster group receives its assignment. Silent members of the group
    /// are removed before the first Fetch of their former partitions.
    pub(super) fn missed(&self, group: &GroupId) {
        for member in self.members.missed(group, self.clock.now().mono) {
            tracing::info!(%group, %member, "a member was not heard of when its group went on");
            self.lost(group, &member, None, false);
        }
    }

    /// Records the topics to which a member of a KIP-848 group subscribes.
    pub(super) fn note_subscription(
        &self,
        group: &GroupId,
        key: &MemberId,
        topics: Vec<TopicName>,
    ) {
        // The embedded coordinator knows its members.
        if self.upstream.is_some() {
            let metadata = Subscription::to(topics).to_bytes();
            if !self.members.subscribes(group, key, metadata) {
                return;
            }
            self.detectors.change_owners();
        }
        self.compare_readers(group, key);
    }

    /// Warns once, until it changes, when a member that has subscribed reads the retry topic and
    /// another member reads it beside other topics.
    pub(super) fn compare_readers(&self, group: &GroupId, member: &MemberId) {
        let Some(topics) = self.subscription_of(group, member) else { return };
        // The usual case costs nothing per member of the group.
        let is_usual = |topics| self.reader_topics.are_alone(group, &topics);
        if self.names.beside_retries(group, &topics).is_none_or(is_usual) {
            return;
        }
        let readers = self.reader_topics_of(group);
        if self.reader_topics.differ_anew(group, &readers) {
            self.metrics.unlike_readers(group.as_str());
            tracing::warn!(
                %group, topics = list_readers(&readers),
                "R0606 members of one group read its retry topic and unlike other topics: a retry \
                 reaches any of them; give each listener a group id of its own, or each the \
                 handlers of all topics"
            );
        }
    }

    /// The topics of each member of a group that reads its retry topic.
    pub fn reader_topics_of(&self, group: &GroupId) -> BTreeSet<TopicSet> {
        let all = self.subscriptions(group).into_iter();
        all.filter_map(|topics| self.names.beside_retries(group, &topics)).collect()
    }
}

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

/// Such as `orders | payments refunds`.
pub fn list_readers(readers: &BTreeSet<TopicSet>) -> String {
    let of = |topics: &TopicSet| topics.iter().map(TopicName::as_str).collect::<Vec<_>>().join(" ");
    readers.iter().map(of).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(topics: &[&str]) -> TopicSet {
        topics.iter().map(|topic| TopicName::new(topic)).collect()
    }

    #[test]
    fn unlike_topics_are_told_once_until_they_change() {
        let (known, shop) = (ReaderTopics::default(), GroupId::new("shop"));
        let (orders, payments) = (set(&["orders"]), set(&["payments"]));
        assert!(!known.differ_anew(&shop, &[orders.clone()].into()), "one listener");
        assert!(known.are_alone(&shop, &orders) && !known.are_alone(&shop, &payments));
        let both = BTreeSet::from([orders.clone(), payments]);
        assert!(known.differ_anew(&shop, &both));
        assert_eq!(list_readers(&both), "orders | payments");
        assert!(!known.are_alone(&shop, &orders), "each join is compared from now on");
        assert!(!known.differ_anew(&shop, &both), "told before");
        assert!(!known.differ_anew(&shop, &[orders].into()), "the other one has left");
        assert!(known.differ_anew(&shop, &both));
    }
}
