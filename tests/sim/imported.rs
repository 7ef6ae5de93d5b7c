//! Imported dead letters of another sidecar, by their numbers in that sidecar.

use reprise::engine::{ImportBatch, ImportRequest, Operator};
use reprise::model::{GroupId, Origin, WallMs};
use reprise::retry::{Disposition, Import, ImportOutcome};

use crate::model::{DROPS, Model, ModelAnswer, ModelState, Record};
use crate::script::plain;

#[derive(Clone, Debug)]
pub struct Letter {
    pub number: u64,
    pub origin: Option<Origin>,
    pub died: i64,
    pub count: u32,
    pub passed: bool,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    New(u64),
    Known,
    Refused,
}

impl Model {
    pub fn import(&mut self, group: &GroupId, letters: &[Letter]) -> ModelAnswer {
        ModelAnswer::Imported(letters.iter().map(|letter| self.arrive(group, letter)).collect())
    }

    fn arrive(&mut self, group: &GroupId, letter: &Letter) -> Arrival {
        let of_origin = letter.origin.as_ref().and_then(|origin| self.of_origin(group, origin));
        if self.imported.contains(&letter.number) || of_origin.is_some() {
            return Arrival::Known;
        }
        if group.as_str().starts_with(DROPS) || self.is_full(group) {
            return Arrival::Refused;
        }
        self.imported.insert(letter.number);
        self.letters.entry(group.clone()).or_default().push(letter.text.clone());
        let id = self.next_id;
        self.next_id += 1;
        let record = Record {
            group: group.clone(),
            origin: letter.origin.clone(),
            stands: ModelState::Dead(letter.died.min(self.now)),
            count: letter.count,
            handouts: 1,
            passed: letter.passed.then_some(self.now),
            expires: None,
            superseded: false,
            places: Vec::new(),
            text: letter.text.clone(),
        };
        self.records.insert(id, record);
        Arrival::New(id)
    }
}

pub fn batch(group: &GroupId, letters: &[Letter]) -> ImportBatch {
    let entries = letters.iter().map(|letter| ImportRequest {
        id: letter.number,
        import: Import {
            origin: letter.origin.clone(),
            passed: letter.passed,
            died: WallMs(letter.died),
            redrives: 0,
            reconsume_times: letter.count,
            max_reconsume_times: letter.count,
            handouts: 1,
            first_failed: Some(WallMs(letter.died)),
            last_failed: Some(WallMs(letter.died)),
            disposition: Some(Disposition::MaxAttempts),
            reason: None,
            history: Vec::new(),
            record_bytes: 0,
        },
        record: plain(&letter.text),
    });
    ImportBatch {
        group: group.clone(),
        source: "there".to_owned(),
        entries: entries.collect(),
        by: Operator::default(),
    }
}

pub fn arrived(outcomes: Vec<ImportOutcome>) -> ModelAnswer {
    let arrival = |outcome| match outcome {
        ImportOutcome::Imported { id } => Arrival::New(id.0),
        ImportOutcome::Known => Arrival::Known,
        ImportOutcome::Refused(_) => Arrival::Refused,
    };
    ModelAnswer::Imported(outcomes.into_iter().map(arrival).collect())
}
