//! `group explain` and `retry show`, in lines.

use std::collections::BTreeSet;

use serde_json::Value;

use super::group::items;
use super::show::{cell, text};
use super::table::{clean, defused};
use super::time::utc;

/// What goes before the rules.
const SAID: &str = "a failure's own x-retry-level, x-retry-delay-ms, x-retry-max go first (in a \
    commit level=, delay=, max=)";

/// What is known and suspected of a group's consumers.
pub(super) fn lines(explained: &Value) -> Vec<String> {
    let is = |value: &Value, key: &str| value.get(key).and_then(Value::as_bool) == Some(true);
    let mut out = vec![format!("group         {}", clean(&cell(explained, "group")))];
    out.extend(items(explained, "rules").map(|rule| {
        let said = |key: &str| clean(&cell(rule, key));
        format!("  {:28} {}  ({})", said("key"), said("value"), said("from"))
    }));
    if items(explained, "rules").next().is_some() {
        out.push(format!("  {SAID}"));
    }
    out.push(format!("breaker       {}", clean(&cell(explained, "breaker"))));
    if !is(explained, "watched") {
        out.push("nothing is inferred: retry.lane is off or retry-topic".to_owned());
    } else if items(explained, "partitions").next().is_none() {
        out.push("no Fetch or commit of it was seen since the start".to_owned());
    }
    out.extend(items(explained, "alone").map(alone));
    out.extend(items(explained, "partitions").flat_map(partition));
    out.extend(items(explained, "advice").map(|advice| format!("note: {}", text(advice))));
    out
}

fn alone(alone: &Value) -> String {
    let retry = alone.get("retry").and_then(Value::as_str).map_or("a retry".to_owned(), clean);
    let said = |key: &str| clean(&cell(alone, key));
    format!("{retry}  goes alone at {}: {}", said("member"), said("stands"))
}

/// What has happened to a record, oldest first.
pub(super) fn told(told: &Value) -> Vec<String> {
    let mut out = vec![format!("record        {}", clean(&cell(told, "record")))];
    for now in items(told, "now") {
        out.push(format!("group         {}", clean(&cell(now, "group"))));
        out.extend(items(now, "partitions").flat_map(partition));
    }
    let groups: BTreeSet<String> = items(told, "past").map(|past| cell(past, "group")).collect();
    for past in items(told, "past") {
        let number = |key: &str| past.get(key).and_then(Value::as_i64);
        let said = |key: &str| past.get(key).and_then(Value::as_str).map(defused);
        let mut line = format!(
            "{:20}  {:3}  {}",
            number("at").map_or("…".to_owned(), utc),
            said("evidence").unwrap_or_default(),
            said("says").unwrap_or_default(),
        );
        let group = Some(cell(past, "group")).filter(|_| groups.len() > 1);
        let notes = [
            number("until").map(|at| format!("until {}", utc(at))),
            number("reconsume_times").map(|n| format!("reconsume times {n}")),
            said("reason").map(|reason| format!("reason \"{reason}\"")),
            said("member").map(|member| format!("by {member}")),
            said("client").map(|client| format!("client {client}")),
            group.map(|group| format!("group {}", clean(&group))),
        ];
        for note in notes.into_iter().flatten() {
            line.push_str("; ");
            line.push_str(&note);
        }
        out.push(line);
    }
    out
}

fn partition(partition: &Value) -> Vec<String> {
    let is = |value: &Value, key: &str| value.get(key).and_then(Value::as_bool) == Some(true);
    let mut out = Vec::new();
    let member = partition.get("member").and_then(Value::as_str);
    let committed = partition.get("committed").and_then(Value::as_i64);
    out.push(format!(
        "{}-{}  {}, {}, given up to {}",
        clean(&cell(partition, "topic")),
        cell(partition, "partition"),
        member.map_or("held by nobody".to_owned(), |member| format!("held by {}", clean(member))),
        committed.map_or("no commit seen".to_owned(), |offset| format!("committed {offset}")),
        cell(partition, "handed_out"),
    ));
    let lost = partition.get("lost").and_then(Value::as_u64).unwrap_or(0);
    if lost > 0 {
        let single = if is(partition, "single_file") { ": one record at a time" } else { "" };
        out.push(format!("  lost        {lost} hand-outs in a row{single}"));
    }
    out.extend(items(partition, "suspects").flat_map(suspect));
    let skipped: Vec<String> = items(partition, "skipped").map(text).collect();
    if !skipped.is_empty() {
        let offsets = skipped.join(" ");
        out.push(format!("  skipped     {offsets}: settled, cut until a commit passes them"));
    }
    let seek_backs = items(partition, "seek_backs").map(|record| {
        let (offset, times) = (cell(record, "offset"), cell(record, "times"));
        format!("  went back   to @{offset} {times} times")
    });
    out.extend(seek_backs);
    if let Some(why) = partition.get("unjudged").and_then(Value::as_str) {
        out.push(format!("  going back  is no failure here: {why}"));
    }
    out
}

fn suspect(suspect: &Value) -> Vec<String> {
    let mut out = vec![format!(
        "  @{:<10} {} of {} retries; {}",
        cell(suspect, "offset"),
        cell(suspect, "reconsume_times"),
        cell(suspect, "max_reconsume_times"),
        cell(suspect, "stands"),
    )];
    for failure in items(suspect, "history") {
        let at = failure.get(0).and_then(Value::as_i64).unwrap_or(0);
        let why = failure.get(1).map_or(String::new(), text);
        out.push(format!("              {} {why}", utc(at)));
    }
    out
}
