//! A broker of the sidecar's own topics on a disk in memory, stepped by one thread, and the view of
//! a `read_committed` reader.

use std::sync::Arc;

use bytes::Bytes;
use reprise::broker::Broker;
use reprise::broker::groups::Groups;
use reprise::broker::offsets::OffsetStore;
use reprise::broker::settings::{TopicSettings, TopicSpec};
use reprise::broker::topic::Topic;
use reprise::broker::topics::Topics;
use reprise::broker::transactions::Incarnation;
use reprise::clock::{Clock, Hand};
use reprise::group::{ClassicConfig, ConsumerConfig};
use reprise::journal::{Durability, Journal, JournalOptions, ReadSize, StepResult, Writer};
use reprise::model::WallMs;
use reprise::wire::batch::{
    Batch, Headers, Hidden, ProducerStamp, RawRecord, TimestampType, batches, crc_of,
    produce_batch, records,
};
use uuid::Uuid;

use crate::mem_disk::MemDisk;
use crate::transactions::GROUPS;

pub const PARTITIONS: i32 = 3;
const BYTES_MAX: usize = 1 << 20;

/// The power is off, or about to be.
#[derive(Debug)]
pub struct Cut;

/// The state that clients can see.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The committed records of each partition.
    pub given: Vec<Vec<String>>,
    /// The last stable offset and the log end offset of each partition.
    pub ends: Vec<(i64, i64)>,
    /// The offset of each group, and whether an open transaction may change it.
    pub offsets: Vec<(Option<i64>, bool)>,
    /// Each transactional id with its producer and its open transaction.
    pub producers: Vec<(String, Incarnation, Option<TransactionStart>)>,
}

/// The start of an open transaction, its partitions, and its offsets.
pub type TransactionStart = (i64, Vec<i32>, Vec<(String, i64)>);

pub struct Cluster {
    pub broker: Broker,
    pub hand: Hand,
    journal: Journal,
    writer: Writer,
}

impl Cluster {
    /// Starts the broker from the disk, and creates topic `t` if needed.
    pub fn start(disk: &MemDisk, now: i64) -> Option<Self> {
        let config = JournalOptions {
            segment_bytes: 16 << 10,
            checkpoint_bytes: 24 << 10,
            ..JournalOptions::default()
        };
        let (journal, writer, recovery) = Journal::open(disk.disk(), config).ok()?;
        let (clock, hand) = Clock::told(WallMs(now));
        let defaults =
            TopicSettings { retention_ms: None, retention_bytes: None, max_message_bytes: 9_999 };
        let topics = Topics::new(journal.clone(), defaults, 99_999);
        let (classic, consumer) = (ClassicConfig::default(), ConsumerConfig::default());
        let (groups, _) = Groups::new(journal.clone(), classic, consumer, move || clock.now());
        let offsets = OffsetStore::new(journal.clone());
        let durability = Durability::Fsync;
        let broker = Broker::new(topics, groups, offsets, journal.clone(), durability, clock);
        let from = broker.replay_from(recovery.checkpointed()).ok()?;
        recovery.replay(from, &mut |entry, _| broker.replay(entry)).ok()?;
        let mut cluster = Self { broker, hand, journal, writer };
        if cluster.broker.topics.find(&"t".into()).is_none() {
            let spec = TopicSpec { name: "t".into(), partitions: PARTITIONS, settings: Vec::new() };
            cluster.broker.topics.create(&spec, Uuid::from_u128(1)).ok()?;
        }
        cluster.flush().ok()?;
        Some(cluster)
    }

    pub fn topic(&self) -> Arc<Topic> {
        self.broker.topics.find(&"t".into()).unwrap()
    }

    pub fn flush(&mut self) -> Result<(), Cut> {
        match self.writer.step() {
            StepResult::Flushed | StepResult::Idle => Ok(()),
            StepResult::DiskFull | StepResult::Poisoned => Err(Cut),
        }
    }

    /// Snapshots the producers, takes a checkpoint, and frees space.
    pub fn keep(&mut self) -> Result<(), Cut> {
        let (broker, journal, writer) = (&self.broker, &self.journal, &mut self.writer);
        std::thread::scope(|scope| {
            let kept = scope.spawn(|| {
                broker.keep_producers().map_err(|_| Cut)?;
                journal.checkpoint().map_err(|_| Cut)?;
                while journal.housekeeper().step().map_err(|_| Cut)?.more {}
                Ok(())
            });
            while !kept.is_finished() {
                writer.step();
            }
            kept.join().unwrap()
        })
    }

    pub fn view(&mut self) -> Result<View, Cut> {
        let mut view = View::default();
        let topic = self.topic();
        for partition in &topic.partitions {
            let bounds = self.broker.bounds(partition);
            let mut given = Vec::new();
            let mut next = 0;
            loop {
                let read = self.broker.read_committed(partition, next, ReadSize::any(BYTES_MAX));
                let read = read.map_err(|_| Cut)?;
                let aborted = read.aborted.iter().map(|one| (one.producer_id, one.first));
                let mut hidden = Hidden::new(aborted);
                let before = next;
                let mut rest = read.read.records;
                while let Ok(batch) = Batch::parse(&rest) {
                    rest = rest.slice(batch.bytes.len()..);
                    next = batch.header.last_offset() + 1;
                    if !hidden.show(&batch.header) {
                        given.extend(texts(&batch));
                    }
                }
                if next == before {
                    break;
                }
            }
            view.given.push(given);
            view.ends.push((self.broker.stable_end(partition), bounds.visible_end));
        }
        for group in GROUPS {
            let of = (&group.into(), &"t".into());
            let committed = self.broker.offsets.committed(of.0, of.1, 0);
            let unstable = self.broker.is_unstable(of.0, of.1, 0);
            view.offsets.push((committed.map(|known| known.offset), unstable));
        }
        for (id, known) in self.broker.transactions.list() {
            let parts = known.parts.iter().map(|part| part.partition).collect();
            let offsets = known.items().into_iter();
            let offsets = offsets.map(|(group, items)| (group.to_string(), items[0].item.offset));
            let open = known.is_open().then(|| (known.since.0, parts, offsets.collect()));
            view.producers.push((id, known.incarnation(), open));
        }
        Ok(view)
    }
}

fn texts(batch: &Batch) -> Vec<String> {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let all = records(batch, BYTES_MAX).unwrap();
    all.map(|record| text(record.unwrap().value.as_ref().unwrap())).collect()
}

/// One record in a transaction.
pub fn batch(by: Incarnation, sequence: i32, text: &str) -> Batch {
    let record = RawRecord {
        timestamp_ms: 5,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: Some(Bytes::copy_from_slice(text.as_bytes())),
        headers: Headers::default(),
    };
    let stamp = ProducerStamp { id: by.0, epoch: by.1, sequence };
    let mut bytes = produce_batch(&[record], Some(stamp)).unwrap().to_vec();
    bytes[22] |= 1 << 4;
    let crc = crc_of(&bytes).unwrap();
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    batches(bytes.into(), BYTES_MAX).next().unwrap().unwrap()
}
