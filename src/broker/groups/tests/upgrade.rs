//! Groups that change their protocol, on a disk that loses what was not synced.

use super::consumer::{beat, enters, image};
use super::*;
use crate::group::{Alive, ConsumerHeartbeat};
use crate::wire::assignment::{Assignment, Subscription, TopicPartitions};

/// A classic-protocol consumer of `orders`.
fn old(id: &str) -> JoinRequest {
    let metadata = Subscription::to(vec!["orders".into()]).to_bytes();
    let protocols = vec![Protocol { name: "range".into(), metadata }];
    JoinRequest { member_id: id.into(), protocols, ..join("") }
}

impl House {
    /// Makes a classic group whose leader has assigned `orders` to itself.
    async fn leads(&mut self, group: &GroupId) -> JoinResult {
        let joined = self.groups.join(group, old(""), image).await.unwrap();
        let mut all = Assignment::empty();
        all.partitions = vec![TopicPartitions { topic: "orders".into(), partitions: vec![0, 1] }];
        let assignments = vec![(joined.member_id.clone(), all.to_bytes())];
        let mut asked = pin!(self.groups.sync(group, Sync { assignments, ..assign(&joined) }));
        assert!(poll_immediate(&mut asked).await.is_none(), "answered before it was durable");
        self.writer.step();
        asked.await.unwrap();
        joined
    }

    /// Joins again by the classic protocol; the new state is durable.
    async fn again(&mut self, group: &GroupId, id: &MemberId) -> JoinResult {
        let mut asked = pin!(self.groups.join(group, old(id.as_str()), image));
        assert!(poll_immediate(&mut asked).await.is_none(), "answered before it was durable");
        self.writer.step();
        asked.await.unwrap()
    }

    fn kind(&self) -> GroupKind {
        self.groups.list()[0].kind
    }
}

#[tokio::test]
async fn an_upgrade_and_downgrade_keep_the_members_over_power_cuts() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let joined = house.leads(&group).await;
    let alive = house.kept(&group, enters("n")).await;
    assert_eq!((alive.epoch, alive.assignment.unwrap().len()), (2, 0), "the other has all");
    assert_eq!(house.kind(), GroupKind::Consumer);
    assert_eq!(house.beat(&group, &joined), Err(GroupError::RebalanceInProgress));

    let mut house = house.power_cut();
    assert_eq!(house.kind(), GroupKind::Consumer);
    assert_eq!(house.beat(&group, &joined), Err(GroupError::RebalanceInProgress));
    let joined = house.again(&group, &joined.member_id).await;
    assert_eq!((joined.generation, joined.leader.as_str()), (2, ""));
    let sync = Sync { assignments: Vec::new(), ..assign(&joined) };
    let synced = poll_immediate(pin!(house.groups.sync(&group, sync))).await.unwrap().unwrap();
    let given = Assignment::parse(&synced.assignment).unwrap().partitions;
    assert_eq!((given.len(), given[0].topic.as_str()), (1, "orders"));
    assert_eq!(given[0].partitions.len(), 1);
    let alive = house.kept(&group, beat("n", 2)).await;
    let rest: Vec<i32> = alive.assignment.unwrap().iter().map(|one| one.index).collect();
    assert!(rest.len() == 1 && rest != given[0].partitions, "{rest:?}");
    assert_eq!(house.beat(&group, &joined), Ok(()));
    let wanted = house.groups.subscription(&group, &joined.member_id).unwrap();
    assert_eq!(Subscription::parse(&wanted).unwrap().topics, ["orders".into()]);

    house.kept(&group, beat("n", -1)).await;
    assert_eq!(house.kind(), GroupKind::Classic);
    assert_eq!(house.beat(&group, &joined), Err(GroupError::RebalanceInProgress));
    let house = house.power_cut();
    assert_eq!(house.kind(), GroupKind::Classic);
    assert_eq!(house.beat(&group, &joined), Err(GroupError::RebalanceInProgress));
    let joined = house.groups.join(&group, old(joined.member_id.as_str()), image).await.unwrap();
    assert_eq!((joined.generation, &joined.leader), (3, &joined.member_id));
}

