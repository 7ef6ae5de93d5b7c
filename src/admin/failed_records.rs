//! `POST /api/v1/nack`: an operator or a program reports that a record failed (`admin-nack`).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::answer::{Refusal, json_answer};
use super::source::Source;
use super::state::Admin;
use super::views::failed_record::{FailedRecord, FailedRefused};
use crate::model::{GroupId, Origin, TopicName};
use crate::retry::RequestedDelay;

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
pub(super) async fn nack<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<Json<NackBody>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(ask) = asked.map_err(|rejection| {
        Refusal::new(rejection.status(), format!("{}; {FORM}", rejection.body_text()))
    })?;
    let failed = failed(ask)?;
    if admin.source.group(failed.group.as_str()).await?.is_none() {
        return Err(Refusal::unknown_group(failed.group.as_str()));
    }
    match admin.source.nack(failed).await? {
        Ok(taken) => Ok(json_answer(StatusCode::OK, &taken)),
        Err(FailedRefused::Bad(says)) => Err(Refusal::bad(says)),
        Err(FailedRefused::Missing(says)) => Err(Refusal::missing(says)),
        Err(FailedRefused::Conflict(says)) => Err(Refusal::new(StatusCode::CONFLICT, says)),
        Err(FailedRefused::NotNow(says)) => {
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, says))
        }
    }
}

fn failed(ask: NackBody) -> Result<FailedRecord, Refusal> {
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
    Ok(FailedRecord { group: GroupId::new(&group), record, want, error: reason })
}
