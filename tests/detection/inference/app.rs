//! A consumer application like one with Kafka's Java client, and its broker. The client fetches
//! ahead, hands batches to a handler and commits by its habit.

use std::collections::{BTreeMap, BTreeSet};

use reprise::model::{Moment, MonoMs, OffsetRuns, TopicPartition, WallMs};
use reprise::retry::detector::{
    DeliveredRange, Detector, DetectorOutput, ExhaustedRecord, FetchDecision, FetchPosition,
    GroupObservation, MemberFetch, Plan,
};
use reprise::retry::detector::{Rules, WindowRecord};
use reprise::retry::suspects::SuspectsRecord;

use crate::inference::retries::{RecordOrigin, Retries, retry_partition, retry_subscription};
use crate::inference::turn::by_turn;

/// The client's `fetch.max.wait.ms`.
pub(crate) const WAIT_MS: u64 = 500;

pub(crate) fn of(partition: i32) -> TopicPartition {
    TopicPartition { topic: "orders".into(), partition }
}

/// When an application commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    PerRecord,
    PerBatch,
    Every(u64),
    Never,
}

/// The handler's outcome for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// The record is handled, after this many milliseconds.
    Well(u64),
    /// The handler throws: the client seeks back every partition with unprocessed records.
    Throw,
    /// The application nacks the record and goes on. In a partition that waits for the record, the
    /// client seeks back, as if the handler threw.
    Nack,
    /// The process dies this many milliseconds after it got the record.
    Die(u64),
}

/// The brokers, and the state of the sidecar.
pub(crate) struct World {
    pub(crate) detector: Detector,
    pub(crate) at: u64,
    pub(crate) ends: BTreeMap<TopicPartition, i64>,
    pub(crate) committed: BTreeMap<TopicPartition, i64>,
    pub(crate) dead: Vec<ExhaustedRecord>,
    pub(crate) kept: BTreeMap<TopicPartition, WindowRecord>,
    pub(crate) kept_suspects: Option<SuspectsRecord>,
    /// Number of answers other than [`FetchDecision::Open`].
    pub(crate) touched: usize,
    /// Number of times that the breaker paused the group.
    pub(crate) outages: usize,
    pub(crate) deliveries: BTreeMap<(TopicPartition, i64), usize>,
    /// Times of deliveries.
    pub(crate) handed_at: Vec<u64>,
    /// Offsets without a record for the application.
    pub(crate) hidden: BTreeMap<TopicPartition, OffsetRuns>,
    pub(crate) rules: Rules,
    /// The queue of failed records; `None`: records are retried in place only.
    pub(crate) retries: Option<Box<Retries>>,
    /// Records delivered, and sought back unhandled because another record failed.
    pub(crate) sought_back: Vec<(TopicPartition, i64)>,
    /// Difference between the wall clock and the elapsed time.
    pub(crate) ahead_ms: i64,
    /// Number of rejoins.
    pub(crate) joins: i32,
    apps: u64,
}

/// One process of the application.
pub(crate) struct App {
    pub(crate) by: MemberFetch,
    pub(crate) positions: BTreeMap<TopicPartition, i64>,
    fetched: Vec<(TopicPartition, i64)>,
    commits: Commits,
    committed_at: u64,
    done: BTreeMap<TopicPartition, i64>,
    /// The record it was given last.
    pub(crate) last: Option<(TopicPartition, i64)>,
    /// The client commits behind records only, not behind offsets without records.
    pub(crate) only_records: bool,
    /// The next Fetch is on its way before its records are handled.
    pub(crate) fetches_ahead: bool,
}

impl World {
    pub(crate) fn new(rules: Rules, partitions: i32, records: i64) -> Self {
        Self {
            detector: Detector::new(rules),
            at: 1_000,
            ends: (0..partitions).map(|partition| (of(partition), records)).collect(),
            committed: BTreeMap::new(),
            dead: Vec::new(),
            kept: BTreeMap::new(),
            kept_suspects: None,
            touched: 0,
            outages: 0,
            deliveries: BTreeMap::new(),
            handed_at: Vec::new(),
            hidden: BTreeMap::new(),
            rules,
            retries: None,
            sought_back: Vec::new(),
            ahead_ms: 0,
            joins: 0,
            apps: 0,
        }
    }

    pub(crate) fn now(&self) -> Moment {
        let wall = i64::try_from(self.at).unwrap() + self.ahead_ms;
        Moment { wall: WallMs(wall), mono: MonoMs(self.at) }
    }

