//! Waiting retries by fingerprint: tables, and forms that act on all retries that look alike.

use maud::{Markup, html};

use super::fingerprint_cells::{cells, heads, records, spark, title};
use super::table::{breakable, moment, scroll_table};
use super::{group_path, retry_path};
use crate::admin::access::caller_guard::Caller;
use crate::admin::answer::Refusal;
use crate::admin::operator_actions::{operator, retry_request};
use crate::admin::source::Source;
use crate::admin::state::Admin;
use crate::admin::views::action_request::ActionReport;
use crate::admin::views::fingerprint::{
    COUNTED_MAX, FingerprintKey, RetryFingerprint, RetryFingerprintList,
};
use crate::admin::views::{GroupView, RetryView};
use crate::engine::{OPERATE_MAX, mask};

/// The note in place of counts that are not known yet.
pub(super) const COUNTING: &str = "Further retries are being counted; load the page again.";
/// Retries asked of the source at once.
const PIECE: usize = 256;
/// Retries of one request, with space for another piece.
const BATCH: usize = OPERATE_MAX - PIECE;

/// The fingerprint of a retry.
fn key_of(retry: &RetryView) -> FingerprintKey {
    FingerprintKey {
        topic: retry.origin.as_deref().map_or("", GroupView::topic_of).to_owned(),
        cause: retry.disposition.clone().unwrap_or_default(),
        reason: Some(mask(retry.reason.as_deref().unwrap_or_default())),
        key_shape: retry.key_shape.clone(),
        size: retry.size.clone(),
    }
}

/// The retries of all groups that wait, by cause.
pub(super) fn table(kinds: &[(String, RetryFingerprint)], show: bool) -> Markup {
    html! {
        (scroll_table("Retries by cause", &html! {
            (heads("Retries"))
            tbody {
                @for (group, kind) in kinds {
                    tr {
                        td.number { a href=(retry_path(group, kind.example)) { (kind.retries) } }
                        td { a href=(group_path(group)) { (breakable(group)) } }
                        (cells(&kind.key, show))
                        td {
                            @for at in [kind.first_ms, kind.last_ms].into_iter().flatten() {
                                (moment(at)) " "
                            }
                        }
                        td { (spark(&kind.hours)) }
                        td { (form(group, kind.example)) }
                    }
                }
            }
        }))
    }
}

/// The retries of a group that wait, by cause.
pub(super) fn sections(group: &str, kinds: &RetryFingerprintList, show: bool) -> Markup {
    html! {
        @if kinds.is_counting { p { (COUNTING) } }
        @if !kinds.items.is_empty() {
            h2 { "Retries by cause" }
            @for kind in &kinds.items { (section(group, kind, show)) }
            @if kinds.rest > 0 { p { (kinds.rest) " retries of further causes." } }
            @if kinds.is_cut { p { "Of the first " (COUNTED_MAX) " retries that wait." } }
        }
    }
}

fn section(group: &str, kind: &RetryFingerprint, show: bool) -> Markup {
    html! {
        section.cause {
            (title(kind.retries, &kind.key, show))
            p {
                (records(&kind.key, show))
                @if let Some((first, last)) = kind.first_ms.zip(kind.last_ms) {
                    "First " (moment(first)) ", last " (moment(last)) ". "
                }
                (spark(&kind.hours))
                " " a href=(retry_path(group, kind.example)) { "Look at one" }
            }
            (form(group, kind.example))
        }
    }
}

/// The form that acts on all retries that look like one.
fn form(group: &str, example: u64) -> Markup {
    html! {
        form method="post" action={ (group_path(group)) "/act" } {
            input type="hidden" name="like" value=(example);
            label { "Why " input name="why" required maxlength="1000"; }
            button name="verb" value="now" { "Retry now" }
            button.danger name="verb" value="dead-letter" { "Dead-letter now" }
        }
    }
}

/// Acts on the retries that look like one, among the first [`COUNTED_MAX`] that wait.
pub(super) async fn act_on_like<S: Source>(
    admin: &Admin<S>,
    group: &str,
    (verb, like): (&str, u64),
    (caller, why): (Caller, String),
) -> Result<ActionReport, Refusal> {
    let example = admin.source.retry(group, like).await?.map(|found| found.retry);
    let gone = || Refusal::missing("the retry waits no more; load the page of the group");
    let kind = key_of(&example.ok_or_else(gone)?);
    let by = operator(caller, Some(why), OPERATE_MAX)?;
    let now_ms = admin.source.now_ms();
    let is_due = |retry: &RetryView| retry.due_ms.is_some_and(|due| due <= now_ms);
    let (mut report, mut ids) = (ActionReport::default(), Vec::new());
    let (mut after, mut looked_at) = (None, 0);
    loop {
        let piece = admin.source.waiting(group, after, PIECE).await?;
        let is_over = piece.is_empty() || looked_at >= COUNTED_MAX;
        for retry in &piece {
            after = Some((retry.due_ms.unwrap_or_default(), retry.id));
            looked_at += 1;
            if key_of(retry) == kind && (verb != "now" || !is_due(retry)) {
                ids.push(retry.id);
            }
        }
        if !ids.is_empty() && (is_over || ids.len() >= BATCH) {
            let some = std::mem::take(&mut ids);
            let done = admin.source.operate(retry_request(group, (verb, None), some, by.clone())?);
            let done = done.await?;
            report.changed += done.changed;
            report.left.extend(done.left);
        }
        if is_over {
            return Ok(report);
        }
    }
}
