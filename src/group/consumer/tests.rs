//! Behaviour of a consumer group (KIP-848) in virtual time.

mod both;
mod epochs;
mod mixed;
mod patterns;
mod random;
mod reconciling;
mod statics;
mod timing;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::group::*;
use crate::model::{MemberId, Moment, MonoMs, TopicId, TopicName, WallMs};

const SESSION_MS: u64 = 45_000;
const REBALANCE_MS: u64 = 60_000;

/// A group with its cluster and all its outputs.
struct Script {
    group: Consumer,
    now: Moment,
    tokens: u64,
    cluster: BTreeMap<TopicName, TopicImage>,
    kept: Vec<ConsumerState>,
    gone: Vec<(String, GoneCause)>,
    epochs: Vec<i32>,
}

impl Script {
    /// A cluster with one topic: `orders` with four partitions.
    fn new() -> Self {
        Self::of(Consumer::new(ConsumerConfig::default()))
    }

    fn of(group: Consumer) -> Self {
        let mut script = Self {
            group,
            now: Moment { wall: WallMs(1_000_000), mono: MonoMs(1_000) },
            tokens: 0,
            cluster: BTreeMap::new(),
            kept: Vec::new(),
            gone: Vec::new(),
            epochs: Vec::new(),
        };
        script.topic("orders", 1, 4);
        script
    }

    fn topic(&mut self, name: &str, id: u8, partitions: i32) {
        self.cluster.insert(name.into(), TopicImage { id: TopicId([id; 16]), partitions });
    }

    /// Restarts the process: restores the persisted state on a new monotonic clock.
    fn restart(self) -> Self {
        let state = self.kept.last().cloned().unwrap();
        let now = Moment { wall: self.now.wall, mono: MonoMs(5) };
        let group = Consumer::restored(ConsumerConfig::default(), now, state);
        assert_eq!(group.describe(), self.group.describe(), "as it was");
        Self { group, now, gone: Vec::new(), epochs: Vec::new(), ..self }
    }

    fn ask(&mut self, input: impl FnOnce(RequestId) -> GroupInput) -> GroupAnswer {
        self.tokens += 1;
        let token = RequestId(self.tokens);
        self.group.handle(self.now, input(token));
        let mut answers = self.drain();
        assert_eq!(answers.len(), 1, "one answer");
        let (of, answer) = answers.remove(0);
        assert_eq!(of, token);
        answer
    }

    fn drain(&mut self) -> Vec<(RequestId, GroupAnswer)> {
        let mut answers = Vec::new();
        while let Some(output) = self.group.poll_output() {
            match output {
                GroupOutput::Answer(token, answer) => answers.push((token, answer)),
                GroupOutput::PersistConsumer(state) => {
                    assert!(answers.is_empty(), "kept before it is told");
                    self.kept.push(state);
                }
                GroupOutput::MemberGone(gone) => {
                    self.gone.push((gone.member_id.to_string(), gone.cause));
                }
                GroupOutput::Generation(n) => self.epochs.push(n),
                GroupOutput::Forget => self.kept.clear(),
                GroupOutput::Persist(_) => panic!("not a classic group"),
            }
        }
        if self.group.phase() != ConsumerPhase::Dead
            && let Some(kept) = self.kept.last()
        {
            assert_eq!(*kept, self.group.describe().state, "what is kept is what is");
        }
        answers
    }

    /// Sends a heartbeat; missing topics of `cluster` are filled in.
    fn send(&mut self, mut beat: ConsumerHeartbeat) -> Result<Alive, GroupError> {
        let mut names: BTreeSet<TopicName> = self.group.wanted().cloned().collect();
        names.extend(beat.topics.iter().flatten().cloned());
        names.extend(beat.matching.values().flat_map(|matches| matches.iter().cloned()));
        let image = |name: TopicName| {
            let image = self.cluster.get(&name).copied();
            (name, image)
        };
        beat.cluster = names.into_iter().map(image).collect();
        match self.ask(|token| GroupInput::ConsumerHeartbeat(token, Box::new(beat))) {
            GroupAnswer::ConsumerHeartbeat(answer) => answer,
            other => panic!("no heartbeat answer: {other:?}"),
        }
    }

    fn join(&mut self, id: &str, topics: &[&str]) -> Alive {
        self.send(join(id, topics)).unwrap()
    }

