//! The answer for one partition: records of a local log, nothing, or an error.

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::{AbortedTransaction, PartitionData};

use crate::broker::CommittedRead;
use crate::broker::error::BrokerError;
use crate::broker::transactions::AbortedRange;
use crate::journal::{EntryReadError, ReadSize};
use crate::route::fetch::plan::PartitionRead;
use crate::route::{Router, code};
use crate::wire::ResponseError;

/// Reads a partition. An error is the size of a first batch that is larger than allowed.
pub(super) fn from_log(
    router: &Router,
    log: &PartitionRead,
    size: ReadSize,
) -> Result<PartitionData, usize> {
    let Some(partition) = log.topic.partition(log.index) else {
        return Ok(refused(ResponseError::UnknownTopicOrPartition));
    };
    let broker = &router.broker;
    let read = if log.committed {
        broker.read_committed(partition, log.offset, size)
    } else {
        broker.read(partition, log.offset, size).map(|read| {
            let stable_end = broker.stable_end(partition).min(read.bounds.visible_end);
            CommittedRead { read, stable_end, aborted: Vec::new() }
        })
    };
    match read {
        Ok(CommittedRead { read, stable_end, aborted }) => {
            let mut data = empty(read.bounds.start, read.bounds.visible_end);
            data.last_stable_offset = stable_end;
            data.aborted_transactions =
                log.committed.then(|| aborted.into_iter().map(aborted_by).collect());
            data.records = Some(read.records);
            Ok(data)
        }
        Err(BrokerError::Read(EntryReadError::Larger { bytes })) => Err(bytes),
        Err(error) => {
            let mut data = refused(code::of_broker(&error));
            let bounds = router.broker.bounds(partition);
            data.log_start_offset = bounds.start;
            Ok(data)
        }
    }
}

fn aborted_by(aborted: AbortedRange) -> AbortedTransaction {
    let mut told = AbortedTransaction::default();
    (told.producer_id, told.first_offset) = (aborted.producer_id.into(), aborted.first);
    told
}

/// The end of the records that this client may read: the last stable offset for `read_committed`,
/// else the high watermark. Only `read_committed` answers list aborted transactions.
pub(super) fn readable_end(data: &PartitionData) -> i64 {
    match data.last_stable_offset {
        stable @ 0.. if data.aborted_transactions.is_some() => stable.min(data.high_watermark),
        _ => data.high_watermark,
    }
}

/// An answer without records.
pub(super) fn empty(log_start: i64, high_watermark: i64) -> PartitionData {
    let mut data = PartitionData::default();
    data.high_watermark = high_watermark;
    data.last_stable_offset = high_watermark;
    data.log_start_offset = log_start;
    data.records = Some(Bytes::new());
    data
}

pub(super) fn refused(error: ResponseError) -> PartitionData {
    let mut data = empty(-1, -1);
    data.error_code = error.code();
    data
}
