//! One dead letter: its record, and all attempts that led to it.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};

use super::attempts::{attempts, timeline};
use super::cut::{KEY_ROOM, clipped, page_bytes};
use super::group::{DEAD, DISCARDED, letter_form};
use super::jobs::{anyway_field, target_fields};
use super::value::{RecordQuery, ShownRecord, download, record};
use super::{group_path, letter_path, query, refused, still_page};
use crate::admin::answer::Refusal;
use crate::admin::payload;
use crate::admin::payload::mask::judge_bytes;
use crate::admin::state::Admin;
use crate::api::{LetterView, RecordStage};
use crate::model::utc;
use crate::operations::{Concealment, RecordDetail};

/// Bytes of a value that a form can carry, as they stand on the page.
const EDIT_ROOM: usize = 24 << 10;

pub(in crate::admin) async fn letter(
    State(admin): State<Arc<Admin>>,
    Path((group, offset)): Path<(String, String)>,
    asked: Result<Query<RecordQuery>, QueryRejection>,
) -> Response {
    let content = async { content(&admin, &group, &offset, &query(asked)?).await };
    match content.await {
        Ok(content) => still_page(&format!("{group} {offset}"), &content),
        Err(refusal) => refused(&refusal),
    }
}

/// The value of a dead letter, as a file.
pub(in crate::admin) async fn letter_value(
    State(admin): State<Arc<Admin>>,
    Path((group, offset)): Path<(String, String)>,
) -> Response {
    let value = async {
        let letter = found(&admin, &group, &offset).await?;
        judge_bytes(letter.concealment)?;
        download(letter.value, &format!("dead-letter-{}", letter.row.offset), &admin.options)
    };
    value.await.unwrap_or_else(|refusal: Refusal| refused(&refusal))
}

/// The dead letter at an offset.
async fn found(
    admin: &Admin,
    group: &str,
    offset: &str,
) -> Result<RecordDetail<LetterView>, Refusal> {
    let missing = || Refusal::missing(format!("group {group:?} has no dead letter at {offset}"));
    let number = offset.parse().map_err(|_| missing())?;
    let mut letter = admin.operations.dead_letter(group, number).await?.ok_or_else(missing)?;
    admin.options.mask.record(&mut letter);
    Ok(letter)
}

async fn content(
    admin: &Admin,
    group: &str,
    offset: &str,
    query: &RecordQuery,
) -> Result<Markup, Refusal> {
    let letter = found(admin, group, offset).await?;
    let origin = letter.row.origin.as_deref();
    let attempts = attempts(admin, group, origin, query.story.is_some()).await?;
    let show = admin.options.show_payloads;
    let path = letter_path(group, letter.row.offset);
    let (value, headers) = (letter.value.as_deref(), letter.headers.as_slice());
    let concealment = letter.concealment;
    let receivers = admin.operations.receivers(group, vec![letter.row.offset]).await?;
    let record = record(ShownRecord { path: &path, value, headers, show, concealment }, query)?;
    Ok(html! {
        p { a href=(group_path(group)) { (group) } }
        h1 { "Dead letter " (letter.row.offset) }
        (facts(&letter, show))
        @if letter.row.state == RecordStage::Dead {
            p { "Redrive: " (receivers.unwrap_or_else(|nobody| nobody)) "." }
            (letter_form(group, letter.row.offset, &DEAD))
            @if show { (edit_form(group, &letter)) }
        } @else if letter.row.restorable_until_ms.is_some() {
            (letter_form(group, letter.row.offset, &DISCARDED))
        }
        (timeline(&path, &attempts, &letter.history, show))
        (record)
    })
}

/// The form that sends a record back with another value or header. Bytes that are no text can only
/// have headers set, and so has a value of which a part is masked.
fn edit_form(group: &str, letter: &RecordDetail<LetterView>) -> Markup {
    let whole = letter.value.as_deref().filter(|_| letter.concealment == Concealment::None);
    let value = whole.filter(|value| value.len() <= EDIT_ROOM);
    let value = value.map(str::from_utf8).transpose().ok().flatten();
    let value = value.filter(|value| page_bytes(value) <= EDIT_ROOM);
    html! {
        details {
            summary { "Change it and redrive it" }
            form.edit method="post" action={ (group_path(group)) "/act" } {
                input type="hidden" name="offsets" value=(letter.row.offset);
                @if let Some(value) = value {
                    label { "Value" textarea name="value" rows="8" { "\n" (value) } }
                }
                label { "Set header " input name="set_header" placeholder="name=value"; }
                label { "Remove header " input name="remove_header"; }
                (target_fields())
                (anyway_field())
                label { "Note " input name="note" maxlength="1000"; }
                button name="verb" value="redrive" { "Redrive changed" }
            }
        }
    }
}

fn facts(letter: &RecordDetail<LetterView>, show: bool) -> Markup {
    html! {
        dl {
            dt { "State" } dd { (letter.row.state.as_str()) }
            @if let Some(until) = letter.row.restorable_until_ms {
                dt { "Restorable until" } dd { (utc(until)) }
            }
            dt { "Origin" } dd { (letter.row.origin.as_deref().unwrap_or("none")) }
            dt { "Cause" } dd { (letter.row.cause) }
            @if show { dt { "Error" } dd { (letter.row.error.as_deref().unwrap_or("none given")) } }
            dt { "Failures" } dd { (letter.row.reconsume_times) }
            dt { "Redrives" } dd { (letter.row.redrives) }
            dt { "First failed" } dd { (letter.row.first_failed_ms.map(utc).unwrap_or_default()) }
            dt { "Dead since" } dd { (utc(letter.row.at_ms)) }
            dt { "Produced" } dd { (utc(letter.timestamp_ms)) }
            dt { "Key" } dd { (clipped(&payload::text(letter.key.as_deref(), show), KEY_ROOM)) }
        }
    }
}
