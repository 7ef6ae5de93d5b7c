//! One trial of an application with a record that it cannot handle: orders, lines of the
//! application, and observations at the sidecar.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use reprise::clock::Clock;
use serde_json::Value;

use super::app::{Line, Process};
use super::{Case, FinalPlace, Observations};
use crate::rig::cluster::Admin;
use crate::rig::scene::Scene;
use crate::rig::sidecar::{CONSUMER_SESSION, Sidecar};
use crate::rig::stage::empty_dir;

const PATIENCE: Duration = Duration::from_mins(5);
/// Interval of checks of the sidecar.
const LOOK: Duration = Duration::from_millis(50);
/// Orders of each batch in each partition.
const ORDERS: usize = 3;
/// Index of the poison among the orders of its batch in its partition.
const POISONED: usize = 1;

/// Partition and offset.
type PartitionOffset = (i32, i64);

pub(super) struct Trial {
    pub(super) dir: PathBuf,
    pub(super) sidecar: Sidecar,
    pub(super) scene: Scene,
    partitions: i32,
    /// Partition and offset of each order, by key.
    orders: BTreeMap<String, PartitionOffset>,
    /// Key and place of the order that cannot be handled.
    poison: Option<(String, PartitionOffset)>,
    done: BTreeSet<String>,
    /// Committed offset by partition, as last observed.
    committed: BTreeMap<i32, i64>,
    pub(super) seen: Observations,
}

impl Trial {
    pub(super) fn new(case: &Case) -> Self {
        Self::by_rules(case, case.way, "retry: {on_seek_back: retry, give_up_after: 1s}\n")
    }

    /// A trial with other rules, in a folder named after `name`.
    pub(super) fn by_rules(case: &Case, name: &str, rules: &str) -> Self {
        Self::in_scene(case, name, rules, Scene::new())
    }

    /// A trial with other rules and with names of its own.
    pub(super) fn in_scene(case: &Case, name: &str, rules: &str, scene: Scene) -> Self {
        let trial = Self::without_topic(case, name, rules, scene);
        trial.make_topic();
        trial
    }

    pub(super) fn make_topic(&self) {
        Admin::at(&self.sidecar.address()).make_topic(&self.scene.topic, self.partitions);
    }

    pub(super) fn without_topic(case: &Case, name: &str, rules: &str, scene: Scene) -> Self {
        // The build must not count against a deadline.
        case.app.built();
        let dir = empty_dir(case.app.name, name);
        let sidecar = Sidecar::by_rules(&dir, None, CONSUMER_SESSION, rules);
        Self {
            dir,
            sidecar,
            scene,
            partitions: case.partitions,
            orders: BTreeMap::new(),
            poison: None,
            done: BTreeSet::new(),
            committed: BTreeMap::new(),
            seen: Observations::default(),
        }
    }

    /// Produces orders in every partition; one of those in partition `poisoned` cannot be handled.
    pub(super) fn produce(&mut self, name: &str, poisoned: Option<i32>) {
        let producer: BaseProducer<Fates> = ClientConfig::new()
            .set("bootstrap.servers", self.sidecar.address())
            .create_with_context(Fates::default())
            .unwrap();
        for partition in 0..self.partitions {
            for n in 0..ORDERS {
                let key = format!("{name}-{partition}-{n}");
                let is_poison = poisoned == Some(partition) && n == POISONED;
                let value = if is_poison { "poison" } else { "order" };
                let record = BaseRecord::with_opaque_to(&self.scene.topic, Box::new(key.clone()));
                producer.send(record.partition(partition).key(&key).payload(value)).unwrap();
                if is_poison {
                    self.poison = Some((key, (partition, 0)));
                }
            }
        }
        producer.flush(Duration::from_secs(30)).unwrap();
        let sent = producer.context().0.lock().unwrap();
        self.orders.extend(sent.iter().map(|(key, place)| (key.clone(), *place)));
        if let Some((key, place)) = &mut self.poison {
            *place = self.orders[key];
        }
    }

    /// Checks application and sidecar until `enough` is true.
    pub(super) fn until(
        &mut self,
        process: &mut Process,
        what: &str,
        enough: impl Fn(&Self) -> bool,
    ) {
        let clock = Clock::start();
        while !enough(self) {
            assert!(clock.elapsed() < PATIENCE, "still waiting until {what}: {self:?}");
            std::thread::sleep(LOOK);
            self.hear_all(process.look());
            self.see();
        }
    }

    /// Records lines of the application.
    pub(super) fn hear_all(&mut self, lines: Vec<Line>) {
        for line in lines {
            self.hear(line);
        }
    }

    fn hear(&mut self, line: Line) {
        let Line { is_done, partition, offset, key } = line;
        assert_eq!(self.orders.get(&key), Some(&(partition, offset)), "{key}");
        let is_poison = self.poison.as_ref().is_some_and(|(poison, _)| *poison == key);
        assert_eq!(is_poison, !is_done, "{key}");
        if is_poison {
            self.seen.tries += 1;
        } else {
            self.done.insert(key);
            self.seen.handled += 1;
        }
    }

