//! An operator lists dead letters, redrives some, discards others, and can prove it later.

use std::process::Output;

use reprise::model::WallMs;
use reprise::wire::batch::Batch;
use serde_json::{Value, json};

use crate::support::client::fetch_request;
use crate::support::{Member, Rec, Server, until};

/// Runs a command against the sidecar: code, stdout, stderr.
fn cli(server: &Server, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = server.reprise(args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs a command that must succeed. Returns its stdout.
pub(crate) fn done(server: &Server, args: &[&str]) -> String {
    let (code, out, err) = cli(server, args);
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    out
}

/// Makes dead letters of orders 0 to 4; the last one has another reason.
fn fill(member: &mut Member) {
    for at in 0..5 {
        let record = Rec::new(&format!("order-{at}"));
        let offset = member.client.put("orders", 0, std::slice::from_ref(&record));
        let why = if at == 4 { "bad address" } else { "no stock" };
        let nack = record.header("x-retry-reason", why).header("x-retry-level", "-1");
        member.client.nack("shop", &format!("orders-0@{offset}"), nack);
    }
    assert_eq!(member.commit("orders", 0, 5), 0);
}

/// Offsets of the dead letters in a state.
pub(crate) fn letters(server: &Server, state: &str) -> Vec<i64> {
    let found = server.json(&format!("/api/v1/dead-letters?group=shop&state={state}"));
    let items = found["items"].as_array().unwrap();
    items.iter().map(|item| item["offset"].as_i64().unwrap()).collect()
}

fn dead_letters(server: &Server) -> u64 {
    server.json("/api/v1/groups/shop")["dead_letters"].as_u64().unwrap()
}

#[test]
fn a_redrive_that_no_member_receives_is_refused() {
    let server = Server::start();
    server.client().create("orders", 1);
    let mut member = Member::new(&server, "shop", &["orders"]);
    member.join(&[("orders", 1)]);
    fill(&mut member);
    let nobody = "nobody reads reprise.retry.shop--orders: no member of the group that is \
                  connected here subscribes to it";
    let all = ["dlq", "redrive", "shop", "--all"];
    assert!(done(&server, &all).contains(nobody));
    let job = [&all[..], &["--execute", "--note", "x"]].concat();
    for refused in [&job[..], &["dlq", "redrive", "shop", "0"]] {
        let (code, out, err) = cli(&server, refused);
        assert_eq!((code, out.as_str()), (4, ""), "{err}");
        assert!(err.contains(nobody) && err.contains("--to-origin"), "{err}");
    }
    let described = done(&server, &["group", "describe", "shop"]);
    assert!(described.contains(nobody), "{described}");
    assert_eq!(letters(&server, "dead"), [0, 1, 2, 3, 4]);
    let sent = "1 sent back, 0 left as they were\n";
    assert_eq!(done(&server, &["dlq", "redrive", "shop", "0", "--anyway"]), sent);
    assert_eq!(done(&server, &["dlq", "redrive", "shop", "1", "--to-origin"]), sent);

    // A group that has read its retry topic gets the records when it is back.
    assert_eq!(member.leave(), 0);
    let mut member = Member::of_shop(&server);
    assert_eq!(member.retries().len(), 1);
    assert!(done(&server, &all).contains("1 member reads reprise.retry.shop now\n"));
    assert_eq!(member.leave(), 0);
    assert!(done(&server, &all).contains("a member did before"));
    assert_eq!(done(&server, &["dlq", "redrive", "shop", "2"]), sent);
}

#[test]
fn a_redrive_needs_a_reader_of_each_topic() {
    let server = Server::start();
    let mut client = server.client();
    for topic in ["orders", "payments"] {
        client.create(topic, 1);
        client.put(topic, 0, &[Rec::new(topic)]);
    }
    let topics = ["orders", "payments", "reprise.retry.shop--orders"];
    let mut member = Member::new(&server, "shop", &topics);
    member.join(&topics.map(|topic| (topic, 1)));
    for origin in ["payments-0@0", "orders-0@0"] {
        member.client.nack("shop", origin, Rec::new("x").header("x-retry-level", "-1"));
    }
    let nobody = "nobody reads reprise.retry.shop--payments: no member";
    let both = ["dlq", "redrive", "shop", "--all"];
    let execute = ["--execute", "--note", "x"];
    assert!(done(&server, &both).contains(nobody));
    for refused in [&["dlq", "redrive", "shop", "0"][..], &[&both[..], &execute].concat()] {
        let (code, out, err) = cli(&server, refused);
        assert_eq!((code, out.as_str()), (4, ""), "{err}");
        assert!(err.contains(nobody) && err.contains("--to-origin"), "{err}");
    }
    assert!(server.get("/groups/shop/letters/0").contains(nobody));
    assert!(!server.json("/api/v1/groups/shop")["advice"].to_string().contains("nobody reads"));

    let of_orders = ["dlq", "redrive", "shop", "--all", "--topic", "orders"];
    let plan = done(&server, &of_orders);
    assert!(plan.contains("alone, by reprise.retry.shop--orders, with"), "{plan}");
    assert!(plan.contains("1 member reads reprise.retry.shop--orders now\n"), "{plan}");
    assert!(!plan.contains("payments"), "{plan}");
    let sent = "1 sent back, 0 left as they were\n";
    assert_eq!(done(&server, &["dlq", "redrive", "shop", "1"]), sent);
}

/// Fetches the dead letters like a consumer: from each position on, until a Fetch brings nothing.
/// Returns the offsets, and the position at the end.
fn read_to_the_end(server: &Server, version: i16, mut position: i64) -> (Vec<i64>, i64) {
    let (mut client, mut read) = (server.client(), Vec::new());
    loop {
        let data = client.fetch_by(version, &fetch_request("reprise.dlq.shop", 0, position, 0));
        assert_eq!(data.error_code, 0);
        let mut rest = data.records.unwrap();
        if rest.is_empty() {
            return (read, position);
        }
        while !rest.is_empty() {
            let batch = Batch::parse(&rest).unwrap();
            position = batch.header.last_offset() + 1;
            if !batch.header.is_control() {
                read.extend(batch.header.base_offset..position);
            }
            rest = rest.slice(batch.bytes.len()..);
        }
    }
}

#[test]
fn a_reader_gets_settled_letters_for_a_day() {
    let server = Server::told("");
    let mut member = Member::of_shop(&server);
    fill(&mut member);
    done(&server, &["dlq", "redrive", "shop", "0", "3", "4", "--note", "test"]);
    done(&server, &["dlq", "discard", "shop", "1"]);
    let got = member.retries();
    member.done(got.last().unwrap().offset + 1);
    assert_eq!(letters(&server, "dead"), [2]);
    for version in [4, 12] {
        assert_eq!(read_to_the_end(&server, version, 0), (vec![0, 1, 2, 3, 4], 5));
    }
    let day_ms = 24 * 3_600_000;
    let until_ms = server.now_ms() + i64::try_from(day_ms).unwrap();
    let told = server.json("/api/v1/dead-letters/shop/1");
    assert_eq!(told["restorable_until_ms"], until_ms);
    assert!(server.get("/groups/shop/letters/1").contains(">Restore</button>"));
    server.pass(day_ms + 1);
    let deleted = || {
        let oldest = WallMs(server.now_ms() - i64::try_from(day_ms).unwrap());
        server.run(server.router().engine.delete_settled(oldest)).unwrap()
    };
    until("the first two are deleted", || deleted() == 2);
    assert_eq!(read_to_the_end(&server, 12, 2), (vec![2, 3, 4], 5), "letter 2 is open");
    assert_eq!(letters(&server, "redriven"), [3, 4], "also when the records are forgotten");
}

#[test]
fn a_reader_without_a_retry_is_remembered() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member);
    assert_eq!(member.leave(), 0);
    let all = ["dlq", "redrive", "shop", "--all"];
    assert!(done(&server, &all).contains("a member did before"));
}