    /// Starts a process that owns every partition and begins at the committed offsets.
    pub(crate) fn start(&mut self, commits: Commits) -> App {
        let partitions: Vec<i32> = self.ends.keys().map(|known| known.partition).collect();
        self.start_with(commits, &partitions)
    }

    pub(crate) fn start_with(&mut self, commits: Commits, partitions: &[i32]) -> App {
        self.apps += 1;
        let member: reprise::model::MemberId = format!("m{}", self.apps).as_str().into();
        let epoch = i32::try_from(self.apps).unwrap();
        let assigned = GroupObservation::Assigned { member: member.clone(), epoch };
        let now = self.now();
        self.detector.handle(now, assigned);
        for (partition, offset) in &self.committed {
            let partition = partition.clone();
            let read = GroupObservation::Read { partition, offset: *offset, done: Vec::new() };
            self.detector.handle(now, read);
        }
        self.drain();
        let reads_retries = self.has_retry_topic() && !self.stays_in_place();
        let by = MemberFetch {
            member,
            came: now.mono,
            conn: self.apps,
            max_wait_ms: WAIT_MS,
            retries: retry_subscription(reads_retries),
        };
        // The owner of the first partition owns the retry topic.
        let retry = partitions.first().is_some_and(|first| *first == 0 && self.has_retry_topic());
        let own = partitions.iter().map(|nth| of(*nth)).chain(retry.then(retry_partition));
        App {
            by,
            positions: own.map(|of| (of.clone(), self.goes_on(&of))).collect(),
            last: None,
            fetched: Vec::new(),
            commits,
            committed_at: self.at,
            done: BTreeMap::new(),
            only_records: false,
            fetches_ahead: true,
        }
    }

    /// Ends the member's session.
    pub(crate) fn lose(&mut self, app: &App) {
        let now = self.now();
        self.detector
            .handle(now, GroupObservation::Lost { member: app.by.member.clone(), left: true });
        self.drain();
    }

    /// Lost deliveries that the suspect set of the first partition counts.
    pub(crate) fn losses(&self) -> u32 {
        let sets = self.detector.view(self.now()).suspects.into_iter();
        let of_first = sets.filter(|set| set.suspects.iter().any(|(of, _)| of.partition == 0));
        of_first.map(|set| set.losses).max().unwrap_or(0)
    }

    pub(crate) fn commit(&mut self, partition: &TopicPartition, offset: i64) {
        let offset = self.held_back(partition, offset);
        let settling = self.detector.settling_before(partition, offset);
        self.drain();
        if let Some(settling) = settling {
            self.settle(settling);
            self.drain();
        }
        self.repeat_marker(partition);
        self.committed.insert(partition.clone(), offset);
        self.passes(partition, offset);
        let (partition, now) = (partition.clone(), self.now());
        self.detector.handle(now, GroupObservation::Committed { partition, offset });
        self.drain();
    }

    /// One Fetch and its records. Time goes on if there are none.
    pub(crate) fn fetch(
        &mut self,
        app: &App,
        only: Option<&BTreeSet<TopicPartition>>,
    ) -> FetchedRecords {
        let asked: Vec<FetchPosition> = app
            .positions
            .iter()
            .filter(|(partition, _)| only.is_none_or(|only| only.contains(partition)))
            .map(|(partition, offset)| FetchPosition {
                partition: partition.clone(),
                offset: *offset,
            })
            .collect();
        loop {
            let now = self.now();
            let plan = self.detector.asked(now, &app.by, &asked);
            self.drain();
            let settling = plan.serve.iter().find_map(|serve| match serve {
                FetchDecision::Settle(settling) => Some((**settling).clone()),
                _ => None,
            });
            let Some(settling) = settling else { return self.bring(app, &asked, plan) };
            self.settle(settling);
            self.drain();
        }
    }

    /// Settles a record whose last failure in place was counted.
    fn settle(&mut self, settling: ExhaustedRecord) {
        let (partition, offset) = (settling.partition.clone(), settling.offset);
        let now = self.now();
        self.leaves_its_place(&settling);
        self.dead.push(settling);
        self.detector.settled(now, &partition, offset..=offset);
    }

