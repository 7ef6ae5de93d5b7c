//! Comparison of the engine's state with the model's, field by field.

use reprise::retry::{LedgerSnapshot, RetryState};

use crate::model::{Model, ModelState, Record};

impl Model {
    /// The first difference between the engine's state and the model; `None`: they agree.
    pub fn differs(&self, state: &LedgerSnapshot) -> Option<String> {
        for (id, record) in &self.records {
            let Some(entry) = state.entries.get(&reprise::model::EntryId(*id)) else {
                return Some(format!("entry {id} is lost: {record:?}"));
            };
            let stands = match entry.state {
                RetryState::Waiting { due, delay_ms, level } => {
                    let delay_ms = i64::try_from(delay_ms).unwrap();
                    ModelState::Waiting { due: due.0, delay_ms, level }
                }
                RetryState::Released { place, since } => ModelState::Released(place, since.0),
                RetryState::Committed { at } => ModelState::Committed(at.0),
                RetryState::Dead { at } => ModelState::Dead(at.0),
                RetryState::Discarded { at } => ModelState::Discarded(at.0),
                RetryState::Discarding { .. } => return Some(format!("entry {id} is discarded")),
                RetryState::Blocked { since, charged, .. } => ModelState::Blocked(since.0, charged),
            };
            let found = Record {
                group: entry.group.clone(),
                origin: entry.origin.clone(),
                stands,
                count: entry.reconsume_times,
                handouts: entry.handouts,
                passed: entry.passed.map(|at| at.0),
                expires: entry.expires.map(|at| at.0),
                superseded: entry.superseded,
                places: entry.places.clone(),
                text: record.text.clone(),
            };
            if found != *record {
                return Some(format!("entry {id} is {found:?} instead of {record:?}"));
            }
        }
        let more = state.entries.keys().find(|id| !self.records.contains_key(&id.0));
        if let Some(id) = more {
            return Some(format!("entry {id} should be gone: {:?}", state.entries[id]));
        }
        let next = state.marks.next_id;
        (next != self.next_id).then(|| format!("the next id is {next}, not {}", self.next_id))
    }
}
