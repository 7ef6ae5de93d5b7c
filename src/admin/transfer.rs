//! Moving retries from one sidecar to another: read with their bytes, set aside, ended here,
//! imported there. Dead letters are copied.

use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::caller_guard::Caller;
use super::answer::{Refusal, json_answer};
use super::operator_actions::{WHY_BYTES_MAX, long_reason};
use super::page::Query;
use super::payload::portable::Portable;
use super::source::Source;
use super::state::Admin;
use super::views::GroupView;
use crate::engine::Operator;
use crate::retry::ExportStep;

/// Largest body of an import: the largest record that a frame may hold, in base64, and its
/// metadata.
pub(super) const IMPORT_BYTES_MAX: usize = 160 << 20;
/// Entries or numbers of entries in one request.
const ENTRIES_MAX: usize = 1000;
/// Longest name of another sidecar, in bytes; a cluster id has 22.
const SOURCE_BYTES_MAX: usize = 64;

type MoveResult = Result<Response, Refusal>;

/// A step of an export, and the ids of its entries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportBody {
    /// The cluster id of the sidecar that issued the ids.
    source: String,
    step: ExportPhase,
    ids: Vec<u64>,
    /// The reason for the audit log.
    why: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ExportPhase {
    Begin,
    End,
    Undo,
}

/// Entries to import.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportBody {
    /// The cluster id of the sidecar they come from.
    source: String,
    entries: Vec<Portable>,
    /// The reason for the audit log.
    why: Option<String>,
}

/// Exports retries of one group that wait or are set aside, with their bytes. Changes nothing.
pub(super) async fn export<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<FromQuery<Query>, QueryRejection>,
) -> MoveResult {
    let (group, query) = export_query(&admin, asked)?;
    let piece = admin.source.portable(&group, after(&query)?, query.limit()?).await?;
    let next = piece.last().map(|last| last.id.to_string());
    let items = admitted(&query, piece);
    let source = admin.source.cluster_id();
    Ok(json_answer(StatusCode::OK, &json!({ "source": source, "items": items, "next": next })))
}

/// Exports dead letters of one group, with their bytes. Changes nothing.
pub(super) async fn export_letters<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<FromQuery<Query>, QueryRejection>,
) -> MoveResult {
    let (group, query) = export_query(&admin, asked)?;
    let piece = admin.source.portable_letters(&group, after(&query)?, query.limit()?).await?;
    let answer = json!({
        "source": admin.source.cluster_id(),
        "items": admitted(&query, piece.letters),
        "produced": piece.produced,
        "unreadable": piece.unreadable,
        "next": piece.next.map(|next| next.to_string()),
    });
    Ok(json_answer(StatusCode::OK, &answer))
}

/// The group and the query of an export; refused where payloads are hidden.
fn export_query<S>(
    admin: &Admin<S>,
    asked: Result<FromQuery<Query>, QueryRejection>,
) -> Result<(String, Query), Refusal> {
    let FromQuery(query) = asked.map_err(|e| Refusal::bad(e.body_text()))?;
    let group = query.group.clone().ok_or_else(|| Refusal::bad("group is missing"))?;
    if !admin.options.show_payloads {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "admin.payloads is hide, and an export is made of the records themselves: restart \
             with --set admin.payloads=show",
        ));
    }
    if !admin.options.mask.is_empty() {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "admin.mask hides parts of records, and an export is made of whole ones: restart \
             without admin.mask for the time of the export",
        ));
    }
    Ok((group, query))
}

fn after<T: FromStr>(query: &Query) -> Result<Option<T>, Refusal> {
    let after = query.after.as_deref().map(str::parse).transpose();
    after.map_err(|_| Refusal::bad("after is not what an answer gave as next"))
}

fn admitted(query: &Query, piece: Vec<Portable>) -> Vec<Portable> {
    let admitted = piece.into_iter().filter(|entry| {
        let topic = entry.origin.as_deref().map_or("", GroupView::topic_of);
        let reason = entry.disposition.map(crate::retry::Disposition::as_str);
        query.admits(topic, reason, Some(&entry.state))
    });
    admitted.collect()
}

