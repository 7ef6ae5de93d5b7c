//! `group explain` and `retry show`, in lines.

use std::collections::BTreeSet;

use serde_json::Value;

use super::group::items;
use super::output::show::{cell, text};
use super::output::table::defused;
use crate::model::utc;

/// A note on the settings that a nack itself may carry.
const OF_A_FAILURE: &str = "a failure's own x-retry-level, x-retry-delay-ms, x-retry-max go first \
    (in a commit level=, delay=, max=)";
/// States of a breaker in which deliveries go on.
const IDLE_BREAKER: [&str; 2] = ["off", "closed"];

/// The consumers of a group as lines: first what is unusual now, then its partitions.
pub(super) fn lines(explained: &Value) -> Vec<String> {
    let mut out = vec![format!("group         {}", defused(&cell(explained, "group")))];
    // A partition without anything unusual takes one line.
    let (unusual, usual): (Vec<Vec<String>>, Vec<Vec<String>>) =
        items(explained, "partitions").map(partition).partition(|lines| lines.len() > 1);
    let breaker = defused(&cell(explained, "breaker"));
    let before = out.len();
    if !IDLE_BREAKER.contains(&breaker.as_str()) {
        out.push(format!("breaker       {breaker}"));
    }
    out.extend(items(explained, "suspects").flat_map(suspects));
    out.extend(unusual.into_iter().flatten());
    out.extend(items(explained, "advice").map(|advice| format!("note: {}", text(advice))));
    if out.len() == before {
        out.push("now           nothing is unusual: no record is suspected or cut".to_owned());
    }
    if explained.get("watched").and_then(Value::as_bool) != Some(true) {
        out.push("nothing is inferred: retry.delivery is off or topic".to_owned());
    } else if items(explained, "partitions").next().is_none() {
        out.push("no Fetch or commit of it was seen since the start".to_owned());
    }
    out.extend(usual.into_iter().flatten());
    out
}

/// [`lines`], with the settings in force after them.
pub(super) fn lines_with_settings(explained: &Value) -> Vec<String> {
    let mut out = lines(explained);
    out.push("settings".to_owned());
    out.extend(items(explained, "rules").map(|rule| {
        let said = |key: &str| defused(&cell(rule, key));
        format!("  {:28} {}  ({})", said("key"), said("value"), said("from"))
    }));
    out.push(format!("  {OF_A_FAILURE}"));
    out
}

/// The lines of a set of suspects.
fn suspects(set: &Value) -> Vec<String> {
    let list = |key: &str| items(set, key).map(text).collect::<Vec<String>>().join(" ");
    let ago = |key: &str| lasted(set.get(key).and_then(Value::as_u64).unwrap_or(0));
    let records = match cell(set, "records").as_str() {
        "1" => "1 record".to_owned(),
        n => format!("{n} records"),
    };
    let mut out = vec![
        format!("suspects      {records}: {}", defused(&list("offsets"))),
        format!("  why         {}", defused(&cell(set, "why"))),
        format!("  since       {}; last loss {} ago", ago("since_ms"), ago("last_loss_ms")),
    ];
    let granted = list("granted");
    if !granted.is_empty() {
        out.push(format!("  delivered   {} to {}", defused(&granted), defused(&list("members"))));
    }
    out.push(format!("  next        {}", defused(&cell(set, "next"))));
    out
}

/// A duration in its largest suitable unit.
fn lasted(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{ms} ms"),
        10_000..600_000 => format!("{} s", ms / 1000),
        _ => format!("{} min", ms / 60_000),
    }
}

/// The history of a record as lines, oldest first.
pub(super) fn told(told: &Value) -> Vec<String> {
    let mut out = vec![format!("record        {}", defused(&cell(told, "record")))];
    for now in items(told, "now") {
        out.push(format!("group         {}", defused(&cell(now, "group"))));
        out.extend(items(now, "partitions").flat_map(partition));
    }
    let groups: BTreeSet<String> = items(told, "past").map(|past| cell(past, "group")).collect();
    for past in items(told, "past") {
        let number = |key: &str| past.get(key).and_then(Value::as_i64);
        let said = |key: &str| past.get(key).and_then(Value::as_str).map(defused);
        let mut line = format!(
            "{:20}  {}",
            number("at").map_or("…".to_owned(), utc),
            said("says").unwrap_or_default(),
        );
        let group = Some(cell(past, "group")).filter(|_| groups.len() > 1);
        let notes = [
            number("until").map(|at| format!("until {}", utc(at))),
            number("reconsume_times").map(|n| format!("reconsume times {n}")),
            said("error").map(|reason| format!("reason \"{reason}\"")),
            said("member").map(|member| format!("by {member}")),
            said("client").map(|client| format!("client {client}")),
            group.map(|group| format!("group {}", defused(&group))),
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
    let member = partition.get("member").and_then(Value::as_str);
    let committed = partition.get("committed").and_then(Value::as_i64);
    let mut out = vec![format!(
        "{}-{}  {}, {}, delivered up to {}",
        defused(&cell(partition, "topic")),
        cell(partition, "partition"),
        member.map_or("no owner".to_owned(), |member| format!("owner {}", defused(member))),
        committed.map_or("no commit seen".to_owned(), |offset| format!("committed {offset}")),
        cell(partition, "handed_out"),
    )];
    out.extend(items(partition, "suspects").flat_map(suspect));
    let skipped: Vec<String> = items(partition, "skipped").map(text).collect();
    if !skipped.is_empty() {
        let offsets = skipped.join(" ");
        out.push(format!("  skipped     {offsets}: settled, cut until a commit passes them"));
    }
    let seek_backs: Vec<String> = items(partition, "seek_backs")
        .map(|record| {
            let (offset, times) = (cell(record, "offset"), cell(record, "times"));
            format!("  went back   to @{offset} {times} times")
        })
        .collect();
    let has_gone_back = !seek_backs.is_empty();
    out.extend(seek_backs);
    if let Some(why) = partition.get("unjudged").and_then(Value::as_str).filter(|_| has_gone_back) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_healthy_group_is_explained_in_one_line_with_partitions() {
        let partition = |topic: &str, skipped: &[i64]| {
            json!({
                "topic": topic, "partition": 0, "member": "m-1", "committed": 50,
                "handed_out": 58, "unjudged": "on_seek_back is observe", "skipped": skipped,
            })
        };
        let mut group = json!({
            "group": "shop", "watched": true, "breaker": "off",
            "partitions": [partition("carts", &[]), partition("orders", &[])],
        });
        let carts = "carts-0  owner m-1, committed 50, delivered up to 58";
        let orders = carts.replace("carts", "orders");
        let name = "group         shop";
        let healthy = "now           nothing is unusual: no record is suspected or cut";
        assert_eq!(lines(&group), [name, healthy, carts, &orders]);
        group["partitions"][1] = partition("orders", &[51]);
        let cut = "  skipped     51: settled, cut until a commit passes them";
        assert_eq!(lines(&group), [name, &orders, cut, carts], "first what is unusual");
    }
}
