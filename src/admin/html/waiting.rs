//! The retries of a group that wait, by due time, a page at a time.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::cut::cell;
use super::table::{breakable, moment, scroll_table};
use super::{group_path, page, query, refused, retry_path};
use crate::admin::answer::Refusal;
use crate::admin::state::Admin;
use crate::api::{RecordStage, RetryView, Selector};

/// Rows of one page.
const ROWS_MAX: usize = 100;

/// The place of a page in the list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct WaitingQuery {
    /// Retries of this state, by id; without one those that wait, by due time.
    state: Option<RecordStage>,
    /// Due time and id of the last retry of the page before, with `:` between them; with a state
    /// the id alone counts.
    after: Option<String>,
}

impl WaitingQuery {
    fn place(&self) -> Result<Option<(i64, u64)>, Refusal> {
        let place = |text: &str| {
            let (due, id) = text.split_once(':')?;
            Some((due.parse().ok()?, id.parse().ok()?))
        };
        let Some(text) = self.after.as_deref() else { return Ok(None) };
        let bad = || Refusal::bad(format!("after={text:?} is not the address of a next page"));
        place(text).map(Some).ok_or_else(bad)
    }
}

pub(in crate::admin) async fn waiting(
    State(admin): State<Arc<Admin>>,
    Path(group): Path<String>,
    asked: Result<Query<WaitingQuery>, QueryRejection>,
) -> Response {
    match async { content(&admin, &group, &query(asked)?).await }.await {
        Ok(content) => page(&format!("{group} retries"), &content),
        Err(refusal) => refused(&refusal),
    }
}

async fn content(admin: &Admin, group: &str, query: &WaitingQuery) -> Result<Markup, Refusal> {
    if admin.operations.group(group).await?.is_none() {
        return Err(Refusal::unknown_group(group));
    }
    let (rows, next) = rows(admin, group, query).await?;
    let more = query.state.map(|state| format!("state={}&", state.as_str())).unwrap_or_default();
    let show = admin.options.show_payloads;
    Ok(html! {
        p { a href=(group_path(group)) { (group) } }
        h1 { (query.state.map_or("Retries that wait", |_| "Retries")) }
        @if rows.is_empty() {
            p.empty {
                "No retry waits here. A record that fails waits for its delay, and moves on to "
                "a member by itself once it is due."
            }
        } @else {
            (rows_form(group, &rows, show))
        }
        @if let Some((due_ms, id)) = next {
            p {
                @let place = format!("{more}after={due_ms}:{id}");
                a rel="next" href={ (group_path(group)) "/waiting?" (place) } {
                    "Next page"
                }
            }
        }
    })
}

/// The retries of a page, and the place of the next one.
async fn rows(
    admin: &Admin,
    group: &str,
    query: &WaitingQuery,
) -> Result<(Vec<RetryView>, Option<(i64, u64)>), Refusal> {
    let place = query.place()?;
    if query.state.is_some() {
        let selector = Selector { state: query.state, ..Selector::default() };
        let after = place.and_then(|(_, id)| i64::try_from(id).ok());
        let found = admin.operations.retries(group, &selector, after, ROWS_MAX).await?;
        let next = found.next.and_then(|id| Some((0, u64::try_from(id).ok()?)));
        return Ok((found.items, next));
    }
    let mut rows = admin.operations.waiting(group, place, ROWS_MAX + 1).await?;
    let has_more = rows.len() > ROWS_MAX;
    rows.truncate(ROWS_MAX);
    let last = rows.last().filter(|_| has_more);
    let next = last.map(|retry| (retry.due_ms.unwrap_or_default(), retry.id));
    Ok((rows, next))
}

fn rows_form(group: &str, rows: &[RetryView], show: bool) -> Markup {
    html! {
        form.list method="post" action={ (group_path(group)) "/act" } {
            (scroll_table("Retries", &html! {
                thead { tr {
                    th.mark { "Mark" } th.number { "Id" } th { "Origin" } th { "State" }
                    th.number { "Level" }
                    th.number { "Failures" } th { "Due" } th { "Error" }
                } }
                tbody { @for retry in rows { (row(group, retry, show)) } }
            }))
            p {
                label { "Note " input name="note" maxlength="1000"; } " "
                button name="verb" value="now" { "Retry marked now" } " "
                label {
                    "Minutes from now "
                    input name="delay_minutes" value="60" inputmode="numeric" size="6";
                } " "
                button name="verb" value="delay" { "Delay marked" } " "
                button.danger name="verb" value="dead-letter" { "Dead-letter marked now" }
            }
        }
    }
}

fn row(group: &str, retry: &RetryView, show: bool) -> Markup {
    let label = format!("Mark {}", retry.id);
    html! {
        tr {
            td.mark { input type="checkbox" name="ids" value=(retry.id) aria-label=(label); }
            td.number { a href=(retry_path(group, retry.id)) { (retry.id) } }
            td data-name="Origin" { (breakable(retry.origin.as_deref().unwrap_or("-"))) }
            td data-name="State" {
                (retry.state.as_str())
                @if let Some(why) = &retry.refusal { ": " (cell(why)) }
            }
            td.number data-name="Level" {
                @if let Some(level) = retry.level { (level) } @else { "exact" }
            }
            td.number data-name="Failures" {
                (retry.reconsume_times) "/" (retry.max_reconsume_times)
            }
            td data-name="Due" { @if let Some(due) = retry.due_ms { (moment(due)) } }
            td.text data-name="Error" { @if show { (cell(retry.error.as_deref().unwrap_or(""))) } }
        }
    }
}
