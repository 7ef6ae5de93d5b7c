//! Jobs on dead letters: planned, tried on a few records, rate limited, stopped, paused, and
//! resumed after a kill.

use std::collections::BTreeMap;
use std::process::Output;

use crate::support::{Got, Member, Rec, Server, until};
use serde_json::{Value, json};

/// Runs a command that must succeed. Returns its stdout.
fn done(server: &Server, args: &[&str]) -> String {
    both(server, args).0
}

/// Runs a command that must succeed. Returns stdout and stderr.
fn both(server: &Server, args: &[&str]) -> (String, String) {
    let Output { status, stdout, stderr } = server.reprise(args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(stdout), text(stderr));
    assert!(status.success(), "{args:?}: {out}{err}");
    (out, err)
}

/// Makes dead letters of this many orders; the address of every eightieth is bad.
fn fill(member: &mut Member, orders: i64) {
    for at in 0..orders {
        let record =
            Rec::new(&format!("{{\"order\": {at}, \"total\": 1.10}}")).header("tenant", "a");
        let offset = member.client.put("orders", 0, std::slice::from_ref(&record));
        let why = if at % 80 == 79 { "bad address" } else { "no stock" };
        let nack = record.header("x-retry-reason", why).header("x-retry-level", "-1");
        member.client.nack("shop", &format!("orders-0@{offset}"), nack);
        if at % 80 == 79 {
            assert_eq!(member.heartbeat(), 0);
        }
    }
    assert_eq!(member.commit("orders", 0, orders), 0);
}

fn job(server: &Server, id: u64) -> Value {
    server.json(&format!("/api/v1/jobs/{id}"))
}

fn count(job: &Value, key: &str) -> u64 {
    job[key].as_u64().unwrap()
}

/// Starts a job on all dead letters of the group. Returns status and answer.
fn start(server: &Server, terms: &Value) -> (u16, Value) {
    let mut body = json!({ "group": "shop", "note": "test" });
    body.as_object_mut().unwrap().extend(terms.as_object().unwrap().clone());
    server.post("/api/v1/jobs", &body.to_string())
}

fn started(server: &Server, terms: &Value) -> u64 {
    let (code, job) = start(server, terms);
    assert_eq!(code, 200, "{job}");
    count(&job, "id")
}

fn until_state(server: &Server, id: u64, state: &str) -> Value {
    until("the job is in its state", || job(server, id)["state"] == state);
    job(server, id)
}

/// Handles retries until the group has none. Returns the deliveries of each and its last record.
fn consume(member: &mut Member, server: &Server, orders: usize) -> BTreeMap<String, (u32, Got)> {
    let mut came = BTreeMap::new();
    while came.len() < orders {
        let got = member.retries();
        let end = got.last().unwrap().offset + 1;
        for got in got {
            came.entry(got.text()).or_insert((0, got)).0 += 1;
        }
        member.done(end);
    }
    assert_eq!(server.json("/api/v1/overview")["pending"], 0);
    came
}

#[test]
fn a_canary_that_is_forgotten_is_no_success() {
    let server = Server::told("membership: {initial_rebalance_delay: 0s}");
    let mut member = Member::of_shop(&server);
    fill(&mut member, 3);
    let id = started(&server, &json!({"canary": 1, "rate": 0}));
    let got = member.retry_once();
    let (code, _) = server.post(&format!("/api/v1/jobs/{id}/pause"), "{}");
    assert_eq!(code, 200);
    // The canary dies again, and somebody deletes its letter.
    let again = format!("reprise.retry.shop-0@{}", got.offset);
    member.client.nack("shop", &again, Rec::new("x").header("x-retry-level", "-1"));
    member.client.delete_records("reprise.dlq.shop", 0, 4);
    server.pass(24 * 3_600_000);
    until("all records are forgotten", || {
        server.run(server.router().engine.group(&"shop".into())).unwrap().is_none()
    });
    let (code, _) = server.post(&format!("/api/v1/jobs/{id}/resume"), "{}");
    assert_eq!(code, 200);
    until("an outcome is known", || count(&job(&server, id), "failed") == 1);
    assert_eq!(count(&job(&server, id), "acknowledged"), 0);
}

