//! Answers: JSON with a line end, and refusals that say what to do.

use crate::operations::Unavailable;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

/// A request that gets no data: a status and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    says: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, says: impl Into<String>) -> Self {
        Self { status, says: says.into() }
    }

    pub(super) fn says(&self) -> &str {
        &self.says
    }

    /// 404 with a sentence.
    pub(super) fn missing(says: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, says)
    }

    /// 404 for a group.
    pub(super) fn unknown_group(group: &str) -> Self {
        Self::missing(format!("nothing is known of a group called {group:?}"))
    }

    /// 400 with a sentence.
    pub(super) fn bad(says: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, says)
    }
}

impl From<Unavailable> for Refusal {
    fn from(unavailable: Unavailable) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, unavailable.0)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        json_answer(self.status, &json!({ "error": self.says }))
    }
}

/// `value` as one line of JSON; status 500 and the error if it cannot be encoded.
pub(super) fn json_answer<T: Serialize>(status: StatusCode, value: &T) -> Response {
    let (status, mut body) = match serde_json::to_vec(value) {
        Ok(body) => (status, body),
        Err(error) => {
            let says = format!("the answer cannot be encoded as JSON: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, json!({ "error": says }).to_string().into_bytes())
        }
    };
    body.push(b'\n');
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body).into_response()
}

pub(super) fn text_answer(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.into()).into_response()
}

pub(super) async fn not_allowed(method: Method) -> Response {
    let says = format!("{method} is not served here; what is, is listed at /");
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, says).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_unencodable_answer_is_status_500() {
        let answer = json_answer(StatusCode::OK, &BTreeMap::from([([1, 2], "no text as key")]));
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(json_answer(StatusCode::OK, &"fine").status(), StatusCode::OK);
    }
}
