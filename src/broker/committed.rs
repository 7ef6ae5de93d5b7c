//! What a reader of committed records is given, and whether what lies at an offset is a record that
//! no transaction takes back.

use std::sync::PoisonError;

use crate::broker::error::BrokerError;
use crate::broker::log::{RECORD_BYTES_MAX, join};
use crate::broker::topic::Partition;
use crate::broker::transactions::Aborted;
use crate::broker::{Broker, ReadBack};
use crate::journal::StreamBatch;
use crate::wire::batch::{Batch, RawRecord, find_record};

/// What a reader of committed records is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Whole batches, none behind [`Broker::stable_end`] for a reader of committed records.
    pub read: ReadBack,
    /// Where records end that no transaction can take back.
    pub stable_end: i64,
    /// The aborted transactions that have records in it.
    pub aborted: Vec<Aborted>,
}

/// What lies at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// A record, for good.
    Record(RawRecord),
    /// A record that its transaction may take back yet.
    Open,
    /// Nobody's: the end of a transaction, or what one has taken back.
    Nobodys,
    /// Nothing: it never was, or is gone by retention.
    Nothing,
    /// A batch of which no record can be read: damaged, or compressed in a way nobody knows.
    Unreadable,
}

impl Broker {
    /// Where records end that no transaction can take back.
    pub fn stable_end(&self, partition: &Partition) -> i64 {
        let mut producers = partition.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = self.bounds(partition);
        producers.written().stable_end(bounds.start, bounds.visible_end)
    }

    /// [`Broker::read`] for a reader of committed records.
    pub fn read_committed(
        &self,
        partition: &Partition,
        offset: i64,
        bytes_max: usize,
    ) -> Result<Committed, BrokerError> {
        let batches = self.batches(partition, offset, bytes_max)?.batches;
        self.judged(partition, offset, batches)
    }

    /// [`Broker::read`], with what is known to be aborted of it: what is open is in it too.
    pub fn read_undecided(
        &self,
        partition: &Partition,
        offset: i64,
        bytes_max: usize,
    ) -> Result<Committed, BrokerError> {
        let batches = self.batches(partition, offset, bytes_max)?.batches;
        self.told(partition, offset, batches, |_, _| true)
    }

    /// Whether what lies at `offset` is a record that a transaction has taken back.
    pub fn is_taken_back(&self, partition: &Partition, offset: i64) -> bool {
        let mut producers = partition.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let aborted = producers.written().aborted(offset, offset.saturating_add(1));
        drop(producers);
        // Mostly there is nothing to read for it.
        !aborted.is_empty() && matches!(self.at(partition, offset), Ok(At::Nobodys))
    }

    /// Whether what lies at `offset` is a record that a transaction may take back yet.
    pub fn is_undecided(&self, partition: &Partition, offset: i64) -> bool {
        let is_open = self.stable_end(partition) <= offset;
        is_open && matches!(self.at(partition, offset), Ok(At::Open))
    }

    /// Of batches that were read from `offset` on, those that are decided, and how. All in one
    /// view of the partition, not older than they are: what retention has passed is forgotten.
    pub(super) fn judged(
        &self,
        partition: &Partition,
        offset: i64,
        batches: Vec<StreamBatch>,
    ) -> Result<Committed, BrokerError> {
        self.told(partition, offset, batches, |batch, stable_end| batch.base_offset < stable_end)
    }

    /// The same of those that are wanted, by where the decided ones end.
    fn told(
        &self,
        partition: &Partition,
        offset: i64,
        mut batches: Vec<StreamBatch>,
        wanted: impl Fn(&StreamBatch, i64) -> bool,
    ) -> Result<Committed, BrokerError> {
        let mut producers = partition.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = self.bounds(partition);
        if offset < bounds.start {
            return Err(BrokerError::OffsetOutOfRange);
        }
        let stable_end = producers.written().stable_end(bounds.start, bounds.visible_end);
        batches.retain(|batch| wanted(batch, stable_end));
        let end = batches.last().map_or(offset, |last| last.base_offset + i64::from(last.records));
        let aborted = producers.written().aborted(offset, end);
        drop(producers);
        Ok(Committed { read: ReadBack { records: join(&batches), bounds }, stable_end, aborted })
    }

    /// What lies at `offset`.
    pub fn at(&self, partition: &Partition, offset: i64) -> Result<At, BrokerError> {
        let bounds = self.bounds(partition);
        if !(bounds.start..bounds.visible_end).contains(&offset) {
            return Ok(At::Nothing);
        }
        let read = self.read(partition, offset, 1)?;
        let Ok(batch) = Batch::parse(&read.records) else { return Ok(At::Unreadable) };
        let header = &batch.header;
        if header.is_control() {
            return Ok(At::Nobodys);
        }
        if header.is_transactional() {
            let of = partition.producers.lock();
            let mut producers = of.unwrap_or_else(PoisonError::into_inner);
            let bounds = self.bounds(partition);
            let written = producers.written();
            if written.stable_end(bounds.start, bounds.visible_end) <= offset {
                return Ok(At::Open);
            }
            let mut aborted = written.aborted(offset, offset + 1).into_iter();
            if offset < bounds.start || aborted.any(|one| one.producer_id == header.producer_id) {
                return Ok(At::Nobodys);
            }
        }
        let found = find_record(&batch, offset, RECORD_BYTES_MAX);
        Ok(found.map_or(At::Unreadable, |found| found.map_or(At::Nothing, At::Record)))
    }
}
