//! Dead letters moved from one sidecar to another: complete, once, and equal to the other's own.

use std::path::PathBuf;
use std::process::Output;

use crate::support::batch::Pair;
use crate::support::{Got, Member, Rec, Server, until};
use reprise::config::Payloads;
use reprise::model::WallMs;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Runs a command. Returns its exit code and stderr.
fn ran(server: &Server, args: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = server.reprise(args);
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

/// Runs a command that must succeed. Returns its stderr.
fn done(server: &Server, args: &[&str]) -> String {
    let (code, said) = ran(server, args);
    assert_eq!(code, 0, "{args:?}: {said}");
    said
}

/// A file of an export.
struct Export {
    _dir: TempDir,
    path: PathBuf,
}

impl Export {
    /// Exports the dead letters of a sidecar.
    fn of(server: &Server) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("letters.jsonl");
        done(server, &["dlq", "export", "--out", path.to_str().unwrap()]);
        Self { _dir: dir, path }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<String>)) {
        let mut lines = self.text().lines().map(str::to_owned).collect();
        change(&mut lines);
        std::fs::write(&self.path, lines.join("\n")).unwrap();
    }

    fn import(&self, to: &Server) -> (i32, String) {
        ran(to, &["dlq", "import", self.path.to_str().unwrap(), "--execute"])
    }

    /// Imports every line. Returns the totals.
    fn imported(&self, to: &Server) -> String {
        let (code, said) = self.import(to);
        assert_eq!(code, 0, "{said}");
        said
    }
}

/// Makes a record of `orders` a dead letter. Returns its origin.
fn fail(member: &mut Member, record: Rec) -> String {
    let offset = member.client.put("orders", 0, std::slice::from_ref(&record));
    let origin = format!("orders-0@{offset}");
    let nack = record.header("x-retry-level", "-1").header("x-retry-reason", "no stock");
    member.client.nack("shop", &origin, nack);
    origin
}

/// A sidecar with this many dead letters.
fn sidecar_with(letters: usize) -> Server {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    for at in 0..letters {
        fail(&mut member, Rec::new(&format!("order-{at}")));
    }
    member.leave();
    server
}

/// The number of the group's dead letters; every count must agree.
fn dead(server: &Server) -> usize {
    let listed = server.json("/api/v1/dead-letters?group=shop")["items"].as_array().unwrap().len();
    let counted = server.json("/api/v1/groups/shop")["dead_letters"].as_u64().unwrap();
    let gauge = server.metric("reprise_dlq_records{group=\"shop\"}");
    assert_eq!((counted.to_string(), gauge.to_string()), (listed.to_string(), listed.to_string()));
    listed
}

/// A record as a consumer of the dead-letter topic reads it, without its offset.
fn content(got: Got) -> (i64, [Option<bytes::Bytes>; 2], Vec<Pair>) {
    (got.time_ms, [got.key, got.value], got.headers)
}

#[test]
fn an_imported_letter_is_the_same_byte_for_byte() {
    let (source, target) = (Server::start(), Server::start());
    let mut member = Member::of_shop(&source);
    fail(&mut member, Rec::odd());
    // A tombstone that was edited, redriven and is a dead letter again; its original stays at
    // offset 1.
    let tombstone = fail(&mut member, Rec { value: None, ..Rec::odd() });
    done(&source, &["dlq", "redrive", "shop", "1", "--set-header", "tenant=b"]);
    let got = member.retry_once();
    assert_eq!((&got.value, got.header("ORIGIN_MESSAGE_ID")), (&None, Some(tombstone)));
    let again = format!("reprise.retry.shop-0@{}", got.offset);
    member.client.nack("shop", &again, Rec::new("").header("x-retry-level", "-1"));
    member.done(got.offset + 1);
    // A delayed record, which never was in a topic.
    let delayed = Rec::new("delayed").header("x-retry-level", "-1");
    member.client.put("reprise.retry.shop", 0, &[delayed]);
    let produced = Rec::new("produced by a client");
    member.client.put("reprise.dlq.shop", 0, &[produced]);
    assert_eq!(member.commit("orders", 0, 2), 0);

    let export = Export::of(&source);
    let lines = export.lines();
    assert_eq!((&lines[0]["reprise_export"], lines.len()), (&1.into(), 5));
    assert_eq!((&lines[1]["redrives"], &lines[2]["redrives"]), (&0.into(), &1.into()));
    assert_eq!(lines[1]["record"]["headers"].as_array().unwrap().len(), Rec::odd().headers.len());
    assert_eq!((&lines[1]["passed"], &lines[3]["passed"]), (&true.into(), &false.into()));
    let offsets = lines[1..].iter().map(|line| line["letter"]["offset"].as_u64().unwrap());
    assert_eq!(offsets.collect::<Vec<_>>(), [0, 2, 3, 4]);
    let sent = source.client().read_all("reprise.dlq.shop").into_iter();
    let sent = sent.filter(|got| [0, 2, 3, 4].contains(&got.offset)).map(content);

    assert!(export.imported(&target).contains("4 imported, 0 known before, 0 refused"));
    let came = target.client().read_all("reprise.dlq.shop").into_iter().map(content);
    let (mut came, mut sent) = (came.collect::<Vec<_>>(), sent.collect::<Vec<_>>());
    // The client wrote no headers; the import adds those of a dead letter.
    let (came_last, sent_last) = (came.pop().unwrap(), sent.pop().unwrap());
    assert_eq!((came_last.0, came_last.1), (sent_last.0, sent_last.1));
    assert_eq!(came, sent);
    let copy = Export::of(&target).lines();
    for (mut came, mut sent) in copy.into_iter().zip(lines).skip(1) {
        for line in [&mut came, &mut sent] {
            line["id"] = Value::Null;
            line["letter"]["offset"] = Value::Null;
        }
        assert_eq!(came, sent);
    }
    assert_eq!(dead(&target), 4);
    let failed = target.get("/metrics");
    let failed = failed.lines().filter(|line| line.starts_with("reprise_records_failed_total"));
    assert!(failed.clone().all(|line| line.ends_with(" 0")), "no failure happened here");
}

