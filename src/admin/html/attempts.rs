//! The attempts of a record, as the log tells them, or as the entry remembers them.

use maud::{Markup, html};

use super::cut::cell;
use super::table::{moment, scroll_table};
use crate::admin::answer::Refusal;
use crate::admin::state::Admin;
use crate::api::PastView;

/// Events on a page, the latest.
const EVENTS_MAX: usize = 50;
/// The largest journal that a page reads as a whole unless the operator asks for it.
const JOURNAL_MAX: u64 = 256 << 20;

/// The attempts of a record.
pub(super) struct AttemptList {
    events: Vec<PastView>,
    /// The journal was too large to be read.
    is_short: bool,
}

/// Finds the attempts of a record of a group.
pub(super) async fn attempts(
    admin: &Admin,
    group: &str,
    origin: Option<&str>,
    is_asked: bool,
) -> Result<AttemptList, Refusal> {
    let none = AttemptList { events: Vec::new(), is_short: false };
    let Some(origin) = origin.and_then(|origin| origin.parse().ok()) else { return Ok(none) };
    if !is_asked && admin.operations.overview().await?.journal_bytes > JOURNAL_MAX {
        return Ok(AttemptList { is_short: true, ..none });
    }
    Ok(AttemptList {
        events: admin.operations.past(Some(group), &origin).await?.past,
        is_short: false,
    })
}

/// The table of the attempts; `path` is the page of the record.
pub(super) fn timeline(
    path: &str,
    attempts: &AttemptList,
    history: &[(i64, String)],
    show: bool,
) -> Markup {
    let events = &attempts.events;
    let first = events.len().saturating_sub(EVENTS_MAX);
    html! {
        h2 #attempts { "Attempts" }
        @if attempts.is_short {
            p {
                "The reasons are in the log, which is large: "
                a href={ (path) "?story=all#attempts" } { "read all of it" } "."
            }
        }
        @if events.is_empty() {
            (remembered(history))
        } @else {
            @if first > 0 { p { "The last " (EVENTS_MAX) " of " (events.len()) " events." } }
            (scroll_table("Attempts", &html! {
                thead { tr {
                    th { "When" } th.number { "Failures" } th { "Event" } th { "Error" }
                    th { "Member" } th { "Waits until" }
                } }
                tbody { @for event in events.iter().skip(first) { (row(event, show)) } }
            }))
        }
    }
}

fn row(event: &PastView, show: bool) -> Markup {
    let reason = event.error.as_deref().filter(|_| show);
    html! {
        tr {
            td { @if let Some(at) = event.at { (moment(at)) } }
            td.number { @if let Some(times) = event.reconsume_times { (times) } }
            td { (event.says) }
            td.text { @if let Some(reason) = reason { (cell(reason)) } }
            td.text { @if let Some(member) = &event.member { (cell(member)) } }
            td { @if let Some(until) = event.until { (moment(until)) } }
        }
    }
}

fn remembered(history: &[(i64, String)]) -> Markup {
    html! {
        @if history.is_empty() {
            p.empty {
                "No attempt of this record is known any more. Attempts stay in the log until "
                "compaction removes them; a record that somebody wrote here has had none."
            }
        } @else {
            (scroll_table("Attempts", &html! {
                thead { tr { th { "When" } th { "Cause" } } }
                tbody {
                    @for (at, cause) in history { tr { td { (moment(*at)) } td { (cause) } } }
                }
            }))
        }
    }
}
