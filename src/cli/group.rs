//! `group list`, `group describe` and `group explain`.

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::exit::CommandFailure;
use super::explain;
use super::output::show::{ReadArgs, known};
use super::output::table::defused;
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::pages::{List, ListCount, Listing, Total};
use crate::api::{GroupView, MemberView, OffsetView, percent_encoded};
use crate::model::duration_text;

/// The end of `reprise group list --help`.
const LIST_EXAMPLES: &str = "\
EXAMPLES:
  reprise group list --sort -dead --watch
  reprise group list --admin pod-0:9664,pod-1:9664
  reprise group list --admin reprise-headless:9664 --token-file token";

#[derive(Debug, Subcommand)]
pub(super) enum GroupCommand {
    /// All groups with members, offsets, retries or dead letters.
    #[command(after_long_help = LIST_EXAMPLES)]
    List(GroupListArgs),
    /// One group: members, rules in force, retries by level, offsets, advice.
    Describe(DescribeArgs),
    /// One group's consumers: first what is unusual now (suspects, records that are cut or given
    /// alone), then its partitions.
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
pub(super) struct GroupListArgs {
    /// At most this many.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, Args)]
pub(super) struct DescribeArgs {
    /// The group to describe.
    group: String,
    #[command(flatten)]
    reading: ReadArgs,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The group to explain.
    group: String,
    /// The settings for records of this topic, where it has some of its own.
    topic: Option<String>,
    /// Every key of `retry` in force as well, and the place that sets it.
    #[arg(long)]
    settings: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

pub(super) fn run(
    command: &GroupCommand,
    screen: &TerminalScreen,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    match command {
        GroupCommand::List(GroupListArgs { limit, listing }) => {
            let list = List {
                path: "/api/v1/groups",
                query: Vec::new(),
                limit: Some(*limit),
                order: "group",
                total: Some(Total::of_all(ListCount::Groups)),
            };
            listing.show::<GroupView>((out, screen), &list)
        }
        GroupCommand::Describe(DescribeArgs { group, reading }) => {
            reading.one(out, &format!("/api/v1/groups/{}", percent_encoded(group)), lines)
        }
        GroupCommand::Explain(ExplainArgs { group, topic, settings, reading }) => {
            let mut path = format!("/api/v1/explain?group={}", percent_encoded(group));
            if let Some(topic) = topic {
                path.push_str("&topic=");
                path.push_str(&percent_encoded(topic));
            }
            let has_settings = *settings || topic.is_some();
            let lines = if has_settings { explain::lines_with_settings } else { explain::lines };
            reading.one(out, &path, lines)
        }
    }
}

fn lines(group: &GroupView) -> Vec<String> {
    let GroupView { states, policy, .. } = group;
    let delays: Vec<String> = policy.delays_ms.iter().map(|ms| millis(*ms)).collect();
    let mut out = vec![
        format!("group         {}", defused(&group.group)),
        format!("phase         {} ({}){}", group.phase, group.kind, generation(group)),
        format!("retry topic   {}", defused(&group.retry_topic)),
        format!(
            "dead letters  {} ({} bytes) in {}",
            group.dead_letters,
            group.dead_letter_bytes,
            defused(&group.dead_letter_topic)
        ),
        format!(
            "rules         {} retries, delays {}, consume timeout {}",
            policy.max_reconsume_times,
            delays.join(" "),
            millis(policy.consume_timeout_ms)
        ),
        format!("breaker       {}", defused(&group.breaker)),
        format!(
            "retries       {} pending: {} waiting, {} due, {} unread, {} blocked",
            group.pending, states.waiting, states.due, states.unread, states.blocked
        ),
    ];
    for level in &group.levels {
        out.push(format!("  level {}: {}", known(level.level.as_ref()), level.records));
    }
    out.push(heading("members", group.members.is_empty()));
    out.extend(group.members.iter().map(member));
    out.push(heading("offsets", group.offsets.is_empty()));
    for OffsetView { topic, partition, committed, end } in &group.offsets {
        let end = known(end.as_ref());
        out.push(format!("  {}-{partition} at {committed} of {end}", defused(topic)));
    }
    out.extend(group.advice.iter().map(|advice| format!("note: {}", defused(advice))));
    out
}

/// The generation, unless only a broker of the cluster knows it.
fn generation(group: &GroupView) -> String {
    if group.in_cluster { String::new() } else { format!(", generation {}", group.generation) }
}

fn member(member: &MemberView) -> String {
    let held: Vec<String> = member.assignment.iter().map(|name| defused(name)).collect();
    format!(
        "  {} ({}, {}){}{}{}{}",
        defused(&member.member_id),
        defused(&member.client_id),
        defused(&member.host),
        if member.takes_retries { ", takes retries" } else { "" },
        if member.silent { ", silent" } else { "" },
        if held.is_empty() { "" } else { ": " },
        held.join(" ")
    )
}

/// The title of a list, with `none` when the list is empty.
fn heading(key: &str, is_empty: bool) -> String {
    if is_empty { format!("{key:<14}none") } else { key.to_owned() }
}

fn millis(ms: u64) -> String {
    duration_text(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Cell, ListRow, PolicyView, StateCounts};

    #[test]
    fn a_list_shows_due_retries_once_and_silent_members_apart() {
        let members = [false, true, true];
        let members = members.map(|silent| MemberView { silent, ..MemberView::default() });
        let offset = |committed, end| OffsetView { committed, end, ..OffsetView::default() };
        let group = GroupView {
            group: "shop".into(),
            members: members.into(),
            states: StateCounts { due: 17, unread: 3, ..StateCounts::default() },
            pending: 20,
            dead_letters: 1,
            breaker: "closed".into(),
            offsets: vec![offset(10, Some(20)), offset(5, None)],
            policy: PolicyView { delays_ms: vec![10_000], ..PolicyView::default() },
            in_cluster: true,
            ..GroupView::default()
        };
        let row: Vec<Cell> = GroupView::COLUMNS.iter().map(|(_, cell)| cell(&group)).collect();
        let expected = ["1 (+2 silent)", "10", "0", "17", "3", "20", "1", "closed"];
        assert_eq!(row[2..], expected.map(|text| Cell::Text(Some(text.to_owned()))));
        let shown = lines(&group).join("\n");
        assert!(shown.contains("20 pending: 0 waiting, 17 due"), "{shown}");
        assert!(shown.contains("delays 10s,"), "{shown}");
        assert!(!shown.contains("generation"), "the cluster's brokers know it: {shown}");
    }
}
