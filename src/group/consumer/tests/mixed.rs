//! Members of both protocols in one group: upgrade and downgrade.

use super::*;

const CLASSIC_SESSION_MS: u64 = 10_000;

/// A classic-protocol consumer of `orders` that owns these partitions.
pub(super) fn classic(id: &str, owned: &[i32]) -> JoinRequest {
    let consuming = ParsedSubscription {
        topics: BTreeSet::from(["orders".into()]),
        owned: orders(owned),
        cluster: BTreeMap::new(),
    };
    let protocol = |name: &str| Protocol { name: name.into(), metadata: Bytes::from_static(b"s") };
    JoinRequest {
        member_id: id.into(),
        instance_id: None,
        fresh_id: id.into(),
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: CLASSIC_SESSION_MS,
        rebalance_timeout_ms: REBALANCE_MS,
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range"), protocol("sticky")],
        require_known_member_id: true,
        can_skip_assignment: true,
        consuming: Some(Box::new(consuming)),
    }
}

/// The join of a static member's new process.
fn fixed(instance: &str, fresh_id: &str) -> JoinRequest {
    let instance_id = Some(instance.to_owned());
    JoinRequest { member_id: "".into(), instance_id, ..classic(fresh_id, &[]) }
}

impl Script {
    fn joins(&mut self, mut join: JoinRequest) -> Result<JoinResult, JoinRefusal> {
        if let Some(consuming) = &mut join.consuming {
            let image = |(name, image): (&TopicName, &TopicImage)| (name.clone(), Some(*image));
            consuming.cluster = self.cluster.iter().map(image).collect();
        }
        match self.ask(|token| GroupInput::Join(token, join)) {
            GroupAnswer::Join(result) => result,
            other => panic!("no join answer: {other:?}"),
        }
    }

    /// Joins successfully; returns the generation.
    pub(super) fn joined(&mut self, join: JoinRequest) -> i32 {
        self.joins(join).unwrap().generation
    }

    fn refusal(&mut self, join: JoinRequest) -> GroupError {
        self.joins(join).unwrap_err().error
    }

    /// Syncs; returns the assigned partitions of `orders`.
    pub(super) fn syncs(&mut self, id: &str, generation: i32) -> Result<Vec<i32>, GroupError> {
        self.syncs_as(id, None, generation, "range")
    }

    fn syncs_as(
        &mut self,
        id: &str,
        instance: Option<&str>,
        generation: i32,
        protocol: &str,
    ) -> Result<Vec<i32>, GroupError> {
        let sync = Sync {
            member_id: id.into(),
            instance_id: instance.map(str::to_owned),
            generation,
            protocol_type: Some("consumer".into()),
            protocol: Some(protocol.into()),
            assignments: Vec::new(),
        };
        match self.ask(|token| GroupInput::Sync(token, sync)) {
            GroupAnswer::Sync(result) => result.map(|synced| {
                let held = synced.held.unwrap();
                assert!(held.keys().all(|name| name.as_str() == "orders"));
                held.into_values().next().unwrap_or_default()
            }),
            other => panic!("no sync answer: {other:?}"),
        }
    }

    pub(super) fn beats(&mut self, id: &str, generation: i32) -> Result<(), GroupError> {
        self.beats_as(id, None, generation)
    }

    fn beats_as(
        &mut self,
        id: &str,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), GroupError> {
        let instance_id = instance.map(str::to_owned);
        let beat = Heartbeat { member_id: id.into(), instance_id, generation };
        match self.ask(|token| GroupInput::Heartbeat(token, beat)) {
            GroupAnswer::Heartbeat(result) => result,
            other => panic!("no heartbeat answer: {other:?}"),
        }
    }

    /// Advances the clock while `c` and `n` send heartbeats every second.
    fn pass_alive(&mut self, ms: u64, classic: i32, epoch: i32) {
        for _ in 0..ms / 1_000 {
            self.pass(1_000);
            let _ = self.beats("c", classic);
            drop(self.beat("n", epoch));
        }
    }