#[test]
fn bulk_verbs_take_retries_that_are_due() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    for (at, delay) in ["1", "3600000"].into_iter().enumerate() {
        let record = Rec::new(&format!("order-{at}"));
        let offset = member.client.put("orders", 0, std::slice::from_ref(&record));
        let nack = record.header("x-retry-delay-ms", delay);
        member.client.nack("shop", &format!("orders-0@{offset}"), nack);
    }
    until("the first is due", || server.json("/api/v1/groups/shop")["due"] == 1);
    let verbs = [("now", &[][..], 1), ("delay", &["--for", "2h"], 2), ("dead-letter", &[], 2)];
    for (verb, time, count) in verbs {
        let all = [&["retry", verb, "shop", "--all"][..], time].concat();
        let plan = done(&server, &all);
        assert!(plan.starts_with(&format!("{count} records match\n")), "{verb}: {plan}");
    }
    let act = ["--execute", "--note", "INC-7"];
    let delay = ["retry", "delay", "shop", "--all", "--for", "2h"];
    let delayed = "2 delayed, 0 left as they were\n";
    assert_eq!(done(&server, &[&delay[..], &act].concat()), delayed);
    let killed = [&["retry", "dead-letter", "shop", "--all"][..], &act].concat();
    assert_eq!(done(&server, &killed), "2 dead letters now, 0 left as they were\n");
}