/// Sets retries aside, ends those that are set aside, or releases them.
pub(super) async fn step<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<ExportBody>, JsonRejection>,
) -> MoveResult {
    let Json(ExportBody { source, step, ids, why }) = asked.map_err(|error| unreadable(&error))?;
    if ids.len() > ENTRIES_MAX {
        return Err(too_many());
    }
    let here = admin.source.cluster_id();
    if source != here {
        return Err(conflict(format!(
            "these are entries of the sidecar {source:?}, and this one is {here:?}: its numbers \
             mean other records"
        )));
    }
    let by = mover(caller, why, || "retries move to another sidecar".to_owned())?;
    let step = match step {
        ExportPhase::Begin => ExportStep::Begin,
        ExportPhase::End => ExportStep::End,
        ExportPhase::Undo => ExportStep::Undo,
    };
    Ok(json_answer(StatusCode::OK, &admin.source.export(step, ids, by).await?))
}

/// Imports retries of another sidecar.
pub(super) async fn import<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<ImportBody>, JsonRejection>,
) -> MoveResult {
    bring(&admin, caller, asked, false).await
}

/// Imports dead letters of another sidecar.
pub(super) async fn import_letters<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<ImportBody>, JsonRejection>,
) -> MoveResult {
    bring(&admin, caller, asked, true).await
}

/// The operator behind a move. Builds before sent no reason.
fn mover(
    Caller { name, peer }: Caller,
    why: Option<String>,
    default: impl FnOnce() -> String,
) -> Result<Operator, Refusal> {
    let why = why.filter(|why| !why.trim().is_empty()).unwrap_or_else(default);
    if why.len() > WHY_BYTES_MAX {
        return Err(long_reason());
    }
    Ok(Operator { name, peer, why })
}

async fn bring<S: Source>(
    admin: &Admin<S>,
    caller: Caller,
    asked: Result<Json<ImportBody>, JsonRejection>,
    is_letters: bool,
) -> MoveResult {
    let Json(ImportBody { source, entries, why }) = asked.map_err(|error| unreadable(&error))?;
    if entries.len() > ENTRIES_MAX {
        return Err(too_many());
    }
    if source.is_empty() || source.len() > SOURCE_BYTES_MAX {
        return Err(Refusal::bad("source is the cluster id of the sidecar they come from"));
    }
    let here = admin.source.cluster_id();
    if source == here {
        let says = if is_letters {
            "these dead letters come from this very sidecar; `reprise dlq restore` takes back a \
             discard of the last 24 hours"
        } else {
            "these entries come from this very sidecar; what was set aside is given back by \
             `reprise retry export --undo`"
        };
        return Err(conflict(says.to_owned()));
    }
    if let Some(entry) = entries.iter().find(|entry| entry.letter.is_some() != is_letters) {
        let (is, path) = if is_letters {
            ("a retry", "/api/v1/retries/import")
        } else {
            ("a dead letter", "/api/v1/dead-letters/import")
        };
        return Err(Refusal::bad(format!("entry {} is {is}: POST it to {path}", entry.id)));
    }
    let by = mover(caller, why, || format!("from the sidecar {source}"))?;
    let ids: Vec<u64> = entries.iter().map(|entry| entry.id).collect();
    let brought = admin.source.import(source, entries, by).await?;
    let line = |(id, brought)| {
        let mut line = json!(brought);
        if let Value::Object(fields) = &mut line {
            fields.insert("id".to_owned(), json!(id));
        }
        line
    };
    let outcomes: Vec<Value> = ids.into_iter().zip(brought).map(line).collect();
    Ok(json_answer(StatusCode::OK, &json!({ "target": here, "outcomes": outcomes })))
}

fn unreadable(rejection: &JsonRejection) -> Refusal {
    Refusal::new(rejection.status(), rejection.body_text())
}

fn too_many() -> Refusal {
    Refusal::bad(format!("at most {ENTRIES_MAX} entries in one request"))
}

fn conflict(says: String) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, says)
}
