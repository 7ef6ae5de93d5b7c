//! The page of the admin port: rendered here from the answers of the JSON API, usable without
//! JavaScript. Its script refreshes a page that nobody works on, and handles keys.

mod act;
mod attempts;
mod consumers;
mod cut;
mod group;
mod home;
mod jobs;
mod journal;
mod kinds;
mod letter;
mod letters;
mod login;
mod retry;
mod search;
mod style;
mod table;
mod value;
mod waiting;

use axum::Form;
use axum::extract::Query;
use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;

use super::access::caller_guard::Caller;
use super::answer::Refusal;
use crate::api::{StateCounts, percent_encoded};

pub(super) use act::act;
pub(super) use group::group;
pub(super) use home::{audit, home};
pub(super) use jobs::{change as change_job, job, jobs, start as start_job};
pub(super) use journal::journal;
pub(super) use letter::{letter, letter_value};
pub(super) use letters::letters;
pub(super) use login::{log_in, log_out, login, login_needed};
pub(super) use retry::{retry, retry_value};
pub(super) use search::search;
pub(super) use style::{script, style};
pub(super) use waiting::waiting;

/// Only the sidecar's own script and style sheet; no frames, nothing from another host.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; \
    style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A whole page that refreshes itself.
fn page(title: &str, content: &Markup) -> Response {
    whole_page(title, content, false)
}

/// A whole page without refresh: it is too expensive to render every few seconds.
fn still_page(title: &str, content: &Markup) -> Response {
    whole_page(title, content, true)
}

fn whole_page(title: &str, content: &Markup, is_still: bool) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · reprise" }
                link rel="stylesheet" href="/style.css";
                script src="/refresh.js" defer {}
            }
            body {
                header {
                    a.name href="/" { "reprise" }
                    nav {
                        a href="/" { "Now" }
                        a href="/jobs" { "Jobs" }
                        a href="/journal" { "Journal" }
                        a href="/audit" { "Audit" }
                    }
                    span #live role="status" {}
                }
                main data-still[is_still] { (content) }
            }
        }
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    (StatusCode::OK, headers, markup.into_string()).into_response()
}

/// A page for a request that gets no data.
fn refused(refusal: &Refusal) -> Response {
    let content = html! {
        h1 { "This did not work" }
        p { (refusal.says()) }
        p { a href="/" { "Back to the first page" } }
    };
    let mut response = page("Refused", &content);
    *response.status_mut() = refusal.status;
    response
}

/// States with a count, in the order in which a record passes through them.
fn states(states: &StateCounts) -> Vec<(&'static str, u64)> {
    let all = [
        ("waiting", states.waiting),
        ("due", states.due),
        ("unread", states.unread),
        ("blocked", states.blocked),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// The fields of a form in their order.
type FormFields = Vec<(String, String)>;

/// The fields of a form, or a refusal that names what is wrong with them.
fn form<T>(fields: Result<Form<T>, FormRejection>) -> Result<T, Refusal> {
    fields.map(|Form(fields)| fields).map_err(|e| Refusal::new(e.status(), e.body_text()))
}

/// The fields of an address, or a refusal that names what is wrong with them.
fn query<T>(asked: Result<Query<T>, QueryRejection>) -> Result<T, Refusal> {
    asked.map(|Query(fields)| fields).map_err(|e| Refusal::bad(e.body_text()))
}

/// The outcome of the action that led here.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ActionNotice {
    said: Option<String>,
    /// The verb that takes the action back, and the offsets of its letters.
    undo: Option<UndoVerb>,
    of: Option<String>,
}

/// A verb that takes another one back.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UndoVerb {
    Restore,
    Discard,
}

/// The sentence of the action that led here, and the button that takes it back.
fn notice(outcome: &ActionNotice, group: Option<&str>) -> Markup {
    let undo = outcome.undo.map(|verb| match verb {
        UndoVerb::Restore => ("restore", "restore"),
        UndoVerb::Discard => ("discard", "discard again"),
    });
    let offsets = outcome.of.as_deref().filter(|of| of.split_whitespace().all(is_number));
    let undo = undo.zip(offsets).zip(group);
    html! {
        @if let Some(said) = &outcome.said {
            div.said role="status" {
                (said)
                @if let Some((((verb, says), offsets), group)) = undo {
                    form method="post" action={ (group_path(group)) "/act" } {
                        input type="hidden" name="offsets" value=(offsets);
                        input type="hidden" name="note" value="undone";
                        button name="verb" value=(verb) {
                            "Undo: " (says) " " (offsets.split_whitespace().count())
                        }
                    }
                }
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<i64>().is_ok()
}

/// The field in which a form names its operator.
const OPERATOR_FIELD: &str = "operator";

/// The caller with a name, and the fields of a form without that name; `Err`: nothing names the
/// caller.
fn with_name(caller: Caller, fields: FormFields) -> Result<(Caller, FormFields), FormFields> {
    let (own, fields): (FormFields, FormFields) =
        fields.into_iter().partition(|(name, _)| name == OPERATOR_FIELD);
    if !caller.name.is_empty() {
        return Ok((caller, fields));
    }
    let named = own.first().and_then(|(_, name)| caller.named(name));
    named.map(|caller| (caller, fields.clone())).ok_or(fields)
}

/// Asks for the name of an operator, and sends the fields of a form again with it.
fn name_form(path: &str, fields: &[(String, String)]) -> Response {
    let content = html! {
        h1 { "Who are you?" }
        p { "The audit log names who acts. This browser keeps the name for 12 hours; "
            code { "/login" } " forgets it." }
        form method="post" action=(path) {
            @for (name, text) in fields { input type="hidden" name=(name) value=(text); }
            label { "Your name " input name=(OPERATOR_FIELD) required maxlength="64" autofocus; }
            button { "Go on" }
        }
    };
    still_page("Who are you?", &content)
}

/// Acts on a form under the name of its caller, which the browser then keeps. Asks for the name
/// where nothing tells it.
async fn act_by_name<F: Future<Output = Result<Response, Refusal>>>(
    path: &str,
    (caller, fields): (Caller, FormFields),
    act: impl FnOnce(Caller, FormFields) -> F,
) -> Result<Response, Refusal> {
    let (caller, fields) = match with_name(caller, fields) {
        Ok(named) => named,
        Err(fields) => return Ok(name_form(path, &fields)),
    };
    let cookie = caller.cookie();
    let mut response = act(caller, fields).await?;
    if let Some(Ok(cookie)) = cookie.map(HeaderValue::try_from) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Redirects to a page, which shows a sentence, and the button of an undo.
fn back_to(path: &str, sentence: &str, undo: Option<&str>) -> Response {
    let to = format!("{path}?said={}{}", percent_encoded(sentence), undo.unwrap_or_default());
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

/// The address of a group's page.
fn group_path(group: &str) -> String {
    format!("/groups/{}", percent_encoded(group))
}

/// The address of a group's retries in a state.
fn state_path(group: &str, state: &str) -> String {
    format!("{}/waiting?state={state}", group_path(group))
}

/// The address of a dead letter's page.
fn letter_path(group: &str, offset: i64) -> String {
    format!("{}/letters/{offset}", group_path(group))
}

/// The address of a retry's page.
fn retry_path(group: &str, id: u64) -> String {
    format!("{}/waiting/{id}", group_path(group))
}