#[test]
fn dead_letters_are_sent_back_discarded_and_restored_with_proof() {
    let mut server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member);
    let dry = done(&server, &["dlq", "redrive", "shop", "--all", "--error", "no stock"]);
    assert!(dry.starts_with("4 records match\n  0  orders-0@0  no stock"), "{dry}");
    assert_eq!(dead_letters(&server), 5, "a dry run changes nothing");
    let redrive = ["dlq", "redrive", "shop", "--all", "--error", "no stock", "--execute"];
    let (code, _, err) = cli(&server, &redrive);
    assert_eq!((code, err.contains("needs a note")), (2, true), "{err}");
    let with_why = [&redrive[..], &["--note", "INC-7: stock is back"]].concat();
    assert_eq!(done(&server, &with_why), "4 sent back, 0 left as they were\n");
    assert_eq!(
        (letters(&server, "dead"), letters(&server, "redriven")),
        (vec![4], vec![0, 1, 2, 3])
    );
    let (code, _, err) = cli(&server, &["dlq", "redrive", "shop", "0"]);
    assert_eq!((code, err.contains("0: this was done before")), (3, true), "{err}");

    let got = member.retries();
    assert_eq!(got.len(), 4);
    for (at, got) in got.iter().enumerate() {
        assert_eq!(got.text(), format!("order-{at}"));
        assert_eq!((got.number("RECONSUME_TIME"), got.number("x-retry-redrive-count")), (0, 1));
        assert_eq!(got.header("ORIGIN_MESSAGE_ID").unwrap(), format!("orders-0@{at}"));
    }
    // The last one becomes a dead letter again.
    let last = &got[3];
    let again = format!("reprise.retry.shop-0@{}", last.offset);
    member.client.nack("shop", &again, Rec::new("order-3").header("x-retry-level", "-1"));
    member.done(last.offset + 1);
    assert_eq!(letters(&server, "dead"), [4, 5], "one letter of each");
    assert_eq!(letters(&server, "redriven"), [0, 1, 2, 3], "they stay in the topic");
    let shown = done(&server, &["dlq", "show", "shop", "5"]);
    assert!(shown.contains("redrives      1\n") && shown.contains("order-3"), "{shown}");

    assert_eq!(
        done(&server, &["dlq", "discard", "shop", "4"]),
        "1 discarded, 0 left as they were\n"
    );
    assert_eq!((letters(&server, "dead"), letters(&server, "discarded")), (vec![5], vec![4]));
    server.restart();
    let restored = ["dlq", "restore", "shop", "--all", "--execute", "--note", "not yet"];
    assert_eq!(done(&server, &restored), "1 restored, 0 left as they were\n");
    assert_eq!(letters(&server, "dead"), [4, 5]);
    done(&server, &["dlq", "discard", "shop", "4", "5", "--note", "INC-7"]);
    assert_eq!(dead_letters(&server), 0);
    let metrics = server.get("/metrics");
    assert!(metrics.contains("reprise_dlq_records{group=\"shop\"} 0"), "{metrics}");
    assert!(
        metrics.contains("reprise_dlq_oldest_timestamp_seconds{group=\"shop\"} 0"),
        "{metrics}"
    );

    let audit = done(&server, &["audit", "--format", "jsonl"]);
    let audit: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = audit.iter().map(|record| {
        let text = |key: &str| record[key].as_str().unwrap().to_owned();
        (text("action"), record["changed"].as_u64().unwrap(), text("note"))
    });
    let expected = [
        ("job-start", 0, "INC-7: stock is back"),
        ("job-done", 4, "INC-7: stock is back"),
        ("redrive", 0, ""),
        ("discard", 1, ""),
        ("restore", 1, "not yet"),
        ("discard", 2, "INC-7"),
    ];
    let expected = expected.map(|(action, n, why)| (action.to_owned(), n, why.to_owned()));
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(audit[0]["peer"], "127.0.0.1");
}

