//! Tests with `python -m kafka.admin`, the tool of kafka-python.

use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{House, said};
use crate::rig::runtimes::{self, Built};

/// Environment in which kafka-python is installed.
static CLIENT: LazyLock<Built> = LazyLock::new(|| {
    runtimes::python("python", "kafka-python", "kafka-python.txt", "of_kafka_python.py")
});

/// JSON output of the tool, which may fail.
fn admin(house: &House, args: &str) -> Value {
    let mut command = Command::new(&CLIENT.command[0]);
    command.args(["-m", "kafka.admin", "--format", "json", "-b", &house.sidecar.address()]);
    let told = said(command.args(args.split(' ')), "");
    let json = told.out.lines().last().and_then(|line| serde_json::from_str(line).ok());
    json.unwrap_or_else(|| panic!("{args}: {told:?}"))
}

#[test]
fn topics_settings_and_groups_are_changed_as_kafka_python_asks() {
    let house = House::new("kafka-python");
    let made = admin(&house, "topics create -t orders --num-partitions 2");
    assert_eq!(made["topics"][0]["error_code"], 0, "{made}");
    assert_eq!(admin(&house, "topics list"), json!(["orders"]));
    let grown = admin(&house, "partitions create -p orders:3");
    assert_eq!(grown["results"][0]["error_code"], 0, "{grown}");

    // By IncrementalAlterConfigs, and by AlterConfigs with the settings that the tool has read
    // before.
    let done = json!({"topic": {"orders": "OK"}});
    assert_eq!(admin(&house, "configs alter -r topic -n orders -c retention.ms=60000"), done);
    let all = "configs alter -r topic -n orders -c retention.bytes=9000 --force-alter";
    assert_eq!(admin(&house, all), done);
    let shown = admin(&house, "configs describe -r topic -n orders");
    let shown = &shown["topic"]["orders"];
    for (name, value) in [("retention.ms", "60000"), ("retention.bytes", "9000")] {
        assert_eq!(shown[name]["value"], value, "{shown}");
        assert_eq!(shown[name]["config_source"], "DYNAMIC_TOPIC_CONFIG", "{shown}");
    }
    assert_eq!(admin(&house, "configs reset -r topic -n orders -c retention.bytes"), done);
    let shown = admin(&house, "configs describe -r topic -n orders -c retention.bytes");
    assert_eq!(shown["topic"]["orders"]["retention.bytes"]["value"], "-1", "{shown}");

    house.produce("orders", "a:1\nb:2\nc:3\n");
    let ends = admin(&house, "partitions list-offsets -t orders -s latest");
    let ends = ends["orders"].as_object().unwrap();
    let sum: i64 = ends.values().map(|end| end["offset"].as_i64().unwrap()).sum();
    assert_eq!((ends.len(), sum), (3, 3), "{ends:?}");
    let done = json!({"orders:0": "NoError"});
    assert_eq!(admin(&house, "groups alter-offsets -g shop -o orders:0:0"), done);
    let kept = admin(&house, "groups list-offsets -g shop");
    assert_eq!(kept["orders"]["0"]["offset"], 0, "{kept}");
    assert_eq!(admin(&house, "groups delete-offsets -g shop -p orders:0"), done);
    assert_eq!(admin(&house, "groups alter-offsets -g shop -o orders:0:0"), done);
    assert_eq!(admin(&house, "groups delete -g shop"), json!({"shop": "OK"}));
    assert_eq!(admin(&house, "groups delete -g shop"), json!({"shop": "GroupIdNotFoundError"}));
    let gone = admin(&house, "topics delete -t orders");
    assert_eq!(gone["topics"][0]["error_code"], 0, "{gone}");
}
