//! Dead letters as files: read with their bytes, and imported at another sidecar.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::access::caller_guard::Caller;
use super::answer::{Refusal, json_answer};
use super::operator_actions::{NOTE_BYTES_MAX, long_note};
use super::page::{ListParameters, ListQuery};
use super::state::Admin;
use crate::operations::{ImportReport, ImportedEntry, LetterImport};

/// Largest body of an import: the largest record that a frame may hold, in base64, and its
/// metadata.
pub(super) const IMPORT_BYTES_MAX: usize = 160 << 20;
/// Entries or numbers of entries in one request.
const ENTRIES_MAX: usize = 1000;
/// Longest name of another sidecar, in bytes; a cluster id has 22.
const SOURCE_BYTES_MAX: usize = 64;

type MoveResult = Result<Response, Refusal>;

/// Exports dead letters of one group, with their bytes. Changes nothing.
pub(super) async fn export_letters(
    State(admin): State<Arc<Admin>>,
    asked: ListParameters,
) -> MoveResult {
    let (group, query) = export_query(&admin, asked)?;
    let (of, after, limit) = (&query.selector, query.number()?, query.limit);
    let piece = admin.operations.portable_letters(&group, of, after, limit).await?;
    Ok(json_answer(StatusCode::OK, &piece))
}

/// The group and the query of an export; refused where payloads are hidden.
fn export_query(admin: &Admin, asked: ListParameters) -> Result<(String, ListQuery), Refusal> {
    let query = ListQuery::of(asked)?;
    let group = query.selector.group.clone().ok_or_else(|| Refusal::bad("group is missing"))?;
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

/// Imports dead letters of another sidecar.
pub(super) async fn import_letters(
    State(admin): State<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    asked: Result<Json<LetterImport>, JsonRejection>,
) -> MoveResult {
    let Json(LetterImport { source, entries, note }) = asked.map_err(|error| unreadable(&error))?;
    if entries.len() > ENTRIES_MAX {
        return Err(Refusal::bad(format!("at most {ENTRIES_MAX} entries in one request")));
    }
    if source.is_empty() || source.len() > SOURCE_BYTES_MAX {
        return Err(Refusal::bad("source is the cluster id of the sidecar they come from"));
    }
    let here = admin.operations.cluster_id();
    if source == here {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "these dead letters come from this very sidecar; `reprise dlq restore` takes back a \
             discard of the last 24 hours",
        ));
    }
    let note = note.filter(|note| !note.trim().is_empty());
    let note = note.unwrap_or_else(|| format!("from the sidecar {source}"));
    if note.len() > NOTE_BYTES_MAX {
        return Err(long_note());
    }
    let by = caller.operator(note)?;
    let ids: Vec<u64> = entries.iter().map(|entry| entry.id).collect();
    let brought = admin.operations.import(source, entries, by).await?;
    let outcomes = ids.into_iter().zip(brought);
    let outcomes = outcomes.map(|(id, outcome)| ImportedEntry { id, outcome }).collect();
    let report = ImportReport { target: here.to_owned(), outcomes };
    Ok(json_answer(StatusCode::OK, &report))
}

fn unreadable(rejection: &JsonRejection) -> Refusal {
    Refusal::new(rejection.status(), rejection.body_text())
}