    /// `c` speaks the classic protocol and owns all of `orders`, at generation 1.
    fn old() -> Self {
        let mut s = Self::new();
        let first = JoinRequest {
            member_id: "".into(),
            require_known_member_id: false,
            ..classic("c", &[])
        };
        assert_eq!(s.joined(first), 1);
        assert_eq!(s.syncs("c", 1), Ok(vec![0, 1, 2, 3]));
        s
    }

    /// `c` as in `old`, and `n` with KIP-848; each owns two partitions at epoch 2.
    fn mixed() -> Self {
        let mut s = Self::old();
        assert_eq!(s.join("n", &["orders"]), told("n", 2, &[]));
        assert_eq!(s.joined(classic("c", &[])), 2);
        assert_eq!(s.syncs("c", 2).unwrap().len(), 2);
        assert_eq!(s.beat("n", 2).unwrap().assignment.unwrap().len(), 2);
        assert_eq!(s.group.phase(), ConsumerPhase::Stable);
        assert_eq!(s.beats("c", 2), Ok(()));
        s
    }
}

#[test]
fn a_classic_member_rejoins_and_revokes_its_owned_partitions() {
    let mut s = Script::old();
    assert_eq!(s.join("n", &["orders"]), told("n", 2, &[]));
    assert_eq!(s.beats("c", 1), Err(GroupError::RebalanceInProgress));
    assert_eq!(s.syncs("c", 1), Err(GroupError::RebalanceInProgress));
    // The cooperative client still owns all four; its generation stays until the revocation.
    assert_eq!(s.joined(classic("c", &[0, 1, 2, 3])), 1);
    let keeps = s.syncs("c", 1).unwrap();
    assert_eq!(keeps.len(), 2);
    assert_eq!(s.beat("n", 2), Ok(quiet("n", 2)), "nothing is free yet");
    assert_eq!(s.beats("c", 1), Err(GroupError::RebalanceInProgress), "it is to say it has");
    assert_eq!(s.joined(classic("c", &keeps)), 2);
    assert_eq!(s.syncs("c", 2).unwrap(), keeps);
    let rest: Vec<i32> = (0..4).filter(|one| !keeps.contains(one)).collect();
    assert_eq!(s.beat("n", 2), Ok(told("n", 2, &rest)));
    assert_eq!((s.beats("c", 2), s.group.phase()), (Ok(()), ConsumerPhase::Stable));
}

#[test]
fn a_classic_member_rejoins_when_its_partitions_become_free() {
    let mut s = Script::new();
    s.join("n", &["orders"]);
    let joined = s.joins(classic("c", &[])).unwrap();
    assert_eq!((joined.generation, joined.protocol.as_deref()), (2, Some("range")));
    assert_eq!((joined.leader.as_str(), joined.members.len()), ("", 0), "nobody leads");
    assert_eq!(s.syncs("c", 2), Ok(vec![]));
    assert_eq!(s.beats("c", 2), Ok(()), "it would get nothing more yet");
    let kept = s.beat("n", 1).unwrap().assignment.unwrap();
    s.send(ConsumerHeartbeat { owned: Some(kept), ..beat("n", 1) }).unwrap();
    assert_eq!(s.beats("c", 2), Err(GroupError::RebalanceInProgress));
    assert_eq!(s.joined(classic("c", &[])), 2);
    assert_eq!(s.syncs("c", 2).unwrap().len(), 2);
    assert_eq!(s.beats("c", 2), Ok(()));
}

