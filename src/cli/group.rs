//! `group list`, `group describe` and `group explain`.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::exit::CommandFailure;
use super::explain;
use super::output::show::{Column, ReadArgs, cell, field, state, text};
use super::output::table::{Cell, defused};
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::pages::{List, Listing, Total};
use crate::admin::percent_encoded;
use crate::model::duration_text;

const COLUMNS: [Column; 10] = [
    ("GROUP", |v| field(v, "group")),
    ("PHASE", |v| state(v, "phase")),
    ("MEMBERS", members),
    ("LAG", lag),
    ("WAITING", |v| field(v, "waiting")),
    ("DUE", |v| field(v, "due")),
    ("UNREAD", |v| field(v, "unread")),
    ("PENDING", |v| field(v, "pending")),
    ("DEAD", |v| field(v, "dead_letters")),
    ("BREAKER", |v| field(v, "breaker")),
];

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
                columns: &COLUMNS,
                order: "group",
                total: Some(Total::of_group(None, "groups")),
            };
            listing.show((out, screen), &list)
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

/// The number of live members, and of silent ones if there are some.
fn members(group: &Value) -> Cell {
    let (silent, live): (Vec<&Value>, Vec<&Value>) =
        items(group, "members").partition(|member| is_silent(member));
    Cell::Text(match silent.len() {
        0 => live.len().to_string(),
        silent => format!("{} (+{silent} silent)", live.len()),
    })
}

/// Records between the committed offsets of a group and the known ends of its partitions.
fn lag(group: &Value) -> Cell {
    let lags = items(group, "offsets").filter_map(|offset| {
        let number = |key| offset.get(key).and_then(Value::as_i64);
        u64::try_from(number("end")?.saturating_sub(number("committed")?)).ok()
    });
    let lag = lags.reduce(u64::saturating_add);
    Cell::Text(lag.map_or("-".to_owned(), |lag| lag.to_string()))
}

fn is_silent(member: &Value) -> bool {
    member.get("silent").and_then(Value::as_bool) == Some(true)
}

fn lines(group: &Value) -> Vec<String> {
    let policy = group.get("policy").unwrap_or(&Value::Null);
    let name = defused(&cell(group, "group"));
    let mut out = vec![
        format!("group         {name}"),
        format!(
            "phase         {} ({}){}",
            cell(group, "phase"),
            cell(group, "kind"),
            generation(group)
        ),
        format!("retry topic   {}", defused(&cell(group, "retry_topic"))),
        format!(
            "dead letters  {} ({} bytes) in {}",
            cell(group, "dead_letters"),
            cell(group, "dead_letter_bytes"),
            defused(&cell(group, "dead_letter_topic"))
        ),
        format!(
            "rules         {} retries, delays {}, consume timeout {}",
            cell(policy, "max_reconsume_times"),
            delays(policy),
            millis(policy.get("consume_timeout_ms"))
        ),
        format!("breaker       {}", defused(&cell(group, "breaker"))),
        format!(
            "retries       {} pending: {} waiting, {} due, {} unread, {} blocked",
            cell(group, "pending"),
            cell(group, "waiting"),
            cell(group, "due"),
            cell(group, "unread"),
            cell(group, "blocked")
        ),
    ];
    for level in items(group, "levels") {
        out.push(format!("  level {}: {}", cell(level, "level"), cell(level, "records")));
    }
    out.push(heading("members", group));
    for member in items(group, "members") {
        let takes = member.get("takes_retries").and_then(Value::as_bool).unwrap_or(false);
        out.push(format!(
            "  {} ({}, {}){}{}{}",
            defused(&cell(member, "member_id")),
            defused(&cell(member, "client_id")),
            defused(&cell(member, "host")),
            if takes { ", takes retries" } else { "" },
            if is_silent(member) { ", silent" } else { "" },
            held(member)
        ));
    }
    out.push(heading("offsets", group));
    for offset in items(group, "offsets") {
        out.push(format!(
            "  {}-{} at {} of {}",
            defused(&cell(offset, "topic")),
            cell(offset, "partition"),
            cell(offset, "committed"),
            cell(offset, "end")
        ));
    }
    out.extend(items(group, "advice").map(|advice| format!("note: {}", text(advice))));
    out
}

/// The generation, unless only a broker of the cluster knows it.
fn generation(group: &Value) -> String {
    match group.get("in_cluster").and_then(Value::as_bool) {
        Some(true) => String::new(),
        _ => format!(", generation {}", cell(group, "generation")),
    }
}

/// The assigned partitions of a member.
fn held(member: &Value) -> String {
    let held: Vec<String> =
        items(member, "assignment").map(text).map(|name| defused(&name)).collect();
    if held.is_empty() { String::new() } else { format!(": {}", held.join(" ")) }
}

/// The title of a list, with `none` when the list is empty.
fn heading(key: &str, group: &Value) -> String {
    if items(group, key).next().is_none() { format!("{key:<14}none") } else { key.to_owned() }
}

pub(super) fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn delays(policy: &Value) -> String {
    let delays: Vec<String> = items(policy, "delays_ms").map(|ms| millis(Some(ms))).collect();
    delays.join(" ")
}

fn millis(value: Option<&Value>) -> String {
    let ms = value.and_then(Value::as_u64).unwrap_or(0);
    duration_text(std::time::Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_shows_due_retries_once_and_silent_members_apart() {
        let members = json!([{ "silent": false }, { "silent": true }, { "silent": true }]);
        let group = json!({
            "group": "shop", "phase": "InCluster", "members": members, "waiting": 0, "due": 17,
            "unread": 3, "pending": 20, "dead_letters": 1, "breaker": "closed",
            "offsets": [{"committed": 10, "end": 20}, {"committed": 5, "end": null}],
            "policy": { "levels_ms": [1000, 5000, 10000], "delays_ms": [10000] },
            "in_cluster": true,
        });
        let row: Vec<Cell> = COLUMNS.iter().map(|(_, shown)| shown(&group)).collect();
        let expected = ["1 (+2 silent)", "10", "0", "17", "3", "20", "1", "closed"];
        assert_eq!(row[2..], expected.map(|text| Cell::Text(text.to_owned())));
        let shown = lines(&group).join("\n");
        assert!(shown.contains("20 pending: 0 waiting, 17 due"), "{shown}");
        assert!(shown.contains("delays 10s,"), "{shown}");
        assert!(!shown.contains("generation"), "the cluster's brokers know it: {shown}");
    }
}
