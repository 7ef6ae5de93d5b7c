//! Tests of offsets and sizes: `kafka-get-offsets`, `kafka-delete-records`, `kafka-log-dirs`.

use serde_json::Value;

use super::{CONSOLE_CONSUMER, House, OFFSETS, TOPICS};

/// Partitions and their bytes, as `kafka-log-dirs` prints them.
fn sizes(house: &House) -> Vec<(String, u64)> {
    let told = house.told("LogDirsCommand", &["--describe", "--topic-list", "orders"]);
    let json: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let dir = &json["brokers"][0]["logDirs"][0];
    assert!(dir["error"].is_null(), "{told}");
    let partitions = dir["partitions"].as_array().unwrap().iter();
    let mut sizes: Vec<(String, u64)> = partitions
        .map(|one| (one["partition"].as_str().unwrap().to_owned(), one["size"].as_u64().unwrap()))
        .collect();
    sizes.sort();
    sizes
}

#[test]
fn records_are_deleted_up_to_an_offset() {
    let house = House::new("records");
    house.told(TOPICS, &["--create", "--topic", "orders", "--partitions", "2"]);
    let lines: Vec<String> = (0..40).map(|n| format!("k{n}:order {n}")).collect();
    house.produce("orders", &lines.join("\n"));
    let offsets = |time: &str| {
        let told = house.told(OFFSETS, &["--topic", "orders", "--time", time]);
        let of = |line: &str| line.rsplit(':').next().unwrap().parse::<i64>().unwrap();
        let mut lines: Vec<&str> = told.lines().collect();
        lines.sort_unstable();
        lines.into_iter().map(of).collect::<Vec<_>>()
    };
    let ends = offsets("latest");
    assert_eq!((ends.len(), ends.iter().sum::<i64>()), (2, 40));
    assert_eq!(offsets("earliest"), [0, 0]);
    let before = sizes(&house);
    assert!(before.iter().all(|(_, bytes)| *bytes > 0), "{before:?}");

    let asked = r#"{"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "offset": 2},
        {"topic": "orders", "partition": 1, "offset": -1}]}"#;
    let file = house.file("deleted.json", asked);
    let told = house.told("DeleteRecordsCommand", &["--offset-json-file", &file]);
    assert!(told.contains("partition: orders-0\tlow_watermark: 2"), "{told}");
    assert!(told.contains(&format!("partition: orders-1\tlow_watermark: {}", ends[1])), "{told}");
    assert_eq!(offsets("earliest"), [2, ends[1]]);
    assert_eq!(offsets("latest"), ends);
    assert_eq!(sizes(&house)[1], ("orders-1".to_owned(), 0));

    let beyond = r#"{"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "offset": 99}]}"#;
    let file = house.file("beyond.json", beyond);
    let refused = house.asked("DeleteRecordsCommand", &["--offset-json-file", &file]);
    assert!(refused.all().contains("OffsetOutOfRangeException"), "{refused:?}");
    let left = (ends[0] - 2).to_string();
    let read = ["--topic", "orders", "--from-beginning", "--max-messages", &left];
    let read = house.told(CONSOLE_CONSUMER, &read);
    assert_eq!(read.lines().filter(|line| line.starts_with("order ")).count().to_string(), left);
}
