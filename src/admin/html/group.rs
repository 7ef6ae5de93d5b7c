//! A group: its dead letters by what they have in common, one by one, and its retries.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};

use super::cut::cell;
use super::fingerprint_cells::{records, spark, title};
use super::jobs::{anyway_field, kind_form};
use super::letters::{alike, letter_cells, list_path};
use super::table::{breakable, moment, scroll_table};
use super::{
    ActionNotice, consumers, group_path, letter_path, notice, page, refused, retry_kinds,
    retry_path, states,
};
use crate::admin::answer::Refusal;
use crate::admin::state::Admin;
use crate::api::{
    Fingerprint, GroupView, IDLE_BREAKER, LetterView, RecordStage, RetryView, Selector,
};
use crate::operations::{Operations, RecordDetail};

/// Dead letters that a page reads.
const LETTERS_MAX: usize = 500;
/// Letters that a page looks at, settled ones among them.
const LOOKED_AT_MAX: usize = 10_000;
const KINDS_MAX: usize = 50;
/// Rows of one list.
const ROWS_MAX: usize = 50;

pub(in crate::admin) async fn group(
    State(admin): State<Arc<Admin>>,
    Path(id): Path<String>,
    Query(outcome): Query<ActionNotice>,
) -> Response {
    match content(&admin, &id, &outcome).await {
        Ok(content) => page(&id, &content),
        Err(refusal) => refused(&refusal),
    }
}

async fn content(admin: &Admin, id: &str, outcome: &ActionNotice) -> Result<Markup, Refusal> {
    let Some(mut group) = admin.operations.group(id).await? else {
        return Err(Refusal::unknown_group(id));
    };
    group.advise();
    let FirstLetters { mut letters, discarded, is_cut } = letters(&admin.operations, id).await?;
    for letter in &mut letters {
        admin.options.mask.record(letter);
    }
    let all = Selector::default();
    let retries = admin.operations.retries(id, &all, None, ROWS_MAX).await?.items;
    let kinds = admin.operations.fingerprints(id, KINDS_MAX).await?;
    let retry_kinds = admin.operations.retry_fingerprints(id, KINDS_MAX).await?;
    let explained = admin.operations.explain(id).await?;
    let rules = admin.operations.in_force(id, None);
    let show = admin.options.show_payloads;
    Ok(html! {
        h1 { (id) }
        (notice(outcome, Some(id)))
        p {
            @for (state, count) in states(&group.states) { span.chip { (count) " " (state) } " " }
            span.chip { (group.dead_letters) " dead letters" } " "
            @if !IDLE_BREAKER.contains(&group.breaker.as_str()) {
                span.chip { "breaker: " (group.breaker) }
            }
        }
        h2 { "Dead letters by cause" }
        @if letters.is_empty() {
            p.empty { "This group has no dead letters." }
        } @else {
            @for kind in &kinds.items { (cause(&group, kind, show)) }
            @if kinds.rest > 0 { p { (kinds.rest) " letters of further causes." } }
            h2 { "Dead letters" }
            @if is_cut {
                p { "These are among the first " (LETTERS_MAX) " of " (group.dead_letters) "." }
            }
            (letter_table(id, &letters, show))
        }
        @if discarded > 0 { (discarded_link(id, discarded)) }
        (retry_kinds::sections(id, &retry_kinds, show))
        h2 { "Retries" }
        (retry_table(&group, &retries, show))
        (consumers::sections(&group, explained.as_ref(), &rules))
    })
}

/// The first letters of a group.
#[derive(Default)]
struct FirstLetters {
    /// The dead letters.
    letters: Vec<RecordDetail<LetterView>>,
    /// The number of letters that can be restored.
    discarded: usize,
    /// Whether there are more letters.
    is_cut: bool,
}

async fn letters(operations: &Operations, id: &str) -> Result<FirstLetters, Refusal> {
    let (mut found, mut after, mut looked_at) = (FirstLetters::default(), None, 0);
    // One walk serves both states.
    let all = Selector::default();
    while found.letters.len() < LETTERS_MAX && looked_at < LOOKED_AT_MAX {
        let part = operations.dead_letters(id, &all, after, LETTERS_MAX).await?;
        for letter in part.items {
            match letter.row.state {
                RecordStage::Dead => found.letters.push(letter),
                RecordStage::Discarded if letter.row.restorable_until_ms.is_some() => {
                    found.discarded += 1;
                }
                _ => {}
            }
        }
        (after, looked_at) = (part.next, looked_at + part.looked_at);
        if after.is_none() {
            return Ok(found);
        }
    }
    found.letters.truncate(LETTERS_MAX);
    Ok(FirstLetters { is_cut: true, ..found })
}

