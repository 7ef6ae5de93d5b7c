//! Tests with Kafka's verifiable clients and its performance tools.

use serde_json::Value;

use super::{House, TOPICS, said, tool};

#[test]
fn the_verifiable_consumer_receives_every_verifiably_produced_record() {
    let house = House::new("verifiable");
    house.told(TOPICS, &["--create", "--topic", "orders", "--partitions", "3"]);
    let sent = house.told("VerifiableProducer", &["--topic", "orders", "--max-messages", "50"]);
    let last: Value = serde_json::from_str(sent.lines().last().unwrap()).unwrap();
    assert_eq!((&last["sent"], &last["acked"]), (&50.into(), &50.into()), "{sent}");
    for protocol in ["classic", "consumer"] {
        let group = format!("check-{protocol}");
        let args = ["--topic", "orders", "--group-id", &group, "--group-protocol", protocol];
        let more = ["--max-messages", "50", "--reset-policy", "earliest"];
        let seen = house.told("VerifiableConsumer", &[&args[..], &more].concat());
        let events = seen.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of = |event: &Value, name: &str| event["name"] == name;
        let counts: Vec<u64> = events
            .clone()
            .filter(|event| of(event, "records_consumed"))
            .map(|event| event["count"].as_u64().unwrap())
            .collect();
        assert_eq!(counts.iter().sum::<u64>(), 50, "{seen}");
        let mut commits = events.filter(|event| of(event, "offsets_committed"));
        assert!(commits.all(|event| event["success"] == true), "{seen}");
    }
}

#[test]
fn perf_tests_get_through() {
    let house = House::new("perf");
    house.told(TOPICS, &["--create", "--topic", "orders", "--partitions", "3"]);
    let address = format!("bootstrap.servers={}", house.sidecar.address());
    let args = ["--topic", "orders", "--num-records", "500", "--record-size", "100"];
    let mut perf = tool("ProducerPerformance");
    perf.args(args).args(["--throughput", "-1", "--producer-props", &address, "acks=all"]);
    let sent = said(&mut perf, "");
    assert!(sent.good && sent.out.contains("500 records sent"), "{sent:?}");
    let options = ["--topic", "orders", "--messages", "500", "--timeout", "60000"];
    let read = house.told("ConsumerPerformance", &options);
    let row: Vec<&str> = read.lines().last().unwrap().split(", ").collect();
    assert_eq!(row.get(4), Some(&"500"), "{read}");
}
