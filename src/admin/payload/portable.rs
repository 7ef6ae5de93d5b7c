//! A dead letter with its bytes, as it travels from one sidecar to another: a line of JSON.
//!
//! **Invariant:** key, value and headers come back byte for byte: duplicate header keys, keys that
//! are not UTF-8, nulls and order included.

use serde::{Deserialize, Serialize};

use super::base64::Base64;
use crate::retry::Disposition;

/// A dead letter with all its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portable {
    /// The id of the entry in the sidecar that exported it.
    pub id: u64,
    pub group: String,
    /// `<topic>-<partition>@<offset>` of the record as produced; `null` when it has none.
    pub origin: Option<String>,
    /// The group's committed offset has passed the origin.
    pub passed: bool,
    /// Redrives of the record.
    pub redrives: u32,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// The limit in force at its last failure.
    pub max_reconsume_times: u32,
    /// Deliveries so far.
    pub handouts: u32,
    /// First failure, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// Last failure, Unix ms.
    pub last_failed_ms: Option<i64>,
    /// The cause of the dead letter.
    pub cause: Option<Disposition>,
    /// The text the application gave.
    pub error: Option<String>,
    /// The last failures, latest last: Unix ms and cause.
    pub history: Vec<(i64, Disposition)>,
    /// The place among the dead letters.
    pub letter: PortableLetter,
    /// The record as produced, without the headers that reprise adds.
    pub record: PortableRecord,
}

/// The place of a dead letter in the sidecar it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortableLetter {
    /// The offset in the dead-letter topic.
    pub offset: i64,
    /// The time of death, Unix ms.
    pub at_ms: i64,
}

/// Dead letters of a group, read from a part of its dead-letter topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortableLetters {
    pub letters: Vec<Portable>,
    /// Offsets whose bytes cannot be read.
    pub unreadable: Vec<i64>,
    /// The offset to go on after; `None`: there are no more.
    pub next: Option<i64>,
}

/// A record, exact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortableRecord {
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// Whether the timestamp is the broker's append time.
    pub log_append_time: bool,
    pub key: Option<Base64>,
    /// `null`: a tombstone.
    pub value: Option<Base64>,
    /// Key and value of each header, in order.
    pub headers: Vec<(Base64, Option<Base64>)>,
}

/// The outcome of the import of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum EntryImportOutcome {
    /// The entry is a dead letter here now.
    Imported,
    /// The entry was imported before.
    Known,
    /// The entry cannot be imported.
    Refused {
        /// A sentence for the operator.
        why: String,
    },
}