#[test]
fn a_nack_of_an_old_letter_redrives() {
    let server = Server::with("retry: {levels: 20ms, consume_timeout: 1s}");
    let mut member = Member::of_shop(&server);
    fill(&mut member);
    let mended = json!({"group": "shop", "topic": "orders", "partition": 0, "offset": 2});
    let post = || server.post("/api/v1/nack", &mended.to_string()).1["outcome"].clone();
    assert_eq!(post(), "known", "it may be of a delivery that was out before");
    crate::support::until("the letter is old enough", || post() == "scheduled");
    let got = member.retry_once();
    assert_eq!(got.text(), "order-2");
    assert_eq!((got.number("RECONSUME_TIME"), got.number("x-retry-redrive-count")), (0, 1));
    member.done(got.offset + 1);
    assert_eq!(letters(&server, "dead"), [0, 1, 3, 4]);
}

#[test]
fn delete_records_deletes_dead_letters_for_good() {
    let mut server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member);
    done(&server, &["dlq", "discard", "shop", "0"]);
    done(&server, &["dlq", "redrive", "shop", "1"]);
    let mut client = server.client();
    assert_eq!(client.ask_delete_records("reprise.dlq.shop", 1, 1), (3, -1), "one partition");
    assert_eq!(client.ask_delete_records("reprise.dlq.shop", 0, 6), (1, -1), "beyond its end");
    assert_eq!(client.ask_delete_records("reprise.dlq.shop", 0, 3), (0, 3));
    assert_eq!(client.ask_delete_records("reprise.dlq.shop", 0, 2), (0, 3), "it is so already");
    server.restart();
    let mut client = server.client();
    assert_eq!(client.list_offset("reprise.dlq.shop", 0, -2).1, 3);
    assert_eq!(letters(&server, "dead"), [3, 4]);
    assert_eq!(cli(&server, &["dlq", "restore", "shop", "0"]).0, 3, "it cannot be taken back");
    assert_eq!(Member::of_shop(&server).retry_once().text(), "order-1");
    assert_eq!(client.ask_delete_records("reprise.dlq.shop", 0, -1), (0, 5));
    assert_eq!(dead_letters(&server), 0);
    let audit = server.json("/api/v1/audit?group=shop");
    let last = audit["items"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["action"], &last["changed"]), (&json!("delete"), &json!(2)));
    assert_eq!(last["note"], "DeleteRecords");
}

#[test]
fn hidden_payloads_hide_reasons() {
    let server = Server::with("retry: {levels: 1h}\nadmin: {payloads: hide}");
    let mut member = Member::of_shop(&server);
    fill(&mut member);
    member.client.put("orders", 0, &[Rec::new("order-5")]);
    let nack = Rec::new("order-5").header("x-retry-reason", "no stock");
    member.client.nack("shop", "orders-0@5", nack);
    let (code, plan) = server.post("/api/v1/jobs/plan", "{\"group\":\"shop\"}");
    assert_eq!((code, &plan["matched"]), (200, &json!(5)), "{plan}");
    let answers = [
        plan,
        server.json("/api/v1/retries?group=shop"),
        server.json("/api/v1/dead-letters?group=shop"),
        server.json("/api/v1/dead-letters/fingerprints?group=shop"),
        server.json("/api/v1/explain?group=shop&record=orders-0@5"),
    ];
    for answer in answers {
        let text = answer.to_string();
        assert!(text.contains("orders") && !text.contains("no stock"), "{text}");
    }
}

#[test]
fn retries_that_wait_are_hastened_delayed_and_ended() {
    let server = Server::with("retry: {levels: 1h 2h}");
    let mut member = Member::of_shop(&server);
    for at in 0..3 {
        let offset = member.client.put("orders", 0, &[Rec::new(&format!("order-{at}"))]);
        let nack = Rec::new(&format!("order-{at}"));
        member.client.nack("shop", &format!("orders-0@{offset}"), nack);
    }
    let list = server.json("/api/v1/retries?group=shop");
    let id = |at: usize| list["items"][at]["id"].to_string();
    assert_eq!(
        done(&server, &["retry", "now", "shop", &id(0)]),
        "1 due now, 0 left as they were\n"
    );
    let got = member.retry_once();
    assert_eq!(got.text(), "order-0");
    let (code, _, err) = cli(&server, &["retry", "now", "shop", &id(0)]);
    assert_eq!((code, err.contains("the record is in the retry topic")), (3, true), "{err}");
    done(&server, &["retry", "delay", "shop", &id(1), "--for", "6h"]);
    let due = server.json("/api/v1/retries?group=shop")["items"][1]["due_ms"].as_i64().unwrap();
    let before = list["items"][1]["due_ms"].as_i64().unwrap();
    assert!((due - before - 4 * 3_600_000).abs() < 60_000, "{before} {due}");
    let killed = done(&server, &["retry", "dead-letter", "shop", &id(2)]);
    assert_eq!(killed, "1 dead letters now, 0 left as they were\n");
    assert_eq!(letters(&server, "dead"), [0]);
    let letter = server.json("/api/v1/dead-letters/shop/0");
    assert_eq!(letter["cause"], "manual");
}