#[tokio::test]
async fn an_upgrade_answers_a_waiting_join_with_a_rebalance() {
    let mut house = House::new();
    let group = GroupId::new("g");
    house.leads(&group).await;
    let groups = house.groups.clone();
    let mut waits = pin!(groups.join(&group, old(""), image));
    assert!(poll_immediate(&mut waits).await.is_none());
    house.kept(&group, enters("n")).await;
    let refused = waits.await.unwrap_err();
    assert_eq!(refused.error, GroupError::RebalanceInProgress);
    assert_eq!(house.groups.members(&group).len(), 2, "it was no member yet");
}

#[tokio::test]
async fn a_heartbeat_that_is_refused_upgrades_nothing() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let joined = house.leads(&group).await;
    let unknown = ConsumerHeartbeat { assignor: Some("sticky".into()), ..enters("n") };
    let bad =
        [(unknown, GroupError::UnsupportedAssignor), (beat("n", 1), GroupError::UnknownMemberId)];
    for (bad, error) in bad {
        assert_eq!(house.told(&group, bad).await, Err(error));
        assert_eq!(house.kind(), GroupKind::Classic);
        assert_eq!(house.beat(&group, &joined), Ok(()));
    }
}

#[tokio::test]
async fn groups_without_readable_consumer_subscriptions_are_not_upgraded() {
    let mut house = House::new();
    let connect = GroupId::new("connect");
    let mut join = old("");
    join.protocol_type = "connect".into();
    house.groups.join(&connect, join, image).await.unwrap();
    let unread = GroupId::new("unread");
    house.lead(&unread).await;
    let own = GroupId::new("own");
    let joined = house.groups.join(&own, old(""), image).await.unwrap();
    let mut all = Assignment::empty();
    all.user_data = Some(Bytes::from_static(b"an assignor's own"));
    let assignments = vec![(joined.member_id.clone(), all.to_bytes())];
    let mut asked = pin!(house.groups.sync(&own, Sync { assignments, ..assign(&joined) }));
    assert!(poll_immediate(&mut asked).await.is_none());
    house.writer.step();
    asked.await.unwrap();
    for group in [&connect, &unread, &own] {
        let refused = house.told(group, enters("n")).await;
        assert_eq!(refused, Err(GroupError::GroupIdNotFound), "{group}");
    }
    assert!(house.groups.list().iter().all(|listed| listed.kind == GroupKind::Classic));
}

/// `orders` with four partitions.
fn four(name: &TopicName) -> Option<TopicImage> {
    image(name).map(|orders| TopicImage { partitions: 4, ..orders })
}

fn of_orders(partitions: &[i32]) -> Vec<TopicPartitions> {
    vec![TopicPartitions { topic: "orders".into(), partitions: partitions.to_vec() }]
}

/// A consumer with the cooperative protocol that says it owns these partitions.
fn cooperative(id: &str, holds: &[i32]) -> JoinRequest {
    let mut said = Subscription::to(vec!["orders".into()]);
    (said.version, said.owned) = (1, Some(of_orders(holds)));
    let protocols = vec![Protocol { name: "cooperative-sticky".into(), metadata: said.to_bytes() }];
    JoinRequest { member_id: id.into(), protocols, ..join("") }
}

/// The leader's SyncGroup with this assignment.
fn gives(joined: &JoinResult, given: &[(&MemberId, &[i32])]) -> Sync {
    let given = given.iter().map(|(id, partitions)| {
        let mut all = Assignment::empty();
        all.partitions = of_orders(partitions);
        ((*id).clone(), all.to_bytes())
    });
    Sync { assignments: given.collect(), ..assign(joined) }
}

