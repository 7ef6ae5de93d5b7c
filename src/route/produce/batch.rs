//! The one batch of a partition in a Produce, checked like Kafka's `ProduceRequest.validateRecords`
//! and `LogValidator` (docs/protocol.md#produce).

use bytes::Bytes;

use crate::broker::{AdmissionError, TimeBounds};
use crate::model::AHEAD_MS_MAX;
use crate::route::Router;
use crate::route::produce::produce_outcome::ProduceOutcome;
use crate::wire::ResponseError;
use crate::wire::batch::{Batch, BatchError, Codec, RecordError, batches};

/// The first Produce version that may carry zstd (KIP-110).
const ZSTD_SINCE: i16 = 7;

/// The batch, after checks of its header and of every record. `version`: of the request.
pub(super) fn one_batch(
    router: &Router,
    records: Bytes,
    (version, bytes_max): (i16, usize),
    bounds: TimeBounds,
) -> Result<Batch, ProduceOutcome> {
    let batch = only(records, version, bytes_max)?;
    router.broker.admit(batch, bounds).map_err(refused)
}

fn only(records: Bytes, version: i16, bytes_max: usize) -> Result<Batch, ProduceOutcome> {
    let refuse = |error: BatchError| ProduceOutcome::refused(error.code(), error.to_string());
    let invalid = |why: &str| ProduceOutcome::refused(ResponseError::InvalidRecord, why);
    let mut all = batches(records, bytes_max);
    if all.are_several().map_err(refuse)? {
        return Err(invalid("a partition of one request may have exactly one record batch"));
    }
    let first = all.next().ok_or_else(|| invalid("there is no record batch"))?;
    let batch = first.map_err(refuse)?;
    let header = &batch.header;
    if version < ZSTD_SINCE && header.codec() == Some(Codec::Zstd) {
        let why = "a batch compressed by zstd needs Produce version 7 or later";
        return Err(ProduceOutcome::refused(ResponseError::UnsupportedCompressionType, why));
    }
    if header.base_offset != 0 {
        let why = format!("the base offset of a batch is 0, not {}", header.base_offset);
        return Err(invalid(&why));
    }
    Ok(batch)
}

pub(super) fn refused(error: AdmissionError) -> ProduceOutcome {
    let code = match &error {
        // Java producers split a batch that is refused with this error and send it again.
        AdmissionError::Records(RecordError::TooLarge { .. }) => ResponseError::MessageTooLarge,
        // Producers would send the same bytes again after `CORRUPT_MESSAGE`.
        AdmissionError::Records(_) => ResponseError::InvalidRecord,
        AdmissionError::Times { .. } => ResponseError::InvalidTimestamp,
    };
    let mut outcome = ProduceOutcome::refused(code, error.to_string());
    if let AdmissionError::Times { records } = error {
        let why = |time_ms| {
            format!("its timestamp {time_ms} is out of range: at most {AHEAD_MS_MAX} ms from now")
        };
        outcome.record_errors =
            records.into_iter().map(|(index, time_ms)| (index, why(time_ms))).collect();
    }
    outcome
}
