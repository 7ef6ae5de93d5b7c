//! One random script: the members of a group, and the events of the group.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use fastrand::Rng;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use reprise::clock::Clock;

use super::World;
use super::consumer::{ClientEvent, Consumer, Habits, Membership};
use super::seen::Observations;
use crate::rig::scene::Scene;

/// Longest time without progress.
const PATIENCE: Duration = Duration::from_mins(5);
/// Interval of checks of the sidecar, much shorter than the time for which a suspect is held.
const LOOK: Duration = Duration::from_millis(150);
/// Most consumers that in turn read what the members have left uncommitted.
const REREADS_MAX: usize = 5;
const MEMBERS_MAX: usize = 3;

/// Result of one script.
pub(super) struct Played {
    pub(super) is_java: bool,
    pub(super) records: usize,
    /// Number of handled records, repetitions included.
    pub(super) given: usize,
    pub(super) was_suspected: bool,
    pub(super) was_narrow: bool,
    /// Most isolated deliveries of one record.
    pub(super) alone: usize,
}

pub(super) struct Script<'a> {
    world: &'a World,
    seed: u64,
    rng: Rng,
    clock: Clock,
    scene: Scene,
    is_java: bool,
    protocol: &'static str,
    /// The members are static, and join again with the same instance id.
    is_static: bool,
    /// Polls in a thousand that a pause follows.
    pauses: u32,
    /// End offset by partition.
    ends: Vec<i64>,
    handled: Vec<BTreeSet<i64>>,
    given: usize,
    living: Vec<Consumer<'a>>,
    /// Number of ids given to consumers and administrators.
    named: u64,
    ended: BTreeSet<u64>,
    says: Sender<ClientEvent>,
    said: Receiver<ClientEvent>,
    looked: Duration,
    seen: Observations,
    /// Events for the message of a failed script.
    told: Vec<String>,
}

impl<'a> Script<'a> {
    pub(super) fn new(world: &'a World, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let partitions = rng.usize(2..=4);
        let (says, said) = channel();
        Self {
            world,
            seed,
            clock: Clock::start(),
            scene: Scene::new(),
            is_java: seed.is_multiple_of(2),
            protocol: match seed / 2 % 4 {
                0 => "classic",
                1 => "cooperative",
                _ => "consumer",
            },
            is_static: rng.u8(0..4) == 0,
            pauses: [0, 100, 500][rng.usize(0..3)],
            ends: vec![0; partitions],
            handled: vec![BTreeSet::new(); partitions],
            given: 0,
            living: Vec::new(),
            named: 0,
            ended: BTreeSet::new(),
            says,
            said,
            looked: Duration::ZERO,
            seen: Observations::default(),
            told: Vec::new(),
            rng,
        }
    }

    pub(super) fn play(mut self) -> Played {
        let partitions = i32::try_from(self.ends.len()).unwrap();
        self.world.admin.make_topic(&self.scene.topic, partitions);
        let first = self.rng.usize(150..300);
        self.produce(first);
        for _ in 0..self.rng.usize(1..=MEMBERS_MAX) {
            self.join(None);
        }
        let until = self.clock.elapsed() + Duration::from_millis(self.rng.u64(9_000..14_000));
        while self.clock.elapsed() < until {
            self.step();
        }
        self.calm_down();
        let ends = self.ends.clone();
        // A consumer commits its position as it leaves. The position may lie before the end: after
        // a replay, or where the partition was taken over before its former owner's last commit.
        // Another consumer reads the rest.
        for _ in 0..REREADS_MAX {
            self.leave_all();
            if self.committed() == ends {
                break;
            }
            self.join(None);
            // Commits of the former members do not count.
            self.seen.committed.clear();
            self.calm_down();
        }
        self.leave_all();
        self.until("the offsets are at the end", |script| script.committed() == ends);
        let judged = self.seen.end(&self.world.sidecar, &self.scene);
        judged.unwrap_or_else(|why| self.fail(&why));
        Played {
            is_java: self.is_java,
            records: self.handled.iter().map(BTreeSet::len).sum(),
            given: self.given,
            was_suspected: !self.seen.suspects.is_empty(),
            was_narrow: self.seen.was_narrow,
            alone: self.seen.alone,
        }
    }