fn cause(group: &GroupView, kind: &Fingerprint, show: bool) -> Markup {
    html! {
        section.cause {
            (title(kind.letters, &kind.key, show))
            p {
                (records(&kind.key, show))
                "First " (moment(kind.first_ms)) ", last " (moment(kind.last_ms)) ". "
                (spark(&kind.hours))
                @if let Some(example) = kind.example {
                    " " a href=(letter_path(&group.group, example)) { "Look at one" } " or "
                    a href=(list_path(&group.group, &alike(&kind.key, show), None)) { "at all" }
                }
            }
            @if let Some(example) = kind.example { (kind_form(&group.group, example)) }
        }
    }
}

/// A button of a form: the verb, the label, and whether it destroys.
type Button = (&'static str, &'static str, bool);

/// The buttons of dead letters.
pub(super) const DEAD: [Button; 2] = [("redrive", "Redrive", false), ("discard", "Discard", true)];
/// The button of discarded letters.
pub(super) const DISCARDED: [Button; 1] = [("restore", "Restore", false)];

/// Buttons that act on letters.
pub(super) fn letter_form(group: &str, offsets: &[i64], buttons: &[Button]) -> Markup {
    html! {
        form method="post" action={ (group_path(group)) "/act" } {
            input type="hidden" name="offsets" value=(joined(offsets));
            label { "Note " input name="note" required[offsets.len() > 1] maxlength="1000"; }
            @if *buttons == DEAD { (anyway_field()) }
            @for (verb, label, destroys) in buttons {
                button.danger[*destroys] name="verb" value=(verb) { (label) }
            }
        }
    }
}

fn discarded_link(group: &str, count: usize) -> Markup {
    html! {
        p {
            a href={ (group_path(group)) "/letters?state=discarded" } {
                "Letters discarded in the last 24 hours: " (count)
            }
            ", to restore some."
        }
    }
}

fn joined(offsets: &[i64]) -> String {
    offsets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn letter_table(group: &str, letters: &[RecordDetail<LetterView>], show: bool) -> Markup {
    html! {
        (scroll_table("Dead letters", &html! {
            thead { tr {
                th.number { "Offset" } th { "Origin" } th { "Cause" } th.number { "Failures" }
                th { "Since" } th { "Key" } th { "Error" }
            } }
            tbody {
                @for letter in letters.iter().take(ROWS_MAX) {
                    tr { (letter_cells(group, letter, show)) }
                }
            }
        }))
        p { a href={ (group_path(group)) "/letters" } { "All dead letters, in pages" } }
    }
}

fn retry_table(group: &GroupView, retries: &[RetryView], show: bool) -> Markup {
    html! {
        @if retries.is_empty() {
            p.empty { "No retry waits." }
        } @else {
            (scroll_table("Retries", &html! {
                thead { tr {
                    th.number { "Id" } th { "Origin" } th { "State" } th.number { "Failures" }
                    th { "Due" } th { "Error" } th { "Act" }
                } }
                tbody { @for retry in retries { (retry_row(&group.group, retry, show)) } }
            }))
            p { a href={ (group_path(&group.group)) "/waiting" } { "All that wait, in pages" } }
        }
    }
}

fn retry_row(group: &str, retry: &RetryView, show: bool) -> Markup {
    html! {
        tr {
            td.number { a href=(retry_path(group, retry.id)) { (retry.id) } }
            td { (breakable(retry.origin.as_deref().unwrap_or("-"))) }
            td { (retry.state.as_str()) @if let Some(why) = &retry.refusal { ": " (cell(why)) } }
            td.number { (retry.reconsume_times) "/" (retry.max_reconsume_times) }
            td { @if let Some(due) = retry.due_ms { (moment(due)) } }
            td.text { @if show { (cell(retry.error.as_deref().unwrap_or(""))) } }
            td {
                @if retry.waits() {
                    form.row method="post" action={ (group_path(group)) "/act" } {
                        input type="hidden" name="ids" value=(retry.id);
                        button name="verb" value="now" { "Retry now" }
                        button.danger name="verb" value="dead-letter" { "Dead-letter now" }
                    }
                }
            }
        }
    }
}
