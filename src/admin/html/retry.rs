//! One retry: its record, its attempts, and what an operator can do with it.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};

use super::attempts::{attempts, timeline};
use super::cut::{KEY_ROOM, clipped};
use super::value::{RecordQuery, ShownRecord, download, record};
use super::{group_path, query, refused, retry_path, still_page};
use crate::admin::answer::Refusal;
use crate::admin::payload;
use crate::admin::payload::mask::judge_bytes;
use crate::admin::state::Admin;
use crate::api::RetryView;
use crate::model::utc;
use crate::operations::RecordDetail;

pub(in crate::admin) async fn retry(
    State(admin): State<Arc<Admin>>,
    Path((group, id)): Path<(String, String)>,
    asked: Result<Query<RecordQuery>, QueryRejection>,
) -> Response {
    let content = async { content(&admin, &group, &id, &query(asked)?).await };
    match content.await {
        Ok(content) => still_page(&format!("{group} retry {id}"), &content),
        Err(refusal) => refused(&refusal),
    }
}

/// The value of a retry, as a file.
pub(in crate::admin) async fn retry_value(
    State(admin): State<Arc<Admin>>,
    Path((group, id)): Path<(String, String)>,
) -> Response {
    let value = async {
        let found = found(&admin, &group, &id).await?;
        judge_bytes(found.concealment)?;
        download(found.value, &format!("retry-{}", found.row.id), &admin.options)
    };
    value.await.unwrap_or_else(|refusal: Refusal| refused(&refusal))
}

async fn found(admin: &Admin, group: &str, id: &str) -> Result<RecordDetail<RetryView>, Refusal> {
    let missing = || {
        let says = format!(
            "group {group:?} has no retry {id}: it was acknowledged, or it is a dead letter"
        );
        Refusal::missing(says)
    };
    let number = id.parse().map_err(|_| missing())?;
    let mut found = admin.operations.retry(group, number).await?.ok_or_else(missing)?;
    admin.options.mask.record(&mut found);
    Ok(found)
}

async fn content(
    admin: &Admin,
    group: &str,
    id: &str,
    query: &RecordQuery,
) -> Result<Markup, Refusal> {
    let found = found(admin, group, id).await?;
    let origin = found.row.origin.as_deref();
    let attempts = attempts(admin, group, origin, query.story.is_some()).await?;
    let show = admin.options.show_payloads;
    let path = retry_path(group, found.row.id);
    let (value, headers) = (found.value.as_deref(), found.headers.as_slice());
    let concealment = found.concealment;
    let record = record(ShownRecord { path: &path, value, headers, show, concealment }, query)?;
    Ok(html! {
        p { a href=(group_path(group)) { (group) } }
        h1 { "Retry " (found.row.id) }
        (facts(&found, show))
        (action_form(group, &found.row))
        (timeline(&path, &attempts, &found.history, show))
        (record)
    })
}

fn action_form(group: &str, retry: &RetryView) -> Markup {
    html! {
        @if retry.waits() {
            form method="post" action={ (group_path(group)) "/act" } {
                input type="hidden" name="ids" value=(retry.id);
                label { "Note " input name="note" maxlength="1000"; }
                button name="verb" value="now" { "Retry now" }
                label {
                    "Minutes from now "
                    input name="delay_minutes" value="60" inputmode="numeric" size="6";
                }
                button name="verb" value="delay" { "Delay" }
                button.danger name="verb" value="dead-letter" { "Dead-letter now" }
            }
        } @else {
            p {
                "An operator can act on a retry while it waits; this one is "
                (retry.state.as_str()) "."
            }
        }
    }
}

fn facts(found: &RecordDetail<RetryView>, show: bool) -> Markup {
    let retry = &found.row;
    html! {
        dl {
            dt { "State" } dd { (retry.state.as_str()) }
            @if let Some(why) = &retry.refusal { dt { "Blocked" } dd { (why) } }
            dt { "Origin" } dd { (retry.origin.as_deref().unwrap_or("none")) }
            dt { "Cause" } dd { (retry.cause.as_deref().unwrap_or("none")) }
            @if show { dt { "Error" } dd { (retry.error.as_deref().unwrap_or("none given")) } }
            dt { "Failures" } dd { (retry.reconsume_times) " of " (retry.max_reconsume_times) }
            @if let Some(level) = retry.level { dt { "Level" } dd { (level) } }
            @if let Some(due) = retry.due_ms { dt { "Due" } dd { (utc(due)) } }
            dt { "First failed" } dd { (retry.first_failed_ms.map(utc).unwrap_or_default()) }
            dt { "Last failed" } dd { (retry.last_failed_ms.map(utc).unwrap_or_default()) }
            dt { "Produced" } dd { (utc(found.timestamp_ms)) }
            dt { "Key" } dd { (clipped(&payload::text(found.key.as_deref(), show), KEY_ROOM)) }
        }
    }
}