    fn step(&mut self) {
        match self.rng.u32(0..100) {
            0..10 => self.restart(),
            10..15 if self.living.len() < MEMBERS_MAX => self.join(None),
            15..20 if self.living.len() > 1 && !self.is_static => {
                let leaver = self.rng.usize(0..self.living.len());
                self.leave(leaver);
            }
            20..23 if !self.is_static => self.replay(),
            23..60 => {
                let more = self.rng.usize(1..20);
                self.produce(more);
            }
            _ => {}
        }
        let ms = self.rng.u64(50..500);
        self.live(Duration::from_millis(ms));
    }

    fn produce(&mut self, many: usize) {
        self.tell(&format!("{many} records are produced"));
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", self.world.sidecar.address())
            .set("linger.ms", self.rng.u8(0..20).to_string())
            .create()
            .unwrap();
        for _ in 0..many {
            let partition = self.rng.usize(0..self.ends.len());
            self.ends[partition] += 1;
            let record = BaseRecord::<str, str>::to(&self.scene.topic).payload("order");
            producer.send(record.partition(i32::try_from(partition).unwrap())).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
    }

    /// Starts a new member, or the static member `instance` again.
    fn join(&mut self, instance: Option<String>) {
        self.named += 1;
        let id = self.seed * 1_000 + self.named;
        let instance = instance.or_else(|| self.is_static.then(|| format!("i{id}")));
        let membership = Membership {
            bootstrap: self.world.sidecar.address(),
            group: self.scene.group.clone(),
            topic: self.scene.topic.clone(),
            protocol: self.protocol,
            instance,
        };
        let habits = Habits::new(&mut self.rng, self.pauses);
        self.tell(&format!("{id} joins: {habits:?} {:?}", membership.instance));
        let says = self.says.clone();
        self.living.push(if self.is_java {
            Consumer::java(self.world, (id, membership), &habits, says)
        } else {
            Consumer::librdkafka((id, membership), habits, says)
        });
    }

    /// Ends a consumer, which commits its handled records and leaves; returns its instance id.
    fn leave(&mut self, n: usize) -> Option<String> {
        let gone = self.living.remove(n);
        let (id, instance) = (gone.id, gone.membership.instance.clone());
        self.tell(&format!("{id} leaves"));
        drop(gone);
        self.until("it has left", |script| script.ended.contains(&id));
        self.tell(&format!("{id} has left"));
        instance
    }

    fn leave_all(&mut self) -> usize {
        let many = self.living.len();
        for consumer in &self.living {
            consumer.stop();
        }
        while !self.living.is_empty() {
            self.leave(0);
        }
        many
    }

    /// Replaces one process by another, which starts before or after the end of the first.
    fn restart(&mut self) {
        let n = self.rng.usize(0..self.living.len());
        if !self.is_static && self.rng.bool() {
            self.join(None);
            let ms = self.rng.u64(0..1_500);
            self.live(Duration::from_millis(ms));
            self.leave(n);
        } else {
            let instance = self.leave(n);
            let ms = self.rng.u64(0..800);
            self.live(Duration::from_millis(ms));
            self.join(instance);
        }
    }

    /// Every member leaves, an administrator resets the offsets, and as many members join again.
    fn replay(&mut self) {
        let many = self.leave_all();
        let committed = self.committed().into_iter();
        let to: Vec<i64> = committed.map(|committed| self.rng.i64(0..=committed)).collect();
        self.tell(&format!("the group is set back to {to:?}"));
        // The coordinator may still know a member, and then refuses.
        self.until("an administrator is heard", |script| script.resets(&to));
        // Observed offsets are from before the reset.
        self.seen.committed.clear();
        for _ in 0..many {
            self.join(None);
        }
    }

    /// Resets the group's offsets as an administrator; returns false where that is refused.
    fn resets(&mut self, to: &[i64]) -> bool {
        self.named += 1;
        let id = self.seed * 1_000 + self.named;
        let of = (self.scene.group.as_str(), self.scene.topic.as_str());
        self.world.jvm.reset(id, of, to, self.says.clone());
        match self.said.recv_timeout(PATIENCE) {
            Ok(ClientEvent::Ended { .. }) => true,
            Ok(ClientEvent::Failed { why }) => {
                self.tell(&why);
                false
            }
            other => self.fail(&format!("no administrator: {other:?}")),
        }
    }

    /// Ends all events, and waits until everything is handled and committed.
    fn calm_down(&mut self) {
        self.tell("calm");
        for consumer in &self.living {
            consumer.calm();
        }
        self.until("everything is handled and committed", |script| {
            let mut all = script.ends.iter().zip(&script.handled).zip(0..);
            all.all(|((end, handled), partition)| {
                let committed = script.seen.committed.get(&partition).copied().unwrap_or(0);
                i64::try_from(handled.len()).unwrap() == *end && committed == *end
            })
        });
    }

    /// Committed offsets of the group, read by a client that is no member.
    fn committed(&self) -> Vec<i64> {
        let tool: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.world.sidecar.address())
            .set("group.id", &self.scene.group)
            .create()
            .unwrap();
        let mut all = TopicPartitionList::new();
        all.add_partition_range(&self.scene.topic, 0, i32::try_from(self.ends.len()).unwrap() - 1);
        let known = tool.committed_offsets(all, PATIENCE).unwrap();
        let offset = |at: Offset| if let Offset::Offset(offset) = at { offset } else { 0 };
        known.elements().iter().map(|at| offset(at.offset())).collect()
    }

