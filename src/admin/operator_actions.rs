//! Actions of an operator: `POST /api/v1/dead-letters/{redrive,discard,restore}`,
//! `POST /api/v1/retries/{now,delay,dead-letter}`, and the audit log of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value};

use super::access::caller_guard::Caller;
use super::answer::{Refusal, json_answer};
use super::page::{BodyFields, ListParameters, ListQuery};
use super::state::Admin;
use crate::api::{
    AuditView, LetterRequest, Page, RecordStage, RedriveTerms, RetryRequest, Selector,
};
use crate::engine::{AuditRecord, OPERATE_MAX, Operator, RecordPatch, SendTarget};
use crate::model::{GroupId, WallMs};
use crate::operations::{ActionRequest, DueTime, EntryNames, OperatorAction};
use crate::retry::{Action, DELAY_MS_MAX};
use crate::wire::names::is_legal_topic;

/// Largest body: a thousand numbers and a reason.
pub(super) const BODY_BYTES_MAX: usize = 64 << 10;
/// Bytes of the reason that an operator gives.
pub(super) const NOTE_BYTES_MAX: usize = 1024;

/// The records of a request: `names`, or with `all` those that the conditions admit.
struct NamedOrAll {
    names: EntryNames,
    count: usize,
    all: bool,
    /// Counts the records and changes none. Only with `all`.
    is_dry: bool,
    /// The `next` of the answer before.
    after: Option<i64>,
    note: Option<String>,
}

impl NamedOrAll {
    /// The group, the records, and the operator behind the request. A dry run needs none.
    fn of(
        self,
        selector: Selector,
        caller: Caller,
    ) -> Result<(String, EntryNames, Operator), Refusal> {
        let Self { names, count, all, is_dry, after, note } = self;
        let missing = || Refusal::bad("group names the group of the records");
        let group = selector.group.clone().ok_or_else(missing)?;
        match (all, count > 0) {
            (true, true) => Err(Refusal::bad("name records, or set all: true")),
            (true, false) => {
                let by =
                    if is_dry { Operator::default() } else { operator(caller, note, OPERATE_MAX)? };
                let selector = Box::new(selector);
                Ok((group, EntryNames::Selected { selector, after, is_dry }, by))
            }
            (false, _) if selector.is_narrow() => {
                Err(Refusal::bad("conditions need all: true, in place of names"))
            }
            (false, _) if is_dry => Err(Refusal::bad("dry_run needs all: true")),
            (false, _) => Ok((group, names, operator(caller, note, count)?)),
        }
    }
}

impl ActionRequest {
    /// Changes the records of a redrive, and the topic they go to.
    pub(super) fn with_patch(
        self,
        patch: RecordPatch,
        target: Option<SendTarget>,
    ) -> Result<Self, Refusal> {
        let is_redrive = self.action == OperatorAction::Plain(Action::Redrive);
        if !is_redrive && (!patch.is_empty() || target.is_some()) {
            return Err(Refusal::bad("only a redrive changes records or sends them to a topic"));
        }
        let action = target.map_or(self.action, OperatorAction::Send);
        Ok(Self { action, patch, ..self })
    }
}

pub(super) async fn dead_letters(
    State(admin): State<Arc<Admin>>,
    Path(verb): Path<String>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<Map<String, Value>>, JsonRejection>,
) -> Result<Response, Refusal> {
    let mut fields = BodyFields::of(asked)?;
    let (selector, terms): (Selector, RedriveTerms) = (fields.take()?, fields.take()?);
    let asked: LetterRequest = fields.rest()?;
    let records = NamedOrAll {
        count: asked.offsets.len(),
        names: EntryNames::Letters(asked.offsets),
        all: asked.all,
        is_dry: asked.dry_run,
        after: asked.after,
        note: asked.note,
    };
    let (group, names, by) = records.of(selector, caller)?;
    let (patch, target) = patch_and_target(&terms, asked.set_value)?;
    let request = letter_request(&group, &verb, names, by)?.with_patch(patch, target)?;
    check_receivers(&admin, &request, terms.anyway).await?;
    operated(&admin, request).await
}