#[test]
fn a_bulk_redrive_with_canary_is_proved_later() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member, 400);
    let kinds = done(&server, &["dlq", "group-by", "shop", "--format", "jsonl"]);
    let kinds = kinds.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let kinds: Vec<_> =
        kinds.map(|kind| (count(&kind, "records"), kind["fingerprint"].clone())).collect();
    assert_eq!(kinds, [(395, json!("no stock")), (5, json!("bad address"))]);
    for (limit, words) in [("400", ""), ("399", "399 of 400 shown")] {
        let list = ["dlq", "list", "--group", "shop", "--limit", limit];
        let (_, err) = both(&server, &list);
        assert_eq!(err.trim().split("; see").next(), Some(words), "{limit}");
    }
    let all = ["dlq", "redrive", "shop", "--all", "--fingerprint", "no stock"];
    let patch = ["--set-header", "tenant=b", "--merge", r#"{"fixed": true}"#];
    let plan = done(&server, &[&all[..], &patch].concat());
    assert!(plan.starts_with("395 records match\n  0  orders-0@0  no stock\n"), "{plan}");
    assert!(plan.contains(r#"becomes {"order":0,"total":1.10,"fixed":true}"#), "{plan}");
    let go = ["--rate", "1000", "--canary", "5", "--execute", "--detach", "--note", "INC-9"];
    let out = done(&server, &[&all[..], &patch, &go].concat());
    assert!(out.starts_with("job 1 runs"), "{out}");

    let canary = member.retries();
    assert_eq!(canary.len(), 5, "no other record is on its way");
    let first = &canary[0];
    assert_eq!(first.text(), r#"{"order":0,"total":1.10,"fixed":true}"#);
    assert_eq!(first.header("tenant").unwrap(), "b");
    assert!(done(&server, &["job", "show", "1"]).contains("the outcomes of its first 5 records"));
    member.done(canary[4].offset + 1);
    consume(&mut member, &server, 390);
    let job = until_state(&server, 1, "done");
    until("all outcomes are known", || count(&self::job(&server, 1), "acknowledged") == 395);
    assert_eq!([count(&job, "changed"), count(&job, "left"), count(&job, "failed")], [395, 0, 0]);

    let discard = ["dlq", "discard", "shop", "--all", "--execute", "--note", "INC-9: refunded"];
    assert_eq!(done(&server, &discard), "5 discarded, 0 left as they were\n");
    assert_eq!(server.json("/api/v1/groups/shop")["dead_letters"], 0);
    let audit = server.json("/api/v1/audit?group=shop");
    let told = audit["items"].as_array().unwrap().iter();
    let told: Vec<_> =
        told.map(|one| (one["action"].as_str().unwrap(), count(one, "changed"))).collect();
    assert_eq!(told, [("job-start", 0), ("job-done", 395), ("job-start", 0), ("job-done", 5)]);
    assert_eq!(
        (&audit["items"][1]["note"], &audit["items"][1]["job"]),
        (&json!("INC-9"), &json!(1))
    );
    assert!(done(&server, &["job", "list"]).contains("done"));
}

#[test]
fn a_job_takes_one_kind_of_records() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    member.nack_kinds(Some("9"), |record, _| {
        record.header("x-retry-reason", "no stock").header("x-retry-level", "-1")
    });
    let discard = |terms: &[&str]| {
        let all = ["dlq", "discard", "shop", "--all", "--execute", "--note", "INC-9"];
        done(&server, &[&all[..], terms].concat())
    };
    let plan = ["dlq", "discard", "shop", "--all", "--key-shape", "a-#", "--size", "16-256 KiB"];
    assert!(done(&server, &plan).starts_with("1 records match\n  3  orders-0@3"));
    assert_eq!(discard(&["--key-shape", "#"]), "1 discarded, 0 left as they were\n");
    assert_eq!(discard(&["--size", "16-256 KiB"]), "1 discarded, 0 left as they were\n");
    assert_eq!(discard(&["--key-shape", "a-#"]), "2 discarded, 0 left as they were\n");
}

#[test]
fn a_killed_job_repeats_and_skips_nothing() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member, 300);
    let id = started(&server, &json!({ "rate": 40 }));
    until("the job is on its way", || count(&job(&server, id), "changed") > 20);
    let after = server.killed();
    drop(server);
    let before = count(&job(&after, id), "changed");
    assert!(before < 300, "the kill came in the middle: {before}");
    let job = until_state(&after, id, "done");
    assert_eq!((count(&job, "changed"), count(&job, "left")), (300, 0));
    let mut member = Member::of_shop(&after);
    let came = consume(&mut member, &after, 300);
    for (text, (times, got)) in came {
        assert_eq!((times, got.number("x-retry-redrive-count")), (1, 1), "{text}");
    }
}

