//! `group explain` and `retry show`, in lines.

use std::collections::BTreeSet;

use super::output::table::defused;
use crate::api::{
    GroupExplanation, IDLE_BREAKER, PartitionView, PastView, RecordHistory, RuleView, SeekBackView,
    SuspectView, SuspectsView,
};
use crate::model::utc;

/// A note on the settings that a nack itself may carry.
const OF_A_FAILURE: &str = "a failure's own x-retry-level, x-retry-delay-ms, x-retry-max go first \
    (in a commit level=, delay=, max=)";

/// The consumers of a group as lines: first what is unusual now, then its partitions.
pub(super) fn lines(explained: &GroupExplanation) -> Vec<String> {
    let mut out = vec![format!("group         {}", defused(&explained.group))];
    // A partition without anything unusual takes one line.
    let partitions = explained.partitions.iter().map(partition);
    let (unusual, usual): (Vec<Vec<String>>, Vec<Vec<String>>) =
        partitions.partition(|lines| lines.len() > 1);
    let breaker = defused(&explained.breaker);
    let before = out.len();
    if !IDLE_BREAKER.contains(&breaker.as_str()) {
        out.push(format!("breaker       {breaker}"));
    }
    out.extend(explained.suspects.iter().flat_map(suspects));
    out.extend(unusual.into_iter().flatten());
    out.extend(explained.advice.iter().map(|advice| format!("note: {}", defused(advice))));
    if out.len() == before {
        out.push("now           nothing is unusual: no record is suspected or cut".to_owned());
    }
    if !explained.watched {
        out.push("nothing is inferred: retry.delivery is off or topic".to_owned());
    } else if explained.partitions.is_empty() {
        out.push("no Fetch or commit of it was seen since the start".to_owned());
    }
    out.extend(usual.into_iter().flatten());
    out
}

/// [`lines`], with the settings in force after them.
pub(super) fn lines_with_settings(explained: &GroupExplanation) -> Vec<String> {
    let mut out = lines(explained);
    out.push("settings".to_owned());
    out.extend(explained.rules.iter().map(|RuleView { key, value, from }| {
        format!("  {:28} {}  ({})", defused(key), defused(value), defused(from))
    }));
    out.push(format!("  {OF_A_FAILURE}"));
    out
}

