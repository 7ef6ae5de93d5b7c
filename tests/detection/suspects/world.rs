//! The consumers of one group, their coordinator and a log, with the suspects between them.
//! Discrete events in virtual time; no clock is read.

mod handler;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;

use reprise::model::{MemberId, Moment, MonoMs, Origin, TopicPartition, WallMs};
use reprise::retry::RetrySubscription;
use reprise::retry::suspects::{
    Decision, LostDelivery, LostMember, MemberOutstanding, OffsetRanges, Outstanding, SuspectEvent,
    SuspectRules, Suspects,
};

use super::script::{CommitHabit, Exit, Script};

pub(crate) type Us = u64;
pub(crate) const SECOND_US: Us = 1_000_000;
pub(crate) const MINUTE_US: Us = 60 * SECOND_US;

/// `session.timeout.ms` of a killed member.
const SESSION_US: Us = 45 * SECOND_US;
const REBALANCE_US: Us = SECOND_US;
/// The longest time between two Fetches of a consumer (`fetch.max.wait.ms`).
const FETCH_WAIT_US: Us = SECOND_US / 2;
/// More events than any script of the families has.
const EVENTS_MAX: u64 = 1_500_000;

/// The measures of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) committed: i64,
    pub(crate) restarts: u32,
    /// Lost deliveries until the first poison record was isolated.
    pub(crate) isolated_after: Option<u32>,
    /// Poison records that are dead letters.
    pub(crate) guilty_dead: usize,
    pub(crate) innocent_dead: usize,
    pub(crate) tests_begun: u32,
    /// Time from the end of the outage to the last moment at which detection kept a member idle.
    pub(crate) idle_after_outage_us: Us,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Start(usize),
    Fetch(usize, u64),
    Handled(usize, u64),
    CommitTick(usize, u64),
    Crash(usize, u64),
    Expire(u64),
    Rebalance,
    Timeout,
    RandomKill(usize),
    Deploy(usize),
    OutageEnds,
}

#[derive(Debug, Default)]
struct Member {
    id: u64,
    /// Steps of an earlier start are void.
    epoch: u64,
    is_alive: bool,
    has_joined: bool,
    started_at: Us,
    crashes: u32,
    partitions: Vec<usize>,
    fetched: VecDeque<(usize, Range<i64>)>,
    polled: VecDeque<(usize, Range<i64>)>,
    positions: BTreeMap<usize, i64>,
    handled: BTreeMap<usize, i64>,
    polled_to: BTreeMap<usize, i64>,
    /// Records in the handler, and the start of its work; `None`: idle.
    in_hand: Option<(usize, Range<i64>, Us)>,
    is_dying: bool,
    since_commit: i64,
    auto_committed_at: Us,
    idle_since: Option<Us>,
}

pub(crate) struct World {
    script: Script,
    now: Us,
    queue: BinaryHeap<Reverse<(Us, u64)>>,
    steps: BTreeMap<u64, Step>,
    sequence: u64,
    members: Vec<Member>,
    committed: Vec<i64>,
    cut: Vec<(usize, i64)>,
    rule: Option<Suspects>,
    delivered: BTreeMap<u64, BTreeMap<usize, (Range<i64>, Us)>>,
    first_delivery: BTreeMap<u64, Us>,
    random: u64,
    next_id: u64,
    /// Killed members whose session has not expired, with their partitions.
    expiring: BTreeMap<u64, Vec<usize>>,
    is_rebalancing: bool,
    /// The next timeout in the queue.
    timeout_at: Us,
    outage_ended_at: Option<Us>,
    report: Report,
}

pub(crate) fn partition(number: usize, topics: usize) -> TopicPartition {
    let topic = format!("topic-{}", number % topics);
    TopicPartition { topic: topic.as_str().into(), partition: i32::try_from(number).unwrap() }
}

/// Plays a script; without `rules` there is no detection.
pub(crate) fn play(script: &Script, rules: Option<SuspectRules>) -> Report {
    let has_committed = script.habit != CommitHabit::Never;
    let mut world = World {
        now: 0,
        queue: BinaryHeap::new(),
        steps: BTreeMap::new(),
        sequence: 0,
        members: (0..script.members).map(|_| Member::default()).collect(),
        committed: vec![0; script.partitions],
        cut: Vec::new(),
        rule: rules.map(|rules| {
            let mut rule = Suspects::new(rules);
            let topics = (0..script.topics).filter(|_| has_committed);
            topics.for_each(|n| rule.note_committed(&partition(n, script.topics).topic));
            rule
        }),
        delivered: BTreeMap::new(),
        first_delivery: BTreeMap::new(),
        random: script.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        next_id: 0,
        expiring: BTreeMap::new(),
        is_rebalancing: false,
        timeout_at: Us::MAX,
        outage_ended_at: None,
        report: Report::default(),
        script: script.clone(),
    };
    world.begin();
    world.run();
    world.report.committed = world.committed.iter().sum();
    world.report
}

