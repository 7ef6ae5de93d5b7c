//! An operator sends dead letters to a topic, where every group that reads it gets them. An edited
//! record that becomes a dead letter again keeps its original.

use std::process::Output;

use crate::support::batch::{Got, Rec, TIME_MS, unpack};
use crate::support::{Member, Server, wall_ms};
use serde_json::json;

/// Runs a command against the sidecar: code, stdout, stderr.
fn cli(server: &Server, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = server.reprise(args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs a command that must succeed. Returns its stdout.
fn done(server: &Server, args: &[&str]) -> String {
    let (code, out, err) = cli(server, args);
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    out
}

/// Makes dead letters of orders 0 to 3, each with a header, from two partitions.
fn fill(member: &mut Member) {
    for at in 0..4 {
        let record = Rec::new(&format!("order-{at}")).header("tenant", "a");
        let partition = at % 2;
        let offset = member.client.put("orders", partition, std::slice::from_ref(&record));
        let nack = record.header("x-retry-reason", "no stock").header("x-retry-level", "-1");
        member.client.nack("shop", &format!("orders-{partition}@{offset}"), nack);
    }
    assert_eq!(member.commit("orders", 0, 2), 0);
    assert_eq!(member.commit("orders", 1, 2), 0);
}

/// A sidecar with two topics and the dead letters, and a member of their group.
fn shop() -> (Server, Member) {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 2);
    client.create("parking", 3);
    let mut member = Member::of_shop(&server);
    fill(&mut member);
    (server, member)
}

/// Offsets of the dead letters in a state.
fn letters(server: &Server, state: &str) -> Vec<i64> {
    let found = server.json(&format!("/api/v1/dead-letters?group=shop&state={state}"));
    let items = found["items"].as_array().unwrap();
    items.iter().map(|item| item["offset"].as_i64().unwrap()).collect()
}

/// The records of a partition from an offset on, as any consumer reads them.
fn read(server: &Server, topic: &str, partition: i32, from: i64) -> Vec<Got> {
    let data = server.client().fetch(topic, partition, from, 0);
    unpack(&data.records.unwrap_or_default())
}

fn texts(records: &[Got]) -> Vec<String> {
    records.iter().map(Got::text).collect()
}

#[test]
fn letters_go_to_their_origin_topic_for_all_groups() {
    let (start, (mut server, _member)) = (wall_ms(), shop());
    let sent = ["dlq", "redrive", "shop", "1", "2", "--to-origin", "--set-header", "tenant=b"];
    let sent = done(&server, &[&sent[..], &["--note", "INC-7"]].concat());
    assert_eq!(sent, "2 sent back, 0 left as they were\n");
    for (partition, text) in [(0, "order-2"), (1, "order-1")] {
        let got = read(&server, "orders", partition, 2);
        assert_eq!(texts(&got), [text], "in the partition of its origin");
        assert_eq!(got[0].header("tenant").unwrap(), "b");
        assert_eq!(got[0].number("x-retry-redrive-count"), 1);
        got[0].assert_appended_since(start, TIME_MS);
        assert!(got[0].header("x-retry-origin").is_none(), "a record of its own");
    }
    assert_eq!((letters(&server, "dead"), letters(&server, "discarded")), (vec![0, 3], vec![1, 2]));
    server.restart();
    assert_eq!(server.json("/api/v1/overview")["pending"], 0, "no retry beside it");
    assert_eq!(texts(&read(&server, "orders", 0, 2)), ["order-2"]);
    let restored = done(&server, &["dlq", "restore", "shop", "1"]);
    assert_eq!(restored, "1 restored, 0 left as they were\n");
    let audit = server.json("/api/v1/audit?group=shop");
    assert_eq!(
        (&audit["items"][0]["action"], &audit["items"][0]["target"]),
        (&json!("send"), &json!("the topics of their origins"))
    );
    assert_eq!(audit["items"][1]["target"], json!(null));
}

#[test]
fn a_job_sends_letters_to_another_topic() {
    let (server, _member) = shop();
    let all = ["dlq", "redrive", "shop", "--all", "--to-topic", "parking", "--rate", "0"];
    let plan = done(&server, &all);
    assert!(plan.ends_with("they go to parking: every group that reads it gets them\n"), "{plan}");
    let done = done(&server, &[&all[..], &["--execute", "--note", "INC-8"]].concat());
    assert_eq!(done, "4 sent back, 0 left as they were\n");
    let mut found: Vec<_> = (0..3).flat_map(|at| read(&server, "parking", at, 0)).collect();
    found.sort_by_key(Got::text);
    assert_eq!(texts(&found), ["order-0", "order-1", "order-2", "order-3"]);
    assert!(letters(&server, "dead").is_empty());
    let job = server.json("/api/v1/jobs/1");
    assert_eq!((&job["action"], &job["target"]), (&json!("send"), &json!("parking")));
    let sends = "reprise_operator_actions_total{action=\"send\",group=\"shop\"}";
    assert!(server.get("/metrics").contains(&format!("{sends} 4\n")));
}

#[test]
fn a_topic_that_cannot_take_records_is_refused() {
    let (server, _member) = shop();
    for (topic, sentence) in [
        ("nowhere", "there is no topic nowhere"),
        ("reprise.retry.shop", "is a topic of reprise itself"),
        ("reprise.dlq.shop", "is a topic of reprise itself"),
    ] {
        let (code, _, err) = cli(&server, &["dlq", "redrive", "shop", "0", "--to-topic", topic]);
        assert_eq!((code, err.contains(sentence)), (3, true), "{topic}: {err}");
        let all = ["dlq", "redrive", "shop", "--all", "--to-topic", topic];
        let (code, out, _) = cli(&server, &all);
        assert_eq!((code, out.contains("4 stay: ")), (3, true), "{topic}: {out}");
        let (code, _, err) = cli(&server, &[&all[..], &["--execute", "--note", "x"]].concat());
        assert_eq!((code, err.contains(sentence)), (2, true), "{topic}: {err}");
    }
    for (body, sentence) in [
        (json!({"to_origin": true, "to_topic": "parking"}), "give one of to_origin and to_topic"),
        (json!({"to_topic": "a/b"}), "is no name of a topic"),
        (json!({"to_topic": "parking", "canary": 5}), "canary needs outcomes"),
        (json!({"to_topic": "parking", "action": "discard"}), "a discard sends no record"),
    ] {
        let mut terms = json!({"group": "shop", "note": "x"});
        terms.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let (code, answer) = server.post("/api/v1/jobs", &terms.to_string());
        assert_eq!((code, answer["error"].to_string().contains(sentence)), (400, true), "{answer}");
    }
    let discard = json!({"group": "shop", "offsets": [0], "to_topic": "parking"});
    let (code, answer) = server.post("/api/v1/dead-letters/discard", &discard.to_string());
    assert_eq!(code, 400, "{answer}");
    assert_eq!(letters(&server, "dead"), [0, 1, 2, 3]);
}

#[test]
fn a_record_goes_by_each_of_its_letters() {
    let (server, mut member) = shop();
    done(&server, &["dlq", "redrive", "shop", "1", "--set-header", "tenant=b"]);
    let got = member.retry_once();
    assert_eq!(got.header("tenant").unwrap(), "b");
    let again = format!("reprise.retry.shop-0@{}", got.offset);
    member.client.nack("shop", &again, Rec::new("order-1").header("x-retry-level", "-1"));
    member.done(got.offset + 1);
    let states = (letters(&server, "dead"), letters(&server, "redriven"));
    assert_eq!(states, (vec![0, 2, 3, 4], vec![1]));
    let both = ["dlq", "redrive", "shop", "1", "4", "--to-topic", "parking", "--note", "x"];
    let (code, out, err) = cli(&server, &both);
    assert_eq!((code, out.as_str()), (0, "1 sent back, 1 left as they were\n"), "{err}");
    assert!(err.contains("1: the letter at 4 is of the same record"), "{err}");
    let sent: Vec<_> = (0..3).flat_map(|at| read(&server, "parking", at, 0)).collect();
    assert_eq!(sent.len(), 1);
    done(&server, &["dlq", "restore", "shop", "4"]);
    let all = ["dlq", "redrive", "shop", "--all", "--execute", "--rate", "0", "--note", "x"];
    assert_eq!(done(&server, &all), "4 sent back, 0 left as they were\n", "not the original");
    let got = member.retries();
    let last = got.last().unwrap().offset;
    member.done(last + 1);
    assert_eq!(letters(&server, "redriven"), [0, 1, 2, 3, 4]);
}
