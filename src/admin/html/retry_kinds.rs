//! Waiting retries by fingerprint: tables, and forms that act on all retries that look alike.

use maud::{Markup, html};

use super::fingerprint_cells::{cells, heads, records, spark, title};
use super::table::{breakable, moment, scroll_table};
use super::{group_path, retry_path};
use crate::admin::access::caller_guard::Caller;
use crate::admin::answer::Refusal;
use crate::admin::operator_actions::{operator, retry_request};
use crate::admin::state::Admin;
use crate::api::{
    ActionReport, COUNTED_MAX, GroupView, RetryFingerprint, RetryFingerprintList, RetryView,
    Selector, mask,
};
use crate::engine::OPERATE_MAX;
use crate::operations::EntryNames;

/// The note in place of counts that are not known yet.
pub(super) const COUNTING: &str = "Further retries are being counted; load the page again.";

/// The retries that look like one.
fn like(retry: &RetryView) -> Selector {
    let topic = retry.origin.as_deref().map_or("", GroupView::topic_of);
    Selector {
        topic: Some(topic.to_owned()),
        cause: Some(retry.cause.clone().unwrap_or_default()),
        fingerprint: Some(mask(retry.error.as_deref().unwrap_or_default())),
        key_shape: retry.key_shape.clone(),
        size: Some(retry.size.clone()),
        ..Selector::default()
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
            label { "Note " input name="note" required maxlength="1000"; }
            button name="verb" value="now" { "Retry now" }
            button.danger name="verb" value="dead-letter" { "Dead-letter now" }
        }
    }
}

/// Acts on the retries that look like one.
pub(super) async fn act_on_like(
    admin: &Admin,
    group: &str,
    (verb, example): (&str, u64),
    (caller, note): (Caller, String),
) -> Result<ActionReport, Refusal> {
    let example = admin.operations.retry(group, example).await?.map(|found| found.row);
    let gone = || Refusal::missing("the retry waits no more; load the page of the group");
    let selector = Box::new(like(&example.ok_or_else(gone)?));
    let by = operator(caller, Some(note), OPERATE_MAX)?;
    let (mut report, mut after) = (ActionReport::default(), None);
    loop {
        let names = EntryNames::Selected { selector: selector.clone(), after, is_dry: false };
        let request = retry_request(group, (verb, None), names, by.clone())?;
        let done = admin.operations.operate(request).await?;
        report.changed += done.changed;
        report.left.extend(done.left);
        after = done.next;
        if after.is_none() {
            return Ok(report);
        }
    }
}
