//! The admin port and the commands that read it: paging, refusals, formats, exit codes.

mod port;
mod probes;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Member, Rec, Server};

fn raw(address: SocketAddr, request: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    raw(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

fn post(address: SocketAddr, path: &str, headers: &str, body: &str) -> (u16, String) {
    let length = body.len();
    raw(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\
             X-Reprise-Operator: kim\r\n{headers}\r\n{body}"
        ),
    )
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A retry topic of the group `bar/é`: characters that no topic may have are replaced.
const ODD_RETRY: &str = "reprise.retry.bar___--orders-90374ca25325b525";

/// A sidecar with three dead letters and three retries in each of two groups.
fn two_groups() -> Server {
    let server = Server::with("retry: {levels: 1h}");
    server.client().create("orders", 1);
    for (group, retry) in [("bar/é", ODD_RETRY), ("shop", "reprise.retry.shop")] {
        let mut member = Member::new(&server, group, &["orders", retry]);
        member.join(&[("orders", 1), (retry, 1)]);
        for at in 0..6 {
            let offset = member.client.put("orders", 0, &[Rec::new(&format!("order-{at}"))]);
            let fate = if at < 3 { ("dlq", json!(true)) } else { ("level", json!(1)) };
            let mut nack = json!({
                "group": group, "topic": "orders", "partition": 0, "offset": offset,
                "reason": "no stock",
            });
            nack[fate.0] = fate.1;
            let (status, answer) = server.post("/api/v1/nack", &nack.to_string());
            assert_eq!(status, 200, "{answer}");
        }
    }
    server
}

fn count(server: &Server, path: &str) -> usize {
    server.json(path)["items"].as_array().unwrap().len()
}

#[test]
fn lists_come_in_pieces_that_together_are_the_whole() {
    let server = two_groups();
    for path in ["/api/v1/dead-letters", "/api/v1/retries"] {
        for limit in 1..=7 {
            let mut seen = Vec::new();
            let mut after = String::new();
            loop {
                let page = server.json(&format!("{path}?limit={limit}{after}"));
                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= limit);
                seen.extend(items.iter().map(|i| format!("{}@{}", i["group"], i["origin"])));
                let Some(next) = page["next"].as_str() else { break };
                after = format!("&after={}", next.replace('/', "%2F").replace('é', "%C3%A9"));
            }
            assert_eq!(seen.len(), 6, "limit {limit}: {seen:?}");
            let seen: std::collections::BTreeSet<String> = seen.into_iter().collect();
            assert_eq!(seen.len(), 6, "limit {limit}");
        }
    }
}

#[test]
fn filters_narrow_a_list() {
    let server = two_groups();
    assert_eq!(count(&server, "/api/v1/retries"), 6);
    assert_eq!(count(&server, "/api/v1/retries?state=due"), 0);
    assert_eq!(count(&server, "/api/v1/retries?group=shop&state=waiting"), 3);
    assert_eq!(count(&server, "/api/v1/retries?topic=orders&cause=rejected"), 6);
    assert_eq!(count(&server, "/api/v1/retries?topic=order"), 0);
    assert_eq!(count(&server, "/api/v1/dead-letters?group=shop"), 3);
    assert_eq!(count(&server, "/api/v1/dead-letters?cause=timeout"), 0);
    assert_eq!(count(&server, "/api/v1/groups"), 2);
    assert_eq!(count(&server, "/api/v1/groups?after=bar%2F%C3%A9"), 1);
    let letter = server.json("/api/v1/dead-letters/bar%2F%C3%A9/1");
    assert_eq!((&letter["key"], &letter["value"]), (&json!("k"), &json!("order-1")));
}

#[test]
fn unknown_forbidden_and_malformed_requests_get_their_errors() {
    let server = two_groups();
    let at = server.admin();
    let (status, body) = get(at, "/api/v2");
    assert_eq!((status, body.contains("/api/v1/overview")), (404, true), "{body}");
    let explain = "/api/v1/explain?";
    for missing in [
        "/api/v1/groups/none",
        "/api/v1/dead-letters/shop/99",
        "/api/v1/dead-letters/shop/x",
        "/api/v1/explain?group=none",
        "/api/v1/explain?record=orders-4@58&group=shop",
        "/api/v1/explain?record=orders-0@0&group=none",
    ] {
        assert_eq!(get(at, missing).0, 404, "{missing}");
    }
    for bad in ["record=orders", "record=orders-3@x", "record=a-0@0&record=a-0@0", ""] {
        assert_eq!(get(at, &format!("{explain}{bad}")).0, 400, "{bad}");
    }
    assert_eq!(get(at, "/api/v1/explain?record=orders-0@0&topic=orders").0, 400);
    for bad in ["limit=0", "limit=x", "limit=1001", "after=7", "after=", "limit=", "colour=red"] {
        assert_eq!(get(at, &format!("/api/v1/retries?{bad}")).0, 400, "{bad}");
    }
    for bad in ["group=shop", "state=waiting", "limit=0", "after=x", "after=-1", "after="] {
        assert_eq!(get(at, &format!("/api/v1/delayed?{bad}")).0, 400, "{bad}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let request = format!(
            "{method} /api/v1/groups HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        );
        assert_eq!(raw(at, &request).0, 405, "{method}");
    }
    let foreign = "GET /config HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(at, foreign).0, 403);
}

#[test]
fn changes_need_a_wellformed_post_of_the_same_origin() {
    let server = two_groups();
    let at = server.admin();
    let (export, import) = ("/api/v1/dead-letters/export", "/api/v1/dead-letters/import");
    let cancel = "/api/v1/delayed/cancel";
    let of_none = r#"{"source":"there","entries":[]}"#;
    assert_eq!(post(at, import, "", of_none).0, 200);
    for foreign in ["Sec-Fetch-Site: cross-site\r\n", "Origin: http://evil.example\r\n"] {
        for path in [import, cancel, "/api/v1/nack"] {
            assert_eq!(post(at, path, foreign, of_none).0, 403, "{path}");
        }
    }
    let here = server.json("/api/v1/overview")["cluster_id"].as_str().unwrap().to_owned();
    for (bad, status) in [
        ("", 400),
        ("[]", 422),
        (&*format!(r#"{{"source":"{here}","entries":[]}}"#), 409),
        (r#"{"source":"","entries":[]}"#, 400),
        (r#"{"source":"there","entries":[{"id":1}]}"#, 422),
    ] {
        assert_eq!(post(at, import, "", bad).0, status, "{bad}");
    }
    assert_eq!(post(at, cancel, "", r#"{"ids":["x"]}"#).0, 400);
    assert_eq!(
        (get(at, import).0, get(at, cancel).0, post(at, export, "", "{}").0),
        (405, 405, 405)
    );
    assert_eq!(get(at, export).0, 400, "of which group?");
    assert_eq!(get(at, "/api/v1/dead-letters/export?group=shop&after=x").0, 400);
    assert_eq!(get(at, "/api/v1/dead-letters/export?group=shop").0, 200);
    let hidden = Server::with("admin: {payloads: hide}");
    let (status, said) = get(hidden.admin(), "/api/v1/dead-letters/export?group=shop");
    assert_eq!((status, said.contains("admin.payloads")), (403, true), "{said}");
}

#[test]
fn each_refusal_of_a_nack_has_its_status() {
    let server = two_groups();
    let at = server.admin();
    let nack = "/api/v1/nack";
    let of = |topic: &str, offset: i64, more: &str| {
        format!(
            r#"{{"group":"shop","topic":"{topic}","partition":0,"offset":{offset},
            "reason":"no stock"{more}}}"#
        )
    };
    for (body, status, says) in [
        (of("orders", 3, r#","dlq":true"#), 200, r#""outcome":"dead""#),
        (of("orders", 4, r#","delay_ms":60000"#), 200, r#""outcome":"scheduled""#),
        (of("orders", 6, ""), 200, r#""outcome":"known""#),
        (of("nothing", 0, ""), 404, "nothing"),
        (of("orders", 99, ""), 404, "orders-0@99"),
        (of("orders", 5, r#","level":9"#), 400, "level"),
        (of("orders", 5, r#","level":1,"dlq":true"#), 400, "send one of them"),
        (of("orders", -1, ""), 400, "offset is -1"),
    ] {
        let (code, answer) = post(at, nack, "", &body);
        assert_eq!((code, answer.contains(says)), (status, true), "{body}: {answer}");
    }
    assert_eq!(get(at, nack).0, 405);
    let plain = format!(
        "POST {nack} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\
         Connection: close\r\n\r\n{{}}"
    );
    assert_eq!(raw(at, &plain).0, 415, "a form of a page");
}

#[test]
fn records_are_shown_as_text_or_base64_or_hidden() {
    for (yaml, shown) in [
        ("retry: {levels: 1h}", [json!("k"), json!({ "base64": "/wA=" }), json!("1")]),
        (
            "retry: {levels: 1h}\nadmin: {payloads: hide}",
            [json!({ "bytes": 1 }), json!({ "bytes": 2 }), json!("1")],
        ),
    ] {
        let server = Server::with(yaml);
        let mut member = Member::of_shop(&server);
        let record = Rec { value: Some(vec![0xff, 0].into()), ..Rec::new("") };
        member.client.put("orders", 0, std::slice::from_ref(&record));
        member.client.nack("shop", "orders-0@0", record.header("x-retry-level", "-1"));
        let letter = server.json("/api/v1/dead-letters/shop/0");
        let headers = letter["headers"].as_array().unwrap();
        let count = headers.iter().find(|header| header["key"] == "RECONSUME_TIME").unwrap();
        let found = [&letter["key"], &letter["value"], &count["value"]];
        assert_eq!(found, shown.each_ref(), "{yaml}: {letter}");
    }
}

#[test]
fn the_commands_print_data_on_stdout_in_each_format() {
    let server = two_groups();
    let out = |args: &[&str]| {
        let output = server.reprise(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        text(&output.stdout).to_owned()
    };
    let table = out(&["dlq", "list", "--group", "shop"]);
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains("orders-0@6") && table.contains("explicit_dlq"), "{table}");
    assert_eq!(out(&["retry", "list", "--format", "jsonl", "--limit", "4"]).lines().count(), 4);
    let list: Vec<Value> =
        serde_json::from_str(&out(&["group", "list", "--format", "json"])).unwrap();
    assert_eq!(list.len(), 2);
    let group = out(&["group", "describe", "bar/é"]);
    assert!(group.contains("3 pending: 3 waiting") && group.contains(ODD_RETRY), "{group}");
    assert!(out(&["dlq", "show", "bar/é", "1"]).contains("RECONSUME_TIME = 1"));
    let explained = out(&["group", "explain", "shop", "--settings"]);
    assert!(explained.contains("settings\n") && explained.contains("  levels "), "{explained}");
    let told = out(&["retry", "show", "orders-0@0"]);
    assert!(told.contains("the admin port was told that it failed"), "{told}");
    let act = ["dlq", "discard", "shop", "0", "--format", "json"];
    let report: Value = serde_json::from_str(&out(&act)).unwrap();
    assert_eq!((&report["changed"], &report["left"]), (&json!(1), &json!([])));
    let plan = ["dlq", "discard", "shop", "--all", "--format", "jsonl"];
    let plan: Value = serde_json::from_str(&out(&plan)).unwrap();
    assert_eq!(plan["matched"], 2);
    let dry = ["retry", "dead-letter", "shop", "--all", "--format", "json"];
    assert_eq!(serde_json::from_str::<Value>(&out(&dry)).unwrap()["matched"], 3);
}

#[test]
fn delayed_records_are_listed_hidden_and_cancelled_by_commands() {
    let yaml = "topics: {list: [{name: later, produce_delay: true}]}\nadmin: {payloads: hide}";
    let server = Server::with(yaml);
    let mut client = server.client();
    for value in ["a", "b"] {
        let record =
            Rec::new(value).header("UNIQ_KEY", "secret").header("x-deliver-after-ms", "3600000");
        client.put("later", 0, &[record]);
    }
    let page = server.json("/api/v1/delayed?topic=later&limit=1");
    let shown = page["items"][0].to_string();
    assert!(!shown.contains("secret") && shown.contains("{\"bytes\":6}"), "{shown}");
    let id = page["items"][0]["id"].as_str().unwrap().to_owned();
    let after = page["next"].as_str().unwrap();
    assert_eq!(count(&server, &format!("/api/v1/delayed?after={after}")), 1);
    let listed = server.reprise(&["delayed", "list", "--topic", "later"]);
    assert!(text(&listed.stdout).contains(&id), "{listed:?}");
    assert_eq!(server.reprise(&["delayed", "cancel", &id]).status.code(), Some(0));
    assert_eq!(server.reprise(&["delayed", "cancel", &id]).status.code(), Some(3));
}

#[test]
fn a_proxy_names_the_person_of_an_act() {
    let proxy = "admin: {identity_header: X-Forwarded-User, trusted_proxies: 127.0.0.1}";
    let server = Server::with(proxy);
    let (at, import) = (server.admin(), "/api/v1/dead-letters/import");
    let body = r#"{"source":"there","entries":[]}"#;
    assert_eq!(post(at, import, "X-Forwarded-User: ada\r\n", body).0, 200);
    let two = "X-Forwarded-User: ceo\r\nX-Forwarded-User: mallory\r\n";
    assert_eq!(post(at, import, two, body).0, 400, "one of them is the caller's own");
    let run = |set: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        let output = command.args(["check", "--set", set]).output().unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    };
    for bad in ["admin.identity_header=X-User", "admin.trusted_proxies=[here]"] {
        let (code, says) = run(bad);
        assert_eq!(code, Some(78), "{bad}: {says}");
    }
}

#[test]
fn exit_codes_tell_nothing_matched_refused_usage_and_failure_apart() {
    let code = |output: &Output| output.status.code().unwrap();
    let server = two_groups();
    let none = server.reprise(&["dlq", "list", "--group", "shop", "--cause", "timeout"]);
    assert_eq!((code(&none), none.stdout.len()), (3, 0), "{none:?}");
    let gone = server.reprise(&["group", "describe", "none"]);
    assert_eq!(code(&gone), 3);
    assert!(text(&gone.stderr).contains("nothing is known of a group called"));
    assert_eq!(code(&server.reprise(&["group", "explain", "none"])), 3);
    let bad = server.reprise(&["retry", "show", "orders"]);
    assert!(text(&bad.stderr).contains("such as orders-3@812"), "{bad:?}");
    assert_eq!(code(&server.reprise(&["dlq", "list", "--colour"])), 2);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    let nobody = command.args(["dlq", "list", "--admin", &free.to_string()]).output().unwrap();
    assert_eq!((code(&nobody), nobody.stdout.len()), (1, 0));
    let said = text(&nobody.stderr);
    assert!(said.contains(&format!("nothing answers at {free}; is `reprise serve` running?")));
    assert!(said.contains("--admin"), "{said}");
}

#[test]
fn commands_about_the_configuration_need_no_sidecar() {
    let run =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_reprise")).args(args).output().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.yaml");
    std::fs::write(&file, "retry:\n  level: 1s\nlimits: {idle: 3}\n").unwrap();
    let file = file.to_str().unwrap();
    let bad = run(&["check", "-c", file]);
    assert_eq!((bad.status.code(), bad.stdout.len()), (Some(78), 0));
    assert!(text(&bad.stderr).contains("c.yaml:2:3: retry.level: unknown key"), "{bad:?}");
    assert!(text(&bad.stderr).contains("c.yaml:3:16: limits.idle"), "{bad:?}");
    let good = run(&["check", "--set", "retry.levels=1s 1s"]);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert!(text(&good.stderr).contains("warning: retry.levels"), "{good:?}");
    let sample = run(&["config", "sample"]);
    assert_eq!(text(&sample.stdout), reprise::config::SAMPLE);
    let shown = run(&["config", "show", "--format", "json", "--set", "data_dir=here"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["data_dir"], "here");
    let version = run(&["version"]).stdout;
    assert!(text(&version).starts_with(&format!("reprise {}", env!("CARGO_PKG_VERSION"))));
    let flags = ["check", "--listen", "127.0.0.1:1", "--data-dir", "here"];
    assert_eq!(run(&flags).status.code(), Some(0), "check takes the flags of serve");
}

#[test]
fn a_journal_is_verified_offline_and_wrong_directories_are_refused() {
    let run =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_reprise")).args(args).output().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let wrong = dir.path().join("wrong");
    let missing = run(&["log", "verify", "--data-dir", wrong.to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("there is no data directory"), "{missing:?}");
    assert!(!wrong.exists());
    let data = dir.path().to_str().unwrap();
    let empty = run(&["log", "verify", "--data-dir", data, "--format", "json"]);
    assert_eq!(empty.status.code(), Some(0), "{empty:?}");
    let report: Value = serde_json::from_slice(&empty.stdout).unwrap();
    assert_eq!((&report["entries"], &report["damage"]), (&0.into(), &serde_json::json!([])));
    let locked = reprise::journal::RealDisk::open(dir.path()).unwrap();
    assert_eq!(run(&["log", "repair", "--data-dir", data]).status.code(), Some(75));
    drop(locked);
    // A child of another test holds a copy of the lock between its fork and its exec.
    let codes = (0..100).map(|_| run(&["log", "repair", "--data-dir", data]).status.code());
    assert_eq!(codes.into_iter().find(|code| *code != Some(75)), Some(Some(0)));
}
