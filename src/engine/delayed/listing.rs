//! A list of the delayed records.

use crate::engine::delayed::stored::StoredRecord;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::store::TakenEntry;
use crate::model::EntryId;
use crate::retry::{Entry, delayed};
use crate::wire::batch::RawRecord;

#[derive(Debug)]
pub struct DelayedRecord {
    pub entry: Entry,
    /// The record, or the reason why it cannot be read.
    pub record: Result<RawRecord, EngineError>,
    /// Bytes of its entry in the log.
    pub bytes: u64,
}

impl Engine {
    /// Delayed records by id: at most `limit`, and at most one beyond `bytes_max`.
    pub async fn delayed(
        &self,
        after: Option<EntryId>,
        limit: usize,
        bytes_max: u64,
    ) -> Result<Vec<DelayedRecord>, EngineError> {
        let (located, _) = self.located(&delayed(), after, limit).await?;
        let (mut found, mut sum) = (Vec::new(), 0_u64);
        for TakenEntry { entry, payload, .. } in located {
            let bytes = payload.map_or(0, |at| u64::from(at.len));
            sum = sum.saturating_add(bytes);
            if sum > bytes_max && !found.is_empty() {
                break;
            }
            let read = payload
                .ok_or(EngineError::PayloadLost(entry.id))
                .and_then(|at| Ok(StoredRecord::read(&self.journal.read(at)?.body)?.record));
            found.push(DelayedRecord { entry, record: read, bytes });
        }
        Ok(found)
    }
}
