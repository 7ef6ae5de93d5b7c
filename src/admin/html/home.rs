//! The first page: the groups with something wrong, and causes of their dead letters and retries.
//! Also the page of the audit log.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::cut::cell;
use super::kinds::{COUNTING, KindOf, KindView};
use super::letters::list_path;
use super::table::{breakable, moment, scroll_table};
use super::{group_path, page, refused, search, state_path, states};
use crate::admin::answer::Refusal;
use crate::admin::state::Admin;
use crate::api::{Fingerprint, GroupView, IDLE_BREAKER, Overview, Readiness, Selector, named};
use crate::engine::AuditRecord;
use crate::operations::{Operations, Unavailable};

/// Groups of the first page.
const GROUPS_MAX: usize = 500;
/// Causes on the first page, and the groups that are read for them.
const CAUSES_MAX: usize = 20;
const CAUSE_GROUPS_MAX: usize = 50;
/// Time after which the retries of no further group are counted. Counts are remembered, so the next
/// page reaches further groups.
const COUNTING_MAX_MS: i64 = 50;
/// Audit records shown, the latest.
const AUDIT_MAX: usize = 200;

pub(in crate::admin) async fn home(State(admin): State<Arc<Admin>>) -> Response {
    match overview(&admin).await {
        Ok(content) => page("Now", &content),
        Err(refusal) => refused(&refusal),
    }
}

async fn overview(admin: &Admin) -> Result<Markup, Refusal> {
    let overview = admin.operations.overview().await?;
    let ids = admin.operations.group_ids().await?;
    let (count, mut wrong, mut well) = (ids.len(), Vec::new(), Vec::new());
    for id in ids.into_iter().take(GROUPS_MAX) {
        let Some(group) = admin.operations.group(&id).await? else { continue };
        let is_wrong = group.dead_letters > 0 || group.pending > 0;
        if is_wrong { wrong.push(group) } else { well.push(group) }
    }
    wrong.sort_by_key(|group| std::cmp::Reverse(group.dead_letters));
    let mut causes = Vec::new();
    for group in wrong.iter().filter(|group| group.dead_letters > 0).take(CAUSE_GROUPS_MAX) {
        let found = admin.operations.fingerprints(&group.group, CAUSES_MAX).await?;
        causes.extend(found.items.into_iter().map(|kind| (group.group.clone(), kind)));
    }
    keep_most_frequent(&mut causes);
    let (retries, is_counting) = retry_causes(&admin.operations, &wrong).await?;
    let (show, now_ms) = (admin.options.show_payloads, admin.operations.now_ms());
    let letters = KindView { of: KindOf::Letters, show, now_ms };
    Ok(html! {
        h1 { "Now" }
        (search::field(""))
        (troubles(&admin.operations.readiness()))
        @if wrong.is_empty() {
            p.empty {
                "No group has dead letters or retries. A record that a consumer fails on appears "
                "here, with its error and with buttons to redrive it."
            }
        } @else {
            (table(&wrong))
        }
        (letters.table(&causes))
        (KindView { of: KindOf::Retries, ..letters }.table(&retries))
        @if is_counting { p { (COUNTING) } }
        @if !well.is_empty() {
            h2 { "Groups without failures" }
            p { @for group in &well { a href=(group_path(&group.group)) { (group.group) } " " } }
        }
        @if count > GROUPS_MAX {
            p { (GROUPS_MAX) " of " (count) " groups shown" }
        }
        h2 { "This sidecar" }
        (facts(&overview))
    })
}

/// The most frequent causes of retries that wait, and whether some are still to be counted.
async fn retry_causes(
    operations: &Operations,
    groups: &[GroupView],
) -> Result<(Vec<(String, Fingerprint)>, bool), Unavailable> {
    let (mut causes, mut is_counting) = (Vec::new(), false);
    let until_ms = operations.now_ms().saturating_add(COUNTING_MAX_MS);
    let groups = groups.iter().filter(|group| group.pending > 0);
    for GroupView { group, .. } in groups.take(CAUSE_GROUPS_MAX) {
        let found = operations.retry_fingerprints(group, CAUSES_MAX).await?;
        is_counting = found.is_counting || operations.now_ms() > until_ms;
        causes.extend(found.items.into_iter().map(|kind| (group.clone(), kind)));
        if is_counting {
            break;
        }
    }
    keep_most_frequent(&mut causes);
    Ok((causes, is_counting))
}

