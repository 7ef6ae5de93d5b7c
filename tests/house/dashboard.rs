//! Every metric and label in a query of `grafana/` exists. Each panel has a description.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::panels::{Panel, panels};
use reprise::observe::names::{ALL, Def, MetricKind};
use serde_json::Value;

/// Rows of the dashboard, most important first.
const ROWS: [&str; 7] =
    ["Now", "Failures", "Retries", "Dead letters", "Edge", "Upstream", "Journal"];
/// Metrics without a panel: the first fills a variable of the dashboard, the others are for
/// dashboards of processes.
const NOT_SHOWN: [&str; 3] =
    ["reprise_build_info", "process_virtual_memory_bytes", "process_threads"];
/// Words in one sentence of a description, as in all of `docs/`.
const SENTENCE_WORDS_MAX: usize = 25;

/// Labels that Prometheus adds by itself.
const SCRAPE_LABELS: &[&str] = &["instance", "job", "le"];

fn metric(name: &str) -> Option<&'static Def> {
    ALL.iter().find(|def| match def.kind {
        MetricKind::Histogram(_) => {
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
fn dashboards_query_only_existing_metrics() {
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
    let all = ALL.iter().map(|def| def.name).filter(|name| !NOT_SHOWN.contains(name));
    let hidden: Vec<&str> = all.filter(|name| !used.contains(name)).collect();
    assert!(hidden.is_empty(), "no dashboard shows {hidden:?}");
}

#[test]
fn the_rows_are_in_order() {
    let (rows, panels) = panels();
    assert_eq!(rows, ROWS);
    for row in ROWS {
        let count = panels.iter().filter(|panel| panel.row == row).count();
        assert!(count >= 5, "{row}: {count} panels");
    }
}

fn sentences(text: &str) -> impl Iterator<Item = usize> {
    text.split_inclusive(['.', ':']).map(|sentence| sentence.split_whitespace().count())
}

/// The faults of one panel; none for a good one.
fn panel_faults(panel: &Panel) -> Vec<&'static str> {
    let description = panel.json["description"].as_str().unwrap_or_default();
    let defaults = &panel.json["fieldConfig"]["defaults"];
    let mut faults = Vec::new();
    let mut fault = |is_there: bool, what| {
        if is_there {
            faults.push(what);
        }
    };
    fault(panel.title.is_empty(), "no title");
    fault(!description.ends_with('.'), "the description is no sentence");
    fault(sentences(description).any(|words| words > SENTENCE_WORDS_MAX), "a long sentence");
    fault(description.to_lowercase().contains("first deliver"), "those are not counted");
    fault(defaults["unit"].as_str().is_none_or(str::is_empty), "no unit");
    fault(panel.queries.is_empty() || panel.queries.contains(&String::new()), "no query");
    if panel.kind == "stat" {
        let steps = defaults["thresholds"]["steps"].as_array().map_or(&[][..], Vec::as_slice);
        let values: Vec<Option<f64>> = steps.iter().map(|step| step["value"].as_f64()).collect();
        fault(steps.len() < 2, "a number without thresholds");
        fault(values.first().is_some_and(Option::is_some), "the first step has a value");
        fault(!values.is_sorted(), "thresholds fall");
    }
    faults
}

#[test]
fn every_panel_has_a_meaning_and_a_unit() {
    let (_, panels) = panels();
    let mut titles = BTreeSet::new();
    for panel in &panels {
        let faults = panel_faults(panel);
        assert!(faults.is_empty(), "{}: {faults:?}", panel.title);
        assert!(titles.insert(&panel.title), "{} is there twice", panel.title);
    }
    let stats = panels.iter().filter(|panel| panel.kind == "stat").count();
    assert!(stats >= 20, "{stats}");
}

#[test]
fn numbers_that_are_states_have_words() {
    let (_, panels) = panels();
    for title in ["Ready", "Configuration", "Breaker", "Cluster"] {
        let panel = panels.iter().find(|panel| panel.title == title).unwrap();
        let words = &panel.json["fieldConfig"]["defaults"]["mappings"][0]["options"];
        for value in ["0", "1"] {
            assert!(words[value]["text"].is_string(), "{title}: no word for {value}");
        }
    }
}

#[test]
fn a_poor_panel_would_be_noticed() {
    let (_, mut panels) = panels();
    let panel = panels.iter_mut().find(|panel| panel.kind == "stat").unwrap();
    panel.json["description"] = "".into();
    panel.json["fieldConfig"]["defaults"]["unit"] = "".into();
    panel.json["fieldConfig"]["defaults"]["thresholds"]["steps"] = serde_json::json!([]);
    let expected = ["the description is no sentence", "no unit", "a number without thresholds"];
    assert_eq!(panel_faults(panel), expected);
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
fn alerts_use_existing_metrics_and_have_a_runbook() {
    let runbook = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbook.md");
    let runbook = fs::read_to_string(runbook).unwrap();
    let alerts = alerts();
    assert_eq!(alerts.len(), 14);
    for (name, expr) in alerts {
        let faults = faults(&expr, &mut BTreeSet::new());
        assert!(faults.is_empty(), "{name}: {faults:?}");
        assert!(expr.contains("reprise_"), "{name}: {expr}");
        assert!(runbook.contains(&format!("\n### {name}\n")), "{name} has no heading");
    }
}

/// The page of all metrics: meaning, panels and alerts of each.
fn metrics_page() -> String {
    let (_, panels) = panels();
    let alerts = alerts();
    let mut out = String::from(METRICS_HEAD);
    for def in ALL {
        let asks =
            |query: &str| words(query).any(|word| metric(word).is_some_and(|d| d.name == def.name));
        let shown = panels.iter().filter(|panel| panel.queries.iter().any(|query| asks(query)));
        let shown: BTreeSet<&str> = shown.map(|panel| panel.title.as_str()).collect();
        let alerts = alerts.iter().filter(|(_, expr)| asks(expr)).map(|(name, _)| name.as_str());
        let kind = match def.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
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
made from the source by `METRICS_RENEW=1 cargo test --test house dashboard`.

| name | type | labels | meaning | panels | alerts |
|---|---|---|---|---|---|
";

#[test]
fn the_metrics_page_equals_the_source() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let expected = metrics_page();
    if std::env::var_os("METRICS_RENEW").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "METRICS_RENEW=1 cargo test --test house dashboard");
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