    /// Reads the state of the group. No other record may be skipped or a dead letter.
    fn see(&mut self) {
        let group = &self.scene.group;
        let poison = self.poison.as_ref().map(|(_, place)| *place);
        let known = self.sidecar.json(&format!("/api/v1/explain?group={group}"));
        let of_topic = |window: &&Value| window["topic"] == self.scene.topic.as_str();
        for window in known["partitions"].as_array().into_iter().flatten().filter(of_topic) {
            let partition = i32::try_from(window["partition"].as_i64().unwrap()).unwrap();
            if let Some(committed) = window["committed"].as_i64() {
                self.committed.insert(partition, committed);
            }
            for returned in window["seek_backs"].as_array().unwrap() {
                let place = (partition, returned["offset"].as_i64().unwrap());
                self.seen.is_sought_back |= Some(place) == poison;
            }
            for suspect in window["suspects"].as_array().unwrap() {
                let place = (partition, suspect["offset"].as_i64().unwrap());
                if Some(place) != poison {
                    let failures = suspect["reconsume_times"].as_u64().unwrap();
                    self.seen.innocent_failures = self.seen.innocent_failures.max(failures);
                }
            }
            let skipped = window["skipped"].as_array().unwrap().iter();
            let mut skipped = skipped.map(|offset| (partition, offset.as_i64().unwrap()));
            assert!(skipped.all(|place| Some(place) == poison), "{known}");
        }
        let letters = self.sidecar.letters(group);
        assert!(letters.iter().all(|letter| self.is_the_poison(letter)), "{letters:?}");
        let word = |letter: &Value| letter["cause"].as_str().unwrap().to_owned();
        self.seen.letters = letters.iter().map(word).collect();
    }

    fn is_the_poison(&self, letter: &Value) -> bool {
        self.poison.as_ref().is_some_and(|(key, (partition, offset))| {
            let origin = format!("{}-{partition}@{offset}", self.scene.topic);
            letter["key"] == key.as_str() && letter["origin"] == origin.as_str()
        })
    }

    /// Whether everything but the poison was handled.
    pub(super) fn is_done(&self) -> bool {
        let poison = self.poison.as_ref().map(|(key, _)| key);
        self.orders.keys().all(|key| Some(key) == poison || self.done.contains(key))
    }

    /// Whether everything but the poison was handled, and every partition is committed to its end.
    pub(super) fn is_committed(&self) -> bool {
        self.is_done() && self.are_past()
    }

    /// Whether every partition is committed to its end.
    fn are_past(&self) -> bool {
        (0..self.partitions).all(|partition| self.is_past(partition))
    }

    /// Whether a partition is committed to its end.
    fn is_past(&self, partition: i32) -> bool {
        let of_it = self.orders.values().filter(|(of, _)| *of == partition);
        let last = of_it.map(|(_, offset)| *offset).max().unwrap();
        self.committed.get(&partition).is_some_and(|committed| *committed > last)
    }

    /// Whether the other orders have ended, and the poison is where the case says.
    pub(super) fn has_ended(&self, case: &Case) -> bool {
        let (_, (partition, offset)) = self.poison.as_ref().unwrap();
        match case.ends {
            FinalPlace::DeadLetter(_) => self.is_committed() && !self.seen.letters.is_empty(),
            FinalPlace::PassedOver { others_too } => {
                self.are_past() && self.is_done() != others_too
            }
            FinalPlace::Aside => self.is_committed() && case.tries.has(self.seen.tries),
            FinalPlace::Kept => {
                let others = (0..self.partitions).filter(|of| of != partition);
                let is_kept = self.committed.get(partition).is_some_and(|at| at <= offset);
                is_kept
                    && self.is_done()
                    && case.tries.has(self.seen.tries)
                    && others.into_iter().all(|of| self.is_past(of))
            }
        }
    }
}

impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let left = self.orders.keys().filter(|key| !self.done.contains(*key));
        f.debug_struct("Trial")
            .field("poison", &self.poison)
            .field("left", &left.collect::<Vec<_>>())
            .field("committed", &self.committed)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

/// Partition and offset of each produced order, by key.
#[derive(Clone, Default)]
struct Fates(Arc<Mutex<BTreeMap<String, PartitionOffset>>>);

impl rdkafka::ClientContext for Fates {}

impl ProducerContext for Fates {
    type DeliveryOpaque = Box<String>;

    fn delivery(&self, result: &DeliveryResult<'_>, key: Box<String>) {
        use rdkafka::Message;
        let message = result.as_ref().expect("an order is acknowledged");
        self.0.lock().unwrap().insert(*key, (message.partition(), message.offset()));
    }
}