pub(super) async fn retries(
    State(admin): State<Arc<Admin>>,
    Path(verb): Path<String>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<Map<String, Value>>, JsonRejection>,
) -> Result<Response, Refusal> {
    let mut fields = BodyFields::of(asked)?;
    let selector: Selector = fields.take()?;
    let asked: RetryRequest = fields.rest()?;
    let records = NamedOrAll {
        count: asked.ids.len(),
        names: EntryNames::Retries(asked.ids),
        all: asked.all,
        is_dry: asked.dry_run,
        after: asked.after,
        note: asked.note,
    };
    let (group, names, by) = records.of(selector, caller)?;
    let due = due_time(asked.delay_ms, asked.until_ms)?;
    let request = retry_request(&group, (&verb, due), names, by)?;
    operated(&admin, request).await
}

async fn operated(admin: &Admin, request: ActionRequest) -> Result<Response, Refusal> {
    let mut report = admin.operations.operate(request).await?;
    if !admin.options.show_payloads {
        report.samples.iter_mut().for_each(|sample| sample.error = None);
    }
    Ok(json_answer(StatusCode::OK, &report))
}

/// Refuses to send records back to a group in which no member would receive them.
pub(super) async fn check_receivers(
    admin: &Admin,
    request: &ActionRequest,
    anyway: bool,
) -> Result<(), Refusal> {
    let is_redrive = request.action == OperatorAction::Plain(Action::Redrive);
    let EntryNames::Letters(letters) = &request.names else { return Ok(()) };
    if anyway || !is_redrive {
        return Ok(());
    }
    let receivers = admin.operations.receivers(request.group.as_str(), letters.clone()).await?;
    receivers.map(|_| ()).map_err(no_receiver)
}

pub(super) fn no_receiver(nobody: String) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, nobody)
}

/// The record patch that a request describes, and its target topic; `None`: the group's retry
/// topic.
pub(super) fn patch_and_target(
    terms: &RedriveTerms,
    value: Option<String>,
) -> Result<(RecordPatch, Option<SendTarget>), Refusal> {
    let set_headers = terms.set_headers.iter().map(|pair| set_header(pair));
    let patch = RecordPatch {
        set_headers: set_headers.collect::<Result<_, _>>()?,
        remove_headers: terms.remove_headers.clone(),
        merge: terms.merge.as_ref().map(ToString::to_string),
        value,
    };
    patch.check().map_err(|error| Refusal::bad(error.to_string()))?;
    let target = match (terms.to_origin, terms.to_topic.as_deref()) {
        (false, None) => None,
        (true, None) => Some(SendTarget::Origin),
        (true, Some(_)) => return Err(Refusal::bad("give one of to_origin and to_topic")),
        (false, Some(topic)) if !is_legal_topic(topic) => {
            return Err(Refusal::bad(format!("to_topic {topic:?} is no name of a topic")));
        }
        (false, Some(topic)) => Some(SendTarget::Topic(topic.into())),
    };
    Ok((patch, target))
}

/// A header of a patch, `name=value`.
fn set_header(pair: &str) -> Result<(String, String), Refusal> {
    let parts = pair.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) =
        parts.ok_or_else(|| Refusal::bad(format!("{pair:?} is not name=value, as a header is")))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// An action on dead letters, by its verb.
pub(super) fn letter_request(
    group: &str,
    verb: &str,
    names: EntryNames,
    by: Operator,
) -> Result<ActionRequest, Refusal> {
    if let EntryNames::Selected { selector, .. } = &names
        && verb == "restore"
        && selector.state.is_some_and(|state| state != RecordStage::Discarded)
    {
        return Err(Refusal::bad("a restore takes discarded letters: leave state out"));
    }
    let is_job = matches!(names, EntryNames::Selected { .. }) && verb != "restore";
    let action = match verb {
        _ if is_job => return Err(Refusal::bad("a redrive or discard of all is a job")),
        "redrive" => Action::Redrive,
        "discard" => Action::Discard,
        "restore" => Action::Restore,
        _ => return Err(Refusal::missing("dead letters take redrive, discard and restore")),
    };
    Ok(ActionRequest {
        group: GroupId::new(group),
        action: OperatorAction::Plain(action),
        names,
        by,
        patch: RecordPatch::default(),
    })
}

