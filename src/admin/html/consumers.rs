//! The consumers of a group on its page: members and offsets, suspects, and the policy in force.

use maud::{Markup, html};

use super::cut::cell;
use super::table::{breakable, scroll_table};
use crate::api::{
    GroupExplanation, GroupView, IDLE_BREAKER, MemberView, OffsetView, RuleView, SuspectsView,
    percent_encoded,
};

/// Rows of each table; the JSON API has the rest.
const ROWS_MAX: usize = 25;

/// The sections about the consumers of a group.
pub(super) fn sections(
    group: &GroupView,
    explained: Option<&GroupExplanation>,
    rules: &[RuleView],
) -> Markup {
    html! {
        @for advice in group.advice.iter().take(ROWS_MAX) { p.alarm { (advice) } }
        h2 { "Members" }
        (members(group))
        h2 { "Committed offsets" }
        (offsets(&group.offsets))
        @if let Some(explained) = explained {
            h2 { "Suspects" }
            (suspects(explained))
        }
        h2 { "Policy in force" }
        (policy(group, rules))
        p {
            "All of it as JSON: "
            a href={ "/api/v1/explain?group=" (percent_encoded(&group.group)) } { "explain" } "."
        }
    }
}

fn members(group: &GroupView) -> Markup {
    html! {
        p {
            "The group is " (group.phase)
            @if !group.in_cluster { ", generation " (group.generation) }
            @if !IDLE_BREAKER.contains(&group.breaker.as_str()) { ", breaker " (group.breaker) }
            "."
            @if let Some(elsewhere) = group.elsewhere {
                " Members that are connected elsewhere: "
                (elsewhere.members) ", of which " (elsewhere.subscribed)
                " subscribe to the retry topic."
            }
        }
        @if group.members.is_empty() {
            p.empty {
                "No member is connected through this sidecar. Retries that are due wait until a "
                "member of the group subscribes to " code { (group.retry_topic) } "."
            }
        } @else {
            (scroll_table("Members", &html! {
                thead { tr {
                    th { "Member" } th { "Client" } th { "Takes retries" } th { "Partitions" }
                } }
                tbody {
                    @for member in group.members.iter().take(ROWS_MAX) { (member_row(member)) }
                }
            }))
            (rest(group.members.len()))
        }
    }
}

fn member_row(member: &MemberView) -> Markup {
    let name = member.instance_id.as_deref().unwrap_or(&member.member_id);
    html! {
        tr {
            td.text { (cell(name)) @if member.silent { " " span.chip { "silent" } } }
            td.text { (cell(&member.client_id)) " " (member.host) }
            td { (if member.takes_retries { "yes" } else { "no" }) }
            td.text { (cell(&member.assignment.join(", "))) }
        }
    }
}

fn offsets(offsets: &[OffsetView]) -> Markup {
    html! {
        @if offsets.is_empty() {
            p.empty {
                "This sidecar has seen no commit of the group since its start. A consumer commits "
                "as it goes on; one with enable.auto.commit commits every 5 s."
            }
        } @else {
            (scroll_table("Committed offsets", &html! {
                thead { tr {
                    th { "Partition" } th.number { "Committed" } th.number { "End" }
                    th.number { "Behind" }
                } }
                tbody {
                    @for offset in offsets.iter().take(ROWS_MAX) {
                        tr {
                            td { (breakable(&offset.topic)) "-" (offset.partition) }
                            td.number { (offset.committed) }
                            td.number { @if let Some(end) = offset.end { (end) } @else { "-" } }
                            td.number {
                                @if let Some(end) = offset.end {
                                    (end.saturating_sub(offset.committed).max(0))
                                }
                            }
                        }
                    }
                }
            }))
            (rest(offsets.len()))
        }
    }
}

fn suspects(explained: &GroupExplanation) -> Markup {
    html! {
        @if !explained.watched {
            p.empty {
                "Lost deliveries are not looked at in this group: " code { "retry.delivery" }
                " is topic. Set it to auto to find records that end their consumers."
            }
        } @else if explained.suspects.is_empty() {
            p.empty {
                "No record is suspected. A record that is outstanding whenever a consumer ends "
                "without a commit appears here, with the next step."
            }
        } @else {
            (scroll_table("Suspects", &html! {
                thead { tr {
                    th { "Stage" } th { "Records" } th.number { "Lost" } th { "Why" } th { "Next" }
                } }
                tbody {
                    @for set in explained.suspects.iter().take(ROWS_MAX) { (suspects_row(set)) }
                }
            }))
            (rest(explained.suspects.len()))
        }
    }
}

fn suspects_row(set: &SuspectsView) -> Markup {
    html! {
        tr {
            td { (set.stage) }
            td.text { (set.records) ": " (cell(&set.offsets.join(", "))) }
            td.number { (set.losses) }
            td { (set.why) }
            td { (set.next) }
        }
    }
}

fn policy(group: &GroupView, rules: &[RuleView]) -> Markup {
    let delay = |ms: &u64| {
        if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
    };
    let delays: Vec<String> = group.policy.delays_ms.iter().map(delay).collect();
    html! {
        p {
            "A record is retried " (group.policy.max_reconsume_times) " times"
            @if !delays.is_empty() { ", after " (cell(&delays.join(", "))) } "."
        }
        details {
            summary { "Every setting, and the place that makes it what it is" }
            (scroll_table("Policy in force", &html! {
                thead { tr { th { "Key of retry" } th { "Value" } th { "From" } } }
                tbody {
                    @for rule in rules {
                        tr {
                            td { code { (rule.key) } }
                            td.text { (cell(&rule.value)) }
                            td.text { (cell(&rule.from)) }
                        }
                    }
                }
            }))
        }
    }
}

fn rest(rows: usize) -> Markup {
    html! { @if rows > ROWS_MAX { p { (ROWS_MAX) " of " (rows) " shown." } } }
}
