//! Groups of both protocols in one form, for the admin port.

use uuid::Uuid;

use crate::api::{ElsewhereView, MemberView, StateCounts};
use crate::broker::groups::GroupKind;
use crate::engine;
use crate::group::{ConsumerMember, GroupPhase, MemberDescription};
use crate::model::{GroupId, TopicName};
use crate::operations::number;
use crate::retry::StateKind;
use crate::route::Router;
use crate::route::groups::membership_cache::MemberSeen;
use crate::wire::assignment::{Assignment, Subscription};

/// The phase of a group whose coordinator is a broker of the cluster.
const IN_CLUSTER: &str = "InCluster";

/// The membership of a group, as the admin port shows it.
pub(super) struct MembershipView {
    pub(crate) kind: GroupKind,
    pub(super) phase: String,
    pub(super) generation: i32,
    pub(super) protocol: Option<String>,
    /// All members, without their retry partitions.
    pub(crate) members: Vec<MemberView>,
}

impl MembershipView {
    /// A group no member ever joined.
    pub(super) fn empty() -> Self {
        Self {
            kind: GroupKind::Classic,
            phase: GroupPhase::Empty.to_string(),
            generation: 0,
            protocol: None,
            members: Vec::new(),
        }
    }
}

/// Failed records of a group by state.
pub(super) fn states(known: &engine::GroupSummary) -> StateCounts {
    let of = |kind| known.counts.of(kind);
    let blocked = number(known.due_blocked);
    StateCounts {
        waiting: of(StateKind::Waiting).saturating_sub(known.due),
        due: known.due.saturating_sub(blocked),
        unread: of(StateKind::Unread),
        blocked: of(StateKind::Blocked) + blocked,
    }
}

/// Members of a group of the cluster that are connected elsewhere; `None`: no leader is connected
/// here.
pub(super) fn elsewhere(router: &Router, group: &GroupId) -> Option<ElsewhereView> {
    let takes = |topics: &[TopicName]| router.names.reads_retries(group, topics);
    let (members, subscribed) = router.members.elsewhere(group, takes);
    (members > 0)
        .then(|| ElsewhereView { members: number(members), subscribed: number(subscribed) })
}

/// One group; `None` if no member ever joined.
pub(super) fn seen(router: &Router, group: &GroupId) -> Option<MembershipView> {
    let takes = |topics: &[TopicName]| router.names.reads_retries(group, topics);
    if let Some(seen) = router.broker.groups.describe(group) {
        return Some(MembershipView {
            kind: GroupKind::Classic,
            phase: seen.phase.to_string(),
            generation: seen.generation,
            protocol: seen.protocol,
            members: seen.members.into_iter().map(|member| classic(member, takes)).collect(),
        });
    }
    if router.upstream.is_some() {
        return of_cluster(router, group, takes);
    }
    let seen = router.broker.groups.describe_consumer(group)?;
    let members = seen.state.members.into_iter();
    Some(MembershipView {
        kind: GroupKind::Consumer,
        phase: seen.phase.to_string(),
        generation: seen.state.epoch,
        protocol: Some(seen.assignor),
        members: members.map(|member| consumer(router, member, takes)).collect(),
    })
}

/// A group of the upstream: the members that are connected through the sidecar.
fn of_cluster(
    router: &Router,
    group: &GroupId,
    takes: impl Fn(&[TopicName]) -> bool,
) -> Option<MembershipView> {
    let members = router.members.seen(group, router.clock.now().mono);
    if members.is_empty() {
        return None;
    }
    let has_epochs = members.iter().any(|member| member.has_epoch);
    let view = |member: MemberSeen| MemberView {
        member_id: member.key.to_string(),
        client_id: member.client_id.to_string(),
        host: member.host,
        // A member whose join was not seen may subscribe to the retry topic; then it has a retry
        // partition.
        takes_retries: member.topics.is_none_or(|topics| takes(&topics)),
        session_ms: member.session_ms,
        silent: member.is_silent,
        ..MemberView::default()
    };
    Some(MembershipView {
        kind: if has_epochs { GroupKind::Consumer } else { GroupKind::Classic },
        phase: IN_CLUSTER.to_owned(),
        generation: 0,
        protocol: None,
        members: members.into_iter().map(view).collect(),
    })
}

fn classic(member: MemberDescription, takes: impl Fn(&[TopicName]) -> bool) -> MemberView {
    let subscribed = Subscription::parse(&member.metadata);
    let assigned = Assignment::parse(&member.assignment).map(|known| known.partitions);
    let of = assigned.unwrap_or_default().into_iter();
    MemberView {
        member_id: member.member_id.to_string(),
        instance_id: member.instance_id,
        client_id: member.client_id.to_string(),
        host: member.client_host,
        session_ms: member.session_timeout_ms,
        disconnected: false,
        silent: false,
        takes_retries: subscribed.is_ok_and(|known| takes(&known.topics)),
        assignment: of.flat_map(|of| names(&of.topic, &of.partitions)).collect(),
    }
}

fn consumer(
    router: &Router,
    member: ConsumerMember,
    takes: impl Fn(&[TopicName]) -> bool,
) -> MemberView {
    let named = member.assigned.iter().filter_map(|of| {
        let topic = router.name_of(Uuid::from_bytes(of.topic.0))?;
        Some(names(&topic, &of.partitions))
    });
    MemberView {
        assignment: named.flatten().collect(),
        member_id: member.member_id.to_string(),
        instance_id: member.instance_id,
        client_id: member.client_id.to_string(),
        host: member.client_host,
        session_ms: router.members.session_ms,
        disconnected: false,
        silent: false,
        takes_retries: takes(&member.topics),
    }
}

fn names(topic: &TopicName, partitions: &[i32]) -> Vec<String> {
    partitions.iter().map(|partition| format!("{topic}-{partition}")).collect()
}
