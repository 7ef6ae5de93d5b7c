//! Ids, offsets, moments and secrets: newtypes without behaviour, shared by every module.
//!
//! **Bounds.** A time past the end of the calendar means never. A time before another one is 0 ms
//! after it.

mod ids;
mod moment;
mod origin;
mod retry_pair;
mod retry_place;
mod runs;
mod secret;
mod units;
mod utc;

pub use ids::{ClientId, EntryId, GroupId, MemberId, TopicId, TopicName, TopicPartition};
pub use moment::{AHEAD_MS_MAX, Deadline, Moment, MonoMs, WallMs};
pub use origin::{Origin, OriginError};
pub use retry_pair::RetryPair;
pub use retry_place::{RetryPartition, RetryPlace};
pub use runs::{OffsetRuns, Sparse};
pub use secret::{OperatorToken, Secret};
pub use units::{
    duration_text, ms, parse_duration, parse_size, ser_duration, ser_limit, ser_size,
    ser_size_limit, size_text,
};
pub use utc::utc;