    fn bring(&mut self, app: &App, asked: &[FetchPosition], plan: Plan) -> FetchedRecords {
        let mut brought =
            FetchedRecords { records: Vec::new(), ends: Vec::new(), until: plan.until };
        let ends = |ask: &FetchPosition| self.end(&ask.partition);
        let turn = by_turn(asked, &plan.serve, ends);
        for (ask, serve) in asked.iter().zip(plan.serve) {
            let by_turn = turn == Some(&ask.partition);
            let all = ask.offset..self.end(&ask.partition).min(ask.offset + 500);
            self.touched += usize::from(serve != FetchDecision::Open);
            let hidden = self.hidden.get(&ask.partition).cloned().unwrap_or_default();
            self.note_twice(&ask.partition, all.clone(), &serve);
            let is_shown = |o: &i64| hidden.at(*o).is_none();
            let mut turn = None;
            let below = match &serve {
                FetchDecision::Below { below, .. } => *below,
                _ => i64::MAX,
            };
            let (offsets, end): (Vec<i64>, i64) = match serve {
                FetchDecision::Open => (all.clone().filter(is_shown).collect(), all.end),
                FetchDecision::Without(cut) => {
                    let is_left = |o: &i64| !cut.contains(o) && is_shown(o);
                    (all.clone().filter(is_left).collect(), all.end)
                }
                FetchDecision::Turn { .. } if !by_turn => (Vec::new(), ask.offset),
                FetchDecision::Nothing | FetchDecision::Again => (Vec::new(), ask.offset),
                FetchDecision::Below { without, .. } => {
                    let is_left = |o: &i64| !without.contains(o) && is_shown(o);
                    let end = all.end.min(below);
                    let left: Vec<i64> = (all.start..end).filter(is_left).collect();
                    // Cut records and offsets without records do not move a client's position by
                    // themselves.
                    let end = if left.is_empty() && end == below { all.start } else { end };
                    if end == all.start {
                        let (of, nothing) = (&ask.partition, all.start..below);
                        let now = self.now();
                        self.detector.passed_over(now, &app.by, of, nothing);
                    }
                    (left, end)
                }
                FetchDecision::Turn { without, .. } => {
                    let is_left = |o: &i64| !without.contains(o) && is_shown(o);
                    let first = all.clone().find(is_left);
                    turn = first;
                    (first.into_iter().collect(), first.map_or(all.end, |offset| offset + 1))
                }
                FetchDecision::Settle(_) => unreachable!("settled before"),
            };
            if end > ask.offset {
                let (partition, from) = (ask.partition.clone(), ask.offset);
                let now = self.now();
                let handed =
                    DeliveredRange { partition, from, end, turn, hidden, sparse: Vec::new() };
                self.detector.handed(now, &app.by, &[handed]);
                brought.ends.push((ask.partition.clone(), end));
            }
            if !offsets.is_empty() {
                self.handed_at.push(self.at);
            }
            for offset in offsets {
                *self.deliveries.entry((ask.partition.clone(), offset)).or_default() += 1;
                self.gave(self.produced(&ask.partition, offset));
                brought.records.push((ask.partition.clone(), offset));
            }
        }
        self.drain();
        brought
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.detector.poll_output() {
            match output {
                DetectorOutput::Window { partition, window: Some(window) } => {
                    self.told(&partition, Some(&window));
                    self.kept.insert(partition, window);
                }
                DetectorOutput::Window { partition, window: None } => {
                    self.told(&partition, None);
                    self.kept.remove(&partition);
                }
                DetectorOutput::Held(is_held) => self.outages += usize::from(is_held),
                DetectorOutput::Suspects(record) => self.kept_suspects = record,
                DetectorOutput::Suspicion(_)
                | DetectorOutput::Wake
                | DetectorOutput::LetGo { .. }
                | DetectorOutput::SeekBack { .. } => {}
                DetectorOutput::Passed { .. } => panic!("nobody commits but through here"),
            }
        }
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.at += ms;
        let now = self.now();
        self.detector.handle_timeout(now);
        for settling in self.detector.settlings_let_go() {
            self.settle(settling);
        }
        self.drain();
        self.time_of_retries();
    }

    pub(crate) fn is_all_committed(&self) -> bool {
        self.ends.iter().all(|(partition, end)| self.committed.get(partition) == Some(end))
    }

    /// Failures counted against records that are no dead letters.
    pub(crate) fn charged(&self) -> Vec<(i32, i64, u32)> {
        let suspects = self.kept.iter().flat_map(|(partition, window)| {
            let produced = |offset| self.produced(partition, offset);
            let told = window.suspects.iter().map(|s| (produced(s.offset), s.reconsume_times));
            told.map(|((of, offset), times)| (of.partition, offset, times)).collect::<Vec<_>>()
        });
        let sets = self.kept_suspects.iter().flat_map(|record| &record.sets);
        let isolated = sets.filter_map(|set| {
            let (topic, partition, offset, _) = set.suspects.first()?;
            let of = TopicPartition { topic: topic.as_str().into(), partition: *partition };
            let (of, offset) = self.produced(&of, *offset);
            Some((of.partition, offset, set.failures))
        });
        suspects.chain(isolated).filter(|(_, _, times)| *times > 0).collect()
    }
}

