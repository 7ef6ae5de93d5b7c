//! Lists for people: fitted to the terminal, with the answers of several sidecars.

use std::net::TcpListener;
use std::process::Command;

use crate::support::{Member, Rec, Server, Terminal, until};
use serde_json::Value;

const REASON: &str = "no stock of article 4711 in warehouse 12, and none is on its way there";

/// Makes this many dead letters and waiting retries of orders.
fn fill(member: &mut Member, dead: usize, waiting: usize) {
    for at in 0..dead + waiting {
        let record = Rec::new(&format!("order-{at}"));
        let offset = member.client.put("orders", 0, std::slice::from_ref(&record));
        let nack = record.header("x-retry-reason", REASON);
        let nack = if at < dead { nack.header("x-retry-level", "-1") } else { nack };
        member.client.nack("shop", &format!("orders-0@{offset}"), nack);
    }
}

/// Runs a command on a terminal; it must succeed. Returns the lines, escapes included.
fn shown(server: &Server, args: &[&str], size: (u16, u16), variables: &[(&str, &str)]) -> String {
    let admin = server.admin().to_string();
    let args = [args, &["--admin", &admin]].concat();
    let (code, text) = Terminal::run_with(&args, size, variables).end();
    assert_eq!(code, Some(0), "{args:?}: {text}");
    text.replace("\r\n", "\n")
}

