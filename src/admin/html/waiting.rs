//! The retries of a group that wait, by due time, a page at a time.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::cut::cell;
use super::matrix::NO_LEVEL;
use super::table::{breakable, moment, scroll_table};
use super::{group_path, page, query, refused, retry_path};
use crate::admin::answer::Refusal;
use crate::admin::matrix::{DUE_COLUMNS, due_span};
use crate::admin::source::Source;
use crate::admin::state::Admin;
use crate::admin::views::RetryView;

/// Rows of one page.
const ROWS_MAX: usize = 100;
/// Retries asked of the source at once, and those that one page looks at.
const PIECE: usize = 256;
const LOOKED_AT_MAX: usize = 10_000;

/// The filter of a list and its place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct WaitingQuery {
    /// A level, or `exact`.
    #[serde(default)]
    level: String,
    /// A column of the matrix.
    #[serde(default)]
    due: String,
    /// Due time and id of the last retry of the page before, with `:` between them.
    after: Option<String>,
}

/// The levels of a list.
enum LevelFilter {
    Any,
    /// One level; `None`: exact delays and back-offs.
    One(Option<u32>),
}

/// The filter, read.
struct WaitingFilter {
    level: LevelFilter,
    after: Option<(i64, u64)>,
    until: Option<i64>,
}

impl LevelFilter {
    fn admits(&self, found: Option<u32>) -> bool {
        match self {
            Self::Any => true,
            Self::One(level) => *level == found,
        }
    }
}

impl WaitingQuery {
    fn filter(&self, now_ms: i64) -> Result<WaitingFilter, Refusal> {
        let level = match self.level.as_str() {
            "" => LevelFilter::Any,
            NO_LEVEL => LevelFilter::One(None),
            number => LevelFilter::One(Some(number.parse().map_err(|_| {
                Refusal::bad(format!("level={number:?} is unknown: a number, or {NO_LEVEL}"))
            })?)),
        };
        let (from, until) = match self.due.as_str() {
            "" => (None, None),
            word => due_span(word, now_ms).ok_or_else(|| {
                let words = DUE_COLUMNS.map(|column| column.word).join(", ");
                Refusal::bad(format!("due={word:?} is unknown: one of {words}"))
            })?,
        };
        let place = |text: &str| {
            let (due, id) = text.split_once(':')?;
            Some((due.parse().ok()?, id.parse().ok()?))
        };
        let after = match self.after.as_deref() {
            None => from.map(|from| (from.saturating_sub(1), u64::MAX)),
            Some(text) => Some(place(text).ok_or_else(|| {
                Refusal::bad(format!("after={text:?} is not the address of a next page"))
            })?),
        };
        Ok(WaitingFilter { level, after, until })
    }

    fn path(&self, group: &str, (due_ms, id): (i64, u64)) -> String {
        let Self { level, due, .. } = self;
        format!("{}/waiting?level={level}&due={due}&after={due_ms}:{id}", group_path(group))
    }
}

pub(in crate::admin) async fn waiting<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path(group): Path<String>,
    asked: Result<Query<WaitingQuery>, QueryRejection>,
) -> Response {
    match async { content(&admin, &group, &query(asked)?).await }.await {
        Ok(content) => page(&format!("{group} retries"), &content),
        Err(refusal) => refused(&refusal),
    }
}

async fn content<S: Source>(
    admin: &Admin<S>,
    group: &str,
    query: &WaitingQuery,
) -> Result<Markup, Refusal> {
    if admin.source.group(group).await?.is_none() {
        return Err(Refusal::unknown_group(group));
    }
    let filter = query.filter(admin.source.now_ms())?;
    let (rows, next) = found(&admin.source, group, &filter).await?;
    let show = admin.options.show_payloads;
    Ok(html! {
        p { a href=(group_path(group)) { (group) } }
        h1 { "Retries that wait" }
        (filter_form(group, query))
        @if rows.is_empty() {
            p.empty {
                "No retry waits with this level and due time. Retries move on by themselves: "
                "from column to column as time passes, and to a member once they are due."
            }
        } @else {
            (rows_form(group, &rows, show))
        }
        @if let Some(next) = next {
            p { a rel="next" href=(query.path(group, next)) { "Next page" } }
        }
    })
}

/// The retries of a page, and the place of the next page.
async fn found<S: Source>(
    source: &S,
    group: &str,
    filter: &WaitingFilter,
) -> Result<(Vec<RetryView>, Option<(i64, u64)>), Refusal> {
    let (mut rows, mut looked_at, mut after) = (Vec::new(), 0, filter.after);
    loop {
        let piece = source.waiting(group, after, filter.until, PIECE).await?;
        if piece.is_empty() {
            return Ok((rows, None));
        }
        for retry in piece {
            if rows.len() == ROWS_MAX || looked_at == LOOKED_AT_MAX {
                return Ok((rows, after));
            }
            after = Some((retry.due_ms.unwrap_or_default(), retry.id));
            looked_at += 1;
            if filter.level.admits(retry.level) {
                rows.push(retry);
            }
        }
    }
}

fn filter_form(group: &str, query: &WaitingQuery) -> Markup {
    html! {
        form method="get" action={ (group_path(group)) "/waiting" } {
            label { "Level " input #filter name="level" value=(query.level) size="6"; }
            label {
                "Due "
                select name="due" {
                    option value="" { "any time" }
                    @for column in &DUE_COLUMNS {
                        option value=(column.word) selected[column.word == query.due] {
                            (column.title)
                        }
                    }
                }
            }
            button { "Filter" }
        }
    }
}

fn rows_form(group: &str, rows: &[RetryView], show: bool) -> Markup {
    html! {
        form.list method="post" action={ (group_path(group)) "/act" } {
            (scroll_table("Retries", &html! {
                thead { tr {
                    th.mark { "Mark" } th.number { "Id" } th { "Origin" } th.number { "Level" }
                    th.number { "Failures" } th { "Due" } th { "Reason" }
                } }
                tbody { @for retry in rows { (row(group, retry, show)) } }
            }))
            p {
                label { "Why " input name="why" maxlength="1000"; } " "
                button name="verb" value="now" { "Retry marked now" } " "
                label {
                    "Minutes from now "
                    input name="delay_minutes" value="60" inputmode="numeric" size="6";
                } " "
                button name="verb" value="delay" { "Delay marked" } " "
                button.danger name="verb" value="dead-letter" { "Dead letters of marked" }
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
            td { (breakable(retry.origin.as_deref().unwrap_or("-"))) }
            td.number { @if let Some(level) = retry.level { (level) } @else { "exact" } }
            td.number { (retry.reconsume_times) "/" (retry.max_reconsume_times) }
            td { @if let Some(due) = retry.due_ms { (moment(due)) } }
            td.text { @if show { (cell(retry.reason.as_deref().unwrap_or(""))) } }
        }
    }
}
