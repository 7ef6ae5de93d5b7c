//! Secrets in answers and logs: two sidecars with passwords and tokens work and are attacked, with
//! all log lines on. No answer and no log line has a secret.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::batch::{Rec, plain};
use crate::support::client::{produce_request, s};
use crate::support::{Client, until};
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};

/// The password of an application, and of the sidecar in front of the cluster.
const USER: &str = "canary-user-5f1c";
const SIDECAR: &str = "canary-sidecar-90ab";
/// Tokens of the admin port.
const OPERATOR: &str = "canary-operator-77de";
const READER: &str = "canary-reader-23f4";
const ALL: [&str; 4] = [USER, SIDECAR, OPERATOR, READER];

/// The headers of a form submitted by the page.
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n\
    Sec-Fetch-Site: same-origin\r\n";

/// A process that logs every line to a file.
struct Sidecar {
    child: Child,
    kafka: SocketAddr,
    admin: SocketAddr,
    log: std::path::PathBuf,
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Sidecar {
    fn start(dir: &Path, name: &str, yaml: &str) -> Self {
        let tokens = dir.join("tokens");
        fs::write(&tokens, format!("kim operate {OPERATOR}\nwall read {READER}\n")).unwrap();
        let (file, ready) = (dir.join(format!("{name}.yaml")), dir.join(format!("{name}.ready")));
        let text = format!(
            "data_dir: {}\njournal: {{ephemeral: accept}}\ndrain: {{timeout: 0s}}\n\
             log: {{filter: trace}}\nadmin: {{address: '127.0.0.1:0', token_file: {}}}\n{yaml}",
            dir.join(name).display(),
            tokens.display()
        );
        fs::write(&file, text).unwrap();
        let log = dir.join(format!("{name}.log"));
        let lines = fs::File::create(&log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.args(["serve", "-c"]).arg(file).arg("--ready-file").arg(&ready);
        command.env("SIDECAR_PASSWORD", SIDECAR);
        command.stdout(lines.try_clone().unwrap()).stderr(lines);
        let child = command.spawn().unwrap();
        until("it is ready", || ready.exists());
        let line = fs::read_to_string(ready).unwrap();
        let (kafka, admin) = line.trim().split_once(' ').unwrap();
        Self { child, kafka: kafka.parse().unwrap(), admin: admin.parse().unwrap(), log }
    }

    /// A complete answer of the admin port.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let rest = format!("{headers}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(format!("{head}{rest}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn reload(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "HUP", &pid]).status().unwrap().success());
    }

    fn lines(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

/// The lines of a users file.
fn users(dir: &Path) -> String {
    let mut lines = String::new();
    for (name, password) in [("shop", USER), ("side", SIDECAR)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.args(["user", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
        lines += &String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    }
    fs::write(dir.join("users"), &lines).unwrap();
    lines
}

/// Logs in by PLAIN. Returns the error code.
fn log_in(client: &mut Client, password: &str) -> i16 {
    let handshake = SaslHandshakeRequest::default().with_mechanism(s("PLAIN"));
    assert_eq!(client.call(1, &handshake).error_code, 0);
    let bytes = format!("\0shop\0{password}").into_bytes();
    let login = SaslAuthenticateRequest::default().with_auth_bytes(bytes.into());
    client.call(2, &login).error_code
}

/// Sends every kind of admin request, with valid and invalid tokens.
fn attack(sidecar: &Sidecar) -> Vec<String> {
    let paths = [
        "/",
        "/config",
        "/metrics",
        "/version",
        "/readyz",
        "/drain",
        "/jobs",
        "/audit",
        "/login",
        "/groups/shop",
        "/api/v1/overview",
        "/api/v1/groups/shop",
        "/api/v1/audit",
        "/nowhere",
        "/api/v1/dead-letters?group=shop",
        "/api/v1/explain?group=shop",
    ];
    let mut answers = Vec::new();
    for token in [OPERATOR, READER, "wrong", &OPERATOR[..OPERATOR.len() - 1]] {
        for accept in ["", "Accept: text/html\r\n"] {
            let headers = format!("Authorization: Bearer {token}\r\n{accept}");
            answers.extend(paths.iter().map(|path| sidecar.ask("GET", path, &headers, "")));
        }
        let json = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        for body in ["{}", "{\"group\":\"shop\",\"offsets\":[0]}", "{"] {
            let path = "/api/v1/dead-letters/discard";
            answers.push(sidecar.ask("POST", path, &json, body));
        }
        answers.push(sidecar.ask("POST", "/login", FORM, &format!("token={token}")));
    }
    answers
}

#[test]
fn tokens_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let sidecar = Sidecar::start(dir.path(), "alone", "listen: [{address: '127.0.0.1:0'}]\n");
    let is_known = |token: &str| {
        let answer = sidecar.ask("POST", "/login", FORM, &format!("token={token}"));
        answer.contains("reprise_session=")
    };
    assert!(is_known(OPERATOR) && !is_known(USER));
    fs::write(dir.path().join("tokens"), format!("kim operate {USER}\n")).unwrap();
    sidecar.reload();
    until("the new token counts", || is_known(USER));
    assert!(!is_known(OPERATOR), "the old one is gone");
    fs::write(dir.path().join("tokens"), "").unwrap();
    sidecar.reload();
    until("the empty file is refused", || sidecar.lines().contains("is empty"));
    assert!(is_known(USER), "the tokens in force stay");
}

#[test]
fn no_answer_and_no_log_line_has_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let verifiers = users(dir.path());
    let users_file = dir.path().join("users");
    let behind = Sidecar::start(
        dir.path(),
        "behind",
        &format!(
            "names: {{retry: 'not-here.{{group}}', dead_letters: 'nor-here.{{group}}'}}\n\
             listen: [{{address: '127.0.0.1:0', sasl: {{users_file: {}}}}}]\n",
            users_file.display()
        ),
    );
    let front = Sidecar::start(
        dir.path(),
        "front",
        &format!(
            "listen: [{{address: '127.0.0.1:0'}}]\n\
             upstream: {{bootstrap: '{}', sasl: {{mechanism: PLAIN, username: side, \
             password: '${{env:SIDECAR_PASSWORD}}'}}}}\n",
            behind.kafka
        ),
    );
    for kafka in [behind.kafka, front.kafka] {
        assert_ne!(log_in(&mut Client::connect(kafka), &format!("{USER}x")), 0);
        assert_eq!(log_in(&mut Client::connect(kafka), USER), 0);
    }
    let mut client = Client::connect(front.kafka);
    assert_eq!(log_in(&mut client, USER), 0);
    let letter = Rec::new("one").header("x-retry-level", "-1");
    let request = produce_request("reprise.retry.shop", 0, plain(&[letter]), -1);
    let answer = client.call(9, &request);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    let written = "reprise_dlq_records{group=\"shop\"} 1";
    let reader = format!("Authorization: Bearer {READER}\r\n");
    until("the sidecar has used its password", || {
        front.ask("GET", "/metrics", &reader, "").contains(written)
    });
    fs::write(dir.path().join("tokens"), format!("kim {OPERATOR} operate\n")).unwrap();
    fs::write(&users_file, format!("shop:{USER}\n")).unwrap();
    for sidecar in [&behind, &front] {
        sidecar.reload();
    }
    until("a broken file is told of", || behind.lines().contains("users"));

    let mut said = attack(&behind);
    said.extend(attack(&front));
    let granted = said.iter().filter(|answer| answer.starts_with("HTTP/1.1 200")).count();
    assert!(granted > 40, "only {granted} answers of {}", said.len());
    for sidecar in [&behind, &front] {
        let lines = sidecar.lines();
        assert!(lines.contains("TRACE") || lines.contains("DEBUG"), "all lines are on: {lines}");
        said.push(lines);
    }
    let stored = verifiers.lines().filter_map(|line| line.split_once(':').map(|(_, hash)| hash));
    let secrets: Vec<&str> = ALL.into_iter().chain(stored).collect();
    for text in &said {
        for secret in &secrets {
            let shown = text.lines().find(|line| line.contains(secret));
            assert!(shown.is_none(), "{secret}: {shown:?}");
        }
    }
}
