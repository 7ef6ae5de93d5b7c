//! Fingerprints of dead letters and waiting retries, with their counts:
//! `GET /api/v1/{dead-letters|retries}/fingerprints`.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::answer::{Refusal, json_answer};
use super::page::limit_of;
use super::state::Admin;
use crate::api::FingerprintKey;

impl FingerprintKey {
    /// Removes the parts that come from a payload, where payloads are hidden.
    fn hide(&mut self, admin: &Admin) {
        if !admin.options.show_payloads {
            (self.error, self.key_shape) = (None, None);
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupQuery {
    group: String,
    limit: Option<usize>,
}

/// The group and the limit of a query; refused for an unknown group.
async fn known_group(
    admin: &Admin,
    asked: Result<FromQuery<GroupQuery>, QueryRejection>,
) -> Result<(String, usize), Refusal> {
    let FromQuery(GroupQuery { group, limit }) =
        asked.map_err(|error| Refusal::bad(error.body_text()))?;
    if admin.operations.group(&group).await?.is_none() {
        return Err(Refusal::unknown_group(&group));
    }
    Ok((group, limit_of(limit)?))
}

/// The fingerprints of a group, with their counts of letters.
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    asked: Result<FromQuery<GroupQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let (group, limit) = known_group(&admin, asked).await?;
    let mut found = admin.operations.fingerprints(&group, limit).await?;
    found.items.iter_mut().for_each(|one| one.key.hide(&admin));
    Ok(json_answer(StatusCode::OK, &found))
}

/// The fingerprints of the retries of a group that wait.
pub(super) async fn list_retries(
    State(admin): State<Arc<Admin>>,
    asked: Result<FromQuery<GroupQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let (group, limit) = known_group(&admin, asked).await?;
    let mut found = admin.operations.retry_fingerprints(&group, limit).await?;
    found.items.iter_mut().for_each(|one| one.key.hide(&admin));
    Ok(json_answer(StatusCode::OK, &found))
}