pub(crate) struct FetchedRecords {
    pub(crate) records: Vec<(TopicPartition, i64)>,
    ends: Vec<(TopicPartition, i64)>,
    until: Option<MonoMs>,
}

impl App {
    /// Sets the positions, with nothing fetched.
    pub(crate) fn begins(&mut self, at: impl IntoIterator<Item = (TopicPartition, i64)>) {
        self.positions = at.into_iter().collect();
        (self.fetched, self.done) = (Vec::new(), BTreeMap::new());
    }

    /// Seeks one partition to an offset.
    pub(crate) fn seeks(&mut self, of: &TopicPartition, offset: i64) {
        self.positions.insert(of.clone(), offset);
        self.fetched.retain(|(fetched, _)| fetched != of);
        self.done.remove(of);
    }

    /// Fetches what is not fetched yet, at once or after a wait.
    fn ahead(&mut self, world: &mut World, waits: bool) {
        let here: BTreeSet<&TopicPartition> = self.fetched.iter().map(|(p, _)| p).collect();
        let only = self.positions.keys().filter(|p| !here.contains(p)).cloned().collect();
        self.by.came = world.now().mono;
        let brought = world.fetch(self, Some(&only));
        if brought.ends.is_empty() && waits {
            let until = brought.until.map_or(WAIT_MS, |until| until.0.saturating_sub(world.at));
            world.pass(until.clamp(1, WAIT_MS));
        }
        for (partition, end) in brought.ends {
            self.positions.insert(partition, end);
        }
        let last = brought.records.last().map(|(of, offset)| world.produced(of, *offset));
        self.last = last.or(self.last.take());
        self.fetched.extend(brought.records);
    }

    /// One poll and its batch; false: the process has died.
    pub(crate) fn poll(
        &mut self,
        world: &mut World,
        mut handler: impl FnMut(&TopicPartition, i64) -> Did,
    ) -> bool {
        if self.fetched.is_empty() {
            self.ahead(world, true);
        }
        let batch = std::mem::take(&mut self.fetched);
        if self.fetches_ahead {
            self.ahead(world, false);
        }
        for (n, (partition, offset)) in batch.iter().enumerate() {
            let (produced, at) = world.produced(partition, *offset);
            match handler(&produced, at) {
                Did::Well(ms) => {
                    world.pass(ms);
                    self.done.insert(partition.clone(), offset + 1);
                    if self.commits == Commits::PerRecord {
                        self.commit(world);
                    }
                    self.commit_in_time(world);
                }
                Did::Die(ms) => {
                    // Records delivered meanwhile are outstanding when the process dies.
                    let died = world.at + ms;
                    while world.at < died {
                        self.ahead(world, false);
                        let step = (died - world.at).min(100);
                        world.pass(step);
                        self.commit_in_time(world);
                    }
                    return false;
                }
                Did::Nack if !world.nack(partition, *offset) => {
                    self.done.insert(partition.clone(), offset + 1);
                    if self.commits == Commits::PerRecord {
                        self.commit(world);
                    }
                }
                Did::Throw | Did::Nack => {
                    if self.commits != Commits::Never {
                        self.commit(world);
                    }
                    let others = batch.iter().skip(n + 1).chain(&self.fetched);
                    let others = others.map(|(of, offset)| world.produced(of, *offset));
                    let others: Vec<RecordOrigin> = others.collect();
                    world.sought_back.extend(others);
                    for (partition, offset) in batch.iter().skip(n).rev() {
                        self.positions.insert(partition.clone(), *offset);
                        self.fetched.retain(|(fetched, _)| fetched != partition);
                    }
                    return true;
                }
            }
        }
        // A client that gets a later position without a record commits it as well.
        for (partition, position) in self.positions.iter().filter(|_| !self.only_records) {
            if !self.fetched.iter().any(|(fetched, _)| fetched == partition) {
                self.done.insert(partition.clone(), *position);
            }
        }
        if self.commits == Commits::PerBatch || self.commits == Commits::PerRecord {
            self.commit(world);
        }
        self.commit_in_time(world);
        true
    }

    fn commit_in_time(&mut self, world: &mut World) {
        if let Commits::Every(ms) = self.commits
            && world.at >= self.committed_at + ms
        {
            self.commit(world);
        }
    }

    fn commit(&mut self, world: &mut World) {
        self.committed_at = world.at;
        for (partition, offset) in std::mem::take(&mut self.done) {
            if world.committed.get(&partition) != Some(&offset) {
                world.commit(&partition, offset);
            }
        }
    }
}
