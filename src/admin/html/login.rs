//! The form by which an operator logs in with a token.

use std::sync::Arc;
use std::time::Duration;

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::{page, refused};
use crate::admin::access::caller_guard::{Caller, NO_NAME};
use crate::admin::answer::Refusal;
use crate::admin::state::Admin;

/// Time after which a wrong token is answered.
const WRONG_TOKEN_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct LoginFields {
    token: String,
}

/// The form, or the name of the operator who has logged in.
pub(in crate::admin) async fn login(Extension(caller): Extension<Caller>) -> Response {
    if caller.name.is_empty() {
        return page("Log in", &form(None));
    }
    let content = html! {
        h1 { "Logged in" }
        p { "You are " strong { (caller.name) } "." }
        form method="post" action="/logout" {
            button { @if caller.is_claimed { "Forget the name" } @else { "Log out" } }
        }
        @if caller.is_claimed { (form(None)) }
    };
    page("Logged in", &content)
}

/// The form for a request that needs a token.
pub(in crate::admin) fn login_needed(refusal: &Refusal) -> Response {
    let mut response = page("Log in", &form(Some(refusal.says())));
    *response.status_mut() = refusal.status;
    response
}

pub(in crate::admin) async fn log_in(
    State(admin): State<Arc<Admin>>,
    fields: Result<Form<LoginFields>, FormRejection>,
) -> Response {
    let token = match super::form(fields) {
        Ok(fields) => fields.token,
        Err(refusal) => return refused(&refusal),
    };
    if let Some(cookie) = admin.sessions.open(&admin.options.tokens.now(), token.trim()) {
        let to = [(header::LOCATION, "/".to_owned()), (header::SET_COOKIE, cookie)];
        return (StatusCode::SEE_OTHER, to).into_response();
    }
    tokio::time::sleep(WRONG_TOKEN_DELAY).await;
    let mut response = page("Log in", &form(Some("This is no token of this sidecar.")));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

pub(in crate::admin) async fn log_out(
    State(admin): State<Arc<Admin>>,
    headers: HeaderMap,
) -> Response {
    let cookies = [admin.sessions.close(&headers), NO_NAME.to_owned()];
    let cookies = cookies.map(|cookie| (header::SET_COOKIE, cookie));
    let to = [(header::LOCATION, "/login")];
    (StatusCode::SEE_OTHER, to, AppendHeaders(cookies)).into_response()
}

fn form(wrong: Option<&str>) -> Markup {
    html! {
        h1 { "Log in" }
        @if let Some(wrong) = wrong { p.alarm role="alert" { (wrong) } }
        form method="post" action="/login" {
            label {
                "Token "
                input type="password" name="token" required autocomplete="current-password";
            }
            button { "Log in" }
        }
        p { "The tokens are in the file that " code { "admin.token_file" } " names." }
    }
}
