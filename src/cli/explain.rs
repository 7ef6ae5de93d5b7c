//! `group explain`, in lines.

use serde_json::Value;

use super::group::items;
use super::show::{cell, text};
use super::table::clean;
use super::time::utc;

/// What is known and suspected of a group's consumers.
pub(super) fn lines(explained: &Value) -> Vec<String> {
    let is = |value: &Value, key: &str| value.get(key).and_then(Value::as_bool) == Some(true);
    let mut out = vec![format!("group         {}", clean(&cell(explained, "group")))];
    if !is(explained, "watched") {
        out.push("nothing is inferred: retry.lane is off or retry-topic".to_owned());
    } else if items(explained, "partitions").next().is_none() {
        out.push("no Fetch or commit of it was seen since the start".to_owned());
    }
    for partition in items(explained, "partitions") {
        let member = partition.get("member").and_then(Value::as_str);
        let committed = partition.get("committed").and_then(Value::as_i64);
        out.push(format!(
            "{}-{}  {}, {}, given up to {}",
            clean(&cell(partition, "topic")),
            cell(partition, "partition"),
            member
                .map_or("held by nobody".to_owned(), |member| format!("held by {}", clean(member))),
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
        if let Some(why) = partition.get("unjudged").and_then(Value::as_str) {
            out.push(format!("  going back  is no failure here: {why}"));
        }
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