    /// Sends a heartbeat without changes.
    fn beat(&mut self, id: &str, epoch: i32) -> Result<Alive, GroupError> {
        self.send(beat(id, epoch))
    }

    /// Sends a heartbeat with owned partitions.
    fn owns(&mut self, id: &str, epoch: i32, owned: &[i32]) -> Result<Alive, GroupError> {
        self.send(ConsumerHeartbeat { owned: Some(orders(owned)), ..beat(id, epoch) })
    }

    fn may_commit(&mut self, member: &str, generation: i32) -> Result<(), GroupError> {
        let member_id = member.into();
        let (instance_id, transactional, has_epochs) = (None, false, true);
        let check = CommitCheck { member_id, instance_id, generation, transactional, has_epochs };
        match self.ask(|token| GroupInput::CommitCheck(token, check)) {
            GroupAnswer::CommitCheck(result) => result,
            other => panic!("no commit answer: {other:?}"),
        }
    }

    fn leaves(&mut self, member: &str, instance: Option<&str>) -> Result<(), GroupError> {
        let instance_id = instance.map(str::to_owned);
        let leaver = Leaver { member_id: member.into(), instance_id, reason: None };
        match self.ask(|token| GroupInput::Leave(token, LeaveRequest { members: vec![leaver] })) {
            GroupAnswer::Leave(Ok(left)) => left[0].result,
            other => panic!("no leave answer: {other:?}"),
        }
    }

    fn epoch_of(&self, id: &str) -> i32 {
        let members = self.group.describe().state.members;
        members.iter().find(|member| member.member_id.as_str() == id).unwrap().epoch
    }

    /// Advances the clock by `ms`, with a stop at every deadline.
    fn pass(&mut self, ms: u64) {
        let end = self.now.mono.plus(ms);
        while let Some(due) = self.group.poll_timeout().filter(|due| due.0 <= end) {
            self.now.mono = self.now.mono.max(due.0);
            self.group.handle_timeout(self.now);
            assert!(self.drain().is_empty());
            let next = self.group.poll_timeout();
            assert!(next.is_none_or(|next| self.now.mono < next.0), "a deadline that is past");
        }
        self.now.mono = end;
    }

    /// `a` has partitions 0 and 1 of `orders`, `b` 2 and 3, both at epoch 2.
    fn pair() -> Self {
        let mut s = Self::new();
        assert_eq!(s.join("a", &["orders"]), told("a", 1, &[0, 1, 2, 3]));
        assert_eq!(s.join("b", &["orders"]), told("b", 2, &[]));
        assert_eq!(s.beat("a", 1), Ok(told("a", 1, &[2, 3])));
        assert_eq!(s.owns("a", 1, &[2, 3]), Ok(quiet("a", 2)));
        assert_eq!(s.beat("b", 2), Ok(told("b", 2, &[0, 1])));
        assert_eq!(s.group.phase(), ConsumerPhase::Stable);
        s.gone.clear();
        s
    }
}

fn beat(id: &str, epoch: i32) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        member_id: id.into(),
        epoch,
        instance_id: None,
        rack_id: None,
        client_id: "client".into(),
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

fn join(id: &str, topics: &[&str]) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        rebalance_timeout_ms: Some(REBALANCE_MS),
        topics: Some(topics.iter().map(|name| TopicName::new(name)).collect()),
        owned: Some(BTreeSet::new()),
        ..beat(id, 0)
    }
}

fn instance(instance: &str, id: &str) -> ConsumerHeartbeat {
    ConsumerHeartbeat { instance_id: Some(instance.into()), ..join(id, &["orders"]) }
}

fn of(id: u8, indexes: &[i32]) -> BTreeSet<TopicIdPartition> {
    let one = |index: &i32| TopicIdPartition { topic: TopicId([id; 16]), index: *index };
    indexes.iter().map(one).collect()
}

fn orders(indexes: &[i32]) -> BTreeSet<TopicIdPartition> {
    of(1, indexes)
}

/// An answer with this assignment.
fn told(id: &str, epoch: i32, indexes: &[i32]) -> Alive {
    Alive { assignment: Some(orders(indexes)), ..quiet(id, epoch) }
}

/// An answer without an assignment.
fn quiet(id: &str, epoch: i32) -> Alive {
    Alive { member_id: id.into(), epoch, heartbeat_interval_ms: 5_000, assignment: None }
}
