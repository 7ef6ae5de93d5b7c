//! Comparison of the engine's state with the model's, field by field.

use std::collections::BTreeMap;

use reprise::retry::{Fingerprint, State};

use crate::model::{Model, Record, Stands};

impl Model {
    /// The first difference between the engine's state and the model; `None`: they agree.
    pub fn differs(&self, state: &Fingerprint) -> Option<String> {
        for (id, record) in &self.records {
            let Some(entry) = state.entries.get(&reprise::model::EntryId(*id)) else {
                return Some(format!("entry {id} is lost: {record:?}"));
            };
            let stands = match entry.state {
                State::Waiting { due, delay_ms, level } => {
                    let delay_ms = i64::try_from(delay_ms).unwrap();
                    Stands::Waiting { due: due.0, delay_ms, level }
                }
                State::Inflight { lane, .. } | State::Alone { lane, .. } => Stands::Inflight(lane),
                State::Committed { at } => Stands::Committed(at.0),
                State::Dead { at } => Stands::Dead(at.0),
                State::Discarded { at } => Stands::Discarded(at.0),
                State::Discarding { .. } => return Some(format!("entry {id} is discarded")),
                State::Held { since, charged, .. } => Stands::Held(since.0, charged),
                State::Exported { .. } => return Some(format!("entry {id} is set aside")),
                State::Behind { .. } => return Some(format!("entry {id} waits for another")),
            };
            let found = Record {
                group: entry.group.clone(),
                origin: entry.origin.clone(),
                stands,
                count: entry.reconsume_times,
                handouts: entry.handouts,
                losses: entry.losses,
                passed: entry.passed.map(|at| at.0),
                expires: entry.expires.map(|at| at.0),
                superseded: entry.superseded,
                lanes: entry.lanes.clone(),
                text: record.text.clone(),
                letter: record.letter.clone(),
            };
            if found != *record {
                return Some(format!("entry {id} is {found:?} instead of {record:?}"));
            }
        }
        let more = state.entries.keys().find(|id| !self.records.contains_key(&id.0));
        if let Some(id) = more {
            return Some(format!("entry {id} should be gone: {:?}", state.entries[id]));
        }
        let slots: BTreeMap<_, _> = state
            .slots
            .iter()
            .map(|((g, s), record)| {
                ((g.clone(), s.0), (record.member.clone(), record.next_sequence))
            })
            .collect();
        if slots != self.slots {
            return Some(format!("slots are {slots:?} instead of {:?}", self.slots));
        }
        let next = state.marks.next_id;
        (next != self.next_id).then(|| format!("the next id is {next}, not {}", self.next_id))
    }
}
