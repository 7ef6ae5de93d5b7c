//! Consuming group members: the CPU cost of tracking the deliveries of each.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use reprise::wire::batch::BatchHeader;

use crate::batch::{Rec, plain};
use crate::member::Member;
use crate::proxy::Proxy;
use crate::sheet::{Goal, median};
use crate::sidecar::Sidecar;
use crate::wire::Wire;
use crate::{storing, tell};

const ROUNDS: usize = 5;
/// Consumers at once, each with a group and a topic of its own.
const CONSUMERS: usize = 4;
/// Batches of a topic: 16 records of 1 KiB each, as Java's producer makes them (`batch.size`).
const BATCHES: u32 = 16_384;
const RECORDS: u32 = 16;
/// Reads of the whole topic by one consumer in one window, each with a new group.
const PASSES: usize = 3;
/// Records of one commit, 16 MiB.
const COMMITS: i64 = 16_384;

static GROUPS: AtomicU64 = AtomicU64::new(0);

/// Measures and prints.
pub(crate) fn run() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let broker = broker(dir.path());
    let unwatched = Proxy::sidecar_with(broker.addr, &["retry.delivery=topic"], None);
    let ways = [Proxy::bare(broker.addr), unwatched, Proxy::sidecar(broker.addr)];
    let mut costs: [Vec<f64>; 3] = Default::default();
    for round in 0..=ROUNDS {
        for (way, costs) in ways.iter().zip(&mut costs) {
            let before = way.cpu_s();
            let bytes = window(way);
            // The first round warms up.
            if round > 0 {
                costs.push((way.cpu_s() - before) * 1e9 / bytes);
            }
        }
    }
    let [bare, unwatched, watched] = costs.map(median);
    tell("consume_by_members", unwatched, "CPU s/GB", Some(bare), Goal::None);
    let goal = Goal::Most(unwatched * 1.03);
    tell("consume_by_watched_members", watched, "CPU s/GB", Some(unwatched), goal);
    assert_eq!(ways[2].unattributed_fetches(), "0", "each Fetch was a member's");
}

/// A `reprise` without an upstream whose topics are filled.
fn broker(dir: &Path) -> Sidecar {
    let topic_n = |n| format!("{{name: {}, partitions: 1}}", topic(n));
    let topics: Vec<String> = (0..CONSUMERS).map(topic_n).collect();
    let broker = storing(dir, &topics.join(", "));
    let record = Rec::new(&"x".repeat(1 << 10));
    let batch = plain(&vec![record; usize::try_from(RECORDS).unwrap()]);
    thread::scope(|scope| {
        for n in 0..CONSUMERS {
            let Wire { out: mut asking, mut back } = Wire::connect(broker.addr);
            let batch = batch.clone();
            scope.spawn(move || {
                (0..BATCHES).for_each(|_| asking.produce(&topic(n), 0, batch.clone()));
            });
            scope.spawn(move || (0..BATCHES).for_each(|_| back.produced()));
        }
    });
    broker
}

fn topic(n: usize) -> String {
    format!("orders-{n}")
}

/// Runs [`PASSES`] passes of all consumers; returns the bytes of records they fetched.
fn window(way: &Proxy) -> f64 {
    thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|n| scope.spawn(move || (0..PASSES).map(|_| pass(way, n)).sum::<f64>()))
            .collect();
        consumers.into_iter().map(|consumer| consumer.join().unwrap()).sum()
    })
}

/// A new group reads a topic to its end, commits and leaves.
fn pass(way: &Proxy, n: usize) -> f64 {
    let end = i64::from(BATCHES * RECORDS);
    let group = format!("group-{}", GROUPS.fetch_add(1, Ordering::Relaxed));
    let mut member = Member::subscribe(way.told(), &group, &topic(n));
    let mut bytes = 0;
    while member.next < end {
        let data = member.wire.fetch(&topic(n), 0, member.next, 500);
        let records = data.records.unwrap_or_default();
        let mut rest = records.as_ref();
        while let Ok(header) = BatchHeader::parse(rest) {
            member.next = header.last_offset() + 1;
            rest = rest.get(header.total_bytes().unwrap()..).unwrap_or_default();
        }
        bytes += records.len();
        if member.next % COMMITS == 0 || member.next == end {
            member.commit();
        }
    }
    member.leave();
    f64::from(u32::try_from(bytes).unwrap())
}
