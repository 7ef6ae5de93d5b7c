//! `reprise user` prints a line of a users file; the tests feed its password.

use std::io::Write;
use std::process::{Command, Stdio};

use reprise::config::Config;

use crate::config::good;

/// Runs `reprise user` with this password on stdin: exit code, stdout, stderr.
fn user(args: &[&str], password: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command.arg("user").args(args).stdin(Stdio::piped());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("reprise starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(password.as_bytes()).expect("it reads");
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
}

#[test]
fn a_generated_user_line_is_readable_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("users");
    let (code, both, _) = user(&["alice"], "pencil\n");
    assert_eq!((code, both.lines().count()), (Some(0), 2));
    let (_, one, _) = user(&["bob", "--mechanism", "SCRAM-SHA-256", "--iterations", "8192"], "x");
    assert!(one.starts_with("bob:SCRAM-SHA-256$8192:"), "{one}");
    assert_ne!(one, user(&["bob", "--mechanism", "SCRAM-SHA-256", "--iterations", "8192"], "x").1);
    std::fs::write(&file, both + &one).expect("written");
    let config = good(&format!(
        "listen: [{{address: 127.0.0.1:0, sasl: {{users_file: {}}}}}]",
        file.display()
    ));
    let users = config.listener_users(0, [0; 32]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(users.as_ref().map(|users| users.count()), Some(2));
    for (name, password, words) in [
        ("alice", "", "the password on standard input is empty"),
        ("a:b", "x", "is no user name"),
        ("alice", "a\0b", "zero byte"),
    ] {
        let (code, said, why) = user(&[name], password);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{name}");
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn plaintext_passwords_need_an_explicit_mechanism() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("users");
    std::fs::write(&file, user(&["alice"], "pencil").1).expect("written");
    let loaded = |address: &str, more: &str| {
        let file = file.display();
        let text =
            format!("listen: [{{address: '{address}', sasl: {{users_file: {file}{more}}}}}]");
        let loaded = Config::parse("t", &text, &[], &[]).unwrap_or_else(|e| panic!("{e}"));
        let sasl = loaded.config.listen[0].sasl.clone().expect("users");
        let names: Vec<&str> = sasl.mechanisms.iter().map(|mechanism| mechanism.as_str()).collect();
        (names.join(" "), loaded.warnings)
    };
    let all = "SCRAM-SHA-512 SCRAM-SHA-256 PLAIN";
    assert_eq!(loaded("127.0.0.1:0", ""), (all.to_owned(), vec![]));
    assert_eq!(loaded("[::1]:0", "").0, all);
    assert_eq!(loaded("0.0.0.0:0", ""), ("SCRAM-SHA-512 SCRAM-SHA-256".to_owned(), vec![]));
    let (named, warnings) = loaded("0.0.0.0:0", ", mechanisms: [PLAIN]");
    assert_eq!(named, "PLAIN");
    assert!(warnings[0].contains("sends passwords in plain text"), "{warnings:?}");
}
