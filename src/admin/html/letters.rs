//! The dead letters of a group that a filter admits, a page at a time.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::cut::cell;
use super::jobs::anyway_field;
use super::table::{breakable, moment, scroll_table};
use super::{group_path, letter_path, page, percent_encoded, query, refused};
use crate::admin::answer::Refusal;
use crate::admin::payload;
use crate::admin::source::Source;
use crate::admin::state::Admin;
use crate::admin::views::{DeadLetterView, GroupView};
use crate::model::utc;

/// Rows of one page.
const ROWS_MAX: usize = 100;
/// Letters asked of the source at once, and those that one page looks at.
const PIECE: usize = 256;
const LOOKED_AT_MAX: usize = 10_000;
/// The filter of a list and its place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct LettersQuery {
    /// A cause, such as `rejected`; empty: any.
    #[serde(default)]
    pub(super) why: String,
    #[serde(default)]
    pub(super) topic: String,
    /// The first time of death, Unix ms.
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
    /// The last offset of the page before.
    after: Option<i64>,
}

impl LettersQuery {
    fn admits(&self, letter: &DeadLetterView) -> bool {
        let topic = letter.origin.as_deref().map_or("", GroupView::topic_of);
        letter.state == "dead"
            && (self.why.is_empty() || self.why == letter.disposition)
            && (self.topic.is_empty() || self.topic == topic)
            && self.since.is_none_or(|since| letter.at_ms >= since)
            && self.until.is_none_or(|until| letter.at_ms < until)
    }

    /// The filter in words.
    fn says(&self) -> String {
        let mut parts = Vec::new();
        if !self.why.is_empty() {
            parts.push(format!("cause {}", self.why));
        }
        if !self.topic.is_empty() {
            parts.push(format!("topic {}", self.topic));
        }
        parts.extend(self.since.map(|since| format!("dead since {} or later", utc(since))));
        parts.extend(self.until.map(|until| format!("dead before {}", utc(until))));
        if parts.is_empty() { "all dead letters".to_owned() } else { parts.join(", ") }
    }

    fn path(&self, group: &str, after: i64) -> String {
        let times = [("since", self.since), ("until", self.until), ("after", Some(after))];
        let times = times.into_iter().filter_map(|(name, at)| Some(format!("&{name}={}", at?)));
        let times: String = times.collect();
        let (why, topic) = (percent_encoded(&self.why), percent_encoded(&self.topic));
        format!("{}/letters?why={why}&topic={topic}{times}", group_path(group))
    }
}

/// A page of a list.
struct LettersPage {
    rows: Vec<DeadLetterView>,
    looked_at: usize,
    /// The offset to go on after; `None`: the list ends here.
    next: Option<i64>,
}

pub(in crate::admin) async fn letters<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path(group): Path<String>,
    asked: Result<Query<LettersQuery>, QueryRejection>,
) -> Response {
    match async { content(&admin, &group, &query(asked)?).await }.await {
        Ok(content) => page(&format!("{group} dead letters"), &content),
        Err(refusal) => refused(&refusal),
    }
}

async fn content<S: Source>(
    admin: &Admin<S>,
    group: &str,
    query: &LettersQuery,
) -> Result<Markup, Refusal> {
    if admin.source.group(group).await?.is_none() {
        return Err(Refusal::unknown_group(group));
    }
    let mut found = found(&admin.source, group, query).await?;
    for letter in &mut found.rows {
        admin.options.mask.letter(letter);
    }
    let show = admin.options.show_payloads;
    Ok(html! {
        p { a href=(group_path(group)) { (group) } }
        h1 { "Dead letters" }
        p { "Filter: " (query.says()) ". " (found.rows.len()) " on this page." }
        (filter_form(group, query))
        @if found.rows.is_empty() {
            p.empty {
                "No letter of the " (found.looked_at) " that this page looked at passes the "
                "filter. A letter that was sent back or discarded is not listed."
            }
        } @else {
            (rows_form(group, &found.rows, show))
        }
        @if let Some(next) = found.next {
            p { a rel="next" href=(query.path(group, next)) { "Next page" } }
        }
        @if !found.rows.is_empty() || found.next.is_some() { (filter_job_form(group, query)) }
    })
}