#[test]
fn a_second_import_adds_nothing_after_a_kill() {
    let (source, target) = (sidecar_with(3), Server::start());
    let export = Export::of(&source);
    let would = done(&target, &["dlq", "import", export.path.to_str().unwrap()]);
    assert!(would.contains("3 of 1 groups would be brought; add --execute"), "{would}");
    assert!(target.json("/api/v1/groups")["items"].as_array().unwrap().is_empty(), "a dry run");
    export.imported(&target);
    let mut target = target.killed();
    assert_eq!(dead(&target), 3);
    done(&target, &["dlq", "discard", "shop", "0"]);
    target.restart();
    assert!(export.imported(&target).contains("0 imported, 3 known before, 0 refused"));
    assert_eq!(dead(&target), 2, "the discarded one stays so");
    done(&target, &["dlq", "restore", "shop", "0"]);
    assert_eq!(dead(&target), 3);
}

#[test]
fn a_line_that_comes_twice_is_imported_once() {
    let (source, target) = (Server::start(), Server::start());
    let delayed = Rec::new("never in a topic").header("x-retry-level", "-1");
    source.client().put("reprise.retry.shop", 0, &[delayed]);
    let export = Export::of(&source);
    export.change(|lines| lines.push(lines[1].clone()));
    assert!(export.imported(&target).contains("1 imported, 1 known before"));
    assert!(export.imported(&target).contains("0 imported, 2 known before"));
    assert_eq!(dead(&target), 1);
}

