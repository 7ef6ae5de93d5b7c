//! Events of a simulation, in an order chosen by the seed.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use fastrand::Rng;
use reprise::clock::Clock;
use reprise::engine::{NackBatch, NackRequest, ProducerSequence};
use reprise::model::{GroupId, LaneOffset, MemberId, Origin, RetryPartition, WallMs};
use reprise::retry::{self, OtherDeliveries, Reporter, RequestedDelay};
use reprise::wire::batch::{Header, Headers, RawRecord, TimestampType};

use crate::imported::{self, Letter};
use crate::model::{ModelAnswer, Nack, NackTarget, Rules};
use crate::world::{self, Cut, World};

const GROUPS: [&str; 3] = ["shop", "bound-shop", "drops-shop"];
const TOPICS: [&str; 2] = ["orders", "bills"];
const OFFSETS: i64 = 6;
const MEMBERS: u8 = 3;
/// The longest time that passes in one event.
const HOUR_MS: i64 = 3_600_000;

/// Times of power cuts.
#[derive(Clone, Copy, Debug)]
pub enum Cuts {
    Never,
    /// Once, in the middle of this disk operation.
    At(u64),
    /// Repeatedly, after a random number of disk operations, among kills and clean stops.
    Random,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Hash of all events.
    pub trace: u64,
    /// Number of disk operations.
    pub operations: u64,
    pub crashes: u32,
    pub redelivered: u32,
    /// Number of withheld records, and of those that became dead letters.
    pub held: (u32, u32),
}

pub struct Script {
    rng: Rng,
    world: World,
    cuts: Cuts,
    trace: DefaultHasher,
    redelivered: u32,
    /// The id of each group's producer.
    producer: u32,
    /// Number of dead letters that the other sidecar has produced.
    letters: u64,
}

fn rules(rng: &mut Rng) -> Rules {
    let tables: [&[i64]; 4] =
        [&[10, 20, 50, 1_000, 5_000, 60_000], &[5, 5, 200, 40_000], &[1_000, 2_000, 3_000], &[7]];
    let levels_ms = tables[rng.usize(..tables.len())].to_vec();
    Rules { levels_ms, max: rng.u32(0..5), full: rng.bool() }
}

pub fn run(seed: u64, steps: u32, cuts: Cuts) -> Ran {
    let mut rng = Rng::with_seed(seed);
    let world = World::new(seed, rules(&mut rng));
    let trace = DefaultHasher::new();
    let mut script = Script { rng, world, cuts, trace, redelivered: 0, producer: 0, letters: 0 };
    script.arm();
    for _ in 0..steps {
        let went = script.step();
        let operations = script.world.disk.operations();
        (went.is_ok(), operations).hash(&mut script.trace);
        if went.is_err() {
            script.restart();
        }
    }
    script.cuts = Cuts::Never;
    if script.world.replay_equals_live().is_err() {
        script.restart();
        script.world.replay_equals_live().unwrap();
    }
    Ran {
        trace: script.trace.finish(),
        operations: script.world.disk.operations(),
        crashes: script.world.crashes,
        redelivered: script.redelivered,
        held: script.world.model.held,
    }
}

impl Script {
    fn arm(&mut self) {
        match self.cuts {
            Cuts::Never => {}
            Cuts::At(n) => {
                self.world.cut_in(n);
                self.cuts = Cuts::Never;
            }
            Cuts::Random => {
                let n = self.rng.u64(1..120);
                self.world.cut_in(n);
            }
        }
    }

    /// A crash, and restarts until one succeeds.
    fn restart(&mut self) {
        loop {
            let power = self.rng.bool();
            self.world.crash(power);
            self.world.tell_story(|| format!("crash, power cut {power}"));
            if self.rng.u8(..8) == 0 {
                let file = if self.rng.bool() { "index.redb" } else { "retries.redb" };
                self.world.tell_story(|| format!("{file} is gone"));
                // A file that is missing or not durable counts as removed.
                let _ = self.world.disk.disk().remove(file);
            }
            self.arm();
            let away_ms = match self.rng.u8(..10) {
                0 => -self.rng.i64(0..20_000),
                1 => self.rng.i64(0..100_000),
                _ => self.rng.i64(0..50),
            };
            self.world.tell_story(|| format!("start {away_ms} ms later"));
            if self.world.start(away_ms).is_ok() {
                return;
            }
        }
    }

