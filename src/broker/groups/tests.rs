//! Groups on a journal whose disk loses what was not synced.

mod consumer;
mod many;
mod upgrade;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::poll_immediate;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::group::{Leaver, Protocol};
use crate::journal::{JournalOptions, MemDisk, Writer};

const SESSION_MS: u64 = 10_000;

/// A broker's groups on a disk that loses what was not synced.
struct House {
    disk: MemDisk,
    writer: Writer,
    groups: Groups,
    events: UnboundedReceiver<GroupEvent>,
    mono_ms: Arc<AtomicU64>,
}

impl House {
    fn new() -> Self {
        Self::on(MemDisk::new(7))
    }

    fn on(disk: MemDisk) -> Self {
        let (journal, writer, recovery) =
            Journal::open(disk.disk(), JournalOptions::default()).unwrap();
        let mono_ms = Arc::new(AtomicU64::new(1_000));
        let clock = Arc::clone(&mono_ms);
        let now = move || {
            let ms = clock.load(Ordering::Relaxed);
            Moment { wall: WallMs(0).plus(ms), mono: MonoMs(ms) }
        };
        let (groups, events) =
            Groups::new(journal, ClassicConfig::default(), ConsumerConfig::default(), now);
        let mut failed = None;
        recovery.replay(0, &mut |entry, _| failed = failed.or(groups.replay(entry).err())).unwrap();
        assert_eq!(failed, None);
        groups.open();
        Self { disk, writer, groups, events, mono_ms }
    }

    fn power_cut(self) -> Self {
        let Self { disk, writer, groups, events, .. } = self;
        disk.power_cut();
        drop((writer, groups, events));
        Self::on(disk)
    }

    fn pass(&self, ms: u64) {
        self.mono_ms.fetch_add(ms, Ordering::Relaxed);
        self.groups.tick();
    }

    /// Joins and syncs the only member of a group; the assignment is durable.
    async fn lead(&mut self, group: &GroupId) -> JoinResult {
        let joined = self.groups.join(group, join("range"), |_| None).await.unwrap();
        let mut sync = pin!(self.groups.sync(group, assign(&joined)));
        assert!(poll_immediate(&mut sync).await.is_none(), "answered before it was durable");
        self.writer.step();
        assert_eq!(sync.await.unwrap().assignment, "everything");
        joined
    }

    fn beat(&self, group: &GroupId, joined: &JoinResult) -> Result<(), GroupError> {
        let beat = Heartbeat {
            member_id: joined.member_id.clone(),
            instance_id: None,
            generation: joined.generation,
        };
        self.groups.heartbeat(group, beat)
    }

    fn leave(&self, group: &GroupId, joined: &JoinResult) -> Result<Vec<LeaveResult>, GroupError> {
        let leaver =
            Leaver { member_id: joined.member_id.clone(), instance_id: None, reason: None };
        self.groups.leave(group, LeaveRequest { members: vec![leaver] })
    }
}

fn join(metadata: &str) -> JoinRequest {
    JoinRequest {
        member_id: "".into(),
        instance_id: None,
        fresh_id: "".into(),
        client_id: "app".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: vec![Protocol {
            name: "range".into(),
            metadata: Bytes::copy_from_slice(metadata.as_bytes()),
        }],
        require_known_member_id: false,
        can_skip_assignment: true,
        consuming: None,
    }
}

fn assign(joined: &JoinResult) -> Sync {
    Sync {
        member_id: joined.member_id.clone(),
        instance_id: None,
        generation: joined.generation,
        protocol_type: None,
        protocol: None,
        assignments: vec![(joined.member_id.clone(), Bytes::from_static(b"everything"))],
    }
}

fn check(member: &str, generation: i32) -> CommitCheck {
    CommitCheck {
        member_id: member.into(),
        instance_id: None,
        generation,
        transactional: false,
        has_epochs: true,
    }
}

#[tokio::test]
async fn an_assignment_is_handed_out_only_once_it_is_durable() {
    let mut house = House::new();
    let joined = house.lead(&"g".into()).await;
    assert!(joined.member_id.as_str().starts_with("app-"));
    assert_eq!(house.groups.list()[0].phase, "Stable");
    assert!(house.groups.members(&"g".into()).iter().eq([&joined.member_id]));
    assert_eq!(house.groups.subscription(&"g".into(), &joined.member_id).unwrap(), "range");
}

#[tokio::test]
async fn a_repeated_sync_also_waits_for_the_disk() {
    let house = House::new();
    let group = GroupId::new("g");
    let joined = house.groups.join(&group, join("range"), |_| None).await.unwrap();
    let mut first = pin!(house.groups.sync(&group, assign(&joined)));
    let mut second = pin!(house.groups.sync(&group, assign(&joined)));
    assert!(poll_immediate(&mut first).await.is_none());
    assert!(poll_immediate(&mut second).await.is_none(), "the group is stable, the disk is not");
}

