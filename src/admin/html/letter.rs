//! One dead letter: its record, and all attempts that led to it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use super::group::{DEAD, letter_form};
use super::{group_path, page, refused};
use crate::admin::Admin;
use crate::admin::answer::Refusal;
use crate::admin::explain::PastView;
use crate::admin::payload;
use crate::admin::source::Source;
use crate::admin::view::DeadLetter;
use crate::model::utc;

/// Attempts of a record on its page.
const PAST_MAX: usize = 200;
/// Bytes of a value that a form can carry: each may take three in it.
const EDIT_BYTES_MAX: usize = 16 << 10;

pub(in crate::admin) async fn letter<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    Path((group, offset)): Path<(String, String)>,
) -> Response {
    match content(&admin, &group, &offset).await {
        Ok(content) => page(&format!("{group} {offset}"), &content),
        Err(refusal) => refused(&refusal),
    }
}

async fn content<S: Source>(
    admin: &Admin<S>,
    group: &str,
    offset: &str,
) -> Result<Markup, Refusal> {
    let missing = || Refusal::missing(format!("group {group:?} has no dead letter at {offset}"));
    let number = offset.parse().map_err(|_| missing())?;
    let letter = admin.source.dead_letter(group, number).await?.ok_or_else(missing)?;
    let origin = letter.origin.as_deref().and_then(|origin| origin.parse().ok());
    let past = match &origin {
        Some(origin) => admin.source.past(Some(group), origin).await?.past,
        None => Vec::new(),
    };
    let show = admin.options.show_payloads;
    Ok(html! {
        p { a href=(group_path(group)) { (group) } }
        h1 { "Dead letter " (number) }
        (facts(&letter, show))
        @if letter.state == "dead" {
            (letter_form(group, &[number], &DEAD))
            @if show { (edit_form(group, &letter)) }
        }
        h2 { "Attempts" }
        (attempts(&past, show))
        h2 { "Value" }
        pre { (payload::text(letter.value.as_deref(), show)) }
        h2 { "Headers" }
        (headers(&letter, show))
    })
}

/// The form that sends a record back with another value or header. Bytes that are no text can only
/// have headers set.
fn edit_form(group: &str, letter: &DeadLetter) -> Markup {
    let value = letter.value.as_deref().map(str::from_utf8).transpose().ok().flatten();
    let value = value.filter(|value| value.len() <= EDIT_BYTES_MAX);
    html! {
        details {
            summary { "Change it and send it back" }
            form.edit method="post" action={ (group_path(group)) "/act" } {
                input type="hidden" name="offsets" value=(letter.offset);
                @if let Some(value) = value {
                    label { "Value" textarea name="value" rows="8" { "\n" (value) } }
                }
                label { "Set header " input name="set_header" placeholder="name=value"; }
                label { "Remove header " input name="remove_header"; }
                label { "Why " input name="why" maxlength="1000"; }
                button name="verb" value="redrive" { "Send back changed" }
            }
        }
    }
}

fn facts(letter: &DeadLetter, show: bool) -> Markup {
    html! {
        dl {
            dt { "State" } dd { (letter.state) }
            dt { "Origin" } dd { (letter.origin.as_deref().unwrap_or("none")) }
            dt { "Cause" } dd { (letter.disposition) }
            @if show { dt { "Reason" } dd { (letter.reason.as_deref().unwrap_or("none given")) } }
            dt { "Failures" } dd { (letter.reconsume_times) }
            dt { "Redrives" } dd { (letter.redrives) }
            dt { "First failed" } dd { (letter.first_failed_ms.map(utc).unwrap_or_default()) }
            dt { "Dead since" } dd { (utc(letter.at_ms)) }
            dt { "Produced" } dd { (utc(letter.timestamp_ms)) }
            dt { "Key" } dd { (payload::text(letter.key.as_deref(), show)) }
        }
    }
}

fn attempts(past: &[PastView], show: bool) -> Markup {
    html! {
        @if past.is_empty() {
            p.empty { "The log has no more of its attempts." }
        } @else {
            ol.past {
                @for event in past.iter().take(PAST_MAX) {
                    li {
                        @if let Some(at) = event.at { time { (utc(at)) } " " }
                        (event.says)
                        @if let (true, Some(reason)) = (show, &event.reason) { ": " (reason) }
                        @if let Some(member) = &event.member { " (" (member) ")" }
                    }
                }
            }
        }
    }
}

fn headers(letter: &DeadLetter, show: bool) -> Markup {
    html! {
        table {
            tbody {
                @for (name, value) in &letter.headers {
                    tr {
                        th { (name) }
                        td { (payload::text(value.as_deref(), show || payload::is_ours(name))) }
                    }
                }
            }
        }
    }
}
