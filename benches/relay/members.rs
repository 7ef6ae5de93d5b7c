//! Members of groups that consume: what it costs to know what each was handed.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, GroupId, OffsetCommitRequest};
use kafka_protocol::protocol::StrBytes;

use crate::batch::{Rec, plain};
use crate::proxy::Proxy;
use crate::sheet::{Goal, median};
use crate::sidecar::Sidecar;
use crate::tell;
use crate::wire::{Wire, name};

const ROUNDS: usize = 5;
/// Consumers at once, each with a group and a topic of its own.
const CONSUMERS: usize = 4;
/// Batches of a topic: 16 records of 1 KiB each, as Java's producer makes them (`batch.size`).
const BATCHES: u32 = 16_384;
const RECORDS: u32 = 16;
/// How often a consumer reads its topic in one window, each time as a new group.
const PASSES: usize = 3;
/// A commit for so many records, 16 MiB of them.
const COMMITS: i64 = 16_384;
const HEARTBEAT: i16 = 1;
const COMMIT: i16 = 9;

static GROUPS: AtomicU64 = AtomicU64::new(0);

/// Measures and prints.
pub(crate) fn run() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let broker = broker(dir.path());
    let unwatched = Proxy::sidecar_with(broker.addr, &["retry.lane=retry-topic"], None);
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
    assert_eq!(ways[2].unowned_fetches(), "0", "each Fetch was a member's");
}

/// A `reprise` by itself with full topics.
fn broker(dir: &Path) -> Sidecar {
    let topics: Vec<String> =
        (0..CONSUMERS).map(|n| format!("{{name: {}, partitions: 1}}", topic(n))).collect();
    let settings = [
        &format!("topics.list=[{}]", topics.join(", ")),
        "topics.durability=os",
        "topics.retention=unlimited",
        "names.retry=not-here.{group}",
        "names.dead_letters=nor-here.{group}",
    ];
    let broker = Sidecar::start(&dir.join("broker"), &settings);
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

/// All consumers, so many passes; the bytes of records they got.
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
    let mut member = Member::join(way.told(), &topic(n));
    let (mut offset, mut bytes) = (0, 0);
    while offset < end {
        let records = member.wire.fetch(&member.topic, 0, offset, 500).records.unwrap_or_default();
        let mut rest = records.as_ref();
        while let Some(head) = rest.get(..27) {
            let at = |from: usize| i32::from_be_bytes(head[from..from + 4].try_into().unwrap());
            offset += i64::from(at(23)) + 1;
            rest = rest.get(usize::try_from(at(8)).unwrap() + 12..).unwrap_or_default();
        }
        bytes += records.len();
        if offset % COMMITS == 0 || offset == end {
            member.commit(offset);
        }
    }
    member.leave();
    f64::from(u32::try_from(bytes).unwrap())
}

/// The one member of a group (KIP-848).
struct Member {
    wire: Wire,
    group: GroupId,
    topic: String,
    id: StrBytes,
    epoch: i32,
}

impl Member {
    fn join(addr: SocketAddr, topic: &str) -> Self {
        let n = GROUPS.fetch_add(1, Ordering::Relaxed);
        let mut member = Self {
            wire: Wire::connect(addr),
            group: GroupId(StrBytes::from_string(format!("group-{n}"))),
            topic: topic.to_owned(),
            id: StrBytes::from_string(format!("member-{n}")),
            epoch: 0,
        };
        let mut whole = member.heartbeat();
        whole.rebalance_timeout_ms = 10_000;
        whole.subscribed_topic_names = Some(vec![name(topic)]);
        whole.topic_partitions = Some(Vec::new());
        member.beats(&whole);
        member
    }

    fn commit(&mut self, offset: i64) {
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(name(&self.topic))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(self.group.clone())
            .with_member_id(self.id.clone())
            .with_generation_id_or_member_epoch(self.epoch)
            .with_topics(vec![topic]);
        let answer = self.wire.call(COMMIT, &request);
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "{offset} is committed");
    }

    fn leave(mut self) {
        self.epoch = -1;
        let gone = self.heartbeat();
        self.beats(&gone);
    }

    fn heartbeat(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(self.group.clone())
            .with_member_id(self.id.clone())
            .with_member_epoch(self.epoch)
    }

    fn beats(&mut self, request: &ConsumerGroupHeartbeatRequest) {
        let answer = self.wire.call(HEARTBEAT, request);
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        self.epoch = answer.member_epoch;
    }
}
