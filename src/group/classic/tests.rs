//! Behaviour of a classic group in virtual time.

mod random;
mod rebalance;
mod sessions;
mod statics;

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::group::*;
use crate::model::{MemberId, Moment, MonoMs, WallMs};

const SESSION_MS: u64 = 10_000;
const REBALANCE_MS: u64 = 60_000;

/// A group with all its outputs.
struct Script {
    group: Classic,
    now: Moment,
    tokens: u64,
    answers: BTreeMap<RequestId, GroupAnswer>,
    kept: Vec<GroupState>,
    gone: Vec<(String, GoneCause)>,
    generations: Vec<i32>,
}

impl Script {
    fn new() -> Self {
        Self::of(Classic::new(ClassicConfig::default()))
    }

    fn of(group: Classic) -> Self {
        Self {
            group,
            now: Moment { wall: WallMs(1_000_000), mono: MonoMs(1_000) },
            tokens: 0,
            answers: BTreeMap::new(),
            kept: Vec::new(),
            gone: Vec::new(),
            generations: Vec::new(),
        }
    }

    /// Restarts the process: restores the persisted state on a new monotonic clock.
    fn restart(&self) -> Self {
        let state = self.kept.last().cloned().unwrap();
        let now = Moment { wall: self.now.wall, mono: MonoMs(5) };
        let mut next = Self::of(Classic::restored(ClassicConfig::default(), now, state));
        next.now = now;
        next
    }

    fn send(&mut self, input: impl FnOnce(RequestId) -> GroupInput) -> RequestId {
        self.tokens += 1;
        let token = RequestId(self.tokens);
        self.group.handle(self.now, input(token));
        self.drain();
        token
    }

    fn drain(&mut self) {
        while let Some(output) = self.group.poll_output() {
            match output {
                GroupOutput::Answer(token, answer) => {
                    assert!(self.answers.insert(token, answer).is_none(), "answered twice");
                }
                GroupOutput::Persist(state) => self.kept.push(state),
                GroupOutput::MemberGone(gone) => {
                    self.gone.push((gone.member_id.to_string(), gone.cause));
                }
                GroupOutput::Generation(n) => self.generations.push(n),
                GroupOutput::Forget => self.kept.clear(),
                GroupOutput::PersistConsumer(_) => panic!("not a consumer group"),
            }
        }
    }

    /// Advances the clock by `ms`, with a stop at every deadline.
    fn pass(&mut self, ms: u64) {
        let end = self.now.mono.plus(ms);
        while let Some(due) = self.group.poll_timeout().filter(|due| due.0 <= end) {
            self.now.mono = self.now.mono.max(due.0);
            self.group.handle_timeout(self.now);
            self.drain();
            let next = self.group.poll_timeout();
            assert!(next.is_none_or(|next| self.now.mono < next.0), "a deadline that is past");
        }
        self.now.mono = end;
    }

    /// Advances the clock by `ms` while these members send heartbeats.
    fn pass_alive(&mut self, ms: u64, members: &[&str], generation: i32) {
        for _ in 0..ms / 1_000 {
            self.pass(1_000);
            for member in members {
                self.beat(member, generation).unwrap();
            }
        }
    }

    fn join(&mut self, join: JoinRequest) -> RequestId {
        self.send(|token| GroupInput::Join(token, join))
    }

    fn joined(&self, token: RequestId) -> JoinResult {
        match self.answers.get(&token) {
            Some(GroupAnswer::Join(Ok(joined))) => joined.clone(),
            other => panic!("not joined: {other:?}"),
        }
    }

    fn join_error(&self, token: RequestId) -> GroupError {
        match self.answers.get(&token) {
            Some(GroupAnswer::Join(Err(refusal))) => refusal.error,
            other => panic!("not refused: {other:?}"),
        }
    }

    fn waits(&self, token: RequestId) -> bool {
        !self.answers.contains_key(&token)
    }

