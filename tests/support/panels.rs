//! The panels of the dashboard in `grafana/reprise.json`, in the order Grafana shows them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::Path;

use serde_json::Value;

/// A panel with a number or a graph; rows are none.
pub(crate) struct Panel {
    /// The title of its row.
    pub(crate) row: String,
    pub(crate) title: String,
    /// `stat`, `timeseries` or `state-timeline`.
    pub(crate) kind: String,
    /// Queries, with Grafana's variables in them.
    pub(crate) queries: Vec<String>,
    pub(crate) json: Value,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Rows in order, and all panels.
pub(crate) fn panels() -> (Vec<String>, Vec<Panel>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana/reprise.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
    for json in dashboard["panels"].as_array().unwrap() {
        let title = text(&json["title"]);
        if json["type"] == "row" {
            rows.push(title);
            continue;
        }
        let targets = json["targets"].as_array().unwrap();
        panels.push(Panel {
            row: rows.last().cloned().unwrap_or_default(),
            title,
            kind: text(&json["type"]),
            queries: targets.iter().map(|target| text(&target["expr"])).collect(),
            json: json.clone(),
        });
    }
    (rows, panels)
}
