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
use crate::api::{FingerprintKey, GroupView, LetterView, RetryView, mask};

impl FingerprintKey {
    pub(super) fn of_letter(letter: LetterView) -> Self {
        let LetterView { origin, cause, error, key_shape, size, .. } = letter;
        Self::of_record((origin, error), cause, (key_shape, size))
    }

    pub(super) fn of_retry(retry: RetryView) -> Self {
        let RetryView { origin, cause, error, key_shape, size, .. } = retry;
        Self::of_record((origin, error), cause.unwrap_or_default(), (key_shape, size))
    }

    fn of_record(
        (origin, error): (Option<String>, Option<String>),
        cause: String,
        (key_shape, size): (Option<String>, String),
    ) -> Self {
        let topic = origin.as_deref().map_or("", GroupView::topic_of).to_owned();
        let error = Some(mask(error.as_deref().unwrap_or_default()));
        Self { topic, cause, error, key_shape, size }
    }

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
