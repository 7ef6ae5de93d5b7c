//! Reads for consumers with `isolation.level=read_committed`, and the transaction outcome of a
//! record.

use std::sync::PoisonError;

use crate::broker::error::BrokerError;
use crate::broker::log::{RECORD_BYTES_MAX, join};
use crate::broker::topic::Partition;
use crate::broker::transactions::AbortedRange;
use crate::broker::{Broker, LogRead};
use crate::journal::{ReadSize, StreamBatch};
use crate::wire::batch::{Batch, RawRecord, find_record};

/// The result of a fetch that respects transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedRead {
    /// Whole batches. With `read_committed`, none lies at or above [`Broker::stable_end`].
    pub read: LogRead,
    /// Kafka's last stable offset: no transaction can abort a record below it.
    pub stable_end: i64,
    /// The aborted transactions that have records in `read`.
    pub aborted: Vec<AbortedRange>,
}

/// The transaction outcome of one offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetOutcome {
    /// A final record: outside a transaction, or committed.
    Record(RawRecord),
    /// A record whose transaction is still open.
    Open,
    /// No record for an application: a transaction marker, or an aborted record.
    Nobodys,
    /// No record: the offset was never written, or retention has deleted it.
    Nothing,
    /// A batch that cannot be decoded: damaged, or compressed with an unknown codec.
    Unreadable,
}

impl Broker {
    /// Kafka's last stable offset: no transaction can abort a record below it.
    pub fn stable_end(&self, partition: &Partition) -> i64 {
        let mut producers = partition.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = self.bounds(partition);
        producers.written().stable_end(bounds.start, bounds.visible_end)
    }

    /// [`Broker::read`] with `isolation.level=read_committed`.
    pub fn read_committed(
        &self,
        partition: &Partition,
        offset: i64,
        size: ReadSize,
    ) -> Result<CommittedRead, BrokerError> {
        let batches = self.batches(partition, offset, size)?.batches;
        self.judged(partition, offset, batches)
    }

    /// Keeps the batches below the last stable offset and lists the aborted transactions in them.
    /// `batches` were read from `offset` on. Retention forgets aborted transactions, so a log start
    /// above `offset` fails with `OffsetOutOfRange`.
    pub(super) fn judged(
        &self,
        partition: &Partition,
        offset: i64,
        mut batches: Vec<StreamBatch>,
    ) -> Result<CommittedRead, BrokerError> {
        let mut producers = partition.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = self.bounds(partition);
        if offset < bounds.start {
            return Err(BrokerError::OffsetOutOfRange);
        }
        let stable_end = producers.written().stable_end(bounds.start, bounds.visible_end);
        batches.retain(|batch| batch.base_offset < stable_end);
        let end = batches.last().map_or(offset, |last| last.base_offset + i64::from(last.records));
        let aborted = producers.written().aborted(offset, end);
        drop(producers);
        Ok(CommittedRead { read: LogRead { records: join(&batches), bounds }, stable_end, aborted })
    }

    pub fn at(&self, partition: &Partition, offset: i64) -> Result<OffsetOutcome, BrokerError> {
        let bounds = self.bounds(partition);
        if !(bounds.start..bounds.visible_end).contains(&offset) {
            return Ok(OffsetOutcome::Nothing);
        }
        let read = self.read(partition, offset, ReadSize::any(1))?;
        let Ok(batch) = Batch::parse(&read.records) else { return Ok(OffsetOutcome::Unreadable) };
        let header = &batch.header;
        if header.is_control() {
            return Ok(OffsetOutcome::Nobodys);
        }
        if header.is_transactional() {
            let of = partition.producers.lock();
            let mut producers = of.unwrap_or_else(PoisonError::into_inner);
            let bounds = self.bounds(partition);
            let written = producers.written();
            if written.stable_end(bounds.start, bounds.visible_end) <= offset {
                return Ok(OffsetOutcome::Open);
            }
            let mut aborted = written.aborted(offset, offset + 1).into_iter();
            if offset < bounds.start || aborted.any(|one| one.producer_id == header.producer_id) {
                return Ok(OffsetOutcome::Nobodys);
            }
        }
        let found = find_record(&batch, offset, RECORD_BYTES_MAX);
        Ok(found.map_or(OffsetOutcome::Unreadable, |found| {
            found.map_or(OffsetOutcome::Nothing, OffsetOutcome::Record)
        }))
    }
}
