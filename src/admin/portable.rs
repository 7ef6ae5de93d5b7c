//! An entry with its bytes, as it travels from one sidecar to another: a line of JSON.
//!
//! **Invariant:** key, value and headers come back byte for byte: duplicate header keys, keys that
//! are not UTF-8, nulls and order included.

use serde::{Deserialize, Serialize};

use super::base64::Base64;
use crate::retry::Disposition;

/// A failed record, whole: one that waits, or a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portable {
    /// Its number in the sidecar it comes from.
    pub id: u64,
    /// Its group.
    pub group: String,
    /// `<topic>-<partition>@<offset>` of the record as produced; `null` when it has none.
    pub origin: Option<String>,
    /// `waiting`, `exported` (set aside) or `dead-letter`.
    pub state: String,
    /// The group's committed offset has passed the origin.
    pub passed: bool,
    /// When it may be handed out, Unix ms; a dead letter has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
    /// The delay that led to that.
    pub delay_ms: u64,
    /// Level in the delay table; `null` for exact delays and back-offs.
    pub level: Option<u32>,
    /// Redrives of the record. Builds before refuse this field, so 0 is left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redrives: u32,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// The limit in force at its last failure.
    pub max_reconsume_times: u32,
    /// Times its bytes left for a member.
    pub handouts: u32,
    /// First failure, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// Last failure, Unix ms.
    pub last_failed_ms: Option<i64>,
    /// Why it waits, or is a dead letter.
    pub disposition: Option<Disposition>,
    /// What the application said.
    pub reason: Option<String>,
    /// Its last failures, latest last: Unix ms and why.
    pub history: Vec<(i64, Disposition)>,
    /// The place among the dead letters; absent for an entry that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub letter: Option<PortableLetter>,
    /// The record as produced, without the headers that reprise adds.
    pub record: PortableRecord,
}

/// The place of a dead letter in the sidecar it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortableLetter {
    /// The offset in the dead-letter topic.
    pub offset: i64,
    /// When it became a dead letter, Unix ms.
    pub at_ms: i64,
}

/// Dead letters of a group, read from a part of its dead-letter topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortableLetters {
    pub letters: Vec<Portable>,
    /// Records that clients produced to the topic: reprise knows no failure of them.
    pub produced: u64,
    /// Offsets whose bytes cannot be read.
    pub unreadable: Vec<i64>,
    /// The offset to go on after; `None`: that was all.
    pub next: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A record, exact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortableRecord {
    /// Its timestamp, Unix ms.
    pub timestamp_ms: i64,
    /// Whether that is the time a broker appended it.
    pub log_append_time: bool,
    /// Its key.
    pub key: Option<Base64>,
    /// Its value; `null` = a tombstone.
    pub value: Option<Base64>,
    /// Its headers in order: key and value of each.
    pub headers: Vec<(Base64, Option<Base64>)>,
    /// Earlier builds exported `true` while the record's transaction was open. An import accepts
    /// and ignores it.
    #[serde(default, skip_serializing)]
    pub undecided: bool,
}

/// What a step of an export came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExportCounts {
    /// Entries of which the step was taken now.
    pub done: u64,
    /// Entries of which it had been taken.
    pub already: u64,
    /// Entries that do not stand where the step begins; they are as they were.
    pub left: Vec<u64>,
}

/// What became of one entry that was brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Brought {
    /// The entry waits here now, or is a dead letter here.
    Imported,
    /// It is here, or was before.
    Known,
    /// It cannot be taken.
    Refused {
        /// A sentence.
        why: String,
    },
}
