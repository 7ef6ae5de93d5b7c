//! A group: its dead letters and retries by what they have in common, and its consumers.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};

use super::jobs::anyway_field;
use super::kinds::{KindOf, KindView};
use super::{ActionNotice, consumers, group_path, notice, page, refused, state_path, states};
use crate::admin::answer::Refusal;
use crate::admin::state::Admin;
use crate::api::IDLE_BREAKER;

/// Kinds of letters, and of retries, on the page.
const KINDS_MAX: usize = 50;

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
    let kinds = admin.operations.fingerprints(id, KINDS_MAX).await?;
    let retry_kinds = admin.operations.retry_fingerprints(id, KINDS_MAX).await?;
    let explained = admin.operations.explain(id).await?;
    let rules = admin.operations.in_force(id, None);
    let (show, now_ms) = (admin.options.show_payloads, admin.operations.now_ms());
    let letters = KindView { of: KindOf::Letters, show, now_ms };
    Ok(html! {
        h1 { (id) }
        (notice(outcome, Some(id)))
        p {
            @for (state, count) in states(&group.states) {
                a.chip href=(state_path(id, state)) { (count) " " (state) } " "
            }
            span.chip { (group.dead_letters) " dead letters" } " "
            @if !IDLE_BREAKER.contains(&group.breaker.as_str()) {
                span.chip { "breaker: " (group.breaker) }
            }
        }
        h2 { "Dead letters by cause" }
        @if group.dead_letters == 0 {
            p.empty { "This group has no dead letters." }
        } @else {
            (letters.sections(id, &kinds))
            p { a href={ (group_path(id)) "/letters" } { "All dead letters, in pages" } }
        }
        p {
            a href={ (group_path(id)) "/letters?state=discarded" } { "Discarded letters" }
            ", to restore some of the last 24 hours."
        }
        h2 { "Retries by cause" }
        @if retry_kinds.items.is_empty() && !retry_kinds.is_counting {
            p.empty { "No retry waits." }
        } @else {
            (KindView { of: KindOf::Retries, ..letters }.sections(id, &retry_kinds))
            p { a href={ (group_path(id)) "/waiting" } { "All that wait, in pages" } }
        }
        (consumers::sections(&group, explained.as_ref(), &rules))
    })
}

/// A button of a form: the verb, the label, and whether it destroys.
type Button = (&'static str, &'static str, bool);

/// The buttons of a dead letter.
pub(super) const DEAD: [Button; 2] = [("redrive", "Redrive", false), ("discard", "Discard", true)];
/// The button of a discarded letter.
pub(super) const DISCARDED: [Button; 1] = [("restore", "Restore", false)];

/// Buttons that act on a letter.
pub(super) fn letter_form(group: &str, offset: i64, buttons: &[Button]) -> Markup {
    html! {
        form method="post" action={ (group_path(group)) "/act" } {
            input type="hidden" name="offsets" value=(offset);
            label { "Note " input name="note" maxlength="1000"; }
            @if *buttons == DEAD { (anyway_field()) }
            @for (verb, label, destroys) in buttons {
                button.danger[*destroys] name="verb" value=(verb) { (label) }
            }
        }
    }
}
