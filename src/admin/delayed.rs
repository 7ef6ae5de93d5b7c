//! `/api/v1/delayed`: lists delayed records, which wait before they enter their topic, and cancels
//! them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::Response;

use super::answer::{Refusal, json_answer};
use super::page::{BYTES_MAX, ListParameters, ListQuery};
use super::payload;
use super::state::Admin;
use crate::api::{CancelReport, CancelRequest, DelayedView, Page};
use crate::model::Origin;
use crate::operations::RecordDetail;

/// Records named in one request.
const RECORDS_MAX: usize = 1000;
/// Records asked of the source at once while filtering.
const PIECE: usize = 256;
/// Records looked at for one page; then the page ends early, with its `next`.
const LOOKED_AT_MAX: usize = 10_000;

/// Lists delayed records, by number.
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    asked: ListParameters,
) -> Result<Response, Refusal> {
    let query = ListQuery::narrow(asked, &["topic"])?;
    let mut after = query.number()?;
    let mut page = Page { items: Vec::new(), next: None };
    let (mut looked_at, mut bytes) = (0, 0_usize);
    loop {
        let piece = admin.operations.delayed(after, PIECE).await?;
        if piece.is_empty() {
            return Ok(json_answer(StatusCode::OK, &page));
        }
        for (number, mut record) in piece {
            admin.options.mask.record(&mut record);
            after = Some(number);
            looked_at += 1;
            if query.selector.topic.as_ref().is_none_or(|topic| *topic == record.row.topic) {
                bytes += record_bytes(&record);
                page.items.push(shown(record, admin.options.show_payloads));
            }
            if page.items.len() == query.limit || looked_at == LOOKED_AT_MAX || bytes >= BYTES_MAX {
                page.next = after.map(|after| after.to_string());
                return Ok(json_answer(StatusCode::OK, &page));
            }
        }
    }
}

/// Cancels delayed records: they never enter their topic.
pub(super) async fn cancel(
    State(admin): State<Arc<Admin>>,
    asked: Result<Json<CancelRequest>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(CancelRequest { ids }) =
        asked.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
    if ids.len() > RECORDS_MAX {
        return Err(Refusal::bad(format!("at most {RECORDS_MAX} records in one request")));
    }
    let records: Result<Vec<Origin>, Refusal> = ids
        .iter()
        .map(|id| id.parse().map_err(|error| Refusal::bad(format!("id {id:?}: {error}"))))
        .collect();
    let cancelled = admin.operations.cancel_delayed(records?).await?;
    let count = cancelled.iter().filter(|was| **was).count();
    let unknown = ids.into_iter().zip(cancelled).filter(|(_, was)| !was).map(|(id, _)| id);
    let report = CancelReport { cancelled: count, unknown: unknown.collect() };
    Ok(json_answer(StatusCode::OK, &report))
}

fn record_bytes(found: &RecordDetail<DelayedView>) -> usize {
    let values = found.headers.iter().map(|(_, value)| value).chain([&found.key, &found.value]);
    values.flatten().map(Vec::len).sum()
}

fn shown(mut found: RecordDetail<DelayedView>, show: bool) -> DelayedView {
    let record = payload::shown_record(&mut found, show, |_| false);
    DelayedView { key: payload::shown(found.key, show), record, ..found.row }
}
