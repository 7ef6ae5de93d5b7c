//! The audit log: a record of every action of an operator, for 90 days.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::kind;
use crate::engine::operator::Operator;
use crate::journal::{
    EncodedHead, Journal, JournalError, NewEntry, StreamAppend, StreamBatch, StreamId,
};
use crate::model::{GroupId, WallMs};
use crate::retry::Fact;

/// The version byte of a stored record.
const VERSION: u8 = 4;
/// The journal's name of the stream.
const STREAM: &str = "a/audit";
/// Age at which a record is dropped.
const KEPT_MS: i64 = 90 * 24 * 3_600_000;
/// Places listed in a record.
const PLACES_LISTED: usize = 16;
/// Bytes of the log read at once.
const READ_BYTES: usize = 1 << 20;

/// One action of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    pub at: WallMs,
    pub by: Operator,
    /// `Action::as_str` or `import`.
    pub action: String,
    /// The group of the entries.
    pub group: GroupId,
    /// Entries that the action changed.
    pub changed: u64,
    /// Entries that the action did not change.
    pub left: u64,
    /// Origins of the first entries that changed.
    pub places: Vec<String>,
    /// The job that acted for the operator, if any.
    pub job: Option<u64>,
    /// The topic that the records were sent to, if any.
    pub target: Option<String>,
}

impl AuditRecord {
    /// The record of an action without a job or a target. `changed`, `left`: entries that it
    /// changed, and those that it did not.
    pub(super) fn of<'f>(
        (at, by): (WallMs, Operator),
        (action, group): (&str, &GroupId),
        (changed, left): (u64, u64),
        facts: impl IntoIterator<Item = &'f Fact>,
    ) -> Self {
        Self {
            at,
            by,
            action: action.to_owned(),
            group: group.clone(),
            changed,
            left,
            places: places(facts),
            job: None,
            target: None,
        }
    }
}

/// The open stream of the audit log. Open it before the ledger applies an action: a failure
/// afterwards would leave facts in memory that the journal lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct AuditLog(StreamId);

impl AuditLog {
    pub(super) fn open(journal: &Journal) -> Result<Self, EngineError> {
        Ok(Self(journal.stream_open(STREAM)?))
    }

    /// The entry that journals an action.
    pub(super) fn entry(self, record: &AuditRecord) -> NewEntry {
        let append = StreamAppend { stream: self.0, records: 1, max_timestamp_ms: record.at.0 };
        let head = EncodedHead::of(stored(record));
        NewEntry::batch(kind::AUDIT, append, head, Bytes::new())
    }
}

fn stored(record: &AuditRecord) -> postcard::Result<Vec<u8>> {
    postcard::to_extend(record, vec![VERSION])
}

/// The origins of the first records that changed.
fn places<'f>(facts: impl IntoIterator<Item = &'f Fact>) -> Vec<String> {
    let origins = facts.into_iter().filter_map(|fact| match fact {
        Fact::Entry { entry, .. } => entry.origin.as_ref().map(ToString::to_string),
        _ => None,
    });
    origins.take(PLACES_LISTED).collect()
}

/// Drops records that are older than 90 days.
pub(super) fn expire(journal: &Journal, now: WallMs) -> Result<(), JournalError> {
    let Some(stream) = journal.stream_find(STREAM) else { return Ok(()) };
    let Some(bounds) = journal.stream_bounds(stream) else { return Ok(()) };
    let oldest = now.0.saturating_sub(KEPT_MS);
    let first = journal.stream_find_time(stream, oldest);
    let first = first.map_err(|error| JournalError::Read(error.to_string()))?;
    let to = first.map_or(bounds.visible_end, |(offset, _)| offset);
    if to > bounds.start {
        journal.stream_trim(stream, to)?;
    }
    Ok(())
}

fn read(batch: &StreamBatch) -> Option<AuditRecord> {
    let (&VERSION, body) = batch.head.split_first()? else { return None };
    match postcard::take_from_bytes(body) {
        Ok((record, [])) => Some(record),
        _ => None,
    }
}

impl Engine {
    /// Records of the audit log with their numbers, from a number on, of one group or of all, at
    /// most `limit`. Reads the disk.
    pub fn audit(
        &self,
        group: Option<&GroupId>,
        from: i64,
        limit: usize,
    ) -> Result<Vec<(i64, AuditRecord)>, EngineError> {
        let mut found = Vec::new();
        let Some(stream) = self.journal.stream_find(STREAM) else { return Ok(found) };
        let Some(bounds) = self.journal.stream_bounds(stream) else { return Ok(found) };
        let mut at = from.max(bounds.start);
        while at < bounds.visible_end {
            let batches = self.journal.stream_read(stream, at, READ_BYTES)?.batches;
            let Some(last) = batches.last() else { break };
            at = last.base_offset.saturating_add(1);
            for batch in &batches {
                match read(batch) {
                    Some(record) if group.is_none_or(|group| record.group == *group) => {
                        found.push((batch.base_offset, record));
                    }
                    Some(_) => {}
                    None => tracing::error!(
                        seq = batch.seq,
                        "R0410 an audit record cannot be read; the others are listed"
                    ),
                }
                if found.len() >= limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// The number of the next audit record.
    pub fn audit_end(&self) -> i64 {
        let stream = self.journal.stream_find(STREAM);
        let bounds = stream.and_then(|stream| self.journal.stream_bounds(stream));
        bounds.map_or(0, |bounds| bounds.visible_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_an_audit_record_is_fixed() {
        let by = Operator {
            name: "kim".into(),
            is_claimed: false,
            peer: "10.0.0.7".into(),
            note: "INC-1".into(),
        };
        let record = AuditRecord {
            at: WallMs(5),
            by,
            action: "redrive".into(),
            group: "shop".into(),
            changed: 3,
            left: 1,
            places: vec!["orders-3@812".into()],
            job: Some(2),
            target: Some("parking".into()),
        };
        let expected = b"\x04\x0a\x03kim\x00\x0810.0.0.7\x05INC-1\x07redrive\x04shop\x03\x01\x01\
            \x0corders-3@812\x01\x02\x01\x07parking";
        let stored = stored(&record).unwrap();
        assert_eq!(stored, expected, "the format has changed: give it a new version");
        let batch = |head: Vec<u8>| StreamBatch {
            seq: 1,
            kind: kind::AUDIT,
            base_offset: 0,
            records: 1,
            max_timestamp_ms: 5,
            head: head.into(),
            body: Bytes::new(),
        };
        assert_eq!(read(&batch(stored.clone())), Some(record));
        for bad in [vec![], vec![4, 0], stored[..9].to_vec(), [&stored[..], b"\0"].concat()] {
            assert_eq!(read(&batch(bad.clone())), None, "{bad:?}");
        }
    }
}
