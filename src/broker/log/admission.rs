//! Validation of the records of a produced batch before the append (Kafka's `LogValidator`).
//!
//! The broker stores a batch unchanged, except for the two fields that Kafka computes itself. These
//! are the largest timestamp, used for lookup and retention, and the timestamp type.

use crate::broker::Broker;
use crate::broker::log::RECORD_BYTES_MAX;
use crate::model::{AHEAD_MS_MAX, WallMs};
use crate::wire::batch::{Batch, RecordError, TimestampType, check_records, with_max_timestamp};

/// Timestamp of a record that has none.
const NO_TIMESTAMP: i64 = -1;

/// Limits on the timestamps of a batch's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBounds {
    /// Kafka's defaults for `message.timestamp.before.max.ms` (none) and
    /// `message.timestamp.after.max.ms` (an hour).
    Kafka,
    /// No limits: a dead letter keeps its origin's timestamp, and scheduled records are checked
    /// elsewhere.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The record count in the header is wrong, or the records cannot be decoded.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// Some timestamps are out of bounds.
    #[error("one or more records have been rejected due to invalid timestamp")]
    Times {
        /// Index and timestamp of the first bad records, at most [`AdmissionError::NAMED_MAX`].
        records: Vec<(i32, i64)>,
    },
}

impl AdmissionError {
    /// Limit on the records in an error answer; a batch of 1 MiB may hold 150 000 records.
    pub const NAMED_MAX: usize = 1_000;
}

impl Broker {
    /// Checks every record of a produced batch. Returns the batch with the largest timestamp
    /// computed from the records and the timestamp type `CreateTime`.
    pub fn admit(&self, batch: Batch, bounds: TimeBounds) -> Result<Batch, AdmissionError> {
        let header = batch.header;
        let is_create_time = header.timestamp_type() == TimestampType::CreateTime;
        // Type `LogAppendTime` without a timestamp: Kafka refuses every record.
        let has_no_time = !is_create_time && header.max_timestamp_ms == NO_TIMESTAMP;
        let mut max_timestamp_ms = NO_TIMESTAMP;
        let mut out_of_bounds = Vec::new();
        let now = self.clock.now().wall;
        let is_bounded = bounds == TimeBounds::Kafka;
        check_records(&batch, RECORD_BYTES_MAX, |index, time_ms| {
            max_timestamp_ms = max_timestamp_ms.max(time_ms);
            let is_wrong = || has_no_time || is_bounded && !self.allows_time(now, time_ms);
            if out_of_bounds.len() < AdmissionError::NAMED_MAX && is_wrong() {
                out_of_bounds.push((index, time_ms));
            }
        })?;
        if !out_of_bounds.is_empty() {
            return Err(AdmissionError::Times { records: out_of_bounds });
        }
        if is_create_time && header.max_timestamp_ms == max_timestamp_ms {
            return Ok(batch);
        }
        let computed = with_max_timestamp(&batch, max_timestamp_ms);
        computed.map_err(|error| RecordError::from(error).into())
    }

    /// Whether a record appended at `at` may have the timestamp `timestamp_ms`.
    pub fn allows_time(&self, at: WallMs, timestamp_ms: i64) -> bool {
        // In Kafka, the difference overflows for a timestamp that is too far below zero.
        let is_above_least = at.0.checked_sub(timestamp_ms).is_some();
        let is_in_bounds = is_above_least && timestamp_ms <= self.latest(at, timestamp_ms);
        timestamp_ms == NO_TIMESTAMP || is_in_bounds
    }

    /// The latest allowed timestamp of a record appended at `at`. The system clock may have been
    /// set since the start, so a timestamp that is valid by either clock is allowed.
    pub(super) fn latest(&self, at: WallMs, timestamp_ms: i64) -> i64 {
        let latest = at.plus(AHEAD_MS_MAX);
        let is_right = timestamp_ms <= latest.0;
        let departed_ms = if is_right { 0 } else { self.clock.departure_ms() };
        latest.plus(u64::try_from(departed_ms).unwrap_or(0)).0
    }
}