    fn step(&mut self) -> Result<(), Cut> {
        let group = GroupId::new(GROUPS[[0, 0, 0, 0, 0, 1, 1, 2][self.rng.usize(..8)]]);
        let kind = self.rng.u8(..100);
        (kind, group.as_str()).hash(&mut self.trace);
        self.world.tell_story(|| format!("step {kind} of {group}"));
        match kind {
            0..=21 => self.nacks(&group)?,
            22..=41 => self.take(&group)?,
            42..=50 => self.lane_commit(&group)?,
            51..=57 => self.origin_commit(&group)?,
            58..=64 => self.join(&group)?,
            65..=66 => self.leave(&group),
            67 => self.reload(),
            68..=70 => self.import(&group)?,
            71..=79 => self.pass(),
            80..=94 => self.world.flush()?,
            95..=96 => self.world.keep()?,
            97..=98 => self.world.house()?,
            _ if matches!(self.cuts, Cuts::Random) => return Err(Cut),
            _ => self.world.flush()?,
        }
        Ok(())
    }

    fn said(&mut self, said: &ModelAnswer) {
        format!("{said:?}").hash(&mut self.trace);
        self.world.tell_story(|| format!("  {said:?}"));
        if let ModelAnswer::Taken(redeliveries, ..) = said {
            self.redelivered += u32::try_from(redeliveries.len()).unwrap();
        }
    }

    fn nacks(&mut self, group: &GroupId) -> Result<(), Cut> {
        let stamp = if self.rng.u8(..3) == 0 { None } else { Some(self.stamp(group)) };
        let many = match stamp {
            Some((_, first, last)) => usize::try_from(last - first + 1).unwrap(),
            None => self.rng.usize(1..4),
        };
        let nacks: Vec<Nack> = (0..many).map(|_| self.nack(group)).collect();
        let said = self.world.model.nacks(group, stamp, &nacks);
        self.said(&said);
        let batch = NackBatch {
            group: group.clone(),
            by: Reporter { member: None, client: "sim".into() },
            producer: stamp.map(|(id, first, last)| ProducerSequence {
                id,
                partition: 0,
                epoch: 0,
                first,
                last,
            }),
            nacks: nacks.iter().map(request).collect(),
        };
        let engine = self.world.running.as_ref().unwrap().engine.clone();
        self.world.ask(async move { engine.nacks(batch).await }, world::nacked, said)
    }

    /// The next batch of the group's producer, or one of its last five again. After a crash that
    /// left a producer's sequences in doubt, the group has a new producer.
    fn stamp(&mut self, group: &GroupId) -> (i64, i32, i32) {
        let of = |id: i64| (group.clone(), id);
        let stamps = &self.world.model.stamps;
        if self.producer < self.world.crashes && !stamps.contains_key(&of(self.producer.into())) {
            self.producer = self.world.crashes;
        }
        let id = i64::from(self.producer);
        let seen = stamps.get(&of(id)).cloned().unwrap_or_default();
        if !seen.is_empty() && self.rng.u8(..4) == 0 {
            let (first, last) = seen[self.rng.usize(..seen.len())];
            return (id, first, last);
        }
        let first = seen.last().map_or(0, |(_, last)| last + 1);
        (id, first, first + self.rng.i32(0..3))
    }