    fn sync(&mut self, member: &str, generation: i32, assignments: &[(&str, &str)]) -> RequestId {
        let sync = Sync {
            member_id: member.into(),
            instance_id: None,
            generation,
            protocol_type: Some("consumer".into()),
            protocol: None,
            assignments: assignments
                .iter()
                .map(|(id, text)| (MemberId::new(id), Bytes::copy_from_slice(text.as_bytes())))
                .collect(),
        };
        self.send(|token| GroupInput::Sync(token, sync))
    }

    fn synced(&self, token: RequestId) -> Result<Bytes, GroupError> {
        match self.answers.get(&token) {
            Some(GroupAnswer::Sync(result)) => result.clone().map(|synced| synced.assignment),
            other => panic!("no sync answer: {other:?}"),
        }
    }

    fn beat(&mut self, member: &str, generation: i32) -> Result<(), GroupError> {
        self.beat_as(member, None, generation)
    }

    fn beat_as(
        &mut self,
        member: &str,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), GroupError> {
        let beat = Heartbeat {
            member_id: member.into(),
            instance_id: instance.map(str::to_owned),
            generation,
        };
        let token = self.send(|token| GroupInput::Heartbeat(token, beat));
        match self.answers.get(&token) {
            Some(GroupAnswer::Heartbeat(result)) => *result,
            other => panic!("no heartbeat answer: {other:?}"),
        }
    }

    fn leave(&mut self, member: &str, instance: Option<&str>) -> Result<(), GroupError> {
        let leaver = Leaver {
            member_id: member.into(),
            instance_id: instance.map(str::to_owned),
            reason: Some("shutdown".into()),
        };
        let token =
            self.send(|token| GroupInput::Leave(token, LeaveRequest { members: vec![leaver] }));
        match self.answers.get(&token) {
            Some(GroupAnswer::Leave(Ok(left))) => left[0].result,
            other => panic!("no leave answer: {other:?}"),
        }
    }

    fn may_commit(&mut self, member: &str, generation: i32) -> Result<(), GroupError> {
        self.may_commit_in(false, member, generation)
    }

    /// `transactional`: the commit is part of a transaction.
    fn may_commit_in(
        &mut self,
        transactional: bool,
        member: &str,
        generation: i32,
    ) -> Result<(), GroupError> {
        let member_id = member.into();
        let (instance_id, has_epochs) = (None, true);
        let check = CommitCheck { member_id, instance_id, generation, transactional, has_epochs };
        let token = self.send(|token| GroupInput::CommitCheck(token, check));
        match self.answers.get(&token) {
            Some(GroupAnswer::CommitCheck(result)) => *result,
            other => panic!("no commit answer: {other:?}"),
        }
    }

    /// A stable group of `a` (leader) and `b`; the assignment of each is its name.
    fn pair() -> Self {
        let mut script = Self::new();
        script.join(member("a"));
        script.sync("a", 1, &[("a", "a")]);
        script.join(member("b"));
        script.join(again("a"));
        script.sync("b", 2, &[]);
        script.sync("a", 2, &[("a", "a"), ("b", "b")]);
        assert_eq!(script.group.phase(), GroupPhase::Stable);
        script
    }
}

/// A join of a new member that gets the id `id`, with the assignor `range`.
fn member(id: &str) -> JoinRequest {
    JoinRequest {
        member_id: "".into(),
        instance_id: None,
        fresh_id: id.into(),
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: REBALANCE_MS,
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range", id)],
        require_known_member_id: false,
        can_skip_assignment: true,
        consuming: None,
    }
}

/// A join of that member with its id.
fn again(id: &str) -> JoinRequest {
    JoinRequest { member_id: id.into(), fresh_id: "unused".into(), ..member(id) }
}

fn instance(instance: &str, fresh_id: &str) -> JoinRequest {
    JoinRequest {
        instance_id: Some(instance.into()),
        protocols: vec![protocol("range", instance)],
        ..member(fresh_id)
    }
}

fn protocol(name: &str, metadata: &str) -> Protocol {
    Protocol { name: name.into(), metadata: Bytes::copy_from_slice(metadata.as_bytes()) }
}
