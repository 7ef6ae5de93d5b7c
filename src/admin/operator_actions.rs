//! Actions of an operator: `POST /api/v1/dead-letters/{redrive,discard,restore}`,
//! `POST /api/v1/retries/{now,delay,dead-letter}`, and the audit log of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Path, Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::access::caller_guard::Caller;
use super::answer::{Refusal, json_answer};
use super::page::{Page, Query};
use super::source::Source;
use super::state::Admin;
use super::views::action_request::{ActionRequest, DueTime, EntryNames, OperatorAction};
use crate::engine::{AuditRecord, OPERATE_MAX, Operator, RecordPatch, SendTarget};
use crate::model::{GroupId, WallMs};
use crate::retry::{Action, DELAY_MS_MAX};
use crate::wire::names::is_legal_topic;

/// Largest body: a thousand numbers and a reason.
pub(super) const BODY_BYTES_MAX: usize = 64 << 10;
/// Bytes of the reason that an operator gives.
pub(super) const WHY_BYTES_MAX: usize = 1024;

/// The body of a request about dead letters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LettersBody {
    group: String,
    offsets: Vec<i64>,
    why: Option<String>,
    #[serde(default)]
    set_headers: Vec<String>,
    #[serde(default)]
    remove_headers: Vec<String>,
    merge: Option<serde_json::Value>,
    value: Option<String>,
    #[serde(default)]
    to_origin: bool,
    to_topic: Option<String>,
    /// Send back even if no member would receive the records.
    #[serde(default)]
    anyway: bool,
}

/// The body of a request about retries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetriesBody {
    group: String,
    ids: Vec<u64>,
    delay_ms: Option<u64>,
    until_ms: Option<i64>,
    why: Option<String>,
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

pub(super) async fn dead_letters<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path(verb): Path<String>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<LettersBody>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(asked) = body(asked)?;
    let by = operator(caller, asked.why, asked.offsets.len())?;
    let headers = (asked.set_headers.as_slice(), asked.remove_headers);
    let patch = record_patch(headers, asked.merge.as_ref(), asked.value)?;
    let target = send_target(asked.to_origin, asked.to_topic)?;
    let request = letter_request(&asked.group, &verb, asked.offsets, by)?;
    let request = request.with_patch(patch, target)?;
    check_receivers(&admin, &request, asked.anyway).await?;
    Ok(json_answer(StatusCode::OK, &admin.source.operate(request).await?))
}

pub(super) async fn retries<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path(verb): Path<String>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<RetriesBody>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(RetriesBody { group, ids, delay_ms, until_ms, why }) = body(asked)?;
    let by = operator(caller, why, ids.len())?;
    let due = due_time(delay_ms, until_ms)?;
    let request = retry_request(&group, (&verb, due), ids, by)?;
    Ok(json_answer(StatusCode::OK, &admin.source.operate(request).await?))
}

/// Refuses to send records back to a group in which no member would receive them.
pub(super) async fn check_receivers<S: Source>(
    admin: &Admin<S>,
    request: &ActionRequest,
    anyway: bool,
) -> Result<(), Refusal> {
    let is_redrive = request.action == OperatorAction::Plain(Action::Redrive);
    let EntryNames::Letters(letters) = &request.names else { return Ok(()) };
    if anyway || !is_redrive {
        return Ok(());
    }
    let receivers = admin.source.receivers(request.group.as_str(), letters.clone()).await?;
    receivers.map(|_| ()).map_err(no_receiver)
}

pub(super) fn no_receiver(nobody: String) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, nobody)
}

/// The record patch that a request describes.
pub(super) fn record_patch(
    (set_headers, remove_headers): (&[String], Vec<String>),
    merge: Option<&serde_json::Value>,
    value: Option<String>,
) -> Result<RecordPatch, Refusal> {
    let patch = RecordPatch {
        set_headers: set_headers.iter().map(|pair| set_header(pair)).collect::<Result<_, _>>()?,
        remove_headers,
        merge: merge.map(ToString::to_string),
        value,
    };
    patch.check().map_err(|error| Refusal::bad(error.to_string()))?;
    Ok(patch)
}