async fn found<S: Source>(
    source: &S,
    group: &str,
    query: &LettersQuery,
) -> Result<LettersPage, Refusal> {
    let mut after = query.after;
    let mut found = LettersPage { rows: Vec::new(), looked_at: 0, next: None };
    loop {
        let piece = source.dead_letters(group, after, PIECE).await?;
        if piece.is_empty() {
            return Ok(found);
        }
        for letter in piece {
            if found.rows.len() == ROWS_MAX || found.looked_at == LOOKED_AT_MAX {
                found.next = after;
                return Ok(found);
            }
            after = Some(letter.offset);
            found.looked_at += 1;
            if query.admits(&letter) {
                found.rows.push(letter);
            }
        }
    }
}

fn filter_form(group: &str, query: &LettersQuery) -> Markup {
    html! {
        form method="get" action={ (group_path(group)) "/letters" } {
            label { "Cause " input #filter name="why" value=(query.why); }
            label { "Topic " input name="topic" value=(query.topic); }
            @if let Some(since) = query.since {
                input type="hidden" name="since" value=(since);
            }
            @if let Some(until) = query.until {
                input type="hidden" name="until" value=(until);
            }
            button { "Filter" }
            @if query.since.is_some() || query.until.is_some() {
                a href={ (group_path(group)) "/letters" } { "All times" }
            }
        }
    }
}

fn rows_form(group: &str, rows: &[DeadLetterView], show: bool) -> Markup {
    html! {
        form.list method="post" action={ (group_path(group)) "/act" } {
            (scroll_table("Dead letters", &html! {
                thead { tr {
                    th.mark { "Mark" } th.number { "Offset" } th { "Origin" } th { "Cause" }
                    th.number { "Failures" } th { "Since" } th { "Key" } th { "Reason" }
                } }
                tbody { @for letter in rows { (row(group, letter, show)) } }
            }))
            p {
                label { "Why " input name="why" maxlength="1000"; } " "
                (anyway_field()) " "
                button name="verb" value="redrive" { "Send marked back" } " "
                button.danger name="verb" value="discard" { "Discard marked" }
            }
        }
    }
}

/// The cells of a dead letter in a table: offset, origin, cause, failures, time, key, reason.
pub(super) fn letter_cells(group: &str, letter: &DeadLetterView, show: bool) -> Markup {
    html! {
        td.number { a href=(letter_path(group, letter.offset)) { (letter.offset) } }
        td { (breakable(letter.origin.as_deref().unwrap_or("-"))) }
        td { (letter.disposition) }
        td.number { (letter.reconsume_times) }
        td { (moment(letter.at_ms)) }
        td.text { (cell(&payload::text(letter.key.as_deref(), show))) }
        td.text { @if show { (cell(letter.reason.as_deref().unwrap_or(""))) } }
    }
}

fn row(group: &str, letter: &DeadLetterView, show: bool) -> Markup {
    let label = format!("Mark {}", letter.offset);
    html! {
        tr {
            td.mark {
                input type="checkbox" name="offsets" value=(letter.offset) aria-label=(label);
            }
            (letter_cells(group, letter, show))
        }
    }
}

/// The form of a job on all letters that a filter admits.
fn filter_job_form(group: &str, filter: &LettersQuery) -> Markup {
    let times = [("since_ms", filter.since), ("until_ms", filter.until)];
    html! {
        details {
            summary { "Act on all that the filter admits, on every page, by a job" }
            form method="post" action={ (group_path(group)) "/jobs" } {
                input type="hidden" name="cause" value=(filter.why);
                input type="hidden" name="topic" value=(filter.topic);
                @for (name, at) in times {
                    @if let Some(at) = at { input type="hidden" name=(name) value=(at); }
                }
                label { "Records a second " input name="rate" value="100" inputmode="numeric"; }
                label { "Canary " input name="canary" value="5" inputmode="numeric"; }
                label { "Why " input name="why" required maxlength="1000"; }
                (anyway_field())
                button name="action" value="redrive" { "Send all back" }
                button.danger name="action" value="discard" { "Discard all" }
            }
        }
    }
}
