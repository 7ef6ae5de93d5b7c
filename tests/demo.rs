//! The demo tells the story it promises.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Builds the example (a moment, when `cargo test` just did) and says where it lies.
fn demo() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_reprise"));
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--example", "demo"]);
    // Build scripts of others would take for a change what cargo tells a test of its own package,
    // and everything would be built anew: now, and with the next build from outside.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&name);
        }
    }
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "the example builds");
    binary.parent().unwrap().join("examples").join("demo")
}

#[test]
fn twenty_orders_end_done_or_as_dead_letters_and_none_is_lost_or_early() {
    let ran = Command::new(demo()).args(["--exit", "--json", "--speed", "1000"]).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{complaint}");
    assert_eq!(said.lines().count(), 1, "one line of JSON: {said}");
    let summary: Value = serde_json::from_str(&said).unwrap();
    let expected = [
        ("produced", 20),
        ("delivered", 39),
        ("retried", 19),
        ("recovered", 2),
        ("dead_lettered", 3),
        ("lost", 0),
        ("early", 0),
    ];
    for (name, count) in expected {
        assert_eq!(summary[name], count, "{name} in {said}");
    }
    assert!(summary["lateness_ms_p99"].as_i64().unwrap() >= 0, "{said}");
    let levels: Vec<(i64, i64, i64)> = summary["levels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|level| ["level", "delay_ms", "retried"].map(|name| level[name].as_i64().unwrap()))
        .map(|[level, delay_ms, retried]| (level, delay_ms, retried))
        .collect();
    assert_eq!(levels, [(3, 10, 5), (4, 30, 5), (5, 60, 3), (6, 120, 3), (7, 180, 3)]);
}
