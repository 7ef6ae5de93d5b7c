//! A topic is made anew under a client of versions without ids of topics (kafkajs, aiokafka), whose
//! words are spoken here byte by byte.

use serde_json::Value;

use crate::cluster::Admin;
use crate::judge::PATIENCE;
use crate::program::Program;
use crate::sidecar::PARTITIONS;
use crate::stage::Stage;
use crate::support::{Client, Rec};
use crate::wait::until;

/// The last that kafkajs asks.
const METADATA: i16 = 6;

#[test]
fn what_waits_is_not_taken_for_a_record_of_the_new_topic() {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::by_rules(Program::JAVA, "no-ids", "retry: {levels: 1h}\n");
    let (topic, group) = (stage.scene.topic.as_str(), stage.scene.group.as_str());
    let mut client = Client::connect(stage.sidecar.address().parse().unwrap());
    let is_there = |client: &mut Client| client.metadata(METADATA, &[topic]).topics[0].error_code;
    let fails = |client: &mut Client| -> Value {
        let told = client.nack(group, &format!("{topic}-0@0"), Rec::new("x"));
        assert_eq!(told.error_code, 0);
        stage.sidecar.json("/api/v1/overview")["pending"].clone()
    };
    assert_eq!(is_there(&mut client), 0);
    assert_eq!([fails(&mut client), fails(&mut client)], [1, 1], "the same record");
    Admin::direct().remake_topic(topic, PARTITIONS);
    until(PATIENCE, "its leaders are known", || is_there(&mut client) == 0);
    assert_eq!([fails(&mut client), fails(&mut client)], [2, 2], "another one");
}
