//! Events of a simulation, in an order chosen by the seed.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use fastrand::Rng;
use reprise::clock::Clock;
use reprise::engine::{NackBatch, NackRequest, ProducerSequence, ReleaseOutcome};
use reprise::model::{GroupId, Origin, RetryPair, RetryPlace, TopicName, WallMs};
use reprise::retry::{self, CopiedDelivery, Reporter, RequestedDelay};
use reprise::wire::batch::{Header, Headers, RawRecord, TimestampType};
use reprise::wire::names::Templates;

use crate::imported::{self, Letter};
use crate::model::{ModelAnswer, Nack, NackTarget, Rules};
use crate::release::PARTITIONS;
use crate::world::{self, Cut, World};
use crate::writer::{Delivery, Postponed};

pub const GROUPS: [&str; 3] = ["shop", "bound-shop", "drops-shop"];
const TOPICS: [&str; 2] = ["orders", "bills"];
const OFFSETS: i64 = 6;
/// The groups whose topics each have a retry topic, beside that of the group.
const DIVIDED: [&str; 2] = ["shop", "drops-shop"];
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
    /// Number of records written into retry topics.
    pub released: u32,
    /// Number of batches that a crash left there without a note.
    pub unnoted: u32,
    /// Number of nack batches that waited for the end of a release.
    pub postponed: u32,
    /// Number of withheld records, and of those that became dead letters.
    pub held: (u32, u32),
}

pub struct Script {
    rng: Rng,
    world: World,
    cuts: Cuts,
    trace: DefaultHasher,
    /// The id of each group's producer.
    producer: u32,
    /// Number of nacks.
    nacks: u32,
    /// Number of dead letters that the other sidecar has produced.
    letters: u64,
}