#[test]
fn a_classic_member_gets_errors_of_its_own_protocol() {
    let mut s = Script::mixed();
    for generation in [1, 3] {
        assert_eq!(s.beats("c", generation), Err(GroupError::IllegalGeneration));
        assert_eq!(s.syncs("c", generation), Err(GroupError::IllegalGeneration));
        assert_eq!(s.may_commit("c", generation), Err(GroupError::IllegalGeneration));
        assert_eq!(s.may_commit("n", generation), Err(GroupError::StaleMemberEpoch));
    }
    assert_eq!((s.may_commit("c", 2), s.may_commit("n", 2)), (Ok(()), Ok(())));
    assert_eq!(s.syncs_as("c", None, 2, "sticky"), Err(GroupError::InconsistentGroupProtocol));
    // A KIP-848 member is not a classic member, nor is an unknown id.
    for id in ["n", "x"] {
        assert_eq!(s.beats(id, 2), Err(GroupError::UnknownMemberId));
        assert_eq!(s.syncs(id, 2), Err(GroupError::UnknownMemberId));
    }
    assert_eq!(s.refusal(classic("n", &[])), GroupError::UnknownMemberId);
    let refusal = s.joins(JoinRequest { member_id: "".into(), ..classic("d", &[]) }).unwrap_err();
    assert_eq!(refusal, JoinRefusal { error: GroupError::MemberIdRequired, member_id: "d".into() });
    let short = JoinRequest { session_timeout_ms: 1, ..classic("c", &[]) };
    assert_eq!(s.refusal(short), GroupError::InvalidSessionTimeout);
    let connect = JoinRequest { protocol_type: "connect".into(), ..classic("c", &[]) };
    let unread = JoinRequest { consuming: None, ..classic("c", &[]) };
    let other = Protocol { name: "other".into(), metadata: Bytes::new() };
    let alone = JoinRequest { protocols: vec![other], ..classic("d", &[]) };
    for join in [connect, unread, alone] {
        assert_eq!(s.refusal(join), GroupError::InconsistentGroupProtocol);
    }
    assert_eq!(s.group.member_keys().count(), 2, "nobody came");
    assert_eq!(s.joined(classic("d", &[])), 3, "with the id it was given");
}

#[test]
fn a_classic_member_without_a_rejoin_in_time_is_removed() {
    let mut s = Script::mixed();
    s.topic("orders", 1, 6);
    s.beat("n", 2).unwrap();
    assert_eq!(s.beats("c", 2), Err(GroupError::RebalanceInProgress));
    s.pass_alive(REBALANCE_MS - 1_000, 2, 3);
    assert!(s.gone.is_empty());
    s.pass_alive(1_000, 2, 3);
    assert_eq!(s.gone, [("c".into(), GoneCause::Expired)]);
}

#[test]
fn a_classic_member_without_a_sync_is_removed() {
    let mut s = Script::mixed();
    assert_eq!(s.joined(classic("c", &[])), 2);
    s.pass_alive(REBALANCE_MS - 1_000, 2, 2);
    assert!(s.gone.is_empty());
    s.pass_alive(1_000, 2, 2);
    assert_eq!(s.gone, [("c".into(), GoneCause::Expired)]);
    let mut s = Script::mixed();
    s.pass_alive(2 * REBALANCE_MS, 2, 2);
    assert!(s.gone.is_empty(), "one that has asked need not do anything");
}

#[test]
fn a_classic_member_falls_silent_by_its_own_session_timeout() {
    let mut s = Script::mixed();
    s.pass(CLASSIC_SESSION_MS - 1);
    assert_eq!(s.beats("c", 2), Ok(()));
    s.pass(CLASSIC_SESSION_MS - 1);
    assert!(s.gone.is_empty());
    s.pass(1);
    assert_eq!(s.gone, [("c".into(), GoneCause::Expired)]);
    assert_eq!(s.beat("n", 2).unwrap().assignment.unwrap().len(), 4);
}

#[test]
fn a_static_member_keeps_its_place_across_both_protocols() {
    let mut s = Script::old();
    s.joined(fixed("x", "x1"));
    s.joined(classic("c", &[]));
    s.syncs("c", 2).unwrap();
    assert_eq!(s.joined(JoinRequest { member_id: "x1".into(), ..fixed("x", "") }), 2);
    let held = s.syncs_as("x1", Some("x"), 2, "range").unwrap();
    assert_eq!(held.len(), 2);
    // A static member with the classic protocol leaves without notice.
    assert_eq!(s.send(instance("x", "x2")), Ok(told("x2", 2, &held)));
    assert_eq!(s.beats_as("x1", Some("x"), 2), Err(GroupError::FencedInstanceId));
    let old = JoinRequest { member_id: "x1".into(), ..fixed("x", "") };
    assert_eq!(s.refusal(old), GroupError::FencedInstanceId);
    assert_eq!(s.beats("c", 2), Ok(()), "nobody else notices");
    assert_eq!(s.joined(fixed("x", "x3")), 2);
    assert_eq!(s.syncs_as("x3", Some("x"), 2, "range").unwrap(), held);
    let replaced = |id: &str| (id.to_owned(), GoneCause::Replaced);
    assert_eq!(s.gone, [replaced("x1"), replaced("x2")]);
    assert_eq!((s.beats("c", 2), s.epochs.last()), (Ok(()), Some(&2)));
}

