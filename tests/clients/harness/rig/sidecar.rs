//! The sidecar under test: the shipped binary, with a directory and a port of its own.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::port::{Port, free_port};
use crate::rig::cluster;
use crate::rig::login::Login;
use crate::rig::scene::Scene;
use crate::rig::wait::{note_slew, until};

/// Longest way of a dead letter into its topic and back.
const LETTERS_MAX: Duration = Duration::from_secs(30);

/// Delays of every scenario; the first retry takes the third.
pub(crate) const LEVELS_MS: [u64; 6] = [50, 100, 300, 400, 500, 600];
/// Retries before a record is a dead letter.
pub(crate) const RETRIES_MAX: u32 = 3;

/// Partitions of the topic of orders.
pub(crate) const PARTITIONS: i32 = 4;
/// Session timeout of KIP-848 members, which the client cannot set: longer than any restart of the
/// sidecar.
pub(crate) const CONSUMER_SESSION: &str = "12s";

const START_MAX: Duration = Duration::from_secs(20);
const STOP_MAX: Duration = Duration::from_secs(20);

/// A process of `reprise serve`.
#[derive(Debug)]
pub(crate) struct Sidecar {
    dir: PathBuf,
    port: Port,
    child: Option<Child>,
    admin: String,
    is_the_cluster: bool,
}

impl Sidecar {
    /// Starts with an empty data directory below `dir`; logs stay there. The sidecar runs in front
    /// of the cluster that `CLIENTS_UPSTREAM` names, or without one. `session` is the timeout of
    /// KIP-848 members.
    pub(crate) fn start(dir: &Path, scene: &Scene, login: Option<&Login>, session: &str) -> Self {
        let topics = if cluster::bootstrap().is_some() {
            String::new()
        } else {
            format!("topics: {{list: [{{name: {}, partitions: {PARTITIONS}}}]}}\n", scene.topic)
        };
        let levels: Vec<String> = LEVELS_MS.iter().map(|ms| format!("{ms}ms")).collect();
        // Scenarios fail more records than an outage does, and every failure has to count.
        let retry = format!(
            "retry: {{max_reconsume_times: {RETRIES_MAX}, breaker: off, on_seek_back: retry, \
                give_up_after: 1s, levels: {}}}\n",
            levels.join(" ")
        );
        Self::by_rules(dir, login, session, &(topics + &retry))
    }

    /// Starts with `rules`, lines of the configuration.
    pub(crate) fn by_rules(dir: &Path, login: Option<&Login>, session: &str, rules: &str) -> Self {
        let port = free_port();
        let upstream = cluster::bootstrap();
        let is_the_cluster = upstream.is_none();
        let cluster = upstream.map(|bootstrap| {
            let tls = login.map(Login::upstream).unwrap_or_default();
            format!("upstream: {{bootstrap: '{bootstrap}'{tls}}}\n")
        });
        let config = format!(
            "listen: [{{address: '127.0.0.1:{}'{}}}]\n\
             admin: {{address: '127.0.0.1:0'}}\n\
             data_dir: '{}'\n\
             journal: {{ephemeral: accept}}\n\
             {}{rules}\
             membership: {{session_timeout_min: 1s, consumer_session_timeout: {session}, \
                consumer_heartbeat_interval: 500ms}}\n\
             drain: {{timeout: 200ms}}\n",
            port.number,
            login.map(Login::listener).unwrap_or_default(),
            dir.join("data").display(),
            cluster.unwrap_or_default(),
        );
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("config.yaml"), config).unwrap();
        let (dir, admin) = (dir.to_owned(), String::new());
        let mut sidecar = Self { dir, port, child: None, admin, is_the_cluster };
        sidecar.start_again();
        sidecar
    }

    /// Whether the sidecar runs without a cluster.
    pub(crate) fn is_the_cluster(&self) -> bool {
        self.is_the_cluster
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Starts on the same directory and port.
    pub(crate) fn start_again(&mut self) {
        note_slew();
        let ready = self.dir.join("ready");
        let _ = fs::remove_file(&ready);
        let log = File::options().create(true).append(true).open(self.dir.join("sidecar.log"));
        let child = Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args(["serve", "--config"])
            .arg(self.dir.join("config.yaml"))
            .arg("--ready-file")
            .arg(&ready)
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn();
        let child = self.child.insert(child.unwrap());
        until(START_MAX, "the sidecar starts", || {
            if let Some(ended) = child.try_wait().unwrap() {
                panic!("the sidecar ended with {ended}; see {}", self.dir.display());
            }
            let addresses = fs::read_to_string(&ready).unwrap_or_default();
            addresses.split_whitespace().last().unwrap_or_default().clone_into(&mut self.admin);
            !self.admin.is_empty()
        });
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends SIGTERM; the exit code must be 0.
    pub(crate) fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        let term = Command::new("kill").arg(child.id().to_string()).status();
        assert!(term.unwrap().success());
        let mut ended: Option<ExitStatus> = None;
        until(STOP_MAX, "the sidecar stops", || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        assert!(ended.unwrap().success(), "a clean stop ends with 0");
    }

    /// Protocol of the group's members, from `reprise group describe`.
    pub(crate) fn kind_of(&self, group: &str) -> String {
        let told = Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args(["group", "describe", group, "--format", "json", "--admin", &self.admin])
            .output()
            .unwrap();
        let seen: Value = serde_json::from_slice(&told.stdout).unwrap();
        seen["kind"].as_str().unwrap().to_owned()
    }

    /// Answer to a GET on the admin port: status line, headers and body.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        let host = &self.admin;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Body of a GET on the admin port; null where there is none.
    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }

    /// The dead letters of a group, once no exhausted record is on its way to them. A count shows
    /// what is decided, a list what is durable.
    pub(crate) fn letters(&self, group: &str) -> Vec<Value> {
        let of_group = format!("/api/v1/groups/{group}");
        let of_letters = format!("/api/v1/dead-letters?group={group}");
        let mut letters = Vec::new();
        until(LETTERS_MAX, "each exhausted record is in the list of dead letters", || {
            let counts = self.json(&of_group);
            let listed = self.json(&of_letters);
            letters = listed["items"].as_array().cloned().unwrap_or_default();
            let dead = letters.iter().filter(|letter| letter["state"] == "dead").count();
            counts["blocked"].as_u64().unwrap_or(0) == 0
                && counts["dead_letters"].as_u64().unwrap_or(0) == u64::try_from(dead).unwrap()
        });
        letters
    }

    /// Value of a counter as written in `/metrics`, labels included; 0 when there is none.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        let text = self.get("/metrics");
        let of = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.trim().parse().ok();
        text.lines().find_map(of).unwrap_or(0)
    }

    /// All lines of a metric.
    pub(crate) fn series(&self, name: &str) -> Vec<String> {
        let text = self.get("/metrics");
        text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
    }

    /// Output of `reprise retry list`.
    pub(crate) fn retries(&self) -> Vec<Value> {
        let told = Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args(["retry", "list", "--format", "jsonl", "--admin", &self.admin])
            .output()
            .unwrap();
        // Exit code 3: nothing matched.
        assert!(matches!(told.status.code(), Some(0 | 3)), "{told:?}");
        let text = String::from_utf8(told.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
