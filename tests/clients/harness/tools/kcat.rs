//! Tests with kcat, a command line on librdkafka.

use serde_json::Value;

use super::{House, TOPICS};

/// Output of kcat, which must succeed.
fn kcat(house: &House, args: &[&str], input: &str) -> String {
    crate::kcat::kcat(&house.sidecar.address(), args, input)
}

#[test]
fn records_go_in_and_out_and_are_counted() {
    let house = House::new("kcat");
    house.told(TOPICS, &["--create", "--topic", "orders", "--partitions", "2"]);
    kcat(
        &house,
        &["-P", "-t", "orders", "-p", "1", "-K", ":", "-H", "from=here"],
        "a:1\nb:2\nc:3\n",
    );
    let told = kcat(&house, &["-L", "-J"], "");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["brokers"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!(told["controllerid"], told["brokers"][0]["id"], "{told}");
    let topics = told["topics"].as_array().unwrap();
    assert_eq!(topics.len(), 1, "{told}");
    assert_eq!(topics[0]["partitions"].as_array().unwrap().len(), 2, "{told}");

    let read = ["-C", "-t", "orders", "-o", "beginning", "-e", "-q", "-f", "%p@%o %k=%s %h\n"];
    let records = kcat(&house, &read, "");
    assert_eq!(records, "1@0 a=1 from=here\n1@1 b=2 from=here\n1@2 c=3 from=here\n");
    let ends = kcat(&house, &["-Q", "-t", "orders:0:-1", "-t", "orders:1:-1"], "");
    assert_eq!(ends, "orders [0] offset 0\norders [1] offset 3\n");
    let begins = kcat(&house, &["-Q", "-t", "orders:1:-2"], "");
    assert_eq!(begins, "orders [1] offset 0\n");

    let group = ["-G", "shop", "-e", "-q", "-o", "beginning", "-f", "%s\n", "orders"];
    assert_eq!(kcat(&house, &group, ""), "1\n2\n3\n");
}