#[test]
fn the_group_is_classic_again_without_kip_848_members() {
    for way in ["leaves", "expires", "is replaced"] {
        let mut s = Script::mixed();
        assert_eq!(s.group.as_classic(), None);
        match way {
            "leaves" => drop(s.beat("n", -1).unwrap()),
            "expires" => {
                while s.gone.is_empty() {
                    assert_eq!(s.beats("c", 2), Ok(()));
                    s.pass(1_000);
                }
            }
            _ => {
                s.beat("n", -1).unwrap();
                s = Script::mixed();
                s.send(instance("x", "x1")).unwrap();
                s.beat("n", -1).unwrap();
                assert_eq!(s.group.as_classic(), None);
                s.joined(fixed("x", "x2"));
            }
        }
        let state = s.group.as_classic().unwrap_or_else(|| panic!("{way}"));
        let ids: Vec<&str> = state.members.iter().map(|one| one.member_id.as_str()).collect();
        assert_eq!(ids.first(), Some(&"c"), "{way}");
        assert_eq!(state.members[0].session_timeout_ms, CLASSIC_SESSION_MS);
        assert_eq!(state.protocol_type.as_deref(), Some("consumer"));
        if way == "is replaced" {
            continue;
        }
        assert_eq!((state.generation, ids.len()), (2, 1), "no epoch of its own: {way}");
        // A member that was sent generation 2 joins the classic group again.
        let mut group = Classic::taking_over(ClassicConfig::default(), s.now, state);
        let beat = Heartbeat { member_id: "c".into(), instance_id: None, generation: 2 };
        group.handle(s.now, GroupInput::Heartbeat(RequestId(1), beat));
        let told = GroupAnswer::Heartbeat(Err(GroupError::RebalanceInProgress));
        assert_eq!(group.poll_output(), Some(GroupOutput::Answer(RequestId(1), told)), "{way}");
        group.handle(s.now, GroupInput::Join(RequestId(2), classic("c", &[])));
        assert_eq!(group.poll_output(), Some(GroupOutput::Generation(3)));
        let Some(GroupOutput::Answer(_, GroupAnswer::Join(Ok(joined)))) = group.poll_output()
        else {
            panic!("joined: {way}")
        };
        assert_eq!((joined.leader.as_str(), joined.generation), ("c", 3));
    }
}

#[test]
fn a_classic_member_leaves_and_the_others_get_its_part() {
    let mut s = Script::mixed();
    assert_eq!(s.leaves("c", Some("x")), Err(GroupError::UnknownMemberId));
    assert_eq!(s.leaves("c", None), Ok(()));
    assert_eq!(s.beat("n", 2), Ok(told("n", 3, &[0, 1, 2, 3])));
}

#[test]
fn a_mixed_group_comes_back_as_it_was() {
    let mut s = Script::mixed().restart();
    assert_eq!(s.group.subscription(&"c".into()), Some(Bytes::from_static(b"s")));
    assert_eq!(s.group.subscription(&"n".into()), None);
    s.pass(CLASSIC_SESSION_MS - 1);
    assert_eq!(s.beats("c", 2), Ok(()));
    assert_eq!(s.beat("n", 2), Ok(quiet("n", 2)));
    s.pass(CLASSIC_SESSION_MS);
    assert_eq!(s.gone, [("c".into(), GoneCause::Expired)], "its own timeout is kept");
}