fn keep_most_frequent(causes: &mut Vec<(String, Fingerprint)>) {
    causes.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.records));
    causes.truncate(CAUSES_MAX);
}

fn troubles(readiness: &Readiness) -> Markup {
    html! {
        @if let Some(reason) = &readiness.restart_reason {
            p.alarm { strong { "Restart needed. " } (reason) }
        }
        @for reason in &readiness.degraded {
            p.alarm { strong { "Degraded. " } (reason) }
        }
    }
}

fn table(groups: &[GroupView]) -> Markup {
    html! {
        (scroll_table("Groups", &html! {
            thead { tr {
                th { "Group" } th.number { "Dead letters" } th { "Retries" } th.number { "Members" }
            } }
            tbody {
                @for group in groups {
                    @let live = group.live_members().count();
                    tr {
                        td { a href=(group_path(&group.group)) { (breakable(&group.group)) } }
                        td.number {
                            a href=(list_path(&group.group, &Selector::default(), None)) {
                                (group.dead_letters)
                            }
                        }
                        td {
                            @for (state, count) in states(&group.states) {
                                a.chip href=(state_path(&group.group, state)) {
                                    (count) " " (state)
                                } " "
                            }
                            @if !IDLE_BREAKER.contains(&group.breaker.as_str()) {
                                span.chip { "breaker " (group.breaker) } " "
                            }
                            @let is_alone = live == 0 && group.elsewhere.is_none();
                            @if is_alone && group.states.due > 0 {
                                span.alarm { "due, and nobody is connected" }
                            }
                        }
                        td.number { (live) }
                    }
                }
            }
        }))
    }
}

fn facts(overview: &Overview) -> Markup {
    html! {
        dl {
            dt { "Dead letters" } dd { (overview.dead_letters) }
            dt { "Retries" } dd { (overview.pending) }
            dt { "Delayed records" } dd { (overview.delayed) }
            dt { "Groups" } dd { (overview.groups) }
            dt { "Connections" } dd { (overview.connections) }
            dt { "Journal" } dd { (overview.journal_bytes / (1 << 20)) " MiB" }
            dt { "Listens at" } dd { (overview.listen.join(", ")) }
            dt { "Up for" } dd { (overview.uptime_ms / 60_000) " min" }
        }
    }
}

/// The latest records of the audit log, newest first.
pub(in crate::admin) async fn audit(State(admin): State<Arc<Admin>>) -> Response {
    let end = admin.operations.audit_end();
    let first = end.saturating_sub(i64::try_from(AUDIT_MAX).unwrap_or(i64::MAX)).max(0);
    match admin.operations.audit(None, first, AUDIT_MAX).await {
        Ok(mut records) => {
            records.reverse();
            page("Audit", &audit_table(&records))
        }
        Err(error) => refused(&error.into()),
    }
}

fn audit_table(records: &[(i64, AuditRecord)]) -> Markup {
    html! {
        h1 { "Audit" }
        @if records.is_empty() {
            p.empty { "No operator has acted in the last 90 days. Each action is recorded here." }
        } @else {
            (scroll_table("Audit", &html! {
                thead { tr {
                    th { "When" } th { "Who" } th { "Action" } th { "Group" }
                    th.number { "Changed" } th.number { "Left" } th { "Records" } th { "Note" }
                } }
                tbody {
                    @for (_, record) in records {
                        tr {
                            td { (moment(record.at.0)) }
                            td {
                                (named(&record.by.name, record.by.is_claimed)) " "
                                (record.by.peer)
                            }
                            td {
                                (record.action)
                                @if let Some(job) = record.job {
                                    " " a href={ "/jobs/" (job) } { "job " (job) }
                                }
                            }
                            td {
                                a href=(group_path(record.group.as_str())) {
                                    (breakable(record.group.as_str()))
                                }
                            }
                            td.number { (record.changed) }
                            td.number { (record.left) }
                            td.text { (cell(&record.places.join(", "))) }
                            td.text { (record.by.note) }
                        }
                    }
                }
            }))
        }
    }
}
