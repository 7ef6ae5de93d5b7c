//! Our headers: what an application asks for with a nack, what a redelivered or
//! dead-lettered record carries. Set, never appended: a producer's own copies are dropped first.
//! And what it may say in a commit's metadata instead.

mod answer;
mod commit;
mod delay;
mod request;

pub use answer::{DeadLetterMark, HistoryItem, MARK_BYTES_MAX, MarkInput, mark_headers};
pub use commit::{BadMark, CommitMark, is_mark, read_mark};
pub use delay::{BadDelay, Deliver, read_delay, without_delay};
pub use request::{BadNack, NackRequest, Named, REASON_BYTES_MAX, read_nack};

use crate::wire::batch::Headers;

/// Failures so far, decimal (RocketMQ's name).
pub const RECONSUME_TIME: &str = "RECONSUME_TIME";
/// The limit in force, decimal (RocketMQ's name).
pub const MAX_RECONSUME_TIMES: &str = "MAX_RECONSUME_TIMES";
/// The origin topic (RocketMQ's name).
pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
/// `<topic>-<partition>@<offset>` of the origin (RocketMQ's name).
pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";

/// In front of every request and answer header of ours.
const PREFIX: &[u8] = b"x-retry-";
/// In front of the dead-letter headers (Kafka's own share-group names).
const DLQ_PREFIX: &[u8] = b"__dlq.errors.";

/// Whether a header name is one of ours: dropped from what a client produces, set by us alone.
pub fn is_ours(name: &[u8]) -> bool {
    let fixed = [RECONSUME_TIME, MAX_RECONSUME_TIMES, RETRY_TOPIC, ORIGIN_MESSAGE_ID];
    name.starts_with(PREFIX)
        || name.starts_with(DLQ_PREFIX)
        || fixed.iter().any(|own| own.as_bytes() == name)
}

/// The headers without ours; the others keep every byte and their order.
pub fn strip(headers: &Headers) -> Headers {
    headers.without(is_ours)
}

/// The greatest limit a failure may say, as `retry.max_reconsume_times` has it.
const RETRIES_MAX: u32 = 100_000;

/// No limit of retries.
struct NoLimit;

/// A limit of retries; none for -1, which leaves it to the rules.
fn read_limit(text: &str) -> Result<Option<u32>, NoLimit> {
    if text == "-1" {
        return Ok(None);
    }
    let limit = text.parse().ok().filter(|limit| *limit <= RETRIES_MAX);
    limit.map(Some).ok_or(NoLimit)
}

/// The longest beginning of `text` of at most `bytes_max` bytes that ends between characters.
fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}
