//! Every metric and label a dashboard in `grafana/` asks for exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use reprise::observe::names::{ALL, Def, Kind};
use serde_json::Value;

/// Labels Prometheus adds itself.
const SCRAPE_LABELS: &[&str] = &["instance", "job", "le"];

fn metric(name: &str) -> Option<&'static Def> {
    ALL.iter().find(|def| match def.kind {
        Kind::Histogram(_) => {
            let rest = name.strip_prefix(def.name);
            rest.is_some_and(|rest| ["_bucket", "_sum", "_count"].contains(&rest))
        }
        _ => def.name == name,
    })
}

/// Every text under a key `expr` or `query`.
fn queries(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, below) in map {
                match below {
                    Value::String(text) if key == "expr" || key == "query" => {
                        out.push(text.clone());
                    }
                    other => queries(other, out),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, out)),
        _ => {}
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The names before `=`, `!=`, `=~`, `!~` inside `{…}`, and those in `by (…)`.
fn labels(query: &str) -> Vec<String> {
    let mut out = Vec::new();
    for selector in query.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
        let matchers = selector.split(',').filter_map(|m| m.split(['=', '!']).next());
        out.extend(matchers.map(|label| label.trim().to_owned()));
    }
    for list in query.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
        out.extend(list.split(',').map(|label| label.trim().to_owned()));
    }
    out
}

fn faults(query: &str, used: &mut BTreeSet<&'static str>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut known: Vec<&str> = SCRAPE_LABELS.to_vec();
    for name in words(query).filter(|w| w.starts_with("reprise_") || w.starts_with("process_")) {
        match metric(name) {
            Some(def) => {
                used.insert(def.name);
                known.extend(def.labels);
            }
            None => faults.push(format!("there is no metric {name}: {query}")),
        }
    }
    let strange = labels(query).into_iter().filter(|label| !known.contains(&label.as_str()));
    faults.extend(strange.map(|label| format!("no metric there has a label {label}: {query}")));
    faults
}

#[test]
fn dashboards_ask_only_for_what_exists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana");
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let dashboard: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut asked = Vec::new();
        queries(&dashboard, &mut asked);
        asked.retain(|query| query.contains('_'));
        assert!(!asked.is_empty(), "{} asks for nothing", path.display());
        wrong.extend(asked.iter().flat_map(|query| faults(query, &mut used)));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert!(used.len() >= 37, "the dashboards show {} metrics only", used.len());
    for shown in ["reprise_transactions_open", "reprise_transactions_total"] {
        assert!(used.contains(shown), "no dashboard shows {shown}");
    }
}

#[test]
fn a_wrong_metric_or_label_would_be_noticed() {
    let faults = |query| faults(query, &mut BTreeSet::new()).len();
    assert_eq!(faults(r#"sum by (group) (reprise_dlq_records{group="a"})"#), 0);
    assert_eq!(faults("reprise_dlq_record"), 1);
    assert_eq!(faults(r#"reprise_dlq_records{topic="a"}"#), 1);
    assert_eq!(faults("sum by (topic) (reprise_dlq_records)"), 1);
    assert_eq!(faults("reprise_redelivery_lateness_seconds"), 1);
    assert_eq!(faults("rate(reprise_redelivery_lateness_seconds_bucket[1m])"), 0);
}