    fn nack(&mut self, group: &GroupId) -> Nack {
        let named = match self.rng.u8(..10) {
            0..=4 => NackTarget::Origin(self.origin()),
            5..=8 => self.some_lane(group).map_or(NackTarget::Nothing, NackTarget::Lane),
            _ => NackTarget::Nothing,
        };
        let level = match self.rng.u8(..12) {
            0 => Some(-1),
            1..=3 => Some(self.rng.i32(0..8)),
            _ => None,
        };
        let delay_ms = (self.rng.u8(..8) == 0).then(|| self.rng.u64(1..10_000));
        let committed = match &named {
            NackTarget::Origin(origin) if self.rng.bool() => {
                let of = (group.clone(), origin.topic.clone(), origin.partition);
                self.world.model.committed.get(&of).copied()
            }
            _ => None,
        };
        let text = format!("{named:?} {}", "v".repeat(self.rng.usize(..300)));
        Nack { named, want: RequestedDelay { level, delay_ms }, committed, text }
    }

    fn origin(&mut self) -> Origin {
        let topic = TOPICS[self.rng.usize(..TOPICS.len())].into();
        Origin { topic, partition: 0, offset: self.rng.i64(0..OFFSETS) }
    }

    /// Usually an existing delivery, and usually the last one of its entry.
    fn some_lane(&mut self, group: &GroupId) -> Option<LaneOffset> {
        if self.rng.u8(..12) == 0 {
            return Some(LaneOffset { slot: RetryPartition(self.rng.u16(..4)), sequence: 900_000 });
        }
        let records = self.world.model.records.values();
        let lanes: Vec<_> = records
            .filter(|r| r.group == *group && !r.lanes.is_empty())
            .map(|r| &r.lanes)
            .collect();
        let lanes = lanes.get(self.rng.usize(..lanes.len().max(1)))?;
        let any = self.rng.u8(..4) == 0;
        if any { lanes.get(self.rng.usize(..lanes.len())) } else { lanes.last() }.copied()
    }

    fn some_slot(&mut self, group: &GroupId) -> (RetryPartition, u64) {
        let slots = self.world.model.slots.iter().filter(|((g, _), _)| g == group);
        let slots: Vec<_> =
            slots.map(|((_, slot), (_, next))| (RetryPartition(*slot), *next)).collect();
        let some = slots.get(self.rng.usize(..slots.len().max(1)));
        some.copied().unwrap_or((RetryPartition(0), 0))
    }

    fn take(&mut self, group: &GroupId) -> Result<(), Cut> {
        let (slot, next) = self.some_slot(group);
        let open = self.world.model.open(group, slot);
        let position = open.first().map_or(next, |(lane, _)| lane.sequence);
        let sequence = match self.rng.u8(..6) {
            0 => position,
            1 => next + self.rng.u64(..2),
            _ => next,
        };
        let from = LaneOffset { slot, sequence };
        let max = self.rng.usize(1..5);
        let said = self.world.model.take(group, from, max);
        self.said(&said);
        let (engine, of) = (self.world.running.as_ref().unwrap().engine.clone(), group.clone());
        let asked = async move {
            engine.take(&of, from, (max, OtherDeliveries::Old), async |_| true).await
        };
        self.world.ask(asked, world::taken, said)
    }

    fn lane_commit(&mut self, group: &GroupId) -> Result<(), Cut> {
        let (slot, next) = self.some_slot(group);
        let sequence = match self.rng.u8(..6) {
            0 => next + self.rng.u64(..2),
            _ => next.saturating_sub(self.rng.u64(..4)),
        };
        let up_to = LaneOffset { slot, sequence };
        let said = self.world.model.lane_commit(group, up_to);
        self.said(&said);
        let (engine, of) = (self.world.running.as_ref().unwrap().engine.clone(), group.clone());
        let asked = async move { engine.lane_commit(&of, up_to).await };
        self.world.ask(asked, ModelAnswer::Committed, said)
    }

    fn origin_commit(&mut self, group: &GroupId) -> Result<(), Cut> {
        let Origin { topic, partition, .. } = self.origin();
        let offset = self.rng.i64(0..=OFFSETS);
        let said = self.world.model.origin_commit(group, &topic, partition, offset);
        let (engine, of) = (self.world.running.as_ref().unwrap().engine.clone(), group.clone());
        let offsets = vec![(topic, partition, offset)];
        let asked = async move { engine.origin_commits(&of, offsets).await };
        self.world.ask(asked, |()| ModelAnswer::Done, said)
    }

