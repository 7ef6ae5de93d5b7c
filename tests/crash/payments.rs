//! Transactional producers, each with several partitions and an offset, and the view of a
//! `read_committed` reader. The reader sees a committed transaction whole and no other one. The
//! committed offset is that of the last committed transaction.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fastrand::Rng;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FetchRequest,
    InitProducerIdRequest, OffsetFetchRequest, ProduceRequest, ProducerId, TxnOffsetCommitRequest,
};
use reprise::wire::batch::{Batch, Hidden, records};

use crate::application::{fetch_one, name, ok, s};
use crate::wire::{NewRecord, Stamp, TRANSACTIONAL, Wire, batch_of};

const TOPIC: &str = "payments";
const PARTITIONS: i32 = 3;
/// Transaction timeout of the producer that leaves its transactions open.
const LEFT_OPEN_MS: i32 = 500;
const PATIENCE: Duration = Duration::from_secs(30);
const BYTES_MAX: usize = 16 << 20;

/// The last request about the end of a transaction, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitOutcome {
    /// No commit was sent, so readers must never see the transaction.
    NotCommitted,
    /// A commit was sent, and its answer has not come.
    InDoubt,
    Committed,
}

#[derive(Debug)]
struct Payment {
    fate: CommitOutcome,
    records: usize,
    /// Index of the producer.
    payer: usize,
}

/// One transactional id.
struct Payer {
    id: &'static str,
    timeout_ms: i32,
    /// True: the producer commits or aborts each transaction. False: it aborts some, and leaves the
    /// others open.
    commits: bool,
    by: Option<(i64, i16)>,
    /// The next sequence number in each partition.
    next: BTreeMap<i32, i32>,
    /// The open transaction: its number and the remaining steps, next one first.
    open: Option<(usize, Vec<Step>)>,
}

/// A request of a producer, repeated until its answer comes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Partition(i32),
    Records(i32, usize),
    Group,
    Offset,
    End(bool),
}

pub struct Payments {
    rng: Rng,
    payers: [Payer; 2],
    all: Vec<Payment>,
}

/// Transactions by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub committed: usize,
    pub not_committed: usize,
    pub in_doubt: usize,
}

impl Payments {
    pub fn new(seed: u64) -> Self {
        let payer = |id, timeout_ms, commits| Payer {
            id,
            timeout_ms,
            commits,
            by: None,
            next: BTreeMap::new(),
            open: None,
        };
        let payers = [payer("pays", 600_000, true), payer("leaves", LEFT_OPEN_MS, false)];
        Self { rng: Rng::with_seed(seed ^ 0xbeef), payers, all: Vec::new() }
    }

    /// Runs transactions until the connection breaks. In half of the cases a producer continues, in
    /// the other half it gets a new epoch.
    pub fn live(&mut self, to: SocketAddr) -> io::Result<()> {
        let mut wire = Wire::connect(to)?;
        for payer in 0..self.payers.len() {
            if self.rng.bool() {
                self.payers[payer].by = None;
            }
        }
        loop {
            let payer = self.rng.usize(..self.payers.len());
            self.step(&mut wire, payer)?;
        }
    }

    fn step(&mut self, wire: &mut Wire, at: usize) -> io::Result<()> {
        if self.payers[at].by.is_none() {
            return self.begin(wire, at);
        }
        let Some((number, step)) = self.next(at) else { return Ok(()) };
        let code = self.ask(wire, at, number, step)?;
        if code != 0 {
            // The transaction has exceeded its timeout.
            assert!(!self.payers[at].commits, "{step:?} of {number}: {code}");
            self.payers[at].by = None;
            return Ok(());
        }
        let (_, left) = self.payers[at].open.as_mut().unwrap();
        left.remove(0);
        if let Step::Records(index, count) = step {
            let next = self.payers[at].next.entry(index).or_default();
            *next += i32::try_from(count).unwrap();
        }
        if let Step::End(commits) = step {
            self.payers[at].open = None;
            if commits {
                self.all[number].fate = CommitOutcome::Committed;
            }
        }
        Ok(())
    }

