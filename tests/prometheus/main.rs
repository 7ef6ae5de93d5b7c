//! A real Prometheus scrapes two sidecars while records fail, return, become dead letters and are
//! sent back. Every query of the dashboard then has data, and many have the exact number. Needs
//! `prometheus` and `promtool`; `grafana/check` installs both.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

mod expected;
#[path = "../support/panels.rs"]
mod panels;
mod scraper;
#[path = "../../benches/support/sidecar.rs"]
mod sidecar;
mod story;
#[path = "../support/mod.rs"]
mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use expected::{ALERTS, EXACT};
use panels::panels;
use scraper::{Prometheus, within_patience};
use story::Story;
use support::until;

/// A query as Grafana sends it with all sidecars and all groups chosen.
fn resolved(query: &str) -> String {
    let query = query.replace("$instance", ".*").replace("$group", ".*");
    query.replace("$__rate_interval", "5m")
}

#[test]
fn every_panel_shows_the_recorded_story() {
    let mut story = Story::begin();
    let prometheus = Prometheus::start(story.dir(), &story.targets());
    until("the groups are scraped before anything fails", || {
        prometheus.one("sum(reprise_group_members)") == Some(2.0)
            && prometheus.one("count(count_over_time(up[1m]) > 1)") == Some(2.0)
    });
    story.play();
    let (_, panels) = panels();
    for exact in EXACT {
        let panel = panels.iter().find(|panel| panel.title == exact.panel);
        let panel = panel.unwrap_or_else(|| panic!("there is no panel {}", exact.panel));
        let query = resolved(&panel.queries[exact.query]);
        let mut seen = None;
        let is_exact = within_patience(|| {
            seen = prometheus.value(&query, exact.labels);
            seen == Some(exact.value)
        });
        let (panel, labels, value) = (exact.panel, exact.labels, exact.value);
        assert!(is_exact, "{panel} {labels:?}: {value}, not {seen:?}");
    }
    for panel in &panels {
        for query in &panel.queries {
            let query = resolved(query);
            let has_data = within_patience(|| prometheus.has_number(&query));
            assert!(has_data, "{}: no data for {query}", panel.title);
        }
    }
    for (alert, count) in ALERTS {
        let query = format!("count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
        until(alert, || prometheus.one(&query) == *count);
    }
}

#[test]
fn metrics_pass_the_lint_of_promtool() {
    let mut story = Story::begin();
    story.play();
    for metrics in story.metrics() {
        let mut promtool = Command::new("promtool");
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut promtool = promtool.spawn().unwrap();
        promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
        let done = promtool.wait_with_output().unwrap();
        let says = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && says.is_empty(), "{says}");
    }
}