    /// Receives events and checks the sidecar until `holds` is true.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let (mut clock, mut progress) = (Clock::start(), self.progress());
        while !holds(self) {
            if clock.elapsed() > PATIENCE {
                self.fail(&format!("still waiting until {what}"));
            }
            self.live(LOOK);
            let now = self.progress();
            if now > progress {
                (clock, progress) = (Clock::start(), now);
            }
        }
    }

    /// Number of handled records and committed offsets; `ends` bounds it.
    fn progress(&self) -> i64 {
        let handled: usize = self.handled.iter().map(BTreeSet::len).sum();
        i64::try_from(handled).unwrap() + self.seen.committed.values().sum::<i64>()
    }

    /// Receives events and checks the sidecar for `max`.
    fn live(&mut self, max: Duration) {
        let clock = Clock::start();
        loop {
            if self.clock.elapsed() >= self.looked + LOOK {
                self.looked = self.clock.elapsed();
                let seen = self.seen.look(&self.world.sidecar, &self.scene);
                seen.unwrap_or_else(|why| self.fail(&why));
            }
            let left = max.saturating_sub(clock.elapsed()).min(LOOK);
            match self.said.recv_timeout(left) {
                Ok(said) => self.hear(said),
                Err(RecvTimeoutError::Timeout) if clock.elapsed() >= max => return,
                Err(_) => {}
            }
        }
    }

    fn hear(&mut self, said: ClientEvent) {
        match said {
            ClientEvent::Done { partition, offset } => {
                let partition = usize::try_from(partition).unwrap();
                assert!((0..self.ends[partition]).contains(&offset), "{partition}@{offset}");
                self.handled[partition].insert(offset);
                self.given += 1;
            }
            ClientEvent::Ended { id } => {
                self.ended.insert(id);
            }
            ClientEvent::Failed { why } => self.fail(&why),
        }
    }

    fn tell(&mut self, what: &str) {
        self.told.push(format!("{:.3} {what}", self.clock.elapsed().as_secs_f64()));
    }

    fn fail(&self, why: &str) -> ! {
        let missing = |(end, handled): (&i64, &BTreeSet<i64>)| {
            (0..*end).filter(|offset| !handled.contains(offset)).take(5).collect::<Vec<i64>>()
        };
        let missing: Vec<Vec<i64>> = self.ends.iter().zip(&self.handled).map(missing).collect();
        let pasts = self.seen.behind(&self.world.sidecar, &self.scene, &self.ends);
        panic!(
            "{why}\n{pasts}at {:.3} s; {}, {}, {:?}; ends {:?}, not handled {missing:?}, {:?}\n{}",
            self.clock.elapsed().as_secs_f64(),
            if self.is_java { "Java" } else { "librdkafka" },
            self.protocol,
            self.scene,
            self.ends,
            self.seen,
            self.told.join("\n"),
        );
    }
}