    /// Gets a new epoch, which ends the open transaction. After a sent commit the outcome is
    /// unknown.
    fn begin(&mut self, wire: &mut Wire, at: usize) -> io::Result<()> {
        let payer = &mut self.payers[at];
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(s(payer.id).into()))
            .with_transaction_timeout_ms(payer.timeout_ms)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let answer = wire.ask(4, &request)?;
        ok(answer.error_code, "InitProducerId");
        payer.by = Some((answer.producer_id.0, answer.producer_epoch));
        (payer.next, payer.open) = (BTreeMap::new(), None);
        Ok(())
    }

    fn next(&mut self, at: usize) -> Option<(usize, Step)> {
        let payer = &mut self.payers[at];
        if let Some((number, left)) = &payer.open {
            if let Some(step) = left.first() {
                return Some((*number, *step));
            }
            // The transaction stays open until its timeout.
            (payer.by, payer.open) = (None, None);
            return None;
        }
        let number = self.all.len();
        let (mut steps, mut written) = (Vec::new(), 0);
        let first = self.rng.i32(0..PARTITIONS);
        for index in 0..self.rng.i32(1..=PARTITIONS) {
            let (index, count) = ((first + index) % PARTITIONS, self.rng.usize(1..4));
            steps.extend([Step::Partition(index), Step::Records(index, count)]);
            written += count;
        }
        steps.extend([Step::Group, Step::Offset]);
        if payer.commits {
            steps.push(Step::End(self.rng.u8(..10) < 7));
        } else if self.rng.bool() {
            steps.push(Step::End(false));
        }
        let step = steps[0];
        self.all.push(Payment { fate: CommitOutcome::NotCommitted, records: written, payer: at });
        payer.open = Some((number, steps));
        Some((number, step))
    }

    /// Sends a step. Returns the error code of the answer.
    fn ask(&mut self, wire: &mut Wire, at: usize, number: usize, step: Step) -> io::Result<i16> {
        let payer = &self.payers[at];
        let (id, (producer, epoch)) = (s(payer.id), payer.by.unwrap());
        let code = match step {
            Step::Partition(index) => {
                let topic = AddPartitionsToTxnTopic::default()
                    .with_name(name(TOPIC))
                    .with_partitions(vec![index]);
                let request = AddPartitionsToTxnRequest::default()
                    .with_v3_and_below_transactional_id(id.into())
                    .with_v3_and_below_producer_id(producer.into())
                    .with_v3_and_below_producer_epoch(epoch)
                    .with_v3_and_below_topics(vec![topic]);
                let answer = wire.ask(3, &request)?;
                let topic = &answer.results_by_topic_v3_and_below[0];
                topic.results_by_partition[0].partition_error_code
            }
            Step::Records(index, count) => {
                let one = NewRecord { value: number.to_string(), headers: Vec::new() };
                let sequence = payer.next.get(&index).copied().unwrap_or(0);
                let stamp = Stamp { producer, epoch, sequence, attributes: TRANSACTIONAL };
                let records = batch_of(stamp, &vec![one; count]);
                let partition =
                    PartitionProduceData::default().with_index(index).with_records(Some(records));
                let topic = TopicProduceData::default()
                    .with_name(name(TOPIC))
                    .with_partition_data(vec![partition]);
                let request = ProduceRequest::default()
                    .with_transactional_id(Some(id.into()))
                    .with_acks(-1)
                    .with_topic_data(vec![topic]);
                wire.ask(9, &request)?.responses[0].partition_responses[0].error_code
            }
            Step::Group => {
                let request = AddOffsetsToTxnRequest::default()
                    .with_transactional_id(id.into())
                    .with_producer_id(producer.into())
                    .with_producer_epoch(epoch)
                    .with_group_id(s(payer.id).into());
                wire.ask(3, &request)?.error_code
            }
            Step::Offset => {
                let partition = TxnOffsetCommitRequestPartition::default()
                    .with_committed_offset(i64::try_from(number).unwrap());
                let topic = TxnOffsetCommitRequestTopic::default()
                    .with_name(name(TOPIC))
                    .with_partitions(vec![partition]);
                let request = TxnOffsetCommitRequest::default()
                    .with_transactional_id(id.into())
                    .with_producer_id(producer.into())
                    .with_producer_epoch(epoch)
                    .with_group_id(s(payer.id).into())
                    .with_topics(vec![topic]);
                wire.ask(3, &request)?.topics[0].partitions[0].error_code
            }
            Step::End(commits) => {
                if commits {
                    self.all[number].fate = CommitOutcome::InDoubt;
                }
                let request = EndTxnRequest::default()
                    .with_transactional_id(id.into())
                    .with_producer_id(producer.into())
                    .with_producer_epoch(epoch)
                    .with_committed(commits);
                wire.ask(3, &request)?.error_code
            }
        };
        Ok(code)
    }

    /// Gets a new epoch for the producer that commits, which aborts its open transaction. The other
    /// transaction ends by its timeout. Then the last stable offset is the log end, and readers see
    /// every decision.
    pub fn close(&mut self, to: SocketAddr) -> io::Result<Tally> {
        let mut wire = Wire::connect(to)?;
        self.begin(&mut wire, 0)?;
        let began = Instant::now();
        let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
        for index in 0..PARTITIONS {
            let mut next = 0;
            loop {
                let (read, stable, end) = read_committed(&mut wire, index, next)?;
                next = read.iter().map(|(offset, _)| offset + 1).max().unwrap_or(next);
                for number in read.into_iter().filter_map(|(_, number)| number) {
                    *seen.entry(number).or_default() += 1;
                }
                if stable == end && next >= end {
                    break;
                }
                assert!(began.elapsed() < PATIENCE, "partition {index}: {stable} of {end}");
            }
        }
        let mut tally = Tally::default();
        let mut last = [-1; 2];
        for (number, payment) in self.all.iter().enumerate() {
            let came = seen.remove(&number).unwrap_or(0);
            assert!(came == 0 || came == payment.records, "{number} in part: {came} {payment:?}");
            match payment.fate {
                CommitOutcome::NotCommitted => assert_eq!(came, 0, "{number} was never committed"),
                CommitOutcome::Committed => assert!(came > 0, "{number} is lost: {payment:?}"),
                CommitOutcome::InDoubt => tally.in_doubt += 1,
            }
            if came > 0 {
                last[payment.payer] = i64::try_from(number).unwrap();
                tally.committed += 1;
            } else {
                tally.not_committed += 1;
            }
        }
        assert!(seen.is_empty(), "nobody has written these: {seen:?}");
        for (payer, last) in self.payers.iter().zip(last) {
            let committed = committed(&mut wire, payer.id)?;
            assert_eq!(committed, last, "the offset of {} moved without its records", payer.id);
        }
        Ok(tally)
    }
}

