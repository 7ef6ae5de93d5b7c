//! Actions of an operator on dead letters and retries.

use bytes::Bytes;

use crate::admin::{ActionReport, ActionRequest, DueTime, EntryNames, LeftEntry};
use crate::admin::{OperatorAction, Unavailable};
use crate::engine::{
    AuditRecord, DeadLetter, Engine, EngineError, OperateRequest, PatchError, RecordPatch,
};
use crate::model::{EntryId, GroupId};
use crate::retry::{Action, ActionOutcome, StateKind};
use crate::server::source::AdminSource;
use crate::wire::mark::strip;

/// Bytes of records that one request of a redrive reads.
const REDRIVE_BYTES_MAX: usize = 64 << 20;
/// Bytes of one read of the log.
const READ_BYTES: usize = 1 << 20;

/// Entries of a request, and the names that name none.
#[derive(Default)]
struct NamedEntries {
    names: Vec<i64>,
    ids: Vec<EntryId>,
    records: Vec<Bytes>,
    left: Vec<LeftEntry>,
}

impl AdminSource {
    pub(super) async fn act(&self, request: ActionRequest) -> Result<ActionReport, Unavailable> {
        let ActionRequest { group, action, names, by, patch } = request;
        let action = match action {
            OperatorAction::Plain(action) => action,
            OperatorAction::Delay(DueTime::At(at)) => Action::DelayUntil(at),
            OperatorAction::Delay(DueTime::In(ms)) => {
                Action::DelayUntil(self.router.clock.now().wall.plus(ms))
            }
        };
        let patch = (action == Action::Redrive).then_some(patch);
        let NamedEntries { names, ids, records, mut left } = match names {
            EntryNames::Letters(offsets) => {
                let of = group.clone();
                self.read(move |engine| letters(engine, &of, offsets, patch.as_ref())).await?
            }
            EntryNames::Retries(ids) => retries(&ids),
        };
        if ids.is_empty() {
            return Ok(ActionReport { changed: 0, left });
        }
        let request = OperateRequest { group, action, ids, records, by, job: None };
        let outcomes = self.router.engine.operate(request).await?;
        let mut changed = 0;
        for (entry, outcome) in names.into_iter().zip(outcomes) {
            match reason(outcome) {
                None => changed += 1,
                Some(why) => left.push(LeftEntry { entry, why }),
            }
        }
        left.sort_by_key(|left| left.entry);
        Ok(ActionReport { changed, left })
    }

    pub(super) async fn audited(
        &self,
        group: Option<String>,
        from: i64,
        limit: usize,
    ) -> Result<Vec<(i64, AuditRecord)>, Unavailable> {
        let group = group.map(|group| GroupId::new(&group));
        self.read(move |engine| engine.audit(group.as_ref(), from, limit)).await
    }
}

fn retries(ids: &[u64]) -> NamedEntries {
    let names = ids.iter().map(|id| i64::try_from(*id).unwrap_or(i64::MAX)).collect();
    NamedEntries {
        names,
        ids: ids.iter().map(|id| EntryId(*id)).collect(),
        ..NamedEntries::default()
    }
}

/// Reads the dead letters at these offsets, each once; for a redrive with their changed records.
fn letters(
    engine: &Engine,
    group: &GroupId,
    mut offsets: Vec<i64>,
    patch: Option<&RecordPatch>,
) -> Result<NamedEntries, EngineError> {
    offsets.sort_unstable();
    offsets.dedup();
    let (mut found, mut bytes) = (NamedEntries::default(), 0_usize);
    let mut read: Vec<DeadLetter> = Vec::new();
    let mut end = i64::MIN;
    for offset in offsets {
        if offset >= end {
            let letters = engine.dead_letters(group, offset, READ_BYTES)?;
            (read, end) = (letters.letters, letters.end.max(offset.saturating_add(1)));
        }
        let letter = read.iter().find(|letter| letter.offset == offset);
        let Some(letter) = letter else {
            let why = "the group has no dead letter at this offset".to_owned();
            found.left.push(LeftEntry { entry: offset, why });
            continue;
        };
        let Some(entry) = &letter.entry else {
            let why = "a client produced this record; reprise knows no failure of it".to_owned();
            found.left.push(LeftEntry { entry: offset, why });
            continue;
        };
        if let Some(patch) = patch {
            let record = match sent_back(letter, patch) {
                Ok(record) => record,
                Err(error) => {
                    found.left.push(LeftEntry { entry: offset, why: error.to_string() });
                    continue;
                }
            };
            bytes = bytes.saturating_add(record.len());
            if bytes > REDRIVE_BYTES_MAX && !found.ids.is_empty() {
                let why = "the records before it fill one request; send it again".to_owned();
                found.left.push(LeftEntry { entry: offset, why });
                continue;
            }
            found.records.push(record);
        }
        found.names.push(offset);
        found.ids.push(entry.id);
    }
    Ok(found)
}

/// The stored form of a dead letter's record as a redrive sends it: without the headers that
/// reprise has added, and changed by a patch.
pub(super) fn sent_back(letter: &DeadLetter, patch: &RecordPatch) -> Result<Bytes, PatchError> {
    let mut record = letter.record.clone();
    record.headers = strip(&record.headers);
    Ok(patch.apply(record)?.to_bytes())
}

/// The reason why an entry did not change.
fn reason(outcome: ActionOutcome) -> Option<String> {
    match outcome {
        ActionOutcome::Done => None,
        ActionOutcome::Already => Some("this was done before".to_owned()),
        ActionOutcome::Unknown => Some("the group has no such entry any more".to_owned()),
        ActionOutcome::Refused(state) => Some(format!("the record is {}", state_word(state))),
    }
}

fn state_word(state: StateKind) -> &'static str {
    match state {
        StateKind::Waiting => "waiting for its next attempt",
        StateKind::Inflight => "at a member",
        StateKind::Committed => "acknowledged",
        StateKind::Dead => "a dead letter",
        StateKind::Discarded => "discarded",
        StateKind::Held => "held until the dead letters have room",
        StateKind::Exported => "set aside for another sidecar",
        StateKind::Behind => "behind an earlier record of its key",
    }
}
