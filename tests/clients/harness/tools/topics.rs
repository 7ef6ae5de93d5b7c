//! Tests of topics and their settings: `kafka-topics`, `kafka-configs`.

use super::{CONFIGS, House, TOPICS};

#[test]
fn a_topic_is_made_grown_and_deleted() {
    let house = House::new("topics");
    let create = ["--create", "--topic", "orders", "--partitions", "3"];
    let made = house.told(TOPICS, &[&create[..], &["--config", "retention.ms=60000"]].concat());
    assert!(made.contains("Created topic orders"), "{made}");
    let again = house.asked(TOPICS, &create);
    assert!(!again.good && again.all().contains("orders exists already"), "{again:?}");
    house.told(TOPICS, &[&create[..], &["--if-not-exists"]].concat());

    house.told(TOPICS, &["--alter", "--topic", "orders", "--partitions", "5"]);
    let less = house.asked(TOPICS, &["--alter", "--topic", "orders", "--partitions", "2"]);
    let says = "has 5 partitions already; 2 would not be an increase";
    assert!(!less.good && less.all().contains(says), "{less:?}");

    let told = house.told(TOPICS, &["--describe", "--topic", "orders"]);
    let mut lines = told.lines();
    let head = lines.next().unwrap();
    assert!(head.contains("PartitionCount: 5\tReplicationFactor: 1"), "{head}");
    assert!(head.ends_with("Configs: retention.ms=60000"), "{head}");
    let partitions: Vec<&str> = lines.collect();
    assert_eq!(partitions.len(), 5, "{told}");
    for (index, line) in partitions.iter().enumerate() {
        let field = |name: &str| line.split('\t').find_map(|field| field.strip_prefix(name));
        assert_eq!(field("Partition: "), Some(index.to_string().as_str()), "{line}");
        assert!(field("Leader: ").is_some_and(|leader| leader.parse::<i32>().is_ok()), "{line}");
        assert_eq!(field("Leader: "), field("Isr: "), "{line}");
    }
    assert_eq!(house.told(TOPICS, &["--list"]), "orders\n");
    house.told(TOPICS, &["--delete", "--topic", "orders"]);
    assert_eq!(house.told(TOPICS, &["--list"]).trim(), "");
}

#[test]
fn settings_of_a_topic_are_set_shown_and_taken_back() {
    let mut house = House::new("settings");
    let of = |more: &[&'static str]| {
        [&["--entity-type", "topics", "--entity-name", "orders"][..], more].concat()
    };
    house.told(TOPICS, &["--create", "--topic", "orders"]);
    let shown = house.told(CONFIGS, &of(&["--describe"]));
    assert_eq!(shown.lines().count(), 1, "nothing is set: {shown}");
    let set = "retention.ms=60000,retention.bytes=9000,cleanup.policy=delete";
    let done = house.told(CONFIGS, &of(&["--alter", "--add-config", set]));
    assert!(done.contains("Completed updating config for topic orders"), "{done}");
    for (bad, says) in [
        ("segment.weight=1", "known: retention.ms, retention.bytes"),
        ("cleanup.policy=compact", "compaction is not served"),
        ("retention.ms=soon", "milliseconds, or -1 for ever"),
    ] {
        let refused = house.asked(CONFIGS, &of(&["--alter", "--add-config", bad]));
        let is_refused = !refused.good && refused.all().contains("InvalidConfigurationException");
        assert!(is_refused && refused.all().contains(says), "{bad}: {refused:?}");
    }
    house.told(CONFIGS, &of(&["--alter", "--delete-config", "retention.ms"]));

    house.sidecar.kill();
    house.sidecar.start_again();
    let shown = house.told(CONFIGS, &of(&["--describe"]));
    assert!(shown.contains("retention.bytes=9000 sensitive=false"), "{shown}");
    assert!(shown.contains("DEFAULT_CONFIG:log.retention.bytes=-1"), "{shown}");
    assert!(!shown.contains("retention.ms="), "{shown}");
    let all = house.told(CONFIGS, &of(&["--describe", "--all"]));
    for name in ["cleanup.policy=delete", "max.message.bytes=1048588", "retention.ms=604800000"] {
        assert!(all.contains(name), "{all}");
    }
}

#[test]
fn the_broker_shows_a_few_settings_and_changes_none() {
    let house = House::new("broker");
    house.told(TOPICS, &["--create", "--topic", "orders"]);
    let told = house.told(TOPICS, &["--describe", "--topic", "orders"]);
    let node = told.split("Leader: ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let of = ["--entity-type", "brokers", "--entity-name", &node];
    let shown = house.told(CONFIGS, &[&of[..], &["--describe", "--all"]].concat());
    assert!(shown.contains("auto.create.topics.enable=true"), "{shown}");
    let set = ["--alter", "--add-config", "log.retention.ms=1"];
    let refused = house.asked(CONFIGS, &[&of[..], &set].concat());
    assert!(!refused.good && refused.all().contains("in its configuration file"), "{refused:?}");
}
