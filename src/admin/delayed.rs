//! `/api/v1/delayed`: lists delayed records, which wait before they enter their topic, and cancels
//! them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Refusal, json_answer};
use super::page::{BYTES_MAX, ListParameters, ListQuery, Page};
use super::payload;
use super::payload::concealment::Concealment;
use super::source::Source;
use super::state::Admin;
use super::views::DelayedView;
use crate::model::Origin;

/// Records named in one request.
const RECORDS_MAX: usize = 1000;
/// Records asked of the source at once while filtering.
const PIECE: usize = 256;
/// Records looked at for one page; then the page ends early, with its `next`.
const LOOKED_AT_MAX: usize = 10_000;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelBody {
    ids: Vec<String>,
}

/// Lists delayed records, by number.
pub(super) async fn list<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: ListParameters,
) -> Result<Response, Refusal> {
    let query = ListQuery::narrow(asked, &["topic"])?;
    let mut after = query.number()?;
    let mut page = Page { items: Vec::new(), next: None };
    let (mut looked_at, mut bytes) = (0, 0_usize);
    loop {
        let piece = admin.source.delayed(after, PIECE).await?;
        if piece.is_empty() {
            return Ok(json_answer(StatusCode::OK, &page));
        }
        for mut record in piece {
            admin.options.mask.delayed(&mut record);
            after = Some(record.number);
            looked_at += 1;
            if query.selector.topic.as_ref().is_none_or(|topic| *topic == record.topic) {
                bytes += record_bytes(&record);
                page.items.push(shown(&record, admin.options.show_payloads));
            }
            if page.items.len() == query.limit || looked_at == LOOKED_AT_MAX || bytes >= BYTES_MAX {
                page.next = after.map(|after| after.to_string());
                return Ok(json_answer(StatusCode::OK, &page));
            }
        }
    }
}

/// Cancels delayed records: they never enter their topic.
pub(super) async fn cancel<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<Json<CancelBody>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(CancelBody { ids }) =
        asked.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
    if ids.len() > RECORDS_MAX {
        return Err(Refusal::bad(format!("at most {RECORDS_MAX} records in one request")));
    }
    let records: Result<Vec<Origin>, Refusal> = ids
        .iter()
        .map(|id| id.parse().map_err(|error| Refusal::bad(format!("id {id:?}: {error}"))))
        .collect();
    let cancelled = admin.source.cancel_delayed(records?).await?;
    let unknown: Vec<&String> =
        ids.iter().zip(&cancelled).filter(|(_, was)| !**was).map(|(id, _)| id).collect();
    let count = cancelled.iter().filter(|was| **was).count();
    Ok(json_answer(StatusCode::OK, &json!({ "cancelled": count, "unknown": unknown })))
}

fn record_bytes(record: &DelayedView) -> usize {
    let values = record.headers.iter().map(|(_, value)| value).chain([&record.key, &record.value]);
    values.flatten().map(Vec::len).sum()
}

fn shown(record: &DelayedView, show: bool) -> Value {
    let is_value_shown = show && record.concealment != Concealment::Whole;
    let headers = record.headers.iter().map(
        |(name, value)| json!({ "key": name, "value": payload::field(value.as_deref(), show) }),
    );
    json!({
        "id": record.id,
        "topic": record.topic,
        "partition": record.partition,
        "due_ms": record.due_ms,
        "timestamp_ms": record.timestamp_ms,
        "bytes": record.bytes,
        "unreadable": record.unreadable,
        "key": payload::field(record.key.as_deref(), show),
        "value": payload::field(record.value.as_deref(), is_value_shown),
        "value_bytes": record.value.as_ref().map(Vec::len),
        "headers": Value::Array(headers.collect()),
    })
}