#[tokio::test]
async fn a_group_survives_a_power_cut_without_a_rebalance() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let joined = house.lead(&group).await;
    let mut house = house.power_cut();
    house.pass(SESSION_MS - 1);
    assert_eq!(house.beat(&group, &joined), Ok(()));
    let again = house.groups.sync(&group, assign(&joined)).await.unwrap();
    assert_eq!(again.assignment, "everything");
    assert!(house.events.try_recv().is_err(), "nothing happened to the group");
}

#[tokio::test]
async fn an_expired_member_raises_an_event() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let joined = house.lead(&group).await;
    house.pass(SESSION_MS);
    let rebalanced = |generation| GroupEvent::Rebalanced { group: group.clone(), generation };
    assert_eq!(house.events.try_recv().unwrap(), rebalanced(1));
    let gone = GroupEvent::MemberGone {
        group: group.clone(),
        member: joined.member_id.clone(),
        member_id: joined.member_id.clone(),
        cause: GoneCause::Expired,
    };
    assert_eq!(house.events.try_recv().unwrap(), gone);
    assert_eq!(house.events.try_recv().unwrap(), rebalanced(2));
    assert_eq!(house.beat(&group, &joined), Err(GroupError::UnknownMemberId));
}

#[tokio::test(start_paused = true)]
async fn the_timer_ends_sessions_without_being_asked() {
    #[expect(clippy::disallowed_methods, reason = "the virtual clock of this test")]
    let start = tokio::time::Instant::now();
    let now = move || {
        let ms = u64::try_from(start.elapsed().as_millis()).unwrap();
        Moment { wall: WallMs(0).plus(ms), mono: MonoMs(ms) }
    };
    let (journal, _writer, _recovery) =
        Journal::open(MemDisk::new(1).disk(), JournalOptions::default()).unwrap();
    let (groups, mut events) =
        Groups::new(journal, ClassicConfig::default(), ConsumerConfig::default(), now);
    let mut timers = pin!(groups.clone().run_timers());
    assert!(poll_immediate(&mut timers).await.is_none(), "nothing to wait for yet");
    groups.join(&"g".into(), join("range"), |_| None).await.unwrap();
    assert!(matches!(events.recv().await, Some(GroupEvent::Rebalanced { .. })));
    tokio::select! {
        () = &mut timers => panic!("the timer never ends"),
        () = tokio::time::sleep(Duration::from_hours(1)) => panic!("the timer never wakes"),
        event = events.recv() => {
            let Some(GroupEvent::MemberGone { cause, .. }) = event else { panic!("{event:?}") };
            assert_eq!(cause, GoneCause::Expired);
        }
    }
    assert_eq!(start.elapsed().as_millis(), u128::from(SESSION_MS));
}

#[tokio::test]
async fn no_assignment_is_sent_after_a_failed_sync() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let joined = house.groups.join(&group, join("range"), |_| None).await.unwrap();
    house.disk.fail_nth_sync(1);
    let mut sync = pin!(house.groups.sync(&group, assign(&joined)));
    assert!(poll_immediate(&mut sync).await.is_none());
    house.writer.step();
    assert_eq!(sync.await, Err(GroupError::CoordinatorNotAvailable));
    let again = house.groups.sync(&group, assign(&joined)).await;
    assert_eq!(again, Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(house.beat(&group, &joined), Ok(()), "it is still a member");
}

#[tokio::test]
async fn a_group_waits_for_disk_room_and_then_continues() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let joined = house.groups.join(&group, join("range"), |_| None).await.unwrap();
    let first = house.groups.join(&"first".into(), join("range"), |_| None).await.unwrap();
    house.disk.set_capacity(Some(0));
    let groups = house.groups.clone();
    let first_group = GroupId::new("first");
    let mut waits = pin!(groups.sync(&first_group, assign(&first)));
    assert!(poll_immediate(&mut waits).await.is_none());
    house.writer.step();
    assert!(poll_immediate(&mut waits).await.is_none(), "the one that finds the disk full waits");
    let refused = house.groups.sync(&group, assign(&joined)).await;
    assert_eq!(refused, Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(house.beat(&group, &joined), Ok(()), "it is still a member");
    house.disk.set_capacity(None);
    house.writer.step();
    assert_eq!(waits.await.unwrap().assignment, "everything");
    house.pass(KEEP_AGAIN_MS);
    house.writer.step();
    let synced = house.groups.sync(&group, assign(&joined)).await.unwrap();
    assert_eq!(synced.assignment, "everything");
    assert_eq!(house.beat(&group, &joined), Ok(()));
    assert_eq!(house.power_cut().groups.list()[0].phase, "Stable");
}

#[tokio::test]
async fn a_deleted_group_stays_deleted() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let joined = house.lead(&group).await;
    assert_eq!(house.groups.delete(&group).await, Err(GroupError::NonEmptyGroup));
    house.leave(&group, &joined).unwrap();
    let groups = house.groups.clone();
    let mut delete = pin!(groups.delete(&group));
    assert!(poll_immediate(&mut delete).await.is_none());
    house.writer.step();
    assert_eq!(delete.await, Ok(()));
    assert!(house.groups.describe(&group).is_none());
    let house = house.power_cut();
    assert!(house.groups.list().is_empty());
    assert_eq!(house.groups.delete(&group).await, Err(GroupError::GroupIdNotFound));
}

