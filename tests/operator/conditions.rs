//! Conditions of commands, which work alike on lists, exports, jobs and verbs; and their addresses.

use std::process::Command;

use serde_json::Value;

use crate::operate::{done, letters};
use crate::support::{Member, Rec, Server};

#[test]
fn conditions_select_the_same_records_everywhere() {
    let server = Server::start();
    let mut member = Member::of_shop(&server);
    for (offset, tenant) in (0..4).zip(["a", "b", "a", "b"]) {
        let record = Rec::new(&format!("order-{offset}")).header("tenant", tenant);
        member.client.put("orders", 0, std::slice::from_ref(&record));
        let fate =
            if offset < 2 { ("x-retry-level", "-1") } else { ("x-retry-delay-ms", "3600000") };
        let nack = record.header(fate.0, fate.1);
        assert_eq!(member.client.nack("shop", &format!("orders-0@{offset}"), nack).error_code, 0);
    }
    for (conditions, letter, retry) in [
        (&["--header", "tenant=b"][..], 1, 3),
        (&["--value", "order-0", "--topic", "orders"], 0, -1),
        (&["--value", "order-2", "--since", "1h", "--key", "k"], -1, 2),
        (&["--state", "waiting", "--header", "tenant=a"], -1, 2),
    ] {
        let listed = |words: &[&str]| -> Vec<String> {
            let words = [words, conditions, &["--format", "jsonl"]].concat();
            let out = server.reprise(&words);
            assert!(matches!(out.status.code(), Some(0 | 3)), "{out:?}");
            let text = String::from_utf8(out.stdout).unwrap();
            let item = |line: &str| serde_json::from_str::<Value>(line).unwrap();
            text.lines().map(|line| item(line)["origin"].as_str().unwrap().to_owned()).collect()
        };
        let at = |offset: i64| -> Vec<String> {
            (offset >= 0).then(|| format!("orders-0@{offset}")).into_iter().collect()
        };
        assert_eq!(listed(&["dlq", "list", "shop"]), at(letter), "{conditions:?}");
        assert_eq!(listed(&["retry", "list", "--group", "shop"]), at(retry), "{conditions:?}");
        let plan = [&["retry", "dead-letter", "shop", "--all"], conditions].concat();
        let plan = String::from_utf8(server.reprise(&plan).stdout).unwrap();
        let is_planned = plan.contains(&format!("orders-0@{retry}"));
        assert_eq!(is_planned, retry >= 0, "{conditions:?}: {plan}");
    }
    let export = server.reprise(&["dlq", "export", "shop", "--header", "tenant=b"]);
    let export = String::from_utf8(export.stdout).unwrap();
    assert_eq!((export.lines().count(), export.contains("orders-0@1")), (2, true), "{export}");
    let act = ["--execute", "--note", "INC-7", "--header", "tenant=b"];
    let killed = done(&server, &[&["retry", "dead-letter", "shop", "--all"][..], &act].concat());
    assert_eq!(killed, "1 dead letters now, 0 left as they were\n");
    let job = done(&server, &[&["dlq", "discard", "shop", "--all"][..], &act].concat());
    assert_eq!(job, "2 discarded, 0 left as they were\n");
    assert_eq!(letters(&server, "discarded"), [1, 2]);
    let restored = done(&server, &[&["dlq", "restore", "shop", "--all"][..], &act].concat());
    assert_eq!(restored, "2 restored, 0 left as they were\n");
    for (words, says) in [
        (&["dlq", "redrive", "shop", "1", "--key", "k"][..], "need --all"),
        (&["dlq", "redrive", "shop", "1", "--group", "shop"], "name the group once"),
        (&["dlq", "redrive", "1"], "name the records"),
        (&["dlq", "redrive", "--all"], "name the group"),
        (&["dlq", "restore", "shop", "--all", "--state", "dead"], "leave state out"),
        (&["dlq", "list", "--since", "soon"], "soon"),
    ] {
        let out = server.reprise(words);
        let told = String::from_utf8(out.stderr).unwrap();
        assert_eq!((out.status.code(), told.contains(says)), (Some(2), true), "{words:?}: {told}");
    }
    let named = done(&server, &["dlq", "discard", "--group", "shop", "1", "2", "--note", "INC-8"]);
    assert_eq!(named, "2 discarded, 0 left as they were\n");
}

#[test]
fn no_list_tells_what_it_hides() {
    let mask = "admin: {mask: {headers: [authorization], json: [card]}}";
    let all = ["error=a", "fingerprint=a", "key=a", "key_shape=a", "header=tenant", "value=a"];
    let masked = ["header=Authorization=a", "value=a", "key=a"];
    let shown = ["header=tenant=a", "error=a", "cause=rejected", "state=dead"];
    for (yaml, refused, taken) in
        [("admin: {payloads: hide}", &all[..], &shown[2..]), (mask, &masked, &shown)]
    {
        let server = Server::with(yaml);
        let code = |list: &str, condition: &str| {
            let (name, text) = condition.split_once('=').unwrap();
            let flag = format!("--{}", name.replace('_', "-"));
            server.reprise(&[list, "list", &flag, text]).status.code().unwrap()
        };
        for list in ["dlq", "retry"] {
            assert!(refused.iter().all(|one| code(list, one) == 4), "{yaml}: {list}");
            assert!(taken.iter().all(|one| code(list, one) == 3), "{yaml}: {list}");
        }
    }
}

#[test]
fn a_variable_names_the_sidecar_of_commands() {
    let server = Server::start();
    let list = |admin: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        let out = command.args(["group", "list"]).env("REPRISE_ADMIN", admin).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    let (none, said) = list(&server.admin().to_string());
    assert_eq!((none, said.as_str()), (Some(3), "nothing matched\n"));
    let (usage, said) = list("nowhere:x");
    assert_eq!((usage, said.contains("nowhere:x")), (Some(2), true), "{said}");
    // The name is no key of `serve`.
    let mut check = Command::new(env!("CARGO_BIN_EXE_reprise"));
    let check = check.args(["check"]).env("REPRISE_ADMIN", "pod-0").output().unwrap();
    let told = [check.stdout, check.stderr].concat();
    assert!(!String::from_utf8(told).unwrap().contains("REPRISE_ADMIN"));
    let mut help = Command::new(env!("CARGO_BIN_EXE_reprise"));
    let help = help.args(["help", "dlq", "redrive"]).output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("--canary"));
}