fn piped(server: &Server, args: &[&str]) -> String {
    let output = server.reprise(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The text without colour escapes.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[test]
fn lists_fit_terminals_and_pipes_get_all() {
    let server = Server::with("retry: {levels: 1h}");
    let mut member = Member::of_shop(&server);
    fill(&mut member, 1, 1);
    let list = ["dlq", "list"];
    let text = shown(&server, &list, (90, 24), &[]);
    assert!(text.lines().all(|line| line.chars().count() <= 90), "{text}");
    let is_relative = |text: &str| text.contains(" s ago") || text.contains("  now");
    assert!(is_relative(&text) && text.contains("no stock") && text.contains('…'), "{text}");
    let text = piped(&server, &list);
    assert!(text.contains(REASON) && text.contains('Z') && !is_relative(&text), "{text}");
    let text = shown(&server, &["dlq", "show", "shop", "0"], (40, 24), &[]);
    assert!(text.contains(REASON) && text.contains("Z ("), "show cuts nothing: {text}");
}

#[test]
fn states_have_colours_on_a_terminal_only() {
    let server = Server::with("retry: {levels: 1h}");
    let mut member = Member::of_shop(&server);
    fill(&mut member, 0, 1);
    let list = ["retry", "list"];
    let text = shown(&server, &list, (120, 24), &[]);
    assert!(
        text.contains("\x1b[33mwaiting\x1b[0m") && plain(&text).contains("in 59 min"),
        "{text}"
    );
    let text = shown(&server, &list, (120, 24), &[("NO_COLOR", "1")]);
    assert!(text.contains("waiting") && !text.contains('\x1b'), "{text}");
    assert!(!piped(&server, &list).contains('\x1b'));
    let text = shown(&server, &["retry", "list", "--format", "json"], (120, 24), &[]);
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
}

/// Runs a command without a terminal. Returns code, stdout and stderr.
fn run(args: &[&str], admin: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command.env("USER", "kim");
    let output = command.args(args).args(["--admin", admin]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Two independent sidecars with dead letters, and an address without a listener.
fn two() -> ([Server; 2], String) {
    let servers = [3, 1].map(|dead| {
        let server = Server::with("retry: {levels: 1h}");
        fill(&mut Member::of_shop(&server), dead, 0);
        server
    });
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    (servers, nobody.to_string())
}

#[test]
fn lists_of_several_sidecars_are_merged() {
    let ([a, b], nobody) = two();
    let (a, b) = (a.admin().to_string(), b.admin().to_string());
    let both = format!("{a},{b}");
    let list = ["dlq", "list", "--format", "jsonl"];
    let (code, out, err) = run(&list, &both);
    let admins = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let admins: Vec<Value> = admins.map(|item| item["admin"].clone()).collect();
    assert_eq!((code, err.as_str(), admins.len()), (0, "", 4), "{out}");
    assert_eq!(admins, [a.as_str(), &a, &a, &b]);
    let (_, out, _) = run(&["group", "list"], &both);
    assert!(out.starts_with("ADMIN") && out.contains(&b), "{out}");
    let (code, out, _) = run(&["dlq", "show", "shop", "2"], &both);
    assert_eq!((code, out.matches("admin  ").count()), (0, 1), "one has it: {out}");
    for same in [format!("{a},{a}"), a.replace("127.0.0.1", "localhost")] {
        let (code, out, err) = run(&list, &same);
        assert_eq!((code, out.contains("admin")), (0, false), "{same}: {out}{err}");
    }
    let (code, out, err) = run(&list, &format!("{nobody},{a}"));
    assert_eq!((code, out.lines().count()), (5, 3), "the rest is shown: {out}");
    assert!(err.starts_with(&format!("nothing answers at {nobody}")), "{err}");
    let (code, _, err) = run(&list, &nobody);
    assert_eq!(code, 1, "{err}");
}

#[test]
fn actions_take_one_sidecar() {
    let ([a, b], _) = two();
    let both = format!("{},{}", a.admin(), b.admin());
    for action in [
        &["dlq", "redrive", "shop", "0"][..],
        &["dlq", "discard", "shop", "--all", "--execute", "--note", "test"],
        &["retry", "now", "shop", "1"],
        &["job", "cancel", "1"],
        &["delayed", "cancel", "orders-0@1"],
    ] {
        let (code, _, err) = run(action, &both);
        assert_eq!((code, err.contains("name one of them")), (2, true), "{action:?}: {err}");
    }
    for (server, dead) in [(&a, 3), (&b, 1)] {
        assert_eq!(server.json("/api/v1/overview")["dead_letters"], dead);
    }
}

#[test]
fn lists_are_sorted_and_tell_how_much_is_shown() {
    let server = Server::with("retry: {levels: 1h}");
    fill(&mut Member::of_shop(&server), 11, 2);
    let admin = server.admin().to_string();
    let list = ["dlq", "list", "--format", "jsonl", "--sort", "-origin"];
    let (_, out, _) = run(&list, &admin);
    let items = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let offsets: Vec<i64> = items.map(|item| item["offset"].as_i64().unwrap()).collect();
    assert_eq!(offsets, (0..11).rev().collect::<Vec<_>>(), "10 is more than 9");
    let (code, _, err) = run(&["retry", "list", "--limit", "1"], &admin);
    assert_eq!((code, err.as_str()), (0, "1 of 2 shown; see --limit\n"));
    let (_, _, err) = run(&["dlq", "list", "--limit", "1", "--topic", "orders"], &admin);
    assert_eq!(err, "the first 1 are shown, there are more; see --limit\n", "nobody counts that");
    let (code, _, err) = run(&["job", "list", "--sort", "colour"], &admin);
    assert_eq!((code, err.contains("job, group, action, state, changed")), (2, true), "{err}");
}

#[test]
fn a_watched_list_is_redrawn() {
    let server = Server::with("retry: {levels: 1h}");
    let mut member = Member::of_shop(&server);
    fill(&mut member, 1, 0);
    let admin = server.admin().to_string();
    let (code, _, err) = run(&["dlq", "list", "--watch"], &admin);
    assert_eq!((code, err.contains("stdout is none")), (2, true), "{err}");
    let watch = ["dlq", "list", "--watch=1", "--admin", &admin];
    let terminal = Terminal::run(&watch, (90, 8));
    terminal.until("the first frame", |text| text.contains("orders-0@0"));
    fill(&mut member, 9, 0);
    let text = terminal.until("a later frame", |text| text.contains("of 10 shown"));
    assert!(text.contains("every 1 s, Ctrl-C ends it"), "{text}");
    terminal.kill();
}

#[test]
fn a_long_job_has_a_bar_and_can_be_followed() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    fill(&mut member, 4, 0);
    assert_eq!(member.commit("orders", 0, 4), 0);
    let admin = server.admin().to_string();
    let all = ["dlq", "redrive", "shop", "--all", "--rate", "1", "--execute", "--note", "test"];
    let terminal = Terminal::run(&[&all[..], &["--admin", &admin]].concat(), (100, 24));
    until("the job runs", || !server.json("/api/v1/jobs")["items"][0].is_null());
    let (code, out, err) = run(&["job", "show", "1", "--follow"], &admin);
    assert_eq!((code, err.as_str(), out.contains("changed       4")), (0, "", true), "{out}");
    let (code, text) = terminal.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(" %  job 1: ") && text.contains("[#"), "{text:?}");
    assert!(text.ends_with("\r\x1b[K4 sent back, 0 left as they were\r\n"), "{text:?}");
    fill(&mut member, 1, 0);
    let (code, text) =
        Terminal::run(&["dlq", "discard", "shop", "4", "--admin", &admin], (100, 24)).end();
    assert_eq!((code, text.contains('[')), (Some(0), false), "less than a second: {text:?}");
}
