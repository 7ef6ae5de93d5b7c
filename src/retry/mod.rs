//! The ledger of failed records: ladder, deliveries, dead letters. Pure.
//!
//! [`Ledger`] turns evidence ([`LedgerInput`]) into facts ([`Fact`]), answers and the next
//! deadline. Facts are the whole truth: applying the journalled ones in order gives the same state
//! again.
//!
//! ```text
//!             release                 acknowledged
//!    Due ──────────────▶ Unread ───────────────────────▶ Committed
//!     ▲                     │ failed
//!     │ due                 ▼
//!     └────────────── Waiting (due) ── limit reached, or "do not retry" ──▶ Dead | Discarded
//!                           └─── no room for dead letters ──▶ Blocked ──▲ room
//! ```
//! **Bounds.** Ids and sequences count up from the first start and cannot reach 2^64. Failures end
//! at a limit of the policy; without a limit they saturate, as the delay does at its maximum. A
//! time past the end of the calendar means "never".

#[cfg(test)]
#[path = "../../tests/support/btree_entries.rs"]
mod btree_entries;
mod codec;
pub mod detector;
mod disposition;
mod entry;
mod fact;
mod fnv;
mod glob;
mod input;
mod ladder;
mod ledger;
mod level;
mod nack;
mod output;
mod policy;
mod rate_limit;
mod record_shape;
mod retry_subscription;
pub mod suspects;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub use btree_entries::BTreeEntries;
pub use codec::{CodecError, decode_fact, encode_fact};
pub use disposition::{Disposition, FailureHistory};
pub use entry::{Entry, RetryState, StateKind};
pub use fact::{Cause, Evidence, Fact, PayloadChange};
pub use glob::glob;
pub use input::{Action, DelayEnd, FoundLetter, Import, LedgerInput};
pub use ladder::{Delays, Ladder, TopicRule};
pub use ledger::{
    Entries, EntryCounts, Ledger, LedgerSnapshot, Marks, NackVerdict, NamedBy, RESTORE_MS,
    RecordState, judge,
};
pub use level::{
    DEFAULT_LEVELS, DELAY_MS_MAX, FailureOutcome, LevelError, LevelTable, LevelWarning, THOUSAND,
};
pub use nack::{Bytes, CopiedDelivery, Nack, NackTarget, Reporter, RequestedDelay};
pub use output::{
    ActionOutcome, BadImport, BadNack, ImportOutcome, LedgerAnswer, LedgerOutput, NackOutcome,
};
pub use policy::{
    BreakerRules, CONSUME_TIMEOUT_MS, CRASH_LIMIT, DELAYED, GIVE_UP_AFTER_MS, IN_PLACE_LIMIT,
    ISOLATION_TIMEOUT_MS, MAX_RECONSUME_TIMES, ORDER_INTERVAL_MS, OrderMode, Policies, Policy,
    RETRY_PARTITIONS, SignalRule, UNLIMITED, delayed,
};
pub use record_shape::{RecordShape, SizeClass, UNKNOWN_SHAPE};
pub use retry_subscription::RetrySubscription;
#[cfg(test)]
pub(crate) use tests::entries_of;
