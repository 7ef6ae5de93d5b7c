//! `/api/v1/explain`: what is known and suspected of a group's consumers.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::Admin;
use super::answer::{Refusal, json_answer};
use super::source::Source;

/// Of which group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    group: String,
}

/// A group's consumers, as they are watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Explained {
    /// Whose.
    pub group: String,
    /// Failures are inferred (`retry.lane`).
    pub watched: bool,
    /// Partitions that were fetched or committed lately.
    pub partitions: Vec<PartitionView>,
}

/// One partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PartitionView {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// Who holds it.
    pub member: Option<String>,
    /// The group's committed offset, as last seen here.
    pub committed: Option<i64>,
    /// The offset after the last one given out.
    pub handed_out: i64,
    /// Hand-outs lost in a row.
    pub lost: u32,
    /// Its records are given out one at a time.
    pub single_file: bool,
    /// Why going back is not judged here; absent: it is.
    pub unjudged: Option<String>,
    /// Records that are suspected, or have failed.
    pub suspects: Vec<SuspectView>,
    /// Settled here and cut from what is given out, until a commit passes them.
    pub skipped: Vec<i64>,
}

/// One record.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SuspectView {
    /// Its offset.
    pub offset: i64,
    /// Failures charged.
    pub reconsume_times: u32,
    /// Failures after which the next one is the last.
    pub max_reconsume_times: u32,
    /// Where it stands, in words.
    pub stands: String,
    /// Charged failures, oldest first: Unix milliseconds and why.
    pub history: Vec<(i64, String)>,
}

pub(super) async fn explain<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<FromQuery<Asked>, QueryRejection>,
) -> Result<Response, Refusal> {
    let FromQuery(Asked { group }) = asked.map_err(|error| Refusal::bad(error.body_text()))?;
    let Some(explained) = admin.source.explain(&group).await? else {
        return Err(Refusal::missing(format!("nothing is known of a group called {group:?}")));
    };
    Ok(json_answer(StatusCode::OK, &explained))
}
