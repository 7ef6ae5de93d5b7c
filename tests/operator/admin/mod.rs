//! The admin port and the commands that read it: every route, paging, refusals, exit codes.

mod fake;
mod port;
mod probes;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output};

use fake::Fake;
use reprise::admin::{self, Options, Readiness};
use reprise::observe::Metrics;
use serde_json::Value;

/// Serves `source` on a free port for the time `test` takes.
fn with_admin(source: Fake, options: Options, test: impl FnOnce(SocketAddr) + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::new(10).unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = async move { stopped.await.unwrap_or(()) };
        let serving = admin::serve(listener, source, metrics, options, stopped);
        let test = tokio::task::spawn_blocking(move || {
            test(address);
            drop(stop);
        });
        let ((), tested) = tokio::join!(serving, test);
        tested.unwrap();
    });
}

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

fn json(address: SocketAddr, path: &str) -> Value {
    let (status, body) = get(address, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn reprise(address: SocketAddr, args: &[&str]) -> Output {
    let admin = address.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command.args(args).args(["--admin", &admin]).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn probes_answer_and_readiness_fails_only_without_any_service() {
    let degraded = vec!["disk full: retries are held".to_owned()];
    let readiness = Readiness { started: true, ready: true, restart_reason: None, degraded };
    let up = Fake { readiness };
    with_admin(up, Options::default(), |at| {
        assert_eq!(get(at, "/livez").0, 200);
        assert_eq!(get(at, "/startupz").0, 200);
        let (status, body) = get(at, "/readyz");
        assert_eq!((status, body.contains("disk full")), (200, true));
        assert_eq!(json(at, "/version")["name"], "reprise");
        assert_eq!(json(at, "/config")["node_id"], 1);
        assert_eq!(json(at, "/api/v1/overview")["groups"], 2);
        assert_eq!(json(at, "/drain")["pending"], 5);
        let (_, metrics) = get(at, "/metrics");
        assert!(metrics.contains("reprise_ready 1"), "{metrics}");
        assert!(metrics.contains(r#"reprise_records_due{group="shop"} 2"#), "{metrics}");
    });
    with_admin(Fake::default(), Options::default(), |at| {
        assert_eq!(get(at, "/livez").0, 200);
        assert_eq!(get(at, "/startupz").0, 503);
        assert_eq!(get(at, "/readyz").0, 503);
    });
}

#[test]
fn liveness_fails_with_the_reason_when_only_a_restart_helps() {
    let why = "the thread retry-engine ended by a panic".to_owned();
    let degraded = vec![why.clone()];
    let readiness = Readiness { started: true, ready: false, restart_reason: Some(why), degraded };
    with_admin(Fake { readiness }, Options::default(), |at| {
        let (status, body) = get(at, "/livez");
        assert_eq!((status, body.contains("retry-engine")), (503, true), "{body}");
        assert_eq!(get(at, "/readyz").0, 503);
    });
}

#[test]
fn lists_come_in_pieces_that_together_are_the_whole() {
    with_admin(Fake::default(), Options::default(), |at| {
        for limit in 1..=7 {
            let mut seen = Vec::new();
            let mut after = String::new();
            loop {
                let path = format!("/api/v1/dead-letters?limit={limit}{after}");
                let page = json(at, &path);
                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= limit);
                seen.extend(items.iter().map(|i| format!("{}@{}", i["group"], i["offset"])));
                let Some(next) = page["next"].as_str() else { break };
                after = format!("&after={}", next.replace('/', "%2F").replace('é', "%C3%A9"));
            }
            assert_eq!(seen.len(), 6, "limit {limit}: {seen:?}");
            let seen: std::collections::BTreeSet<String> = seen.into_iter().collect();
            assert_eq!(seen.len(), 6, "limit {limit}");
        }
    });
}

#[test]
fn filters_narrow_a_list() {
    with_admin(Fake::default(), Options::default(), |at| {
        let count = |path: &str| json(at, path)["items"].as_array().unwrap().len();
        assert_eq!(count("/api/v1/retries"), 5);
        assert_eq!(count("/api/v1/retries?state=due"), 3);
        assert_eq!(count("/api/v1/retries?group=shop"), 0);
        assert_eq!(count("/api/v1/retries?topic=orders&cause=rejected"), 5);
        assert_eq!(count("/api/v1/retries?topic=order"), 0);
        assert_eq!(count("/api/v1/dead-letters?group=shop"), 3);
        assert_eq!(count("/api/v1/dead-letters?cause=timeout"), 0);
        assert_eq!(count("/api/v1/groups"), 2);
        assert_eq!(count("/api/v1/groups?after=bar%2F%C3%A9"), 1);
    });
}

#[test]
fn unknown_forbidden_and_malformed_requests_get_their_errors() {
    with_admin(Fake::default(), Options::default(), |at| {
        let (status, body) = get(at, "/api/v2");
        assert_eq!((status, body.contains("/api/v1/overview")), (404, true), "{body}");
        assert_eq!(get(at, "/api/v1/groups/none").0, 404);
        assert_eq!(get(at, "/api/v1/dead-letters/shop/99").0, 404);
        assert_eq!(get(at, "/api/v1/dead-letters/shop/x").0, 404);
        for bad in ["limit=0", "limit=x", "limit=1001", "after=7", "after=", "limit=", "colour=red"]
        {
            assert_eq!(get(at, &format!("/api/v1/retries?{bad}")).0, 400, "{bad}");
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
    });
}

#[test]
fn delayed_records_are_listed_in_pages_and_cancelled_by_name() {
    with_admin(Fake::default(), Options::default(), |at| {
        let page = json(at, "/api/v1/delayed?topic=orders&limit=1");
        assert_eq!((&page["items"][0]["id"], &page["next"]), (&"orders-0@3".into(), &"3".into()));
        assert_eq!(page["items"][0]["key"]["bytes"], 10, "payloads are hidden");
        let rest = json(at, "/api/v1/delayed?topic=orders&after=3");
        assert_eq!(rest["items"].as_array().unwrap().len(), 1);
        assert_eq!((&rest["items"][0]["id"], rest["next"].is_null()), (&"orders-0@8".into(), true));
        for bad in ["group=shop", "state=waiting", "limit=0", "after=x", "after=-1", "after="] {
            assert_eq!(get(at, &format!("/api/v1/delayed?{bad}")).0, 400, "{bad}");
        }
        let cancel = "/api/v1/delayed/cancel";
        let (status, answer) = post(at, cancel, "", r#"{"ids":["orders-0@3","orders-0@4"]}"#);
        assert_eq!(status, 200);
        assert!(answer.contains(r#""cancelled":1"#) && answer.contains("orders-0@4"), "{answer}");
        assert_eq!(post(at, cancel, "", r#"{"ids":["x"]}"#).0, 400);
        assert_eq!(post(at, cancel, "Sec-Fetch-Site: cross-site\r\n", "{}").0, 403);
        assert_eq!(get(at, cancel).0, 405);
        let listed = reprise(at, &["delayed", "list", "--topic", "carts"]);
        assert!(text(&listed.stdout).contains("carts-0@5"), "{}", text(&listed.stdout));
        assert!(reprise(at, &["delayed", "cancel", "orders-0@3"]).status.success());
        assert_eq!(reprise(at, &["delayed", "cancel", "orders-0@4"]).status.code(), Some(3));
    });
}

fn post(address: SocketAddr, path: &str, headers: &str, body: &str) -> (u16, String) {
    let length = body.len();
    raw(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
        ),
    )
}

#[test]
fn a_redrive_without_a_receiver_needs_anyway() {
    with_admin(Fake::default(), Options { show_payloads: true, ..Options::default() }, |at| {
        let body = |group: &str, more: &str| {
            format!(r#"{{"group":"{group}","offsets":[1],"note":"x"{more}}}"#)
        };
        for (group, more, status) in [
            ("shop", "", 200),
            ("unread", "", 409),
            ("unread", r#","anyway":true"#, 200),
            ("unread", r#","to_origin":true"#, 200),
        ] {
            let (code, said) = post(at, "/api/v1/dead-letters/redrive", "", &body(group, more));
            assert_eq!(code, status, "{group} {more}: {said}");
        }
        let form = "Content-Type: application/x-www-form-urlencoded\r\n";
        for (more, status) in [("", 409), ("&anyway=true", 303), ("&target=origin", 303)] {
            let fields = format!("verb=redrive&offsets=1&note=x{more}");
            let length = fields.len();
            let request = format!(
                "POST /groups/unread/act HTTP/1.1\r\nHost: localhost\r\n{form}\
                 Content-Length: {length}\r\nConnection: close\r\n\r\n{fields}"
            );
            assert_eq!(raw(at, &request).0, status, "{more}");
        }
    });
}

#[test]
fn changes_need_a_wellformed_post_of_the_same_origin() {
    with_admin(Fake::default(), Options { show_payloads: true, ..Options::default() }, |at| {
        let foreign = "Sec-Fetch-Site: cross-site\r\n";
        let (export, import) = ("/api/v1/dead-letters/export", "/api/v1/dead-letters/import");
        assert_eq!(post(at, import, "", r#"{"source":"there","entries":[]}"#).0, 200);
        for other in [foreign, "Origin: http://evil.example\r\n"] {
            assert_eq!(post(at, import, other, r#"{"source":"there","entries":[]}"#).0, 403);
        }
        for (bad, status) in [
            ("", 400),
            ("[]", 422),
            (r#"{"source":"here","entries":[]}"#, 409),
            (r#"{"source":"","entries":[]}"#, 400),
            (r#"{"source":"there","entries":[{"id":1}]}"#, 422),
        ] {
            assert_eq!(post(at, import, "", bad).0, status, "{bad}");
        }
        assert_eq!((get(at, import).0, post(at, export, "", "{}").0), (405, 405));
        assert_eq!(get(at, export).0, 400, "of which group?");
        assert_eq!(get(at, "/api/v1/dead-letters/export?group=shop&after=x").0, 400);
        assert_eq!(get(at, "/api/v1/dead-letters/export?group=shop").0, 200);
    });
    with_admin(Fake::default(), Options::default(), |at| {
        let (status, said) = get(at, "/api/v1/dead-letters/export?group=shop");
        assert_eq!((status, said.contains("admin.payloads")), (403, true), "{said}");
    });
}

#[test]
fn a_nack_is_guarded_and_each_refusal_has_its_status() {
    with_admin(Fake::default(), Options::default(), |at| {
        let nack = "/api/v1/nack";
        let of = |offset: i32| {
            format!(
                r#"{{"group":"shop","topic":"orders","partition":0,"offset":{offset},"dlq":true,
                "reason":"no stock"}}"#
            )
        };
        let (status, answer) = post(at, nack, "", &of(0));
        assert_eq!(status, 200);
        assert!(answer.contains(r#"{"outcome":"scheduled","id":7,"due_ms":9000}"#), "{answer}");
        for (offset, refused) in [(1, 409), (2, 404), (3, 400), (4, 503)] {
            let (status, answer) = post(at, nack, "", &of(offset));
            assert_eq!(status, refused);
            assert!(answer.contains("level: Some(-1)") && answer.contains("no stock"), "{answer}");
        }
        for foreign in ["Sec-Fetch-Site: cross-site\r\n", "Origin: http://evil.example\r\n"] {
            assert_eq!(post(at, nack, foreign, &of(0)).0, 403);
        }
        assert_eq!(get(at, nack).0, 405);
        let plain = format!(
            "POST {nack} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\
             Connection: close\r\n\r\n{{}}"
        );
        assert_eq!(raw(at, &plain).0, 415, "a form of a page");
    });
}

#[test]
fn records_are_shown_as_text_or_base64_or_hidden() {
    let path = "/api/v1/dead-letters/bar%2F%C3%A9/2";
    with_admin(Fake::default(), Options { show_payloads: true, ..Options::default() }, move |at| {
        let letter = json(at, path);
        assert_eq!(letter["key"], "order-7");
        assert_eq!(letter["value"]["base64"], "/wA=");
    });
    with_admin(Fake::default(), Options::default(), move |at| {
        let letter = json(at, path);
        assert_eq!(letter["key"]["bytes"], 7);
        assert_eq!(letter["headers"][0]["value"], "6");
    });
}

#[test]
fn the_commands_print_data_on_stdout_in_each_format() {
    with_admin(Fake::default(), Options { show_payloads: true, ..Options::default() }, |at| {
        let table = reprise(at, &["dlq", "list", "--group", "shop"]);
        assert_eq!(table.status.code(), Some(0), "{table:?}");
        let table = text(&table.stdout).to_owned();
        assert_eq!(table.lines().count(), 4, "{table}");
        assert!(table.contains("order-7") && table.contains("max_attempts"), "{table}");
        let lines = reprise(at, &["retry", "list", "--format", "jsonl", "--limit", "4"]);
        assert_eq!(text(&lines.stdout).lines().count(), 4);
        let list = reprise(at, &["group", "list", "--format", "json"]);
        let list: Vec<Value> = serde_json::from_slice(&list.stdout).unwrap();
        assert_eq!(list.len(), 2);
        let group = reprise(at, &["group", "describe", "bar/é"]);
        let group = text(&group.stdout);
        assert!(
            group.contains("failed records wait: reprise.retry.bar/é has no subscriber"),
            "{group}"
        );
        assert!(group.contains("5 retries, delays 1m,"), "{group}");
        let letter = reprise(at, &["dlq", "show", "bar/é", "1"]);
        assert!(text(&letter.stdout).contains("RECONSUME_TIME = 6"), "{letter:?}");
    });
}

#[test]
fn a_groups_suspects_are_explained_for_machines_and_people() {
    with_admin(Fake::default(), Options::default(), |at| {
        let explained = json(at, "/api/v1/explain?group=shop");
        assert_eq!(explained["partitions"][0]["suspects"][0]["reconsume_times"], 2);
        assert_eq!(explained["rules"][0]["from"], "groups[0] (match: shop)");
        let topic = json(at, "/api/v1/explain?group=shop&topic=orders");
        assert_eq!(topic["rules"][0]["value"], "orders", "asked for that topic");
        assert_eq!(get(at, "/api/v1/explain?record=orders-3@57&topic=orders").0, 400);
        assert_eq!(get(at, "/api/v1/explain?group=none").0, 404);
        assert_eq!(get(at, "/api/v1/explain").0, 400);
        let lines = reprise(at, &["group", "explain", "shop", "orders"]);
        let expected = "\
group         shop
suspects      12 records: orders-3@58..69
  why         outstanding at 3 lost deliveries
  since       35 s; last loss 5000 ms ago
  delivered   orders-3@58..59 to m-1
  next        in 400 ms the next are delivered
orders-3  owner m-1, committed 50, delivered up to 58
  @57         2 of 6 retries; held, served alone in 400 ms
              1970-01-01T00:00:05Z crashed
              1970-01-01T00:00:09Z crashed
  skipped     51 52: settled, cut until a commit passes them
  went back   to @53 2 times
  going back  is no failure here: no commit of this partition was seen
note: 2 failed records wait: reprise.retry.shop has no subscriber: the only member here does not \
subscribe to it. Add it to the application's subscription, next to its own topics; they then flow \
at once
";
        let settings = "\
settings
  levels                       orders  (groups[0] (match: shop))
  a failure's own x-retry-level, x-retry-delay-ms, x-retry-max go first \
(in a commit level=, delay=, max=)
";
        assert_eq!(text(&lines.stdout), format!("{expected}{settings}"));
        let without = reprise(at, &["group", "explain", "shop"]);
        assert_eq!(text(&without.stdout), expected);
        let with = reprise(at, &["group", "explain", "shop", "--settings"]);
        let of_the_group = settings.replace("orders", "1s 2s");
        assert_eq!(text(&with.stdout), format!("{expected}{of_the_group}"));
        assert!(!reprise(at, &["group", "explain", "none"]).status.success());
    });
}

#[test]
fn a_records_history_is_explained_for_machines_and_people() {
    let options = Options { show_payloads: true, ..Options::default() };
    with_admin(Fake::default(), options, |at| {
        let told = json(at, "/api/v1/explain?record=orders-3@57");
        assert_eq!(told["past"][1]["evidence"], "nack");
        assert_eq!(told["now"][0]["partitions"][0]["handed_out"], 58);
        let elsewhere = json(at, "/api/v1/explain?record=orders-3@58&group=shop");
        assert_eq!(elsewhere["past"], serde_json::json!([]), "the partition is known");
        let gone = json(at, "/api/v1/explain?record=orders-3@57&group=gone");
        assert_eq!(gone["past"][1]["group"], "gone");
        assert_eq!(gone["now"], serde_json::json!([]), "only the log knows of it");
        let bad = ["record=orders", "record=orders-3@x", "record=orders-3@57&record=a-0@0", ""];
        for bad in bad {
            assert_eq!(get(at, &format!("/api/v1/explain?{bad}")).0, 400, "{bad}");
        }
        for none in ["record=orders-4@58&group=shop", "record=orders-3@57&group=none"] {
            assert_eq!(get(at, &format!("/api/v1/explain?{none}")).0, 404, "{none}");
        }
        let shown = reprise(at, &["retry", "show", "orders-3@57"]);
        let lines = text(&shown.stdout);
        let past = lines.lines().rev().take(2).collect::<Vec<_>>();
        assert!(
            lines.starts_with("record        orders-3@57\ngroup         shop\norders-3  owner")
        );
        assert_eq!(past[1].trim_end(), "…                     a commit has passed it");
        let expected = "1970-01-01T00:00:05Z  the application says that it failed: it comes \
                        back after 10 ms; until 1970-01-01T00:00:09Z; reconsume times 1; \
                        reason \"no \u{fffd}stock\"; by m-1; client app";
        assert_eq!(past[0], expected);
        let bad = reprise(at, &["retry", "show", "orders"]);
        assert!(text(&bad.stderr).contains("such as orders-3@812"), "{bad:?}");
    });
}

#[test]
fn exit_codes_tell_nothing_matched_refused_usage_and_failure_apart() {
    let code = |output: &Output| output.status.code().unwrap();
    with_admin(Fake::default(), Options::default(), move |at| {
        let none = reprise(at, &["dlq", "list", "--group", "shop", "--cause", "timeout"]);
        assert_eq!((code(&none), none.stdout.len()), (3, 0), "{none:?}");
        let gone = reprise(at, &["group", "describe", "none"]);
        assert_eq!(code(&gone), 3);
        assert!(text(&gone.stderr).contains("nothing is known of a group called"));
        assert_eq!(code(&reprise(at, &["dlq", "list", "--colour"])), 2);
    });
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = reprise(free, &["dlq", "list"]);
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
    assert_eq!(
        run(&["version"]).stdout,
        format!("reprise {}\n", env!("CARGO_PKG_VERSION")).into_bytes()
    );
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
