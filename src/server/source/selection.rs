//! The facts of failed records, which a selector looks at.

use crate::api::{RecordBytes, RecordFacts, RecordStage, Selector};
use crate::retry::{Disposition, Entry, RetryState};
use crate::wire::batch::RawRecord;

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
