//! The dead letters of a group that a filter admits, a page at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use super::cut::cell;
use super::jobs::anyway_field;
use super::table::{breakable, moment, scroll_table};
use super::{group_path, letter_path, page, refused};
use crate::admin::answer::Refusal;
use crate::admin::page::{ListParameters, ListQuery};
use crate::admin::payload;
use crate::admin::state::Admin;
use crate::api::{LetterView, RecordStage, Selector, percent_encoded};
use crate::operations::RecordDetail;
use crate::retry::Disposition;

/// Conditions that the form has fields for, with their labels.
const FIELDS: [(&str, &str); 5] = [
    ("topic", "Topic "),
    ("error", "Text in the error "),
    ("key", "Key "),
    ("header", "Header "),
    ("value", "Text in the value "),
];
const STATES: [RecordStage; 3] = [RecordStage::Dead, RecordStage::Discarded, RecordStage::Redriven];

/// The address of a list, which begins after an offset.
pub(super) fn list_path(group: &str, selector: &Selector, after: Option<i64>) -> String {
    let after = after.map(|after| ("after".to_owned(), after.to_string()));
    let pairs = selector.pairs().into_iter().chain(after);
    let pair = |(name, text): (String, String)| format!("{name}={}", percent_encoded(&text));
    let pairs: Vec<String> = pairs.map(pair).collect();
    let mark = if pairs.is_empty() { "" } else { "?" };
    format!("{}/letters{mark}{}", group_path(group), pairs.join("&"))
}

pub(in crate::admin) async fn letters(
    State(admin): State<Arc<Admin>>,
    Path(group): Path<String>,
    asked: ListParameters,
) -> Response {
    match async {
        content(&admin, &group, &ListQuery::of_records(asked, &admin.options)?.of_dead()).await
    }
    .await
    {
        Ok(content) => page(&format!("{group} dead letters"), &content),
        Err(refusal) => refused(&refusal),
    }
}

async fn content(admin: &Admin, group: &str, query: &ListQuery) -> Result<Markup, Refusal> {
    if admin.operations.group(group).await?.is_none() {
        return Err(Refusal::unknown_group(group));
    }
    let (selector, after) = (&query.selector, query.number()?);
    let mut found = admin.operations.dead_letters(group, selector, after, query.limit).await?;
    for letter in &mut found.items {
        admin.options.mask.record(letter);
    }
    let show = admin.options.show_payloads;
    let is_dead = selector.state == Some(RecordStage::Dead);
    let state = selector.state.filter(|_| !is_dead);
    let words = Selector { state, ..selector.clone() };
    let words = if words.is_narrow() { words.to_string() } else { "all dead letters".to_owned() };
    Ok(html! {
        p { a href=(group_path(group)) { (group) } }
        h1 { "Dead letters" }
        p { "Filter: " (words) ". " (found.items.len()) " on this page." }
        (filter_form(group, selector, show))
        @if found.items.is_empty() {
            p.empty {
                "No letter of the " (found.looked_at) " that this page looked at passes the "
                "filter. A letter that was sent back or discarded has another state."
            }
        } @else {
            (rows_form(group, &found.items, (selector.state, show)))
        }
        @if let Some(next) = found.next {
            p { a rel="next" href=(list_path(group, selector, Some(next))) { "Next page" } }
        }
        @if is_dead && (!found.items.is_empty() || found.next.is_some()) {
            (filter_job_form(group, selector))
        }
    })
}

fn filter_form(group: &str, selector: &Selector, show: bool) -> Markup {
    let mut pairs: BTreeMap<String, String> = selector.pairs().into_iter().collect();
    pairs.remove("state");
    let cause = pairs.remove("cause").unwrap_or_default();
    let causes = Disposition::ALL.map(Disposition::as_str);
    let fields = FIELDS.map(|(name, label)| (name, label, pairs.remove(name).unwrap_or_default()));
    html! {
        form method="get" action={ (group_path(group)) "/letters" } {
            label {
                "Cause "
                select #filter name="cause" {
                    option value="" { "any" }
                    @for known in causes {
                        option value=(known) selected[known == cause] { (known) }
                    }
                }
            }
            // The others look at hidden bytes.
            @for (name, label, text) in fields.iter().take(if show { FIELDS.len() } else { 1 }) {
                label { (label) input name=(name) value=(text); }
            }
            label {
                "State "
                select name="state" {
                    @for state in STATES {
                        option value=(state.as_str()) selected[selector.state == Some(state)] {
                            (state.as_str())
                        }
                    }
                }
            }
            @for (name, text) in &pairs { input type="hidden" name=(name) value=(text); }
            button { "Filter" }
            @if selector.since.is_some() || selector.until.is_some() {
                a href={ (group_path(group)) "/letters" } { "All times" }
            }
        }
    }
}

fn rows_form(
    group: &str,
    rows: &[RecordDetail<LetterView>],
    (state, show): (Option<RecordStage>, bool),
) -> Markup {
    html! {
        form.list method="post" action={ (group_path(group)) "/act" } {
            (scroll_table("Dead letters", &html! {
                thead { tr {
                    th.mark { "Mark" } th.number { "Offset" } th { "Origin" } th { "Cause" }
                    th.number { "Failures" } th { "Since" } th { "Key" } th { "Error" }
                } }
                tbody { @for letter in rows { (row(group, letter, show)) } }
            }))
            p {
                label { "Note " input name="note" maxlength="1000"; } " "
                @match state {
                    Some(RecordStage::Discarded) => {
                        button name="verb" value="restore" { "Restore marked" }
                    }
                    Some(RecordStage::Redriven) => {}
                    _ => {
                        (anyway_field()) " "
                        button name="verb" value="redrive" { "Redrive marked" } " "
                        button.danger name="verb" value="discard" { "Discard marked" }
                    }
                }
            }
        }
    }
}

/// The cells of a dead letter in a table: offset, origin, cause, failures, time, key, reason.
fn letter_cells(group: &str, letter: &RecordDetail<LetterView>, show: bool) -> Markup {
    let RecordDetail { row, key, .. } = letter;
    html! {
        td.number { a href=(letter_path(group, row.offset)) { (row.offset) } }
        td data-name="Origin" { (breakable(row.origin.as_deref().unwrap_or("-"))) }
        td data-name="Cause" { (row.cause) }
        td.number data-name="Failures" { (row.reconsume_times) }
        td data-name="Since" { (moment(row.at_ms)) }
        td.text data-name="Key" { (cell(&payload::text(key.as_deref(), show))) }
        td.text data-name="Error" { @if show { (cell(row.error.as_deref().unwrap_or(""))) } }
    }
}

fn row(group: &str, letter: &RecordDetail<LetterView>, show: bool) -> Markup {
    let label = format!("Mark {}", letter.row.offset);
    html! {
        tr {
            td.mark {
                input type="checkbox" name="offsets" value=(letter.row.offset) aria-label=(label);
            }
            (letter_cells(group, letter, show))
        }
    }
}

/// The form that plans a job on all letters that a filter admits.
fn filter_job_form(group: &str, selector: &Selector) -> Markup {
    html! {
        form method="post" action={ (group_path(group)) "/jobs" } {
            @for (name, text) in selector.pairs() {
                input type="hidden" name=(name) value=(text);
            }
            "All that the filter admits, on every page: "
            button name="action" value="redrive" { "Redrive all…" }
            button.danger name="action" value="discard" { "Discard all…" }
        }
    }
}
