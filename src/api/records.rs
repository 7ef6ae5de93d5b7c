//! One failed or delayed record in a list, and its bytes as far as an answer shows them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::selector::RecordStage;

/// Bytes of a record in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ShownBytes {
    /// Bytes that are UTF-8.
    Text(String),
    /// Other bytes, as in RFC 4648 with padding.
    Base64 { base64: String },
    /// The number of bytes that are hidden.
    Hidden { bytes: usize },
}

/// Bytes in a line of text.
impl fmt::Display for ShownBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Base64 { base64 } => write!(f, "base64:{base64}"),
            Self::Hidden { bytes } => write!(f, "({bytes} bytes, hidden)"),
        }
    }
}

/// A header in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownHeader {
    pub key: String,
    pub value: Option<ShownBytes>,
}

/// Value and headers of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordContent {
    /// `null`: a tombstone.
    pub value: Option<ShownBytes>,
    /// In order, duplicates kept.
    pub headers: Vec<ShownHeader>,
}

/// One retry in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryView {
    /// The id of the entry; it never changes.
    pub id: u64,
    pub group: String,
    /// `<topic>-<partition>@<offset>` of the record as produced; absent when it has none.
    pub origin: Option<String>,
    pub state: RecordStage,
    /// Failures charged so far.
    pub reconsume_times: u32,
    /// The limit in force at its last failure.
    pub max_reconsume_times: u32,
    /// Level in the delay table, absent for exact delays.
    pub level: Option<u32>,
    /// The due time, Unix ms; absent for `unread`, and for an exhausted record that is `blocked`.
    pub due_ms: Option<i64>,
    /// First failure, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// Last failure, Unix ms.
    pub last_failed_ms: Option<i64>,
    /// The cause of the last failure.
    pub cause: Option<String>,
    /// The text the application gave.
    pub error: Option<String>,
    /// The reason why a due retry is `blocked`.
    pub refusal: Option<String>,
    /// The pattern of its key, and the size class of its record.
    pub key_shape: Option<String>,
    pub size: String,
}

impl RetryView {
    /// Whether an operator may act on it: it is not released.
    pub fn waits(&self) -> bool {
        self.due_ms.is_some()
    }
}

/// One dead letter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterView {
    pub group: String,
    /// The offset in the dead-letter topic.
    pub offset: i64,
    /// `<topic>-<partition>@<offset>` of the record as produced; absent when it has none.
    pub origin: Option<String>,
    /// `dead`, `discarded` or `redriven`.
    pub state: RecordStage,
    /// Time until which a discarded letter can be restored, Unix ms.
    pub restorable_until_ms: Option<i64>,
    /// Earlier redrives of the record.
    pub redrives: u32,
    /// Failures charged, the last one included.
    pub reconsume_times: u32,
    /// The cause of the dead letter.
    pub cause: String,
    /// The text the application gave.
    pub error: Option<String>,
    /// The pattern of its key, and the size class of its record.
    pub key_shape: Option<String>,
    pub size: String,
    /// The time of death, Unix ms.
    pub at_ms: i64,
    /// The first failure, Unix ms.
    pub first_failed_ms: Option<i64>,
    /// The record's own timestamp, Unix ms.
    pub timestamp_ms: i64,
    /// Bytes of the value; absent for a tombstone.
    pub value_bytes: Option<usize>,
    pub key: Option<ShownBytes>,
    /// Absent in a list.
    #[serde(flatten)]
    pub record: Option<RecordContent>,
}

/// One delayed record: it waits before it enters its topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayedView {
    /// `<topic>-<partition>@<number>`: no offset, but as unique as one.
    pub id: String,
    pub topic: String,
    pub partition: i32,
    /// The time at which it enters its topic, Unix ms.
    pub due_ms: i64,
    /// The producer's timestamp, Unix ms.
    pub timestamp_ms: Option<i64>,
    /// Bytes in the journal.
    pub bytes: u64,
    /// The reason why the record cannot be read.
    pub unreadable: Option<String>,
    pub value_bytes: Option<usize>,
    pub key: Option<ShownBytes>,
    /// Without the headers that set the delay.
    #[serde(flatten)]
    pub record: RecordContent,
}