#[test]
fn damaged_lines_are_named_and_the_others_imported() {
    let (source, target) = (sidecar_with(5), Server::start());
    let export = Export::of(&source);
    let whole = export.text();
    export.change(|lines| {
        // The second and the fourth record; the first line is a header.
        lines[2] = lines[2].chars().take(40).collect();
        lines[4] = lines[4].replace("\"reconsume_times\"", "\"reconsume_timez\"");
    });
    for execute in [false, true] {
        let path = export.path.to_str().unwrap();
        let args = ["dlq", "import", path, "--execute"];
        let (code, said) = ran(&target, &args[..if execute { 4 } else { 3 }]);
        assert_eq!(code, 5, "{said}");
        assert!(said.contains("letters.jsonl, line 3: is no JSON"), "{said}");
        assert!(said.contains("letters.jsonl, line 5: unknown field `reconsume_timez`"), "{said}");
        let expected = if execute {
            "3 imported, 0 known before, 0 refused, 2 lines cannot be read"
        } else {
            "3 of 1 groups would be brought, 2 lines cannot be read; add --execute"
        };
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(dead(&target), 3);
    std::fs::write(&export.path, whole).unwrap();
    assert!(export.imported(&target).contains("2 imported, 3 known before, 0 refused"));
    assert_eq!(dead(&target), 5);
}

#[test]
fn files_of_this_sidecar_or_of_no_export_are_refused() {
    let (source, target) = (sidecar_with(1), Server::start());
    let export = Export::of(&source);
    let (code, said) = export.import(&source);
    assert_eq!((code, said.contains("come from this very sidecar")), (4, true), "{said}");
    let path = export.path.to_str().unwrap();
    let (code, said) = ran(&source, &["dlq", "export", "--out", path]);
    assert_eq!((code, said.contains("is there already")), (1, true), "no file is replaced: {said}");
    let head = r#"{"reprise_export":1,"source":"there"}"#;
    for (text, words) in [
        ("{}\n".to_owned(), "line 1: is no export"),
        (r#"{"reprise_export":2,"source":"x"}"#.to_owned(), "version 2 of an export"),
        (format!("{head}\n{{\"id\":1,"), "line 2: is no JSON"),
        (format!("{head}\n{{\"id\":1}}\n"), "missing field"),
        (format!("{head}\n"), "nothing in the file"),
    ] {
        std::fs::write(&export.path, &text).unwrap();
        let (code, said) = export.import(&target);
        assert!(code != 0 && said.contains(words), "{text}: {said}");
    }
    assert!(target.json("/api/v1/groups")["items"].as_array().unwrap().is_empty());
}

#[test]
fn letters_beyond_the_room_are_refused() {
    let (source, mut target) =
        (Server::start(), Server::with("retry: {dead_letters: {max_bytes: 1MiB}}"));
    let mut member = Member::of_shop(&source);
    for _ in 0..3 {
        fail(&mut member, Rec::new(&"v".repeat(400_000)));
    }
    let export = Export::of(&source);
    let (code, said) = export.import(&target);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("line 4: refused: the group's dead letters have no room here"), "{said}");
    assert!(said.contains("2 imported, 0 known before, 1 refused"), "{said}");
    assert_eq!(dead(&target), 2);
    assert_eq!(target.json("/api/v1/groups/shop")["blocked"], 0, "nothing is half taken");
    target.restart();
    let (code, said) = export.import(&target);
    assert!(code == 4 && said.contains("0 imported, 2 known before, 1 refused"), "{said}");
    target.reload_with(|config| config.retry.dead_letters.max_bytes = Some(2 << 20));
    assert!(export.imported(&target).contains("1 imported, 2 known before, 0 refused"));
    assert_eq!(dead(&target), 3);
    let none = Server::with("retry: {dead_letters: {keep: false}}");
    let (code, said) = export.import(&none);
    assert_eq!((code, said.contains("the group keeps no dead letters here")), (4, true), "{said}");
}

#[test]
fn an_imported_letter_is_redriven_to_its_group() {
    let (source, target) = (sidecar_with(3), Server::start());
    Export::of(&source).imported(&target);
    let mut member = Member::of_shop(&target);
    let kinds = target.json("/api/v1/dead-letters/fingerprints?group=shop");
    assert_eq!(
        (&kinds["items"][0]["records"], &kinds["items"][0]["topic"]),
        (&3.into(), &"orders".into())
    );
    done(&target, &["dlq", "redrive", "shop", "--all", "--execute", "--note", "moved"]);
    let got = member.retries();
    let values: Vec<String> = got.iter().map(Got::text).collect();
    assert_eq!(values, ["order-0", "order-1", "order-2"]);
    let last = got.last().unwrap();
    assert_eq!((last.reconsume_times(), last.number("x-retry-redrive-count")), (0, 1));
    assert_eq!(last.header("ORIGIN_MESSAGE_ID").unwrap(), "orders-0@2");
    member.done(last.offset + 1);
    assert_eq!(dead(&target), 0);
    let story = target.json("/api/v1/explain?record=orders-0@2")["past"].to_string();
    assert!(
        story.contains("brought from another sidecar: a dead letter (explicit_dlq)"),
        "{story}"
    );
}

#[test]
fn only_letters_that_a_filter_admits_are_exported() {
    let mut source = sidecar_with(2);
    done(&source, &["dlq", "discard", "shop", "0"]);
    let export = |filter: &[&str]| {
        let output = source.reprise(&[&["dlq", "export"], filter].concat());
        let lines = String::from_utf8(output.stdout).unwrap().lines().count();
        (output.status.code().unwrap(), lines)
    };
    assert_eq!(export(&["--group", "shop"]), (0, 2), "the discarded one is left out");
    assert_eq!(export(&["--topic", "orders", "--cause", "explicit_dlq"]), (0, 2));
    for none in [["--group", "other"], ["--topic", "bills"], ["--cause", "expired"]] {
        assert_eq!(export(&none), (3, 0), "{none:?}");
    }
    source.restart_with(|config| config.admin.payloads = Payloads::Hide);
    let (code, said) = ran(&source, &["dlq", "export"]);
    assert_eq!((code, said.contains("admin.payloads is hide")), (4, true), "{said}");
}

#[test]
fn retention_deletes_an_imported_letter_by_its_age() {
    let (source, target) = (sidecar_with(2), Server::start());
    let export = Export::of(&source);
    let died = export.lines()[2]["letter"]["at_ms"].as_i64().unwrap();
    until("they are older than the import", || crate::support::wall_ms() > died + 1);
    export.imported(&target);
    let (engine, oldest) = (&target.router().engine, WallMs(died + 1));
    assert_eq!(target.run(engine.expire_letters(&"shop".into(), oldest)).unwrap(), 2);
    assert_eq!(dead(&target), 0);
}

#[test]
fn the_audit_log_tells_of_an_import() {
    let (source, target) = (sidecar_with(2), Server::start());
    let export = Export::of(&source);
    let path = export.path.to_str().unwrap();
    done(&target, &["dlq", "import", path, "--execute", "--note", "INC-9"]);
    export.imported(&target);
    let audit = target.json("/api/v1/audit?group=shop");
    let records = audit["items"].as_array().unwrap().iter();
    let records: Vec<Value> = records
        .map(|one| json!([one["action"], one["changed"], one["left"], one["note"]]))
        .collect();
    let default = format!("from the sidecar {}", source.json("/api/v1/overview")["cluster_id"]);
    let default = default.replace('"', "");
    assert_eq!(records, [json!(["import", 2, 0, "INC-9"]), json!(["import", 0, 2, default])]);
    assert_eq!(audit["items"][0]["records"], json!(["orders-0@0", "orders-0@1"]));
}