impl House {
    /// `a` leads and owns all four partitions; `b` has joined.
    async fn two_of_whom_one_holds_all(&mut self, group: &GroupId) -> (JoinResult, JoinResult) {
        let groups = self.groups.clone();
        let a = groups.join(group, cooperative("", &[]), four).await.unwrap();
        let mut asked = pin!(groups.sync(group, gives(&a, &[(&a.member_id, &[0, 1, 2, 3])])));
        assert!(poll_immediate(&mut asked).await.is_none());
        self.writer.step();
        asked.await.unwrap();
        let mut b = pin!(groups.join(group, cooperative("", &[]), four));
        assert!(poll_immediate(&mut b).await.is_none());
        let again = cooperative(a.member_id.as_str(), &[0, 1, 2, 3]);
        let a = groups.join(group, again, four).await.unwrap();
        (a, b.await.unwrap())
    }

    /// A heartbeat in a group of four partitions; the new state is durable.
    async fn of_four(&mut self, group: &GroupId, beat: ConsumerHeartbeat) -> Alive {
        let groups = self.groups.clone();
        let mut asked = pin!(groups.consumer_heartbeat(group, beat, four, |_| None));
        if let Some(told) = poll_immediate(&mut asked).await {
            return told.unwrap();
        }
        self.writer.step();
        asked.await.unwrap()
    }
}

fn indexes(alive: &Alive) -> Vec<i32> {
    alive.assignment.iter().flatten().map(|one| one.index).collect()
}

#[tokio::test]
async fn partitions_to_revoke_stay_with_their_owner_during_an_upgrade() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let (a, b) = house.two_of_whom_one_holds_all(&group).await;
    let groups = house.groups.clone();
    let given = gives(&a, &[(&a.member_id, &[0, 1]), (&b.member_id, &[])]);
    let mut asked = pin!(groups.sync(&group, given));
    assert!(poll_immediate(&mut asked).await.is_none());
    house.writer.step();
    asked.await.unwrap();

    let alive = house.of_four(&group, enters("n")).await;
    assert_eq!((house.kind(), indexes(&alive)), (GroupKind::Consumer, vec![]));
    let mut house = house.power_cut();
    let alive = house.of_four(&group, beat("n", alive.epoch)).await;
    assert!(indexes(&alive).is_empty(), "a may still have them");
    let groups = house.groups.clone();
    let again = cooperative(a.member_id.as_str(), &[0, 1]);
    let mut asked = pin!(groups.join(&group, again, four));
    assert!(poll_immediate(&mut asked).await.is_none());
    house.writer.step();
    asked.await.unwrap();
    let alive = house.of_four(&group, beat("n", alive.epoch)).await;
    let has = indexes(&alive);
    assert!(has.len() == 1 && [2, 3].contains(&has[0]), "{has:?}");
}

#[tokio::test]
async fn an_upgrade_between_two_rebalances_keeps_current_assignments() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let (a, b) = house.two_of_whom_one_holds_all(&group).await;
    // Another member joins before `a` has assigned, so the rebalance starts over.
    let groups = house.groups.clone();
    let mut c = pin!(groups.join(&group, cooperative("", &[]), four));
    assert!(poll_immediate(&mut c).await.is_none());
    assert_eq!(house.beat(&group, &b), Err(GroupError::RebalanceInProgress));

    let alive = house.of_four(&group, enters("n")).await;
    assert_eq!((house.kind(), indexes(&alive)), (GroupKind::Consumer, vec![]));
    let groups = house.groups.clone();
    let again = cooperative(a.member_id.as_str(), &[0, 1, 2, 3]);
    let mut asked = pin!(groups.join(&group, again, four));
    assert!(poll_immediate(&mut asked).await.is_none());
    house.writer.step();
    let joined = asked.await.unwrap();
    let sync = Sync { assignments: Vec::new(), ..assign(&joined) };
    let synced = poll_immediate(pin!(groups.sync(&group, sync))).await.unwrap().unwrap();
    let left = Assignment::parse(&synced.assignment).unwrap().partitions;
    assert!(!left.is_empty(), "what it is to have in the end it keeps");
    let alive = house.of_four(&group, beat("n", alive.epoch)).await;
    assert!(indexes(&alive).is_empty(), "and what it is to give up it has still");
}
