//! The demo prints the story that its documentation promises.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The example's binary, whose application uses librdkafka, of the same build as this test.
fn example() -> PathBuf {
    let has_tls = cfg!(feature = "librdkafka-tls");
    let options: &[&str] = if has_tls { &["--features", "librdkafka-tls"] } else { &[] };
    let (built, demo) = crate::example::built("demo", env!("CARGO_BIN_EXE_reprise"), options);
    assert!(built.status.success(), "the example builds: {built:?}");
    demo
}

#[test]
fn the_demo_loses_no_order_and_delivers_none_early() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_reprise"));
    assert_story(demo.arg("demo"));
}

#[test]
fn the_demo_with_librdkafka_tells_the_same_story() {
    assert_story(&mut Command::new(example()));
}

#[test]
fn the_text_of_the_demo_fits_eighty_columns() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_reprise"));
    let shown = demo.args(["demo", "--exit", "--speed", "1000"]).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("Dead letters") && text.contains("Summary"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

fn assert_story(demo: &mut Command) {
    let ran = demo.args(["--exit", "--json", "--speed", "1000"]).output().unwrap();
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
