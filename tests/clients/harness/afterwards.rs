//! Checks of the cluster after all scenarios: its topics, groups and group logs name none of the
//! topics that lie in the sidecar.

use std::fs;

use serde_json::Value;

use crate::rig::cluster::{asked, dir, retry_topics, tool};

/// JSON path of a classic member's subscription: the only text in the cluster that may name a topic
/// of reprise.
const WANTED: &str = "/members/subscription/topics";
/// JSON path of the same subscription after the group was converted to KIP-848.
const TAKEN_ALONG: &str = "/data/subscribedTopicNames";

/// Groups of the scenarios begin with `shop-`. Applications that create such topics in the cluster
/// themselves use other group names.
fn is_ours(text: &str) -> bool {
    let has_retries = retry_topics() == "sidecar" && text.contains("reprise.retry.shop-");
    has_retries || text.contains("reprise.dlq.shop-")
}

#[test]
fn nothing_of_ours_lies_in_the_cluster() {
    let topics = asked("TopicCommand", &["--list"]);
    assert!(topics.lines().any(|topic| topic.starts_with("orders-")), "{topics}");
    assert!(!is_ours(&topics), "{topics}");
    let told = asked("consumer.group.ConsumerGroupCommand", &["--describe", "--all-groups"]);
    assert!(told.contains("shop-") && told.contains("orders-"), "{told}");
    assert!(!is_ours(&told), "{told}");
    let told = asked("GetOffsetShell", &[]);
    assert!(told.contains("orders-") && !is_ours(&told), "{told}");
}

#[test]
fn consumer_offsets_hold_no_entries_of_the_sidecar() {
    let (mut entries, mut strangers) = (0, Vec::new());
    for line in decoded().lines() {
        let Some((_, entry)) = line.split_once(" key: ") else { continue };
        let (key, payload) = entry.split_once(" payload: ").expect("a payload");
        entries += 1;
        for text in [key, payload] {
            let json = serde_json::from_str(text).unwrap_or(Value::String(text.to_owned()));
            let was_classic = json["data"]["classicMemberMetadata"].is_object();
            look(&json, "", &mut |path, text| {
                let is_wanted =
                    path.ends_with(WANTED) || (was_classic && path.ends_with(TAKEN_ALONG));
                if is_ours(text) && !is_wanted {
                    strangers.push(format!("{path}: {text} in {entry}"));
                }
            });
        }
    }
    assert!(entries > 100, "the log of the groups was read: {entries}");
    assert_eq!(strangers, Vec::<String>::new());
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

/// Calls `found` with the path and the text of every string in a JSON value.
fn look(json: &Value, path: &str, found: &mut impl FnMut(&str, &str)) {
    match json {
        Value::String(text) => found(path, text),
        Value::Array(items) => items.iter().for_each(|item| look(item, path, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                look(value, &format!("{path}/{name}"), found);
            }
        }
        _ => {}
    }
}