    fn import(&mut self, group: &GroupId) -> Result<(), Cut> {
        let letters: Vec<Letter> = (0..self.rng.usize(1..4)).map(|_| self.letter()).collect();
        let said = self.world.model.import(group, &letters);
        self.said(&said);
        let batch = imported::batch(group, &letters);
        let engine = self.world.running.as_ref().unwrap().engine.clone();
        self.world.ask(async move { engine.import(batch).await }, imported::arrived, said)
    }

    /// A dead letter of another sidecar: usually a new one, sometimes one imported before.
    fn letter(&mut self) -> Letter {
        let came = &self.world.model.imported;
        let again = came.iter().nth(self.rng.usize(..came.len().max(1))).copied();
        self.letters += 1;
        let number = again.filter(|_| self.rng.u8(..3) == 0).unwrap_or(self.letters);
        Letter {
            number,
            origin: self.rng.bool().then(|| self.origin()),
            died: self.world.model.now - self.rng.i64(-10..100_000),
            count: self.rng.u32(0..5),
            passed: self.rng.bool(),
            text: format!("letter {number} {}", "v".repeat(self.rng.usize(..300))),
        }
    }

    fn member(&mut self) -> MemberId {
        MemberId::new(&format!("m-{}", self.rng.u8(..MEMBERS)))
    }

    fn join(&mut self, group: &GroupId) -> Result<(), Cut> {
        let member = self.member();
        let said = self.world.model.join(group, &member);
        self.said(&said);
        let (engine, of) = (self.world.running.as_ref().unwrap().engine.clone(), group.clone());
        let asked = async move { engine.join(&of, member).await };
        self.world.ask(asked, |slot| ModelAnswer::Slot(slot.slot.0, slot.position, slot.next), said)
    }

    fn leave(&mut self, group: &GroupId) {
        let member = self.member();
        self.world.model.leave(group, &member);
        self.world.running.as_ref().unwrap().engine.leave(group, member);
        self.world.tell();
    }

    fn reload(&mut self) {
        let rules = rules(&mut self.rng);
        self.world.model.reload(&rules);
        // the next look at withheld records is journalled separately
        self.world.in_question();
        self.world.model.time(self.world.model.now);
        let engine = &self.world.running.as_ref().unwrap().engine;
        engine.policies(Clock::told(WallMs(0)).0, world::policies(&rules));
        self.world.tell();
    }

    /// Lets time pass, usually to the next deadline, sometimes to just before it.
    fn pass(&mut self) {
        // After a week the engine forgets all producers, which the model does not know.
        let soon = self.world.model.now + HOUR_MS;
        let next = self.world.model.next_deadline().filter(|at| *at <= soon);
        let to_next = next.map_or(0, |at| u64::try_from(at - self.world.model.now).unwrap());
        let ms = match self.rng.u8(..8) {
            0 => self.rng.u64(..3),
            1 => to_next.saturating_sub(1),
            2 => to_next + self.rng.u64(..2_000),
            _ => to_next,
        };
        self.world.pass(ms);
    }
}

fn request(nack: &Nack) -> NackRequest {
    let named = match &nack.named {
        NackTarget::Origin(origin) => retry::NackTarget::Origin(origin.clone()),
        NackTarget::Lane(lane) => retry::NackTarget::Lane(*lane),
        NackTarget::Nothing => retry::NackTarget::Nothing,
    };
    let record = plain(&nack.text);
    NackRequest {
        nack: retry::Nack {
            want: nack.want,
            committed: nack.committed,
            record_bytes: u64::try_from(record.len()).unwrap(),
            ..retry::Nack::of(named)
        },
        record,
    }
}

/// The stored form of a record with this value and nothing else.
pub fn plain(text: &str) -> Bytes {
    let record = RawRecord {
        timestamp_ms: 1,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(text.to_owned().into()),
        headers: std::iter::empty::<Header>().collect::<Headers>(),
    };
    record.to_bytes()
}
