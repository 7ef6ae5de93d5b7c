//! Headers of the sidecar: requests that an application sends with a nack, and fields of a
//! redelivered or dead-lettered record. A producer's own copies are dropped before they are set.
//! The marker in commit metadata is the alternative to a nack by headers.

mod answer;
mod commit;
mod delay;
mod letter;
mod request;

pub use answer::{DeadLetterMark, HistoryItem, MARK_BYTES_MAX, MarkInput, mark_headers};
pub use commit::{BadMark, CommitMark, is_mark, read_mark};
pub use delay::{BadDelay, Deliver, read_delay, without_delay};
pub use letter::{LetterHeaders, read_letter};
pub use request::{
    BadNackHeaders, DeliveryHeaders, NackHeaders, NackedRecord, REASON_BYTES_MAX, read_delivery,
    read_nack,
};

use crate::model::WallMs;
use crate::wire::batch::{Headers, RawRecord, TimestampType};

/// Failures so far, decimal (RocketMQ's name).
pub const RECONSUME_TIME: &str = "RECONSUME_TIME";
/// The limit in force, decimal (RocketMQ's name).
pub const MAX_RECONSUME_TIMES: &str = "MAX_RECONSUME_TIMES";
/// Number of the delivery among those of the record in its group, decimal. Neither a redrive nor
/// another sidecar begins anew.
pub const DELIVERY: &str = "x-retry-delivery";
/// The origin topic (RocketMQ's name).
pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
/// `<topic>-<partition>@<offset>` of the origin (RocketMQ's name).
pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";

/// Time of a record before it was appended anew, Unix ms.
const ORIGIN_TIMESTAMP: &str = "x-retry-origin-timestamp-ms";

const DISPOSITION: &str = "x-retry-disposition";
const FIRST_FAILED: &str = "x-retry-first-failed-ms";
const LAST_FAILED: &str = "x-retry-last-failed-ms";
const REDRIVE_COUNT: &str = "x-retry-redrive-count";
const HISTORY: &str = "x-retry-history";
const REASON: &str = "x-retry-reason";

/// Prefix of the sidecar's request and answer headers.
const PREFIX: &[u8] = b"x-retry-";
/// Prefix of the dead-letter headers (Kafka's own share-group names).
const DLQ_PREFIX: &[u8] = b"__dlq.errors.";

/// Whether only the sidecar may set the header: a client's copy is dropped.
pub fn is_ours(name: &[u8]) -> bool {
    let fixed = [RECONSUME_TIME, MAX_RECONSUME_TIMES, RETRY_TOPIC, ORIGIN_MESSAGE_ID];
    name.starts_with(PREFIX)
        || name.starts_with(DLQ_PREFIX)
        || fixed.iter().any(|own| own.as_bytes() == name)
}

/// Removes the sidecar's headers; the others keep their bytes and order.
pub fn strip(headers: &Headers) -> Headers {
    headers.without(is_ours)
}

/// The record as a topic with a retention takes it anew: with the time `now`, from which retention
/// counts, and its own time in a header. A record of that time stays as it is.
pub fn appended_at(record: &RawRecord, now: WallMs) -> RawRecord {
    if record.timestamp_ms == now.0 {
        return record.clone();
    }
    let others = record.headers.without(|name| name == ORIGIN_TIMESTAMP.as_bytes());
    RawRecord {
        timestamp_ms: now.0,
        timestamp_type: TimestampType::CreateTime,
        headers: others.with(&[(ORIGIN_TIMESTAMP, record.timestamp_ms.to_string())]),
        ..record.clone()
    }
}

/// The record with its time before it was appended anew.
pub fn own_time(record: &RawRecord) -> RawRecord {
    let before = request::text(&record.headers, ORIGIN_TIMESTAMP);
    let timestamp_ms = before.and_then(|text| text.parse().ok()).unwrap_or(record.timestamp_ms);
    RawRecord { timestamp_ms, ..record.clone() }
}

/// The largest limit that a nack may set, as for `retry.max_reconsume_times`.
const RETRIES_MAX: u32 = 100_000;

/// The text is no limit.
struct NoLimit;

/// Parses a limit of retries; -1 reads as `None`, the configured limit.
fn read_limit(text: &str) -> Result<Option<u32>, NoLimit> {
    if text == "-1" {
        return Ok(None);
    }
    let limit = text.parse().ok().filter(|limit| *limit <= RETRIES_MAX);
    limit.map(Some).ok_or(NoLimit)
}

/// The longest prefix of `text` of at most `bytes_max` bytes that ends at a character boundary.
fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}
