//! Failed and delayed records with their bytes, and the facts that a selector looks at.

use crate::api::{RecordBytes, RecordFacts, RecordStage, Selector};
use crate::retry::{Disposition, Entry, RetryState};
use crate::wire::batch::RawRecord;

/// A part of a list: the records that a selector admits among those looked at.
#[derive(Clone, Debug)]
pub struct Selected<T> {
    pub items: Vec<T>,
    pub looked_at: usize,
    /// Bytes of the records that the items hold.
    pub bytes: usize,
    /// The place to go on after; `None`: the list ends here.
    pub next: Option<i64>,
}

/// A failed or delayed record with its bytes; the admin port decides which bytes it shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordDetail<T> {
    /// The item of a list, without bytes.
    pub row: T,
    /// Times (Unix ms) and causes of the last failures, latest last; empty in a list.
    pub history: Vec<(i64, String)>,
    /// The record's own timestamp, Unix ms.
    pub timestamp_ms: i64,
    pub key: Option<Vec<u8>>,
    /// Absent in a list of dead letters.
    pub value: Option<Vec<u8>>,
    /// In order, duplicates kept; empty in a list of dead letters.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The part of the value that a mask has taken away.
    pub concealment: Concealment,
}

impl<T> RecordDetail<T> {
    /// A record with all its bytes.
    pub(super) fn of(row: T, history: Vec<(i64, String)>, record: RawRecord) -> Self {
        let headers = record.headers.iter().map(|header| {
            let name = String::from_utf8_lossy(&header.key).into_owned();
            (name, header.value.map(|value| value.to_vec()))
        });
        Self {
            row,
            history,
            timestamp_ms: record.timestamp_ms,
            headers: headers.collect(),
            key: record.key.map(|key| key.to_vec()),
            value: record.value.map(|value| value.to_vec()),
            concealment: Concealment::None,
        }
    }
}

/// The part of a value that a mask takes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concealment {
    #[default]
    None,
    /// Members of the JSON document.
    Part,
    /// All: the value is no JSON.
    Whole,
}

/// Records that a list reads at once.
pub(super) const PIECE: usize = 256;
/// Records that one request looks at.
pub(super) const LOOKED_AT_MAX: usize = 10_000;

/// The facts of an entry.
pub(super) fn facts(entry: &Entry, state: RecordStage) -> RecordFacts<'_> {
    let (at, cause) = match entry.state {
        RetryState::Dead { at } => (Some(at), entry.disposition),
        RetryState::Blocked { disposition, .. } => (entry.last_failed, Some(disposition)),
        _ => (entry.last_failed, entry.disposition),
    };
    let without_cause = match state {
        RecordStage::Dead | RecordStage::Discarded | RecordStage::Redriven => "manual",
        RecordStage::Waiting | RecordStage::Due | RecordStage::Unread | RecordStage::Blocked => "",
    };
    RecordFacts {
        topic: entry.origin.as_ref().map_or("", |origin| origin.topic.as_str()),
        origin: entry.origin.as_ref(),
        cause: cause.map_or(without_cause, Disposition::as_str),
        error: entry.reason.as_deref().unwrap_or_default(),
        key_shape: entry.key_shape(),
        size: entry.size_class(),
        at,
        state,
        level: level(entry),
    }
}

/// The level that an entry waits on, or was released from.
pub(super) fn level(entry: &Entry) -> Option<u32> {
    match entry.state {
        RetryState::Waiting { level, .. } => level,
        RetryState::Released { .. } => entry.last_level,
        _ => None,
    }
}

/// Whether a selector admits the bytes of a record.
pub(super) fn has_bytes(selector: &Selector, record: &RawRecord) -> bool {
    !selector.needs_bytes()
        || selector.admits_bytes(&RecordBytes {
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: record.headers.iter().map(|header| (header.key, header.value)).collect(),
        })
}