/// An action on retries, by its verb and the time it sets.
pub(super) fn retry_request(
    group: &str,
    (verb, due): (&str, Option<DueTime>),
    names: EntryNames,
    by: Operator,
) -> Result<ActionRequest, Refusal> {
    let action = match (verb, due) {
        ("now", None) => OperatorAction::Plain(Action::RetryNow),
        ("dead-letter", None) => OperatorAction::Plain(Action::DeadLetterNow),
        ("delay", Some(due)) => OperatorAction::Delay(due),
        ("delay", None) => return Err(Refusal::bad("delay needs one of delay_ms and until_ms")),
        ("now" | "dead-letter", Some(_)) => {
            return Err(Refusal::bad("delay_ms and until_ms belong to delay"));
        }
        _ => return Err(Refusal::missing("retries take now, delay and dead-letter")),
    };
    let group = GroupId::new(group);
    Ok(ActionRequest { group, action, names, by, patch: RecordPatch::default() })
}

/// The audit log, oldest first.
pub(super) async fn audit(
    State(admin): State<Arc<Admin>>,
    asked: ListParameters,
) -> Result<Response, Refusal> {
    let query = ListQuery::narrow(asked, &["group"])?;
    let from = query.number()?.map_or(0, |after: i64| after.saturating_add(1));
    let found = admin.operations.audit(query.selector.group.as_deref(), from, query.limit).await?;
    let next =
        (found.len() == query.limit).then(|| found.last().map(|(number, _)| number.to_string()));
    let items = found.into_iter().map(row).collect();
    Ok(json_answer(StatusCode::OK, &Page { items, next: next.flatten() }))
}

/// A record of the audit log in a list.
fn row((number, record): (i64, AuditRecord)) -> AuditView {
    AuditView {
        number,
        at_ms: record.at.0,
        name: record.by.name,
        claimed: record.by.is_claimed,
        peer: record.by.peer,
        action: record.action,
        group: record.group.to_string(),
        changed: record.changed,
        left: record.left,
        records: record.places,
        note: record.by.note,
        job: record.job,
        target: record.target,
    }
}

pub(super) fn body<T>(asked: Result<Json<T>, JsonRejection>) -> Result<Json<T>, Refusal> {
    asked.map_err(|error| Refusal::new(error.status(), error.body_text()))
}

pub(super) fn due_time(
    delay_ms: Option<u64>,
    until_ms: Option<i64>,
) -> Result<Option<DueTime>, Refusal> {
    match (delay_ms, until_ms) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Refusal::bad("give one of delay_ms and until_ms")),
        (Some(delay_ms), None) if delay_ms > DELAY_MS_MAX => {
            Err(Refusal::bad("delay_ms is longer than 366 days"))
        }
        (Some(delay_ms), None) => Ok(Some(DueTime::In(delay_ms))),
        (None, Some(until_ms)) => Ok(Some(DueTime::At(WallMs(until_ms)))),
    }
}

/// The operator behind a request for so many entries. A bulk action needs a reason.
pub(super) fn operator(
    caller: Caller,
    note: Option<String>,
    entries: usize,
) -> Result<Operator, Refusal> {
    let note = note.unwrap_or_default();
    if entries == 0 || entries > OPERATE_MAX {
        return Err(Refusal::bad(format!("name 1 to {OPERATE_MAX} entries in one request")));
    }
    if note.len() > NOTE_BYTES_MAX {
        return Err(long_note());
    }
    if entries > 1 && note.trim().is_empty() {
        return Err(Refusal::bad("an action on more than one entry needs a note"));
    }
    caller.operator(note)
}

pub(super) fn long_note() -> Refusal {
    Refusal::bad(format!("note is longer than {NOTE_BYTES_MAX} bytes"))
}