/// The lines of a set of suspects.
fn suspects(set: &SuspectsView) -> Vec<String> {
    let joined = |texts: &[String]| defused(&texts.join(" "));
    let records = match set.records {
        1 => "1 record".to_owned(),
        n => format!("{n} records"),
    };
    let (since, last) = (lasted(set.since_ms), lasted(set.last_loss_ms));
    let mut out = vec![
        format!("suspects      {records}: {}", joined(&set.offsets)),
        format!("  why         {}", defused(&set.why)),
        format!("  since       {since}; last loss {last} ago"),
    ];
    if !set.granted.is_empty() {
        out.push(format!("  delivered   {} to {}", joined(&set.granted), joined(&set.members)));
    }
    out.push(format!("  next        {}", defused(&set.next)));
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
pub(super) fn told(told: &RecordHistory) -> Vec<String> {
    let mut out = vec![format!("record        {}", defused(&told.record))];
    for now in &told.now {
        out.push(format!("group         {}", defused(&now.group)));
        out.extend(now.partitions.iter().flat_map(partition));
    }
    let groups: BTreeSet<&str> = told.past.iter().map(|past| past.group.as_str()).collect();
    let is_several = groups.len() > 1;
    out.extend(told.past.iter().map(|past| event(past, is_several)));
    out
}

fn event(past: &PastView, is_several: bool) -> String {
    let at = past.at.map_or("…".to_owned(), utc);
    let mut line = format!("{at:20}  {}", defused(&past.says));
    let said =
        |word: &str, text: Option<&String>| text.map(|text| format!("{word} {}", defused(text)));
    let notes = [
        past.until.map(|at| format!("until {}", utc(at))),
        past.reconsume_times.map(|n| format!("reconsume times {n}")),
        past.error.as_ref().map(|error| format!("error \"{}\"", defused(error))),
        said("by", past.member.as_ref()),
        said("client", past.client.as_ref()),
        said("group", is_several.then_some(&past.group)),
    ];
    for note in notes.into_iter().flatten() {
        line.push_str("; ");
        line.push_str(&note);
    }
    line
}

fn partition(view: &PartitionView) -> Vec<String> {
    let member = view.member.as_ref().map(|member| format!("owner {}", defused(member)));
    let committed = view.committed.map(|offset| format!("committed {offset}"));
    let mut out = vec![format!(
        "{}-{}  {}, {}, delivered up to {}",
        defused(&view.topic),
        view.partition,
        member.unwrap_or_else(|| "no owner".to_owned()),
        committed.unwrap_or_else(|| "no commit seen".to_owned()),
        view.handed_out,
    )];
    out.extend(view.suspects.iter().flat_map(suspect));
    if !view.skipped.is_empty() {
        let skipped: Vec<String> = view.skipped.iter().map(ToString::to_string).collect();
        let offsets = skipped.join(" ");
        out.push(format!("  skipped     {offsets}: settled, cut until a commit passes them"));
    }
    for SeekBackView { offset, times } in &view.seek_backs {
        out.push(format!("  went back   to @{offset} {times} times"));
    }
    if let Some(why) = view.unjudged.as_ref().filter(|_| !view.seek_backs.is_empty()) {
        out.push(format!("  going back  is no failure here: {}", defused(why)));
    }
    out
}

fn suspect(suspect: &SuspectView) -> Vec<String> {
    let mut out = vec![format!(
        "  @{:<10} {} of {} retries; {}",
        suspect.offset,
        suspect.reconsume_times,
        suspect.max_reconsume_times,
        defused(&suspect.stands),
    )];
    let history = suspect.history.iter();
    out.extend(history.map(|(at, why)| format!("              {} {}", utc(*at), defused(why))));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(topic: &str, skipped: &[i64]) -> PartitionView {
        PartitionView {
            topic: topic.into(),
            member: Some("m-1".into()),
            committed: Some(50),
            handed_out: 58,
            unjudged: Some("on_seek_back is observe".into()),
            skipped: skipped.into(),
            ..PartitionView::default()
        }
    }

    #[test]
    fn a_healthy_group_is_explained_in_one_line_with_partitions() {
        let mut group = GroupExplanation {
            group: "shop".into(),
            watched: true,
            breaker: "off".into(),
            partitions: vec![partition("carts", &[]), partition("orders", &[])],
            ..GroupExplanation::default()
        };
        let carts = "carts-0  owner m-1, committed 50, delivered up to 58";
        let orders = carts.replace("carts", "orders");
        let name = "group         shop";
        let healthy = "now           nothing is unusual: no record is suspected or cut";
        assert_eq!(lines(&group), [name, healthy, carts, &orders]);
        group.partitions[1] = partition("orders", &[51]);
        let cut = "  skipped     51: settled, cut until a commit passes them";
        assert_eq!(lines(&group), [name, &orders, cut, carts], "first what is unusual");
    }

    #[test]
    fn suspects_failures_and_settings_are_explained() {
        let suspect = SuspectView {
            offset: 57,
            reconsume_times: 2,
            max_reconsume_times: 6,
            stands: "held, served alone in 400 ms".into(),
            history: vec![(5_000, "crashed".into()), (9_000, "crashed".into())],
        };
        let partition = PartitionView {
            partition: 3,
            unjudged: Some("no commit of this partition was seen".into()),
            seek_backs: vec![SeekBackView { offset: 53, times: 2 }],
            suspects: vec![suspect],
            ..partition("orders", &[51, 52])
        };
        let suspects = SuspectsView {
            records: 12,
            offsets: vec!["orders-3@58..69".into()],
            granted: vec!["orders-3@58..59".into()],
            members: vec!["m-1".into()],
            since_ms: 35_400,
            last_loss_ms: 5_000,
            why: "outstanding at 3 lost deliveries".into(),
            next: "in 400 ms the next are delivered".into(),
            ..SuspectsView::default()
        };
        let rule = RuleView {
            key: "levels".into(),
            value: "1s 2s".into(),
            from: "groups[0] (match: shop)".into(),
        };
        let group = GroupExplanation {
            group: "shop".into(),
            watched: true,
            breaker: "closed".into(),
            rules: vec![rule],
            suspects: vec![suspects],
            partitions: vec![partition],
            advice: vec!["2 failed records wait".into()],
        };
        let expected = "\
group         shop
suspects      12 records: orders-3@58..69
  why         outstanding at 3 lost deliveries
  since       35 s; last loss 5000 ms ago
  delivered   orders-3@58..59 to m-1
  next        in 400 ms the next are delivered
orders-3  owner m-1, committed 50, delivered up to 58
  @57         2 of 6 retries; held, served alone in 400 ms
              1970-01-01T00:00:05Z crashed
              1970-01-01T00:00:09Z crashed
  skipped     51 52: settled, cut until a commit passes them
  went back   to @53 2 times
  going back  is no failure here: no commit of this partition was seen
note: 2 failed records wait";
        assert_eq!(lines(&group).join("\n"), expected);
        let settings = "settings\n  levels                       1s 2s  (groups[0] (match: shop))";
        let of_a_failure = format!("  {OF_A_FAILURE}");
        let with = lines_with_settings(&group).join("\n");
        assert_eq!(with, format!("{expected}\n{settings}\n{of_a_failure}"));
    }

    #[test]
    fn a_records_history_is_told_in_lines() {
        let told = told(&RecordHistory {
            record: "orders-3@57".into(),
            now: Vec::new(),
            past: vec![
                PastView { says: "a commit has passed it".into(), ..PastView::default() },
                PastView {
                    at: Some(5_000),
                    says: "the application says that it failed".into(),
                    until: Some(9_000),
                    reconsume_times: Some(1),
                    error: Some("no \u{1b}stock".into()),
                    member: Some("m-1".into()),
                    client: Some("app".into()),
                    ..PastView::default()
                },
            ],
        });
        let expected = [
            "record        orders-3@57",
            "…                     a commit has passed it",
            "1970-01-01T00:00:05Z  the application says that it failed; until \
             1970-01-01T00:00:09Z; reconsume times 1; error \"no \u{fffd}stock\"; by m-1; \
             client app",
        ];
        assert_eq!(told, expected);
    }
}
