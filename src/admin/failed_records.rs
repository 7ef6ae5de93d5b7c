//! `POST /api/v1/nack`: an operator or a program reports that a record failed (`admin-nack`).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::answer::{Refusal, json_answer};
use super::state::Admin;
use crate::api::NackView;
use crate::engine::EngineError;
use crate::model::{EntryId, GroupId, Origin, TopicName};
use crate::retry::{BadNack, NackOutcome, RequestedDelay};
use crate::route::nacks::admin_nack::{AdminNack, PostRefusal};

/// Largest body: names, numbers and a reason.
pub(super) const NACK_BYTES_MAX: usize = 64 << 10;
/// The answer to a body of any other form.
const FORM: &str = "the body is {\"group\", \"topic\", \"partition\", \"offset\"} and, where \
    wanted, one of \"level\", \"delay_ms\" and \"dlq\": true, and \"reason\"";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NackBody {
    group: String,
    topic: String,
    partition: i32,
    offset: i64,
    level: Option<i32>,
    delay_ms: Option<u64>,
    dlq: Option<bool>,
    reason: Option<String>,
}

/// Handles an admin nack.
pub(super) async fn nack(
    State(admin): State<Arc<Admin>>,
    asked: Result<Json<NackBody>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(ask) = asked.map_err(|rejection| {
        Refusal::new(rejection.status(), format!("{}; {FORM}", rejection.body_text()))
    })?;
    let failed = failed(ask)?;
    if admin.operations.group(failed.group.as_str()).await?.is_none() {
        return Err(Refusal::unknown_group(failed.group.as_str()));
    }
    match admin.operations.nack(failed).await {
        Ok(outcome) => Ok(json_answer(StatusCode::OK, &view(outcome))),
        Err(refusal) => Err(Refusal::new(status(&refusal), refusal.to_string())),
    }
}

fn view(outcome: Option<NackOutcome>) -> NackView {
    let of = |outcome, id: EntryId| NackView { outcome, id: Some(id.0), due_ms: None };
    match outcome {
        Some(NackOutcome::Scheduled { id, due }) => {
            NackView { due_ms: Some(due.0), ..of("scheduled", id) }
        }
        Some(NackOutcome::Dead { id }) => of("dead", id),
        Some(NackOutcome::Discarded { id }) => of("discarded", id),
        Some(NackOutcome::Blocked { id }) => of("blocked", id),
        Some(NackOutcome::Nothing { id }) => of("known", id),
        None => NackView { outcome: "in_place", id: None, due_ms: None },
    }
}

fn status(refusal: &PostRefusal) -> StatusCode {
    match refusal {
        PostRefusal::RetriesOff(_)
        | PostRefusal::NoWayBack { .. }
        | PostRefusal::Bad(_, BadNack::NotRemembered) => StatusCode::CONFLICT,
        PostRefusal::NoTopic(_)
        | PostRefusal::NoPartition { .. }
        | PostRefusal::NoRecord(_)
        | PostRefusal::NoHandOut(..)
        | PostRefusal::Bad(_, BadNack::BytesGone) => StatusCode::NOT_FOUND,
        PostRefusal::NoLevel { .. }
        | PostRefusal::Bad(..)
        | PostRefusal::Engine(EngineError::BatchTooLarge { .. }) => StatusCode::BAD_REQUEST,
        PostRefusal::Unread { .. } | PostRefusal::Engine(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn failed(ask: NackBody) -> Result<AdminNack, Refusal> {
    let NackBody { group, topic, partition, offset, level, delay_ms, dlq, reason } = ask;
    for (name, text) in [("group", &group), ("topic", &topic)] {
        if text.is_empty() {
            return Err(Refusal::bad(format!("{name} is empty; {FORM}")));
        }
    }
    for (name, number) in [("partition", i64::from(partition)), ("offset", offset)] {
        if number < 0 {
            return Err(Refusal::bad(format!(
                "{name} is {number}; {name}s go from 0 on, as the application saw the record"
            )));
        }
    }
    let dlq = dlq == Some(true);
    if u8::from(level.is_some()) + u8::from(delay_ms.is_some()) + u8::from(dlq) > 1 {
        return Err(Refusal::bad(
            "level, delay_ms and dlq each say when the record comes back: send one of them, or \
             none for the next level",
        ));
    }
    let record = Origin { topic: TopicName::new(&topic), partition, offset };
    let want = RequestedDelay { level: if dlq { Some(-1) } else { level }, delay_ms };
    Ok(AdminNack { group: GroupId::new(&group), record, want, reason })
}