/// The retry topics of a group.
pub fn pairs(group: &GroupId) -> Vec<RetryPair> {
    let of = |topic| RetryPair { group: group.clone(), source: Some(TopicName::new(topic)) };
    let mut pairs = vec![RetryPair::of_group(group)];
    if DIVIDED.contains(&group.as_str()) {
        pairs.extend(TOPICS.map(of));
    }
    pairs
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
    let mut script = Script { rng, world, cuts, trace, producer: 0, nacks: 0, letters: 0 };
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
    format!("{:?}", script.world.logs).hash(&mut script.trace);
    Ran {
        trace: script.trace.finish(),
        operations: script.world.disk.operations(),
        crashes: script.world.crashes,
        released: script.world.released,
        unnoted: script.world.unnoted,
        postponed: script.world.postponements,
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
            22..=29 => self.read(&group)?,
            30..=47 => self.write()?,
            48..=55 => self.retry_commit(&group)?,
            56..=63 => self.origin_commit(&group)?,
            64 => self.no_reader(&group),
            65 => {
                let pair = self.pair(&group);
                self.world.recreate(&pair)?;
            }
            66..=67 => self.reload()?,
            68..=70 => self.import(&group)?,
            71..=79 => self.pass()?,
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
    }

    fn nacks(&mut self, group: &GroupId) -> Result<(), Cut> {
        // A producer sends nothing else before its batch is answered.
        let waits = self.world.postponed.iter().any(|of| of.group == *group && of.stamp.is_some());
        let is_plain = self.rng.u8(..3) == 0 || waits;
        let stamp = if is_plain { None } else { Some(self.stamp(group)) };
        let many = match stamp {
            Some((_, first, last)) => usize::try_from(last - first + 1).unwrap(),
            None => self.rng.usize(1..4),
        };
        let nacks: Vec<Nack> = (0..many).map(|_| self.nack(group)).collect();
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
        let engine = self.world.engine();
        let asked = async move { engine.nacks(batch).await };
        if self.world.model.waits(group, &nacks) {
            let (group, asked) = (group.clone(), world::pending(asked, world::nacked));
            return self.world.postpone(Postponed { group, stamp, nacks, asked });
        }
        let said = self.world.model.nacks(group, stamp, &nacks);
        self.said(&said);
        self.world.ask(asked, world::nacked, said)
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
            5..=8 => self
                .some_delivery(group)
                .map_or(NackTarget::Nothing, |(place, named)| NackTarget::Delivery(place, named)),
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
        self.nacks += 1;
        let text = format!("{} {named:?} {}", self.nacks, "v".repeat(self.rng.usize(..300)));
        Nack { named, want: RequestedDelay { level, delay_ms }, committed, text }
    }

    fn origin(&mut self) -> Origin {
        let topic = TOPICS[self.rng.usize(..TOPICS.len())].into();
        Origin { topic, partition: 0, offset: self.rng.i64(0..OFFSETS) }
    }

    /// Usually one of the last deliveries of the group.
    fn some_delivery(&mut self, group: &GroupId) -> Option<Delivery> {
        if self.rng.u8(..12) == 0 {
            let place = RetryPlace::in_stream(self.rng.u16(..4), 1, 900_000);
            return Some((place, self.rng.bool().then(|| (self.origin(), 1))));
        }
        let pair = self.pair(group);
        let deliveries = &self.world.logs[&pair].deliveries;
        let last = if self.rng.u8(..4) == 0 { deliveries.len() } else { 6 };
        let back = self.rng.usize(..last.max(1));
        deliveries.iter().rev().nth(back).cloned()
    }

    /// A retry topic of the group.
    fn pair(&mut self, group: &GroupId) -> RetryPair {
        let mut pairs = pairs(group);
        pairs.swap_remove(self.rng.usize(..pairs.len()))
    }

    /// A Fetch of some retry topics of the group.
    fn read(&mut self, group: &GroupId) -> Result<(), Cut> {
        let now = self.world.model.now;
        for pair in pairs(group) {
            if self.rng.u8(..4) > 0 {
                self.world.model.topics_of(group).is_read(&pair.source, now);
                self.world.engine().reads_retries(&pair, self.world.clock.now().mono);
            }
        }
        self.world.tell()
    }

    fn no_reader(&mut self, group: &GroupId) {
        self.world.model.topics_of(group).no_reader();
        self.world.engine().no_retry_reader(group, &std::collections::BTreeSet::new());
    }

    /// The writer writes a batch, ends one, or both.
    fn write(&mut self) -> Result<(), Cut> {
        if self.world.sent.is_empty() {
            return Ok(());
        }
        let at = self.rng.usize(..self.world.sent.len());
        let outcome = self.rng.u8(..12);
        if self.world.sent[at].base.is_none() {
            match outcome {
                0 => return self.world.end(at, ReleaseOutcome::Later),
                1..=2 => return self.world.end(at, ReleaseOutcome::Refused("no".to_owned())),
                3 => return self.world.end(at, ReleaseOutcome::Denied("no".to_owned())),
                _ => self.world.write(at),
            }
        }
        match self.world.sent[at].base {
            Some(base) if outcome > 5 => self.world.end(at, ReleaseOutcome::Written { base }),
            _ => Ok(()),
        }
    }

    /// The cluster stores the group's commit of a retry topic before the engine learns of it.
    fn retry_commit(&mut self, group: &GroupId) -> Result<(), Cut> {
        let (pair, index) = (self.pair(group), self.rng.u16(..PARTITIONS));
        let log = self.world.logs.get_mut(&pair).unwrap();
        let partition = pair.partition(log.stream, index);
        let (end, committed) = &mut log.partitions[usize::from(index)];
        let offset = match self.rng.u8(..4) {
            0 => self.rng.i64(0..=*end),
            _ => (*end - self.rng.i64(0..3)).max(0),
        };
        *committed = offset;
        let now = self.world.model.now;
        self.world.model.topics_of(group).is_read(&pair.source, now);
        self.world.model.retry_commit(group, partition, offset);
        let name = Templates::default().retry_topic(&pair);
        self.commit(group, (name, i32::from(index), offset))
    }

    fn origin_commit(&mut self, group: &GroupId) -> Result<(), Cut> {
        let Origin { topic, partition, .. } = self.origin();
        let offset = self.rng.i64(0..=OFFSETS);
        self.world.model.origin_commit(group, &topic, partition, offset);
        self.commit(group, (topic, partition, offset))
    }

    fn commit(&mut self, group: &GroupId, offset: (TopicName, i32, i64)) -> Result<(), Cut> {
        let (engine, of) = (self.world.engine(), group.clone());
        let asked = async move { engine.origin_commits(&of, vec![offset]).await };
        self.world.ask(asked, |()| ModelAnswer::Done, ModelAnswer::Done)
    }

    fn import(&mut self, group: &GroupId) -> Result<(), Cut> {
        let letters: Vec<Letter> = (0..self.rng.usize(1..4)).map(|_| self.letter()).collect();
        let said = self.world.model.import(group, &letters);
        self.said(&said);
        let batch = imported::batch(group, &letters);
        let engine = self.world.engine();
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

    fn reload(&mut self) -> Result<(), Cut> {
        let rules = rules(&mut self.rng);
        self.world.model.reload(&rules);
        // the next look at withheld records is journalled separately
        self.world.in_question();
        self.world.model.time(self.world.model.now);
        self.world.engine().policies(Clock::told(WallMs(0)).0, world::policies(&rules));
        self.world.tell()
    }

    /// Lets time pass, usually to the next deadline, sometimes to just before it.
    fn pass(&mut self) -> Result<(), Cut> {
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
        self.world.pass(ms)
    }
}

fn request(nack: &Nack) -> NackRequest {
    let (named, copied) = match &nack.named {
        NackTarget::Origin(origin) => (retry::NackTarget::Origin(origin.clone()), None),
        NackTarget::Delivery(place, named) => (retry::NackTarget::Delivery(*place), named.clone()),
        NackTarget::Nothing => (retry::NackTarget::Nothing, None),
    };
    let delivery = |(first, failures)| CopiedDelivery {
        first,
        failures: Some(failures),
        number: None,
        redrives: 0,
    };
    let record = plain(&nack.text);
    NackRequest {
        nack: retry::Nack {
            copied: copied.map(delivery),
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