/// The target topic that a request names; `None`: the group's retry topic.
pub(super) fn send_target(
    to_origin: bool,
    to_topic: Option<String>,
) -> Result<Option<SendTarget>, Refusal> {
    match (to_origin, to_topic) {
        (false, None) => Ok(None),
        (true, None) => Ok(Some(SendTarget::Origin)),
        (true, Some(_)) => Err(Refusal::bad("give one of to_origin and to_topic")),
        (false, Some(topic)) if !is_legal_topic(&topic) => {
            Err(Refusal::bad(format!("to_topic {topic:?} is no name of a topic")))
        }
        (false, Some(topic)) => Ok(Some(SendTarget::Topic(topic.as_str().into()))),
    }
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
    offsets: Vec<i64>,
    by: Operator,
) -> Result<ActionRequest, Refusal> {
    let action = match verb {
        "redrive" => Action::Redrive,
        "discard" => Action::Discard,
        "restore" => Action::Restore,
        _ => return Err(Refusal::missing("dead letters take redrive, discard and restore")),
    };
    Ok(ActionRequest {
        group: GroupId::new(group),
        action: OperatorAction::Plain(action),
        names: EntryNames::Letters(offsets),
        by,
        patch: RecordPatch::default(),
    })
}

/// An action on retries, by its verb and the time it sets.
pub(super) fn retry_request(
    group: &str,
    (verb, due): (&str, Option<DueTime>),
    ids: Vec<u64>,
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
    let (names, patch) = (EntryNames::Retries(ids), RecordPatch::default());
    Ok(ActionRequest { group, action, names, by, patch })
}

/// The audit log, oldest first.
pub(super) async fn audit<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<FromQuery<Query>, QueryRejection>,
) -> Result<Response, Refusal> {
    let FromQuery(query) = asked.map_err(|error| Refusal::bad(error.body_text()))?;
    if query.topic.is_some() || query.reason.is_some() || query.state.is_some() {
        return Err(Refusal::bad("the audit log can be narrowed by group, limit and after"));
    }
    let limit = query.limit()?;
    let from = match query.after.as_deref().map(str::parse::<i64>) {
        None => 0,
        Some(Ok(after)) => after.saturating_add(1),
        Some(Err(_)) => return Err(Refusal::bad("after is not what an answer gave as next")),
    };
    let found = admin.source.audit(query.group.clone(), from, limit).await?;
    let next = (found.len() == limit).then(|| found.last().map(|(number, _)| number.to_string()));
    let items = found.iter().map(|(number, record)| shown(*number, record)).collect();
    Ok(json_answer(StatusCode::OK, &Page { items, next: next.flatten() }))
}

fn shown(number: i64, record: &AuditRecord) -> serde_json::Value {
    json!({
        "number": number,
        "at_ms": record.at.0,
        "name": record.by.name,
        "peer": record.by.peer,
        "action": record.action,
        "group": record.group.as_str(),
        "changed": record.changed,
        "left": record.left,
        "records": record.places,
        "why": record.by.why,
        "job": record.job,
        "target": record.target,
    })
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
    why: Option<String>,
    entries: usize,
) -> Result<Operator, Refusal> {
    let why = why.unwrap_or_default();
    if entries == 0 || entries > OPERATE_MAX {
        return Err(Refusal::bad(format!("name 1 to {OPERATE_MAX} entries in one request")));
    }
    if why.len() > WHY_BYTES_MAX {
        return Err(long_reason());
    }
    if entries > 1 && why.trim().is_empty() {
        return Err(Refusal::bad("an action on more than one entry needs a reason: why"));
    }
    let Caller { name, peer } = caller;
    Ok(Operator { name, peer, why })
}

pub(super) fn long_reason() -> Refusal {
    Refusal::bad(format!("why is longer than {WHY_BYTES_MAX} bytes"))
}
