//! Every metric and label a dashboard in `grafana/` asks for exists.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]

use std::collections::BTreeSet;
use std::fmt::Write;
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
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
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

/// The alert rules: name and expression of each.
fn alerts() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana/alerts.yaml");
    let file: Value = serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let rules = file["groups"][0]["rules"].as_array().unwrap();
    let text = |rule: &Value, key: &str| rule[key].as_str().unwrap().to_owned();
    rules.iter().map(|rule| (text(rule, "alert"), text(rule, "expr"))).collect()
}

#[test]
fn alerts_ask_for_what_exists_and_have_a_runbook() {
    let runbook = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbook.md");
    let runbook = fs::read_to_string(runbook).unwrap();
    let alerts = alerts();
    assert_eq!(alerts.len(), 13);
    for (name, expr) in alerts {
        let faults = faults(&expr, &mut BTreeSet::new());
        assert!(faults.is_empty(), "{name}: {faults:?}");
        assert!(expr.contains("reprise_"), "{name}: {expr}");
        assert!(runbook.contains(&format!("\n### {name}\n")), "{name} has no heading");
    }
}

/// The page of all metrics: what they mean, where they are shown, which alert asks for them.
fn metrics_page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana/reprise.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let nested = panels.iter().filter_map(|panel| panel["panels"].as_array()).flatten();
    let panels: Vec<&Value> = panels.iter().chain(nested).collect();
    let alerts = alerts();
    let mut out = String::from(METRICS_HEAD);
    for def in ALL {
        let asks =
            |query: &str| words(query).any(|word| metric(word).is_some_and(|d| d.name == def.name));
        let shown = panels.iter().filter(|panel| {
            let mut asked = Vec::new();
            queries(panel, &mut asked);
            panel["panels"].as_array().is_none_or(Vec::is_empty) && asked.iter().any(|q| asks(q))
        });
        let shown: BTreeSet<&str> = shown.filter_map(|panel| panel["title"].as_str()).collect();
        let alerts = alerts.iter().filter(|(_, expr)| asks(expr)).map(|(name, _)| name.as_str());
        let kind = match def.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let list = |items: Vec<&str>| items.join(", ");
        writeln!(
            out,
            "| `{}` | {kind} | {} | {} | {} | {} |",
            def.name,
            list(def.labels.to_vec()),
            def.help,
            list(shown.into_iter().collect()),
            list(alerts.collect()),
        )
        .unwrap();
    }
    out
}

const METRICS_HEAD: &str = "# Metrics

`/metrics` on the admin port, in the text format of Prometheus. Units are in the names. This page is
made from the source by `METRICS_RENEW=1 cargo test --test dashboard`.

| name | type | labels | meaning | panels | alerts |
|---|---|---|---|---|---|
";

#[test]
fn the_page_of_metrics_is_what_the_source_declares() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let expected = metrics_page();
    if std::env::var_os("METRICS_RENEW").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "METRICS_RENEW=1 cargo test --test dashboard");
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