#[test]
fn bad_requests_are_refused_with_a_sentence_and_change_nothing() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member);
    let ask = |path: &str, body: Value| {
        let (code, answer) = server.post(path, &body.to_string());
        (code, answer.to_string())
    };
    let cases = [
        ("dead-letters/redrive", json!({"group": "shop", "offsets": []}), 400, "name 1 to 1000"),
        ("dead-letters/redrive", json!({"group": "shop", "offsets": [0, 1]}), 400, "needs a note"),
        ("dead-letters/burn", json!({"group": "shop", "offsets": [0]}), 404, "take redrive"),
        ("dead-letters/discard", json!({"group": "shop"}), 400, "name 1 to 1000"),
        ("dead-letters/discard", json!({"offsets": [0]}), 400, "group names the group"),
        ("dead-letters/discard", json!({"group": "shop", "all": true}), 400, "needs a note"),
        (
            "dead-letters/discard",
            json!({"group": "shop", "all": true, "dry_run": true}),
            400,
            "is a job",
        ),
        (
            "dead-letters/discard",
            json!({"group": "shop", "offsets": [0], "dry_run": true}),
            400,
            "dry_run needs all",
        ),
        (
            "retries/now",
            json!({"group": "shop", "ids": [1], "dry_run": true}),
            400,
            "dry_run needs all",
        ),
        (
            "retries/now",
            json!({"group": "shop", "ids": [1], "all": true}),
            400,
            "name records, or set all",
        ),
        ("retries/now", json!({"group": "shop", "ids": [1], "key": "a"}), 400, "need all: true"),
        ("retries/now", json!({"group": "shop", "ids": [1], "since": "soon"}), 422, "soon"),
        ("dead-letters/discard", json!({"group": "shop", "offsets": [0], "x": 1}), 422, "unknown"),
        ("retries/delay", json!({"group": "shop", "ids": [1]}), 400, "needs one of"),
        (
            "retries/now",
            json!({"group": "shop", "ids": [1], "delay_ms": 5}),
            400,
            "belong to delay",
        ),
    ];
    for (path, body, status, says) in cases {
        let (code, answer) = ask(&format!("/api/v1/{path}"), body);
        assert_eq!(code, status, "{path}: {answer}");
        assert!(answer.contains(says), "{path}: {answer}");
    }
    let (code, answer) =
        ask("/api/v1/dead-letters/redrive", json!({"group": "shop", "offsets": [9]}));
    assert_eq!(code, 200);
    assert!(answer.contains("no dead letter at this offset"), "{answer}");
    assert_eq!(dead_letters(&server), 5);
}

#[test]
fn waiting_retries_of_one_kind_are_ended() {
    let server = Server::with("retry: {levels: 1h 2h}");
    let mut member = Member::of_shop(&server);
    member.nack_kinds(Some("9"), |record, offset| {
        record.header("x-retry-reason", format!("no stock of {offset}"))
    });
    let kinds = || {
        let kinds = done(&server, &["retry", "group-by", "shop", "--format", "jsonl"]);
        let kinds = kinds.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut kinds: Vec<Value> = kinds
            .map(|kind| {
                json!([kind["records"], kind["fingerprint"], kind["key_shape"], kind["size"]])
            })
            .collect();
        kinds.sort_by_key(Value::to_string);
        kinds
    };
    let (plain, number) = (
        json!([2, "no stock of #", "a-#", "< 1 KiB"]),
        json!([1, "no stock of #", "#", "< 1 KiB"]),
    );
    let big = json!([1, "no stock of #", "a-#", "16-256 KiB"]);
    assert_eq!(kinds(), [number.clone(), big.clone(), plain]);
    let kill = ["retry", "dead-letter", "shop", "--all", "--key-shape", "a-#", "--size", "< 1 KiB"];
    assert!(done(&server, &kill).starts_with("2 records match\n"), "a dry run");
    let kill = [&kill[..], &["--execute", "--note", "INC-5"]].concat();
    assert_eq!(done(&server, &kill), "2 dead letters now, 0 left as they were\n");
    until("the counts are renewed", || kinds() == [number.clone(), big.clone()]);
    assert_eq!(dead_letters(&server), 2);
}