impl World {
    fn begin(&mut self) {
        for member in 0..self.members.len() {
            self.after(1000 * member as Us, Step::Start(member));
            if let Some(kills) = self.script.kills {
                let wait = self.random_in(kills);
                self.after(wait, Step::RandomKill(member));
            }
        }
        if let Some(deploys) = self.script.deploys {
            let wait = self.random_in(deploys);
            self.after(wait, Step::Deploy(0));
        }
        if let Some((_, end)) = self.script.outage {
            self.after(end, Step::OutageEnds);
        }
    }

    fn run(&mut self) {
        for _ in 0..EVENTS_MAX {
            let Some(Reverse((at, key))) = self.queue.pop() else { return };
            if at > self.script.end_us || self.is_over() {
                return;
            }
            let Some(step) = self.steps.remove(&key) else { continue };
            self.now = at;
            self.take(step);
            self.drain();
        }
    }

    /// Every poison record is a dead letter, or the backlog is committed.
    fn is_over(&self) -> bool {
        let is_settled =
            !self.script.poison.is_empty() && self.report.guilty_dead == self.script.poison.len();
        let is_drained = self.script.rate == 0.0
            && self.committed.iter().all(|offset| *offset >= self.script.backlog);
        is_settled || is_drained
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Start(member) => self.start(member),
            Step::Fetch(member, epoch) if self.is_current(member, epoch) => {
                self.fetch(member);
                self.after(FETCH_WAIT_US, Step::Fetch(member, epoch));
            }
            Step::Handled(member, epoch) if self.is_current(member, epoch) => {
                self.finish(member);
            }
            Step::CommitTick(member, epoch) if self.is_current(member, epoch) => {
                if let CommitHabit::EverySeconds(seconds) = self.script.habit {
                    self.commit_handled(member);
                    self.after(seconds * SECOND_US, Step::CommitTick(member, epoch));
                }
            }
            Step::Crash(member, epoch) if self.is_current(member, epoch) => {
                self.end(member, self.script.exit, false);
            }
            Step::Expire(id) => {
                if self.expiring.remove(&id).is_some() {
                    self.lose(id, false);
                    self.rebalance_soon(SECOND_US / 10);
                }
            }
            Step::Rebalance => {
                self.is_rebalancing = false;
                self.assign();
            }
            Step::Timeout => {
                self.timeout_at = Us::MAX;
                let now = self.rule_now();
                if let Some(rule) = &mut self.rule {
                    rule.handle_timeout(now);
                }
            }
            Step::RandomKill(member) => {
                if self.members[member].is_alive {
                    self.end(member, Exit::Killed, false);
                }
                let wait = self.random_in(self.script.kills.unwrap());
                self.after(wait, Step::RandomKill(member));
            }
            Step::Deploy(member) => {
                if self.members[member].is_alive {
                    self.end(member, self.script.exit, true);
                }
                let next = (member + 1) % self.members.len();
                let wait = self.random_in(self.script.deploys.unwrap());
                self.after(wait, Step::Deploy(next));
            }
            Step::OutageEnds => self.outage_ended_at = Some(self.now),
            Step::Fetch(..) | Step::Handled(..) | Step::CommitTick(..) | Step::Crash(..) => {}
        }
    }

    /// Handles the decisions of the suspects. Members fetch again if grants changed.
    fn drain(&mut self) {
        let (mut has_changed, mut ended) = (false, Vec::new());
        while let Some(decision) = self.rule.as_mut().and_then(Suspects::poll_output) {
            match decision {
                Decision::Changed => has_changed = true,
                Decision::TestBegins => self.report.tests_begun += 1,
                Decision::Isolated(origin) => {
                    if self.is_poison(&origin) {
                        let losses = self.report.restarts;
                        self.report.isolated_after.get_or_insert(losses);
                    }
                }
                Decision::DeadLetter { origin, .. } | Decision::Retry { origin, .. } => {
                    let number = usize::try_from(origin.partition).unwrap();
                    self.cut.push((number, origin.offset));
                    let offsets = origin.offset..origin.offset + 1;
                    let partition = partition(number, self.script.topics);
                    ended.push(SuspectEvent::Dropped { partition, offsets });
                    let is_guilty = self.is_poison(&origin);
                    self.report.guilty_dead += usize::from(is_guilty);
                    self.report.innocent_dead += usize::from(!is_guilty);
                }
                Decision::Failed { .. } | Decision::Exempted(_) => {}
            }
        }
        for event in ended {
            self.tell(event);
        }
        if has_changed {
            for member in 0..self.members.len() {
                if self.members[member].is_alive && self.members[member].has_joined {
                    self.fetch(member);
                }
            }
        }
        let timeout = self.rule.as_ref().and_then(Suspects::poll_timeout);
        if let Some(deadline) = timeout {
            let at = (deadline.0.0 * 1000).max(self.now + 1000);
            if at < self.timeout_at {
                self.timeout_at = at;
                self.at(at, Step::Timeout);
            }
        }
    }

    fn is_poison(&self, record: &Origin) -> bool {
        let number = usize::try_from(record.partition).unwrap();
        self.script.poison.contains(&(number, record.offset))
    }

    fn start(&mut self, member: usize) {
        let (epoch, crashes) = (self.members[member].epoch + 1, self.members[member].crashes);
        self.next_id += 1;
        self.members[member] = Member {
            id: self.next_id,
            epoch,
            crashes,
            is_alive: true,
            started_at: self.now,
            auto_committed_at: self.now,
            ..Member::default()
        };
        self.rebalance_soon(REBALANCE_US);
        self.after(0, Step::Fetch(member, epoch));
        if let CommitHabit::EverySeconds(seconds) = self.script.habit {
            self.after(seconds * SECOND_US, Step::CommitTick(member, epoch));
        }
    }

    fn rebalance_soon(&mut self, wait: Us) {
        if !self.is_rebalancing && self.expiring.is_empty() {
            self.is_rebalancing = true;
            self.after(wait, Step::Rebalance);
        }
    }

    /// Cooperative and sticky: a member keeps its partitions up to its fair share.
    fn assign(&mut self) {
        if !self.expiring.is_empty() {
            return;
        }
        let alive: Vec<usize> =
            (0..self.members.len()).filter(|member| self.members[*member].is_alive).collect();
        if alive.is_empty() {
            return;
        }
        let share = self.script.partitions.div_ceil(alive.len());
        let mut assigned: BTreeMap<usize, Vec<usize>> = alive
            .iter()
            .map(|member| {
                let kept = self.members[*member].partitions.iter().copied().take(share);
                (*member, kept.collect())
            })
            .collect();
        let kept: Vec<usize> = assigned.values().flatten().copied().collect();
        for number in (0..self.script.partitions).filter(|number| !kept.contains(number)) {
            let least = alive.iter().min_by_key(|member| assigned[*member].len()).unwrap();
            assigned.get_mut(least).unwrap().push(number);
        }
        for (member, partitions) in assigned {
            self.adopt(member, partitions);
        }
    }

    fn adopt(&mut self, member: usize, partitions: Vec<usize>) {
        let old = self.members[member].partitions.clone();
        let revoked: Vec<usize> =
            old.iter().filter(|number| !partitions.contains(number)).copied().collect();
        if !revoked.is_empty() {
            if matches!(
                self.script.habit,
                CommitHabit::EverySeconds(_) | CommitHabit::Auto | CommitHabit::OnClose
            ) {
                self.interrupt(member);
                self.commit_handled(member);
            }
            self.revoke(member, &revoked);
        }
        let added: Vec<usize> =
            partitions.iter().filter(|number| !old.contains(number)).copied().collect();
        for number in &added {
            let offset = self.committed[*number];
            let of = &mut self.members[member];
            of.positions.insert(*number, offset);
            of.handled.insert(*number, offset);
            of.polled_to.insert(*number, offset);
        }
        self.members[member].has_joined = true;
        self.members[member].partitions = partitions;
        let topics = self.script.topics;
        let owned = added.iter().map(|number| partition(*number, topics)).collect();
        let id = self.members[member].id;
        self.tell(SuspectEvent::Assigned { member: member_id(id), partitions: owned });
        self.fetch(member);
    }

    fn revoke(&mut self, member: usize, revoked: &[usize]) {
        let (id, topics, now) = (self.members[member].id, self.script.topics, self.now);
        if let Some(delivered) = self.delivered.get_mut(&id) {
            delivered.retain(|number, _| !revoked.contains(number));
        }
        let partitions = revoked.iter().map(|number| partition(*number, topics)).collect();
        self.tell(SuspectEvent::Revoked { member: member_id(id), partitions });
        let of = &mut self.members[member];
        of.fetched.retain(|(number, _)| !revoked.contains(number));
        of.polled.retain(|(number, _)| !revoked.contains(number));
        for number in revoked {
            of.positions.remove(number);
            of.handled.remove(number);
            of.polled_to.remove(number);
        }
        if of.in_hand.as_ref().is_some_and(|(number, _, _)| revoked.contains(number)) {
            of.in_hand = None;
            of.is_dying = false;
            let epoch = of.epoch;
            self.at(now, Step::Handled(member, epoch));
        }
    }

    /// A consumer ends: killed or closed, by its handler, at random, or for a deploy.
    fn end(&mut self, member: usize, exit: Exit, is_deploy: bool) {
        self.interrupt(member);
        let has_joined = self.members[member].has_joined;
        if exit == Exit::Leaves && has_joined {
            self.commit_at_close(member, is_deploy);
        }
        let of = &mut self.members[member];
        let (id, lived) = (of.id, self.now - of.started_at);
        (of.is_alive, of.is_dying, of.in_hand) = (false, false, None);
        of.epoch += 1;
        of.idle_since = None;
        let partitions = std::mem::take(&mut of.partitions);
        if !is_deploy {
            self.report.restarts += 1;
        }
        self.tell(SuspectEvent::Disconnected(member_id(id)));
        if has_joined && exit == Exit::Killed {
            self.expiring.insert(id, partitions);
            self.after(SESSION_US, Step::Expire(id));
        } else if has_joined {
            self.lose(id, true);
            self.rebalance_soon(REBALANCE_US);
        }
        let wait = self.restart_wait(member, is_deploy, lived);
        self.after(wait, Step::Start(member));
    }

    fn lose(&mut self, id: u64, has_left: bool) {
        let (topics, committed) = (self.script.topics, &self.committed);
        let delivered = self.delivered.remove(&id).unwrap_or_default();
        let outstanding: OffsetRanges = delivered
            .into_iter()
            .map(|(number, (range, _))| {
                (partition(number, topics), range.start.max(committed[number])..range.end)
            })
            .collect();
        let first = self.first_delivery.remove(&id).unwrap_or(self.now);
        let (member, lived_ms) = (member_id(id), (self.now - first) / 1000);
        let end = if has_left { LostMember::Left } else { LostMember::Expired };
        let retries = RetrySubscription::default();
        self.tell(SuspectEvent::Lost(LostDelivery { member, outstanding, lived_ms, end, retries }));
    }

    fn outstanding(&self, id: u64) -> MemberOutstanding {
        let Some(delivered) = self.delivered.get(&id) else { return MemberOutstanding::new() };
        let of = |(number, (range, at)): (&usize, &(Range<i64>, Us))| {
            let offsets = range.start.max(self.committed[*number])..range.end;
            let delivered_at = MonoMs(*at / 1000);
            (!offsets.is_empty()).then(|| {
                let of = partition(*number, self.script.topics);
                (of, Outstanding { offsets, delivered_at })
            })
        };
        delivered.iter().filter_map(of).collect()
    }

    fn tell(&mut self, event: SuspectEvent) {
        let now = self.rule_now();
        if let Some(rule) = &mut self.rule {
            rule.handle(now, event);
        }
    }

    fn rule_now(&self) -> Moment {
        let ms = self.now / 1000;
        Moment { wall: WallMs(i64::try_from(ms).unwrap()), mono: MonoMs(ms) }
    }

    fn is_current(&self, member: usize, epoch: u64) -> bool {
        self.members[member].is_alive && self.members[member].epoch == epoch
    }

    fn log_end(&self) -> i64 {
        let seconds = self.now as f64 / SECOND_US as f64;
        self.script.backlog + (self.script.rate * seconds) as i64
    }

    fn random_in(&mut self, (from, to): (Us, Us)) -> Us {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        from + self.random % (to - from).max(1)
    }

    fn after(&mut self, wait: Us, step: Step) {
        self.at(self.now + wait, step);
    }

    fn at(&mut self, at: Us, step: Step) {
        self.sequence += 1;
        self.steps.insert(self.sequence, step);
        self.queue.push(Reverse((at, self.sequence)));
    }
}

fn member_id(id: u64) -> MemberId {
    MemberId::new(&format!("member-{id}"))
}