/// Records of a `read_committed` Fetch: offsets, each with its payment if the record is visible.
/// Then the last stable offset and the log end offset.
type CommittedFetch = (Vec<(i64, Option<usize>)>, i64, i64);

fn read_committed(wire: &mut Wire, index: i32, from: i64) -> io::Result<CommittedFetch> {
    let request = fetch_one(TOPIC, index, from).with_isolation_level(1);
    let answer = wire.ask::<FetchRequest>(12, &request)?;
    let partition = &answer.responses[0].partitions[0];
    ok(partition.error_code, "Fetch");
    let aborted = partition.aborted_transactions.iter().flatten();
    let mut hidden = Hidden::new(aborted.map(|one| (one.producer_id.0, one.first_offset)));
    let mut read = Vec::new();
    let mut rest = partition.records.clone().unwrap_or_default();
    while let Ok(batch) = Batch::parse(&rest) {
        rest = rest.slice(batch.bytes.len()..);
        if hidden.show(&batch.header) {
            read.push((batch.header.last_offset(), None));
            continue;
        }
        for record in records(&batch, BYTES_MAX).unwrap() {
            let record = record.unwrap();
            let text = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
            let is_new = record.offset >= from;
            read.push((record.offset, is_new.then(|| text.parse().unwrap())));
        }
    }
    Ok((read, partition.last_stable_offset, partition.high_watermark))
}

fn committed(wire: &mut Wire, group: &str) -> io::Result<i64> {
    let topic =
        OffsetFetchRequestTopics::default().with_name(name(TOPIC)).with_partition_indexes(vec![0]);
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(s(group).into())
        .with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_require_stable(true).with_groups(vec![asked]);
    let answer = wire.ask(9, &request)?;
    let partition = &answer.groups[0].topics[0].partitions[0];
    ok(partition.error_code, "OffsetFetch");
    Ok(partition.committed_offset)
}