#[tokio::test]
async fn a_group_without_joined_members_takes_no_room() {
    let house = House::new();
    let group = GroupId::new("g");
    let short = JoinRequest { session_timeout_ms: 1, ..join("range") };
    let refused = house.groups.join(&group, short, |_| None).await.unwrap_err();
    assert_eq!(refused.error, GroupError::InvalidSessionTimeout);
    let stranger = JoinRequest { member_id: "x".into(), ..join("range") };
    let refused = house.groups.join(&group, stranger, |_| None).await.unwrap_err();
    assert_eq!((refused.error, refused.member_id.as_str()), (GroupError::UnknownMemberId, "x"));
    assert!(house.groups.list().is_empty());
    let promised = JoinRequest { require_known_member_id: true, ..join("range") };
    let refused = house.groups.join(&group, promised, |_| None).await.unwrap_err();
    assert_eq!(refused.error, GroupError::MemberIdRequired);
    assert_eq!(house.groups.list().len(), 1, "an id was promised");
    house.pass(SESSION_MS);
    assert!(house.groups.list().is_empty());
}

#[tokio::test]
async fn requests_to_an_unknown_group_get_kafkas_errors() {
    let house = House::new();
    let group = GroupId::new("g");
    let beat = Heartbeat { member_id: "x".into(), instance_id: None, generation: 1 };
    assert_eq!(house.groups.heartbeat(&group, beat), Err(GroupError::UnknownMemberId));
    assert_eq!(house.groups.commit_check(&group, check("", -1)), Ok(()));
    let of_the_past = house.groups.commit_check(&group, check("x", 3));
    assert_eq!(of_the_past, Err(GroupError::GroupIdNotFound));
    let in_transaction = CommitCheck { transactional: true, ..check("x", 3) };
    assert_eq!(
        house.groups.commit_check(&group, in_transaction),
        Err(GroupError::IllegalGeneration)
    );
    let leaver = Leaver { member_id: "x".into(), instance_id: None, reason: None };
    let left = house.groups.leave(&group, LeaveRequest { members: vec![leaver] }).unwrap();
    assert_eq!(left[0].result, Err(GroupError::UnknownMemberId));
    assert_eq!(house.groups.commit_check(&"".into(), check("", -1)), Ok(()));
    let refused = house.groups.join(&"".into(), join("range"), |_| None).await.unwrap_err();
    assert_eq!(refused.error, GroupError::InvalidGroupId);
    for name in ["\0delayed", "a\0"] {
        let refused = house.groups.join(&name.into(), join("range"), |_| None).await.unwrap_err();
        assert_eq!(refused.error, GroupError::InvalidGroupId, "{name:?}");
        let outside = house.groups.commit_check(&name.into(), check("", -1));
        assert_eq!(outside, Err(GroupError::InvalidGroupId), "{name:?}");
    }
}

#[tokio::test]
async fn an_empty_group_without_offsets_is_forgotten_after_ten_minutes() {
    let mut house = House::new();
    let group = GroupId::new("g");
    let joined = house.lead(&group).await;
    house.groups.expire(|_| false);
    assert_eq!(house.groups.occupancy(&group), Occupancy::Occupied);
    house.pass(100);
    house.leave(&group, &joined).unwrap();
    assert_eq!(house.groups.occupancy(&group), Occupancy::VacantSince(WallMs(1_100)));
    house.writer.step();
    let mut house = house.power_cut();
    assert_eq!(house.groups.occupancy(&group), Occupancy::VacantSince(WallMs(1_100)));
    house.mono_ms.store(1_100, Ordering::Relaxed);
    house.pass(VACANT_MS_MAX - 1);
    house.groups.expire(|_| false);
    assert_eq!(house.groups.list().len(), 1);
    house.pass(1);
    house.groups.expire(|_| true);
    assert_eq!(house.groups.list().len(), 1, "it keeps offsets");
    house.groups.expire(|_| false);
    assert_eq!(house.groups.occupancy(&group), Occupancy::Unknown);
    house.writer.step();
    assert!(house.power_cut().groups.list().is_empty());
}

#[tokio::test]
async fn a_simple_group_outlives_its_offsets() {
    let house = House::new();
    let (deleted, expired) = (GroupId::new("deleted"), GroupId::new("expired"));
    for group in [&deleted, &expired] {
        house.groups.keep_simple(group);
        assert_eq!(house.groups.describe(group).unwrap().phase.to_string(), "Empty");
        assert_eq!(house.groups.occupancy(group), Occupancy::Unknown, "offsets expire alone");
    }
    let past = house.groups.commit_check(&deleted, check("x", 3));
    assert_eq!(past, Err(GroupError::UnknownMemberId));
    assert_eq!(house.groups.delete(&deleted).await, Ok(()), "nothing of it is in the log");
    house.pass(VACANT_MS_MAX - 1);
    house.groups.expire(|_| false);
    assert_eq!(house.groups.list().len(), 1);
    house.pass(1);
    house.groups.expire(|_| true);
    assert_eq!(house.groups.list().len(), 1, "it keeps offsets");
    house.groups.expire(|_| false);
    assert!(house.groups.list().is_empty());
}
