//! Keys in order (`order.mode: key`): 100 000 records of 10 000 keys, one in a hundred fails once.
//! Every record is handled, and each key's records in the order of their offsets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;

use reprise::clock::Clock;

use crate::batch::{Got, Rec, plain, unpack};
use crate::member::Member;
use crate::sheet::{Goal, median};
use crate::sidecar::Sidecar;
use crate::wire::{Wire, name};
use crate::{GROUP, RETRY, number, tell};

const RECORDS: usize = 100_000;
const KEYS: usize = 10_000;
/// One record in this many fails, once.
const FAILING: usize = 100;
const TOPIC: &str = "ledger";
const PARTITIONS: usize = 4;
const BATCH: usize = 500;
const ROUNDS: usize = 5;
/// Limit of one round.
const PATIENCE: Duration = Duration::from_mins(1);

/// The last number handled of each key.
type Handled = Mutex<BTreeMap<usize, usize>>;

/// Measures and prints. Sidecars with `order.mode` `off` and `key` take turns.
pub(crate) fn run(dir: &Path) {
    let (mut kept, mut free, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for mode in ["off", "key"] {
            let server = start(&dir.join(format!("keys-{mode}-{round}")), mode);
            fill(server.addr);
            let cpu_s = server.cpu_s();
            let rate = number(RECORDS) / consumed(server.addr, mode == "key");
            if mode == "key" {
                kept.push(rate);
                costs.push((server.cpu_s() - cpu_s) * 1e6 / number(RECORDS));
            } else {
                free.push(rate);
            }
        }
    }
    let goal = Goal::Least(50_000.0);
    tell("keys_in_order", median(kept), "1/s, handled in order", Some(median(free)), goal);
    tell("keys_in_order_cpu", median(costs), "CPU µs of the sidecar per record", None, Goal::None);
}

fn start(dir: &Path, mode: &str) -> Sidecar {
    let topic = format!("topics.list=[{{name: {TOPIC}, partitions: {PARTITIONS}}}]");
    let mode = format!("retry.order.mode={mode}");
    let settings = ["retry.levels=100ms", "log.filter=warn", "retry.breaker=off", &topic, &mode];
    Sidecar::start(dir, &settings)
}

/// Produces all records. Number `n` has the key `n % KEYS`, in the partition of that key.
fn fill(addr: SocketAddr) {
    let mut wire = Wire::connect(addr);
    for partition in 0..PARTITIONS {
        let all: Vec<usize> = (0..RECORDS).filter(|n| n % KEYS % PARTITIONS == partition).collect();
        for some in all.chunks(BATCH) {
            let records: Vec<Rec> = some.iter().map(|n| record(*n)).collect();
            wire.out.produce(TOPIC, i32::try_from(partition).unwrap(), plain(&records));
            wire.back.produced();
        }
    }
}

fn record(number: usize) -> Rec {
    let key = Some(Bytes::from(format!("{}", number % KEYS)));
    Rec { key, ..Rec::new(&format!("{number}")) }
}

/// True for one record in [`FAILING`], spread over all keys.
fn fails(number: usize) -> bool {
    (number + number / KEYS * 7).is_multiple_of(FAILING)
}

/// Seconds from the first Fetch to the last commit.
fn consumed(addr: SocketAddr, keeps: bool) -> f64 {
    let topic = topic_id(addr);
    let mut members: Vec<Member> =
        (0..PARTITIONS).map(|_| Member::of(addr, GROUP, TOPIC)).collect();
    let patience = Clock::start();
    let mut partitions = BTreeSet::new();
    // the first members release partitions that the last ones get
    while partitions.len() < PARTITIONS || members.iter().any(|one| own(one, topic).len() != 1) {
        assert!(patience.elapsed() < PATIENCE, "the partitions are not shared out");
        members.iter_mut().for_each(Member::beat);
        partitions = members.iter().flat_map(|member| own(member, topic)).collect();
    }
    let (handled, done, clock) = (Handled::default(), AtomicUsize::new(0), Clock::start());
    thread::scope(|scope| {
        for member in members {
            let (partition, handled, done) = (own(&member, topic)[0], &handled, &done);
            let application = Application { member, partition, keeps, handled, done };
            scope.spawn(move || application.run(clock));
        }
    });
    assert_eq!(done.into_inner(), RECORDS, "each is handled, once");
    clock.elapsed().as_secs_f64()
}

fn topic_id(addr: SocketAddr) -> uuid::Uuid {
    let asked = MetadataRequestTopic::default().with_name(Some(name(TOPIC)));
    let request = MetadataRequest::default().with_topics(Some(vec![asked]));
    Wire::connect(addr).call(12, &request).topics[0].topic_id
}

/// The partitions of the topic that a member has.
fn own(member: &Member, topic: uuid::Uuid) -> Vec<i32> {
    let own = member.assigned.iter().filter(|(id, _)| *id == topic);
    own.flat_map(|(_, partitions)| partitions.clone()).collect()
}

struct Application<'a> {
    member: Member,
    partition: i32,
    /// True with `order.mode: key`.
    keeps: bool,
    handled: &'a Handled,
    done: &'a AtomicUsize,
}

impl Application<'_> {
    /// Fetches, handles and commits until everything is handled.
    fn run(mut self, clock: Clock) {
        let (mut next, mut has_failed) = (0, BTreeSet::new());
        while self.done.load(Ordering::Relaxed) < RECORDS && clock.elapsed() < PATIENCE {
            let data = self.member.wire.fetch(TOPIC, self.partition, next, 0);
            let got = unpack(&data.records.unwrap_or_default());
            next = got.last().map_or(next, |last| last.offset + 1);
            self.handle((TOPIC, self.partition), &got, &mut has_failed);
            let patience_ms = if got.is_empty() { 10 } else { 0 };
            let retries = self.member.fetch(patience_ms);
            self.handle((RETRY, 0), &retries, &mut has_failed);
            if !got.is_empty() || !retries.is_empty() {
                self.member.commit_beside(&[(TOPIC, self.partition, next)]);
            }
        }
    }

    /// Handles the records of one answer. After a failed record the later ones of its key are
    /// skipped; they come back.
    fn handle(&mut self, from: (&str, i32), all: &[Got], has_failed: &mut BTreeSet<usize>) {
        let (mut nacks, mut left) = (Vec::new(), BTreeSet::new());
        for got in all {
            let number: usize = got.text().parse().unwrap();
            if self.keeps && left.contains(&(number % KEYS)) {
                continue;
            }
            if fails(number) && has_failed.insert(number) {
                let origin = format!("{}-{}@{}", from.0, from.1, got.offset);
                nacks.push(record(number).header("x-retry-origin", origin));
                left.insert(number % KEYS);
                continue;
            }
            self.done.fetch_add(1, Ordering::Relaxed);
            let before = self.handled.lock().unwrap().insert(number % KEYS, number);
            let is_in_order = before.is_none_or(|before| before + KEYS == number);
            assert!(is_in_order || !self.keeps, "{number} came after {before:?}");
        }
        if !nacks.is_empty() {
            self.member.wire.out.produce(RETRY, 0, plain(&nacks));
            self.member.wire.back.produced();
        }
    }
}
