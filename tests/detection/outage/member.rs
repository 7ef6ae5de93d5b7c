//! One process of the application: it fetches a batch, handles it and commits.

use std::collections::{BTreeMap, VecDeque};

use reprise::model::{OffsetRuns, TopicPartition};
use reprise::retry::detector::{
    DeliveredRange, FetchDecision, FetchPosition, GroupObservation, MemberFetch,
};

use crate::inference::retries::{retry_partition, retry_subscription};
use crate::outage::world::{RetryWay, World};

/// The most records of one partition in an answer.
const BATCH: i64 = 100;
/// Records handled in one step of the world.
const IN_A_STEP: usize = 20;
/// `fetch.max.wait.ms` of the client.
const WAIT_MS: u64 = 500;

pub(crate) struct Member {
    by: MemberFetch,
    positions: BTreeMap<TopicPartition, i64>,
    batch: VecDeque<(TopicPartition, i64)>,
    /// The pending Fetch: the value of `World::news` when it looked last, and the end of its wait.
    waits: Option<(u64, u64)>,
}

impl Member {
    pub(crate) fn join(
        world: &mut World,
        nth: i32,
        way: RetryWay,
        mut partitions: Vec<TopicPartition>,
    ) -> Self {
        let member = reprise::model::MemberId::new(&format!("m{nth}"));
        world.tell(GroupObservation::Assigned { member: member.clone(), epoch: 1 });
        let reads_retries = way == RetryWay::Retries;
        if reads_retries && nth == 0 {
            partitions.push(retry_partition());
        }
        for partition in &partitions {
            world.commit(partition, 0);
        }
        let by = MemberFetch {
            member,
            came: world.now().mono,
            conn: u64::try_from(nth).unwrap(),
            max_wait_ms: WAIT_MS,
            retries: retry_subscription(reads_retries),
        };
        Self {
            by,
            positions: partitions.into_iter().map(|of| (of, 0)).collect(),
            batch: VecDeque::new(),
            waits: None,
        }
    }

    /// Lives for one step of the world.
    pub(crate) fn live(&mut self, world: &mut World) {
        if self.batch.is_empty() {
            self.poll(world);
        }
        for _ in 0..IN_A_STEP {
            if let Some((of, offset)) = self.batch.pop_front() {
                self.handle(world, &of, offset);
            }
        }
    }

    fn handle(&mut self, world: &mut World, of: &TopicPartition, offset: i64) {
        let is_handled = world.is_handled(of, offset);
        if !is_handled && self.by.retries.is_empty() {
            return self.go_back(world, of, offset);
        }
        if !is_handled {
            world.nack(of, offset);
        }
        if self.batch.front().is_none_or(|(next, _)| next != of) {
            world.commit(of, offset + 1);
        }
    }

    /// The handler has thrown: the client commits the handled records, and seeks back to the
    /// others.
    fn go_back(&mut self, world: &mut World, of: &TopicPartition, offset: i64) {
        if world.committed[of] < offset {
            world.commit(of, offset);
        }
        self.batch.push_front((of.clone(), offset));
        while let Some((of, offset)) = self.batch.pop_back() {
            self.positions.insert(of, offset);
        }
    }

    /// Fetches, or looks again for a pending Fetch.
    fn poll(&mut self, world: &mut World) {
        match self.waits {
            Some((news, until)) if news == world.news && world.at < until => return,
            Some(_) => {}
            None => self.by.came = world.now().mono,
        }
        let asked: Vec<FetchPosition> = self
            .positions
            .iter()
            .map(|(of, offset)| FetchPosition { partition: of.clone(), offset: *offset })
            .collect();
        let now = world.now();
        let plan = world.detector.asked(now, &self.by, &asked);
        world.drain();
        for settling in plan.settlings() {
            world.settle(&settling);
        }
        let line = asked.iter().zip(&plan.serve).filter_map(|(ask, serve)| match serve {
            FetchDecision::Turn { place, .. } if ask.offset < world.end(&ask.partition) => {
                Some((place, &ask.partition))
            }
            _ => None,
        });
        let turn = line.min().map(|(_, of)| of);
        let leaves_at_once = plan.serve.contains(&FetchDecision::Again);
        for (ask, serve) in asked.iter().zip(&plan.serve) {
            let end = world.end(&ask.partition).min(ask.offset + BATCH);
            let by_turn = turn == Some(&ask.partition);
            match serve {
                FetchDecision::Open => self.bring(world, ask, end, &[], false),
                FetchDecision::Without(without) => self.bring(world, ask, end, without, false),
                FetchDecision::Turn { without, .. } if by_turn => {
                    self.bring_one(world, ask, end, without);
                }
                FetchDecision::Below { without, below } => {
                    self.bring(world, ask, end.min(*below), without, false);
                }
                _ => {}
            }
        }
        let is_answered = !self.batch.is_empty() || leaves_at_once;
        let deadline = self.by.came.plus(WAIT_MS).0;
        let until = plan.until.map_or(deadline, |until| until.0.min(deadline));
        self.waits =
            (!is_answered && world.at < deadline).then_some((world.news, until.max(world.at + 10)));
    }

    fn bring_one(&mut self, world: &mut World, ask: &FetchPosition, end: i64, without: &[i64]) {
        let first = (ask.offset..end).find(|offset| !without.contains(offset));
        self.bring(world, ask, first.map_or(end, |first| first + 1), without, true);
    }

    fn bring(
        &mut self,
        world: &mut World,
        ask: &FetchPosition,
        end: i64,
        without: &[i64],
        by_turn: bool,
    ) {
        if end <= ask.offset {
            return;
        }
        let (of, from) = (ask.partition.clone(), ask.offset);
        let (turn, hidden) = (by_turn.then_some(end - 1), OffsetRuns::default());
        let partition = of.clone();
        world.hand(
            &self.by,
            &DeliveredRange { partition, from, end, turn, hidden, sparse: Vec::new() },
        );
        self.positions.insert(of.clone(), end);
        let left = (from..end).filter(|offset| !without.contains(offset));
        let before = self.batch.len();
        self.batch.extend(left.map(|offset| (of.clone(), offset)));
        if self.batch.len() == before {
            // Every record there is final: a client commits its next position.
            world.commit(&of, end);
        }
    }
}
