//! Checks of the cluster after all scenarios: its tools show the retry topics as any topic, and the
//! log of its groups holds nothing that the sidecar took out.

use std::fs;

use crate::rig::cluster::{asked, dir, tool};

#[test]
fn tools_show_retry_topics_as_any_topic() {
    let topics = asked("TopicCommand", &["--list"]);
    for kind in ["orders-", "reprise.retry.shop-"] {
        assert!(topics.lines().any(|topic| topic.starts_with(kind)), "{topics}");
    }
    let told = asked("consumer.group.ConsumerGroupCommand", &["--describe", "--all-groups"]);
    let of_retries = told.lines().filter(|line| line.contains("reprise.retry.shop-"));
    let mut lags = of_retries.filter_map(|line| line.split_whitespace().nth(5));
    assert!(lags.any(|lag| lag.parse::<u64>().is_ok()), "{told}");
    let told = asked("GetOffsetShell", &[]);
    assert!(told.contains("orders-") && told.contains("reprise.retry.shop-"), "{told}");
}

#[test]
fn committed_metadata_has_no_markers() {
    let decoded = decoded();
    let entries = decoded.lines().filter(|line| line.contains(" key: ")).count();
    assert!(entries > 100, "the log of the groups was read: {entries}");
    let marked: Vec<&str> = decoded.lines().filter(|line| line.contains("!retry:")).collect();
    assert_eq!(marked, Vec::<&str>::new());
}

/// Every entry that coordinators have written to `__consumer_offsets` since the cluster exists.
fn decoded() -> String {
    let mut files = Vec::new();
    for node in fs::read_dir(dir()).unwrap() {
        let data = node.unwrap().path().join("data");
        for log in fs::read_dir(&data).into_iter().flatten() {
            let log = log.unwrap().path();
            if log.file_name().unwrap().to_string_lossy().starts_with("__consumer_offsets-") {
                files.push(log.join("00000000000000000000.log").display().to_string());
            }
        }
    }
    tool("DumpLogSegments", &["--offsets-decoder", "--files", &files.join(",")])
}
