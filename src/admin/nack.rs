//! `POST /api/v1/nack`: a record failed, says an operator or a program of theirs (E3).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::Admin;
use super::answer::{Refusal, json_answer};
use super::source::Source;
use crate::model::{GroupId, Origin, TopicName};
use crate::retry::Want;

/// Largest body: names, numbers and a reason.
pub(super) const NACK_BYTES_MAX: usize = 64 << 10;
/// Said wherever the body is not that.
const FORM: &str = "the body is {\"group\", \"topic\", \"partition\", \"offset\"} and, where \
    wanted, one of \"level\", \"delay_ms\" and \"dlq\": true, and \"reason\"";

/// The body, as it came.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    group: String,
    topic: String,
    partition: i32,
    offset: i64,
    level: Option<i32>,
    delay_ms: Option<u64>,
    dlq: Option<bool>,
    reason: Option<String>,
}

/// A record that failed, of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Whose failure.
    pub group: GroupId,
    /// What failed, as the application saw it.
    pub record: Origin,
    /// When it is to come back.
    pub want: Want,
    /// Why it failed.
    pub reason: Option<String>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum FailedTaken {
    /// It comes back.
    Scheduled {
        /// The number of its entry.
        id: u64,
        /// When, Unix ms.
        due_ms: i64,
    },
    /// It is a dead letter.
    Dead {
        /// The number of its entry.
        id: u64,
    },
    /// It was dropped: the group keeps no dead letters.
    Discarded {
        /// The number of its entry.
        id: u64,
    },
    /// It is exhausted, and a dead letter once there is room for it.
    Held {
        /// The number of its entry.
        id: u64,
    },
    /// Its partition waits for it (`order.mode: partition`).
    InPlace,
    /// That failure was known, or its hand-out is not the current one: nothing is charged.
    Known {
        /// The number of its entry.
        id: u64,
    },
}

/// Why it is not taken, a sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailedRefused {
    /// It says what cannot be.
    Bad(String),
    /// What it names is not there.
    Missing(String),
    /// As things are it may not be.
    Conflict(String),
    /// Another time, perhaps.
    NotNow(String),
}

/// Takes one failure.
pub(super) async fn nack<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<Json<Ask>, JsonRejection>,
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

fn failed(ask: Ask) -> Result<Failed, Refusal> {
    let Ask { group, topic, partition, offset, level, delay_ms, dlq, reason } = ask;
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
    let want = Want { level: if dlq { Some(-1) } else { level }, delay_ms };
    Ok(Failed { group: GroupId::new(&group), record, want, reason })
}