#[test]
fn a_failing_canary_stops_its_job() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member, 10);
    let id = started(&server, &json!({ "rate": 0, "canary": 2 }));
    let canary = member.retries();
    assert_eq!(canary.len(), 2);
    for got in &canary {
        let named = format!("reprise.retry.shop-0@{}", got.offset);
        member.client.nack("shop", &named, Rec::new("x").header("x-retry-level", "-1"));
    }
    member.done(canary[1].offset + 1);
    let job = until_state(&server, id, "stopped");
    assert_eq!((count(&job, "changed"), count(&job, "failed")), (2, 2));
    assert_eq!(server.json("/api/v1/groups/shop")["dead_letters"], 10, "nothing is lost");
    let plan = json!({ "group": "shop", "redrives_max": 1 });
    let (_, plan) = server.post("/api/v1/jobs/plan", &plan.to_string());
    assert_eq!((count(&plan, "matched"), count(&plan, "looped")), (8, 2), "{plan}");
}

#[test]
fn a_job_is_paused_resumed_and_cancelled() {
    let mut server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member, 30);
    let id = started(&server, &json!({ "rate": 4 }));
    let (code, busy) = start(&server, &json!({}));
    assert_eq!((code, busy["error"].as_str().unwrap().contains("one job at a time")), (409, true));
    assert_eq!(done(&server, &["job", "pause", "1"]), "job 1 is paused\n");
    server.restart();
    let paused = job(&server, id);
    assert_eq!(paused["state"], "paused");
    assert_eq!(done(&server, &["job", "resume", "1"]), "job 1 is running\n");
    let before = count(&paused, "changed");
    until("the job goes on", || count(&job(&server, id), "changed") > before);
    assert_eq!(done(&server, &["job", "cancel", "1", "--note", "enough"]), "job 1 is cancelled\n");
    let changed = count(&job(&server, id), "changed");
    for verb in ["cancel", "resume", "pause"] {
        let (code, refused) = server.post(&format!("/api/v1/jobs/{id}/{verb}"), "{}");
        assert_eq!((code, refused["error"].as_str().unwrap()), (409, "job 1 is cancelled"));
    }
    let group = server.json("/api/v1/groups/shop");
    assert_eq!(count(&group, "dead_letters") + count(&group, "pending"), 30);
    assert_eq!(count(&group, "pending"), changed, "the records it sent back stay on their way");
}

#[test]
fn a_record_is_patched_before_its_redrive() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member, 2);
    let redrive = |body: Value| server.post("/api/v1/dead-letters/redrive", &body.to_string());
    let (code, answer) =
        redrive(json!({"group": "shop", "offsets": [0], "merge": {"total": 2}, "set_value": "x"}));
    assert_eq!(code, 400, "{answer}");
    let value = json!({"group": "shop", "offsets": [0], "set_value": "mended"});
    assert_eq!(redrive(value).1["changed"], 1);
    let merge = json!({"group": "shop", "offsets": [1], "merge": {"total": 2},
        "set_headers": ["checked=yes"], "remove_headers": ["tenant"]});
    assert_eq!(redrive(merge).1["changed"], 1);
    let got = member.retries();
    assert_eq!([got[0].text(), got[1].text()], ["mended", r#"{"order":1,"total":2}"#]);
    assert_eq!((got[0].header("tenant").unwrap(), got[1].header("tenant")), ("a".into(), None));
    assert_eq!(got[1].header("checked").unwrap(), "yes");
    let named = format!("reprise.retry.shop-0@{}", got[0].offset);
    member.client.nack("shop", &named, Rec::new("mended").header("x-retry-level", "-1"));
    member.done(got[1].offset + 1);
    let left = redrive(json!({"group": "shop", "offsets": [2], "merge": {"total": 2}})).1;
    assert!(left["left"][0]["why"].as_str().unwrap().contains("not JSON"), "{left}");
}

#[test]
fn bad_jobs_are_refused_with_a_sentence() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member, 2);
    for (terms, status, says) in [
        (json!({"action": "burn"}), 400, "redrive or discard"),
        (json!({"canary": 1001}), 400, "canary goes from 0 to 1000"),
        (json!({"stop_percent": 101}), 400, "stop_percent goes from 0 to 100"),
        (json!({"rate": 1_000_001}), 400, "rate goes from 0"),
        (json!({"set_headers": ["=x"]}), 400, "is not name=value"),
        (json!({"action": "discard", "merge": {}}), 400, "leave the patch out"),
        (json!({"note": " "}), 400, "needs a note"),
        (json!({"group": ""}), 400, "group names the group"),
        (json!({"sql": "drop"}), 422, "unknown field"),
    ] {
        let (code, answer) = start(&server, &terms);
        assert_eq!(code, status, "{terms}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(says), "{terms}: {answer}");
    }
    assert_eq!(server.post("/api/v1/jobs/9/pause", "{}").0, 404);
    assert_eq!(server.post("/api/v1/jobs/9/burn", "{}").0, 404);
    assert_eq!(server.json("/api/v1/groups/shop")["dead_letters"], 2);
}
