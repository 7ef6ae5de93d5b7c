//! Moves of pending retries from one sidecar to another: complete and once, even if steps are
//! repeated or a process is killed.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::batch::unpack;
use crate::support::{Member, Rec, Server, until};
use reprise::model::EntryId;
use serde_json::Value;
use tempfile::TempDir;

const HOURS: &str = "retry: {levels: 1h 2h 3h 4h}";

/// Runs a command that must succeed. Returns its stderr.
fn did(server: &Server, args: &[&str]) -> String {
    let output = server.retry(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    said
}

/// The files of a move: the export and its receipt.
struct Files {
    dir: TempDir,
}

impl Files {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pending(&self) -> String {
        self.at("pending.jsonl").display().to_string()
    }

    fn take(&self, from: &Server) -> String {
        did(from, &["export", "--take", "--execute", "--out", &self.pending()])
    }

    /// Imports the file. Returns the stderr and the receipt.
    fn bring(&self, to: &Server) -> (String, String) {
        let output = to.retry(&["import", &self.pending(), "--execute"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let receipt = self.at("receipt.jsonl").display().to_string();
        std::fs::write(&receipt, output.stdout).unwrap();
        (said, receipt)
    }
}

fn lines(path: impl AsRef<Path>) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn pending(server: &Server) -> u64 {
    server.json("/drain")["pending"].as_u64().unwrap()
}

/// Number of the group's records in this state.
fn state(server: &Server, group: &str, state: &str) -> u64 {
    let found = server.json(&format!("/api/v1/retries?group={group}&state={state}"));
    u64::try_from(found["items"].as_array().unwrap().len()).unwrap()
}

/// Whether a Fetch of the group's retries brings none.
fn gets_nothing(member: &mut Member) -> bool {
    let from = member.position();
    let records = member.fetch_retries(from, 100).records;
    records.is_none_or(|records| unpack(&records).is_empty())
}

#[test]
fn a_moved_backlog_keeps_its_counts_and_is_delivered_once() {
    let (source, mut target, files) = (Server::start(), Server::start(), Files::new());
    let mut member = Member::of_shop(&source);
    let offset = member.client.put("orders", 0, &[Rec::odd()]);
    let origin = format!("orders-0@{offset}");
    member.client.nack("shop", &origin, Rec::odd().header("x-retry-reason", "no stock"));
    let first = member.retry_once();
    let again = format!("reprise.retry.shop-0@{}", first.offset);
    let waits = Rec::odd().header("x-retry-reason", "still none");
    member.client.nack("shop", &again, waits.header("x-retry-delay-ms", "1000"));
    member.leave();
    // A group without members: a parked retry, and a record that never was in a topic.
    source.client().nack("lonely", "orders-0@5", Rec::new("parked"));
    source.client().put("reprise.retry.lonely", 0, &[Rec::new("delayed")]);
    let would = did(&source, &["export", "--take", "--out", &files.pending()]);
    assert!(would.contains("3 would be set aside; add --execute"), "{would}");
    assert!(!Path::new(&files.pending()).exists());

    let said = files.take(&source);
    assert!(said.contains("3 set aside") && said.contains("3 written"), "{said}");
    let drain = source.json("/drain");
    assert_eq!((&drain["pending"], &drain["next_due_ms"]), (&3.into(), &Value::Null));
    assert_eq!(drain["groups"][1]["exported"], 1, "{drain}");
    let note = source.json("/api/v1/groups/shop")["advice"].to_string();
    assert!(note.contains("set aside for another sidecar"), "{note}");
    let mut late = Member::of_shop(&source);
    assert!(gets_nothing(&mut late), "nobody gets it here");

    let would = did(&target, &["import", &files.pending()]);
    assert!(would.contains("3 of 2 groups would be brought"), "{would}");
    assert_eq!(pending(&target), 0);
    let (said, _) = files.bring(&target);
    assert!(said.contains("3 imported, 0 known before, 0 refused"), "{said}");
    target.restart();
    let (said, receipt) = files.bring(&target);
    assert!(said.contains("0 imported, 3 known before"), "{said}");
    assert_eq!(pending(&target), 3);

    let mut member = Member::of_shop(&target);
    let got = member.retry_once();
    assert_eq!(
        (&got.key, &got.value, got.time_ms),
        (&Rec::odd().key, &Rec::odd().value, Rec::odd().time_ms)
    );
    assert_eq!(got.headers[..5], Rec::odd().headers, "duplicates, nulls and odd bytes, in order");
    assert_eq!(got.number("RECONSUME_TIME"), 2);
    assert_eq!(got.header("ORIGIN_MESSAGE_ID").unwrap(), origin);
    assert_eq!(got.header("x-retry-reason").unwrap(), "still none");
    assert_eq!(got.number("x-retry-first-failed-ms"), first.number("x-retry-first-failed-ms"));
    member.done(got.offset + 1);

    let would = did(&source, &["export", "--end", &receipt]);
    assert!(would.contains("3 would be ended; add --execute"), "{would}");
    let said = did(&source, &["export", "--end", &receipt, "--execute"]);
    assert!(said.contains("3 ended"), "{said}");
    assert_eq!(pending(&source), 0);
    let said = did(&source, &["export", "--end", &receipt, "--execute"]);
    assert!(said.contains("0 ended, 3 before"), "{said}");
    // The original fails here once more, but its retry belongs to the other sidecar now.
    late.client.nack("shop", &origin, Rec::odd());
    assert_eq!(pending(&source), 0);
}

#[test]
fn the_audit_log_tells_of_each_export_step() {
    let (source, target, files) = (Server::start(), Server::start(), Files::new());
    source.client().nack("lonely", "orders-0@5", Rec::new("parked"));
    files.take(&source);
    did(&source, &["export", "--undo", "--execute", "--why", "INC-9"]);
    std::fs::remove_file(files.pending()).unwrap();
    files.take(&source);
    let (_, receipt) = files.bring(&target);
    did(&source, &["export", "--end", &receipt, "--execute"]);
    did(&source, &["export", "--end", &receipt, "--execute"]);
    let audit = source.json("/api/v1/audit?group=lonely");
    let records = audit["items"].as_array().unwrap().iter();
    let actions = records.map(|one| format!("{} {}", one["action"], one["changed"]));
    let actions: Vec<String> = actions.map(|text| text.replace('"', "")).collect();
    assert_eq!(actions, ["export 1", "export_undo 1", "export 1", "export_end 1"]);
    assert_eq!(audit["items"][1]["why"], "INC-9");
    assert_eq!(target.json("/api/v1/audit?group=lonely")["items"][0]["action"], "import");
}

#[test]
fn due_times_and_levels_are_kept_to_the_millisecond() {
    let (source, target, files) = (Server::with(HOURS), Server::with(HOURS), Files::new());
    for offset in 0..3 {
        source.client().nack("shop", &format!("orders-0@{offset}"), Rec::new("x"));
    }
    files.take(&source);
    files.bring(&target);
    did(&target, &["export", "--out", &files.at("copy").display().to_string()]);
    let (mut sent, mut came) = (lines(files.pending()), lines(files.at("copy")));
    assert_ne!(sent.remove(0)["source"], came.remove(0)["source"]);
    assert_eq!((sent.len(), came.len()), (3, 3));
    for line in sent.iter_mut().chain(&mut came) {
        let fields = line.as_object_mut().unwrap();
        assert!(
            ["waiting", "exported"].contains(&fields.remove("state").unwrap().as_str().unwrap())
        );
        fields.remove("id");
    }
    assert_eq!(came, sent);
    assert_eq!(came[0]["level"], 3);
}

#[test]
fn a_repeated_import_adds_nothing_after_records_are_forgotten() {
    let (source, files) = (Server::start(), Files::new());
    let mut target = Server::with("retry: {levels: 20ms, consume_timeout: 1s}");
    source.client().put("reprise.retry.shop", 0, &[Rec::new("delayed")]);
    files.take(&source);
    files.bring(&target);
    let mut member = Member::of_shop(&target);
    let got = member.retry_once();
    let id = target.json("/api/v1/retries?group=shop")["items"][0]["id"].as_u64().unwrap();
    member.done(got.offset + 1);
    until("the entry is forgotten", || {
        let states = target.router().engine.entry_states(vec![EntryId(id)]);
        target.run(states).unwrap()[0].is_none()
    });
    for _ in 0..2 {
        let (said, _) = files.bring(&target);
        assert!(said.contains("0 imported, 1 known before"), "{said}");
        // The restarted sidecar rebuilds index and rows from the log.
        target = target.killed();
    }
}

#[test]
fn open_retries_stay_and_are_reported_during_an_export() {
    let (source, files) = (Server::start(), Files::new());
    let mut member = Member::of_shop(&source);
    for offset in 0..2 {
        member.client.nack("shop", &format!("orders-0@{offset}"), Rec::new("x"));
    }
    until("two are handed out", || {
        let from = member.position();
        member.fetch_retries(from, 100);
        state(&source, "shop", "inflight") == 2
    });
    member.client.nack("shop", "orders-0@7", Rec::new("x").header("x-retry-delay-ms", "3600000"));
    let said = files.take(&source);
    assert!(said.contains("1 set aside") && said.contains("2 handed out"), "{said}");
    let from = member.position();
    member.done(from + 2);
    std::fs::remove_file(files.pending()).unwrap();
    let said = files.take(&source);
    assert!(said.contains("1 written"), "{said}");
    let times: Vec<Value> =
        lines(files.pending())[1..].iter().map(|line| line["reconsume_times"].clone()).collect();
    assert_eq!(times, [1], "nobody is charged for the move");
}

#[test]
fn an_exported_retry_survives_a_kill_and_may_be_returned() {
    let (source, files) = (Server::start(), Files::new());
    source.client().nack("shop", "orders-0@1", Rec::new("x"));
    files.take(&source);
    let again = source.killed();
    let mut member = Member::of_shop(&again);
    assert_eq!(state(&again, "shop", "exported"), 1);
    assert!(gets_nothing(&mut member));
    let would = did(&again, &["export", "--undo", "--group", "shop"]);
    assert!(would.contains("1 would be given back; add --execute"), "{would}");
    assert_eq!(state(&again, "shop", "exported"), 1);
    did(&again, &["export", "--undo", "--group", "shop", "--execute"]);
    assert_eq!(member.retry_once().reconsume_times(), 1);
    assert_eq!(again.retry(&["export", "--undo", "--execute"]).status.code(), Some(3));
}

#[test]
fn exports_and_imports_losing_or_doubling_records_are_refused() {
    let (source, target, files) = (Server::with(HOURS), Server::with(HOURS), Files::new());
    for offset in 0..2 {
        source.client().nack("shop", &format!("orders-0@{offset}"), Rec::new("x"));
    }
    let path = files.pending();
    did(&source, &["export", "--out", &path]);
    let code = |output: &Output| output.status.code().unwrap();
    let said = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    let own = source.retry(&["import", &path, "--execute"]);
    assert_eq!((code(&own), own.stdout.len()), (4, 0), "{}", said(&own));
    assert!(said(&own).contains("this very sidecar"), "{}", said(&own));
    // The records are imported although they were not set aside: the final step reports that both
    // sidecars have them.
    let (_, receipt) = files.bring(&target);
    let both = source.retry(&["export", "--end", &receipt, "--execute"]);
    assert_eq!(code(&both), 4);
    assert!(said(&both).contains("2 are not set aside here"), "{}", said(&both));
    assert_eq!(pending(&source), 2);
    let other = target.retry(&["export", "--end", &receipt, "--execute"]);
    assert_eq!(code(&other), 4, "{}", said(&other));
    assert!(said(&other).contains("its numbers mean other records"), "{}", said(&other));
    let no_receipt = source.retry(&["export", "--end", &path, "--execute"]);
    assert_eq!(code(&no_receipt), 1);
    assert!(said(&no_receipt).contains("is no receipt"), "{}", said(&no_receipt));
    let again = source.retry(&["export", "--take", "--execute", "--out", &path]);
    assert_eq!(code(&again), 1, "no file is replaced");
    assert_eq!(state(&source, "shop", "exported"), 0, "and nothing is set aside for it");
    assert_eq!(code(&source.retry(&["export", "--take", "--undo"])), 2);
}

#[test]
fn refused_imports_stay_with_the_source() {
    let (source, files) = (Server::with(HOURS), Files::new());
    let target = Server::with("groups: [{match: off, delivery: off}]");
    source.client().nack("off", "orders-0@1", Rec::new("x"));
    source.client().nack("shop", "orders-0@2", Rec::new("x"));
    files.take(&source);
    let output = target.retry(&["import", &files.pending(), "--execute"]);
    assert_eq!(output.status.code(), Some(4));
    let receipt = files.at("receipt").display().to_string();
    std::fs::write(&receipt, &output.stdout).unwrap();
    let told = lines(&receipt);
    assert!(told[1]["why"].as_str().unwrap().contains("delivery: off"), "{told:?}");
    let said = did(&source, &["export", "--end", &receipt, "--execute"]);
    assert!(said.contains("1 were refused there") && said.contains("1 ended"), "{said}");
    let drain = source.json("/drain");
    assert_eq!((&drain["pending"], &drain["groups"][0]["exported"]), (&1.into(), &1.into()));
}

#[test]
fn damaged_lines_are_named_and_the_rest_imported() {
    let (source, target, files) = (Server::with(HOURS), Server::with(HOURS), Files::new());
    for offset in 0..5 {
        source.client().nack("shop", &format!("orders-0@{offset}"), Rec::new("x"));
    }
    files.take(&source);
    let text = std::fs::read_to_string(files.pending()).unwrap();
    let mut damaged: Vec<String> = text.lines().map(str::to_owned).collect();
    damaged[2] = "x".to_owned();
    damaged[4] = damaged[4].replace("\"group\"", "\"gruop\"");
    std::fs::write(files.pending(), damaged.join("\n")).unwrap();
    let output = target.retry(&["import", &files.pending(), "--execute"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("line 3: is no JSON"), "{said}");
    assert!(said.contains("line 5: unknown field `gruop`"), "{said}");
    assert!(said.contains("3 imported, 0 known before, 0 refused, 2 lines"), "{said}");
    assert_eq!(pending(&target), 3);
    let receipt = files.at("receipt").display().to_string();
    std::fs::write(&receipt, output.stdout).unwrap();
    let said = did(&source, &["export", "--end", &receipt, "--execute"]);
    assert!(said.contains("3 ended"), "{said}");
    assert_eq!(state(&source, "shop", "exported"), 2, "damaged ones stay set aside");
}

#[test]
fn foreign_versions_and_torn_files_are_refused_by_line() {
    let (target, files) = (Server::start(), Files::new());
    let head = r#"{"reprise_export":1,"kind":"retries","source":"there"}"#;
    for (text, words) in [
        ("{}\n".to_owned(), "line 1: is no export"),
        (r#"{"reprise_export":2,"source":"x"}"#.to_owned(), "version 2 of an export"),
        (format!("{head}\n{{\"id\":1,"), "line 2: is no JSON"),
        (format!("{head}\n{{\"id\":1}}\n"), "missing field"),
        (format!("{head}\n"), "nothing in the file"),
    ] {
        std::fs::write(files.pending(), &text).unwrap();
        let output = target.retry(&["import", &files.pending(), "--execute"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_ne!(output.status.code(), Some(0), "{text}");
        assert!(said.contains(words), "{text}: {said}");
    }
    assert_eq!(pending(&target), 0);
}
