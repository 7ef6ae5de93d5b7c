//! Consumer groups (KIP-848) on a journal whose disk loses what was not synced.

use std::collections::BTreeSet;

use super::*;
use crate::group::{Alive, ConsumerHeartbeat, TopicIdPartition, TopicImage};
use crate::model::{TopicId, TopicName};

pub(super) fn beat(id: &str, epoch: i32) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        member_id: id.into(),
        epoch,
        instance_id: None,
        rack_id: None,
        client_id: "app".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: None,
        topics: None,
        pattern: None,
        assignor: None,
        owned: None,
        cluster: BTreeMap::new(),
        matching: BTreeMap::new(),
    }
}

pub(super) fn enters(id: &str) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        rebalance_timeout_ms: Some(60_000),
        topics: Some(BTreeSet::from(["orders".into()])),
        owned: Some(BTreeSet::new()),
        ..beat(id, 0)
    }
}

/// The cluster has one topic: `orders` with two partitions.
pub(super) fn image(name: &TopicName) -> Option<TopicImage> {
    (name.as_str() == "orders").then_some(TopicImage { id: TopicId([1; 16]), partitions: 2 })
}

impl House {
    /// Sends a heartbeat that changes state: the answer waits until the state is durable.
    pub(super) async fn kept(&mut self, group: &GroupId, beat: ConsumerHeartbeat) -> Alive {
        let groups = self.groups.clone();
        let mut asked = pin!(groups.consumer_heartbeat(group, beat, image, |_| None));
        assert!(poll_immediate(&mut asked).await.is_none(), "answered before it was durable");
        self.writer.step();
        asked.await.unwrap()
    }

    /// Sends a heartbeat that is answered at once.
    pub(super) async fn told(
        &self,
        group: &GroupId,
        beat: ConsumerHeartbeat,
    ) -> Result<Alive, GroupError> {
        let asked = self.groups.consumer_heartbeat(group, beat, image, |_| None);
        poll_immediate(pin!(asked)).await.expect("nothing to wait for")
    }
}

#[tokio::test]
async fn a_consumer_group_survives_a_power_cut_unchanged() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let alive = house.kept(&group, enters("a")).await;
    assert_eq!(alive.assignment.unwrap().len(), 2);
    assert_eq!(house.told(&group, beat("a", 1)).await.unwrap().assignment, None);
    let mut house = house.power_cut();
    house.pass(44_999);
    let whole = ConsumerHeartbeat { epoch: 1, ..enters("a") };
    let alive = house.told(&group, whole).await.unwrap();
    assert_eq!((alive.epoch, alive.assignment.unwrap().len()), (1, 2));
    assert!(house.events.try_recv().is_err(), "nothing happened to the group");
    house.pass(45_000);
    let gone = house.events.try_recv().unwrap();
    assert!(matches!(gone, GroupEvent::MemberGone { cause: GoneCause::Expired, .. }), "{gone:?}");
}

#[tokio::test]
async fn no_assignment_is_sent_unless_it_is_durable() {
    let mut house = House::new();
    let group = GroupId::new("g");
    house.disk.fail_nth_sync(1);
    let groups = house.groups.clone();
    let mut asked = pin!(groups.consumer_heartbeat(&group, enters("a"), image, |_| None));
    assert!(poll_immediate(&mut asked).await.is_none());
    house.writer.step();
    assert_eq!(asked.await, Err(GroupError::CoordinatorNotAvailable));
    let again = house.told(&group, beat("a", 1)).await;
    assert_eq!(again, Err(GroupError::CoordinatorNotAvailable));
}

#[tokio::test]
async fn an_empty_group_changes_its_kind_also_over_a_restart() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let joined = house.lead(&group).await;
    let refused = house.told(&group, enters("a")).await;
    assert_eq!(refused, Err(GroupError::GroupIdNotFound), "it has classic members");
    house.leave(&group, &joined).unwrap();
    house.writer.step();
    let bad = ConsumerHeartbeat { assignor: Some("sticky".into()), ..enters("a") };
    let refused = house.told(&group, bad).await;
    assert_eq!(refused, Err(GroupError::UnsupportedAssignor));
    assert_eq!(house.groups.describe(&group).unwrap().generation, 2, "still the classic one");
    house.kept(&group, enters("a")).await;
    let mut house = house.power_cut();
    assert_eq!(house.groups.list()[0].kind, GroupKind::Consumer);
    let refused = house.groups.join(&group, join("range"), |_| None).await.unwrap_err();
    assert_eq!(refused.error, GroupError::InconsistentGroupProtocol);
    assert_eq!(house.kept(&group, beat("a", -1)).await.epoch, -1);
    let short = JoinRequest { session_timeout_ms: 1, ..join("range") };
    let refused = house.groups.join(&group, short, |_| None).await.unwrap_err();
    assert_eq!(refused.error, GroupError::InvalidSessionTimeout);
    assert_eq!(house.groups.describe_consumer(&group).unwrap().state.epoch, 2, "unchanged");
    house.lead(&group).await;
    let house = house.power_cut();
    assert_eq!((house.groups.list()[0].kind, house.groups.list().len()), (GroupKind::Classic, 1));
}

#[tokio::test]
async fn an_empty_consumer_group_without_offsets_expires_after_ten_minutes() {
    let mut house = House::new();
    let group = GroupId::new("g");
    house.kept(&group, enters("a")).await;
    assert_eq!(house.groups.occupancy(&group), Occupancy::Occupied);
    house.kept(&group, beat("a", -1)).await;
    assert_eq!(house.groups.occupancy(&group), Occupancy::VacantSince(WallMs(1_000)));
    house.pass(VACANT_MS_MAX);
    house.groups.expire(|_| false);
    house.writer.step();
    assert!(house.power_cut().groups.list().is_empty());
}

#[tokio::test]
async fn a_member_of_an_unknown_group_must_join_first() {
    let mut house = House::new();
    let group = GroupId::new("g");
    assert_eq!(house.told(&group, beat("a", 3)).await, Err(GroupError::UnknownMemberId));
    assert!(house.groups.list().is_empty(), "nothing was made");
    let bad = ConsumerHeartbeat { owned: None, ..enters("a") };
    assert!(house.told(&group, bad).await.is_err());
    assert!(house.groups.list().is_empty(), "a refused join takes no room");
    house.kept(&group, enters("a")).await;
    assert_eq!(house.groups.fetch_check(&group, Some(&"a".into()), 1), Ok(()));
    assert_eq!(house.groups.key_of(&group, &"a".into()), Some("a".into()));
}

#[tokio::test]
async fn topics_others_subscribe_to_are_looked_up_with_every_heartbeat() {
    let mut house = House::new();
    let group = GroupId::new("g");
    house.kept(&group, enters("a")).await;
    let more = |_: &TopicName| Some(TopicImage { id: TopicId([1; 16]), partitions: 3 });
    let groups = house.groups.clone();
    let mut asked = pin!(groups.consumer_heartbeat(&group, beat("a", 1), more, |_| None));
    assert!(poll_immediate(&mut asked).await.is_none(), "there is news to keep");
    house.writer.step();
    let third = TopicIdPartition { topic: TopicId([1; 16]), index: 2 };
    assert!(asked.await.unwrap().assignment.unwrap().contains(&third));
}
