//! A topic is recreated under a client whose versions have no topic ids (kafkajs, aiokafka). The
//! test sends the requests of such a client byte by byte.

use serde_json::Value;

use crate::judge::PATIENCE;
use crate::rig::cluster::Admin;
use crate::rig::program::Program;
use crate::rig::sidecar::PARTITIONS;
use crate::rig::stage::Stage;
use crate::rig::wait::until;
use crate::support::{Client, Rec};

/// Newest version of Metadata that kafkajs sends.
const METADATA: i16 = 6;

#[test]
fn a_waiting_retry_does_not_belong_to_a_recreated_topic() {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::by_rules(Program::JAVA, "no-ids", "retry: {levels: 1h}\n");
    let (topic, group) = (stage.scene.topic.as_str(), stage.scene.group.as_str());
    let mut client = Client::connect(stage.sidecar.address().parse().unwrap());
    let is_there = |client: &mut Client| client.metadata(METADATA, &[topic]).topics[0].error_code;
    let fails = |client: &mut Client| {
        let told = client.nack(group, &format!("{topic}-0@0"), Rec::new("x"));
        let waiting: Value = stage.sidecar.json("/api/v1/overview")["pending"].clone();
        (told.error_code, waiting.as_i64())
    };
    assert_eq!(is_there(&mut client), 0);
    assert_eq!([fails(&mut client), fails(&mut client)], [(0, Some(1)); 2], "one record");
    Admin::direct().remake_topic(topic, PARTITIONS);
    // A broker that lags behind the controller still answers with the old topic.
    let new = |client: &mut Client| is_there(client) == 0 && fails(client) == (0, Some(2));
    until(PATIENCE, "a record of the new topic waits", || new(&mut client));
    assert_eq!(fails(&mut client), (0, Some(2)), "one record of it");
}
