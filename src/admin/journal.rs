//! The journal and its disk: `GET /api/v1/journal`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::answer::{Refusal, json_answer};
use super::source::Source;
use super::state::Admin;

pub(super) async fn journal<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
) -> Result<Response, Refusal> {
    Ok(json_answer(StatusCode::OK, &admin.source.journal().await?))
}
