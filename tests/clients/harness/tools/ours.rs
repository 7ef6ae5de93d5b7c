//! Tests of retry and dead-letter topics with Kafka's tools.

use super::{CONFIGS, CONSOLE_CONSUMER, CONSOLE_PRODUCER, GROUPS, House, OFFSETS, TOPICS};

/// A group `shop` with a retry and a dead letter, nacked by the console producer.
fn house(name: &str) -> House {
    let house = House::new(name);
    house.told(TOPICS, &["--create", "--topic", "orders"]);
    house.produce("orders", "a:first\nb:second\n");
    let with_headers = ["--topic", "reprise.retry.shop", "--reader-property", "parse.headers=true"];
    let nacks = "x-retry-origin:orders-0@0\tfirst\n\
        x-retry-origin:orders-0@1,x-retry-level:-1,x-retry-reason:no stock\tsecond\n";
    let said = house.given(CONSOLE_PRODUCER, &with_headers, nacks);
    assert!(said.good && said.err.is_empty(), "{said:?}");
    house
}

#[test]
fn kafka_tools_list_and_read_retries_and_dead_letters() {
    let house = house("ours-read");
    assert_eq!(house.told(TOPICS, &["--list"]), "orders\nreprise.dlq.shop\nreprise.retry.shop\n");
    let told = house.told(TOPICS, &["--describe", "--topic", "reprise.retry.shop"]);
    assert!(told.contains("PartitionCount: 3"), "{told}");
    let members = ["--describe", "--group", "shop"];
    assert_eq!(house.told(OFFSETS, &["--topic", "reprise.dlq.shop"]), "reprise.dlq.shop:0:1\n");
    let read = ["--topic", "reprise.dlq.shop", "--from-beginning", "--max-messages", "1"];
    let shown = ["--formatter-property", "print.headers=true"];
    let letter = house.told(CONSOLE_CONSUMER, &[&read[..], &shown].concat());
    for part in ["ORIGIN_MESSAGE_ID:orders-0@1", "x-retry-reason:no stock", "second"] {
        assert!(letter.contains(part), "{letter}");
    }
    // A member of the group, whose lag the tools show; and a reader without a group.
    let read = ["--topic", "reprise.retry.shop", "--max-messages", "1", "--from-beginning"];
    for more in [&["--group", "shop"][..], &[]] {
        let retry = house.told(CONSOLE_CONSUMER, &[&read[..], more, &shown].concat());
        assert!(retry.contains("ORIGIN_MESSAGE_ID:orders-0@0"), "{retry}");
    }
    let ends = house.told(OFFSETS, &["--topic", "reprise.retry.shop"]);
    assert_eq!(ends.matches(":1\n").count(), 1, "one retry was released: {ends}");
    let lag = house.told(GROUPS, &members);
    let rows = lag.lines().filter(|row| row.contains("reprise.retry.shop"));
    let lags = rows.map(|row| row.split_whitespace().nth(5).unwrap().to_owned());
    assert_eq!(lags.collect::<Vec<_>>(), ["0", "0", "0"], "{lag}");
    let told = house.told("LogDirsCommand", &["--describe"]);
    for topic in ["reprise.dlq.shop-0", "reprise.retry.shop-0"] {
        assert!(told.contains(topic), "{told}");
    }
}

#[test]
fn kafka_tools_change_retry_topics_and_are_refused_dlq_topics() {
    let house = house("ours-refused");
    let (topic, says) = ("reprise.dlq.shop", "it holds the dead letters of a group");
    let grown = house.asked(TOPICS, &["--alter", "--topic", topic, "--partitions", "3"]);
    assert!(!grown.good && grown.all().contains(says), "{grown:?}");
    let set = ["--entity-type", "topics", "--entity-name", topic, "--alter", "--add-config"];
    let set = house.asked(CONFIGS, &[&set[..], &["retention.ms=1000"]].concat());
    assert!(!set.good && set.all().contains(says), "{set:?}");
    let deleted = house.asked(TOPICS, &["--delete", "--topic", topic]);
    assert!(!deleted.good && deleted.all().contains("cannot be deleted"), "{deleted:?}");
    let retry = "reprise.retry.shop";
    house.told(TOPICS, &["--alter", "--topic", retry, "--partitions", "4"]);
    let told = house.told(TOPICS, &["--describe", "--topic", retry]);
    assert!(told.contains("PartitionCount: 4"), "{told}");
    house.told(TOPICS, &["--create", "--topic", "reprise.retry.other", "--partitions", "2"]);
    house.told(TOPICS, &["--delete", "--topic", "reprise.retry.other"]);
    let all = r#"{"version": 1, "partitions": [
        {"topic": "reprise.dlq.shop", "partition": 0, "offset": -1}]}"#;
    let file = house.file("deleted.json", all);
    let deleted = house.told("DeleteRecordsCommand", &["--offset-json-file", &file]);
    let begins = house.told(OFFSETS, &["--topic", "reprise.dlq.shop", "--time", "earliest"]);
    let start = begins.trim().strip_prefix("reprise.dlq.shop:0:").unwrap();
    assert!(deleted.contains(&format!("low_watermark: {start}")), "{deleted} {begins}");
    let ends = house.told(OFFSETS, &["--topic", "reprise.dlq.shop", "--time", "latest"]);
    assert_eq!(begins, ends, "no dead letter is left");

    // A group that is deleted and created again still gets its retries.
    let read = ["--topic", "orders", "--group", "shop", "--from-beginning", "--max-messages", "2"];
    house.told(CONSOLE_CONSUMER, &read);
    house.told(GROUPS, &["--group", "shop", "--delete"]);
    let read = ["--topic", "reprise.retry.shop", "--group", "shop", "--max-messages", "1"];
    assert_eq!(house.told(CONSOLE_CONSUMER, &read), "first\n");
}
