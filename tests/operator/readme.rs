//! README.md and docs/getting-started.md work as shown: commands run, YAML loads, links lead
//! somewhere.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::metadata::MetadataPartition;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use reprise::config::Config;
use reprise::server::Server;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// README.md, then docs/getting-started.md.
fn pages() -> String {
    let start = std::fs::read_to_string(root().join("docs/getting-started.md")).unwrap();
    readme() + &start
}

/// The fenced blocks: (language, text).
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut out = Vec::new();
    let mut open: Option<(&str, String)> = None;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(language), None) => open = Some((language.trim(), String::new())),
            (Some(_), Some(block)) => out.push(block),
            (None, Some((language, body))) => open = Some((language, body + line + "\n")),
            (None, None) => {}
        }
    }
    out
}

/// Lines of shell blocks, prompts removed.
fn commands(text: &str) -> Vec<String> {
    let shells = ["sh", "bash", "shell", "console"];
    let of = |(_, body): (&str, String)| {
        let lines = body.lines().map(|l| l.trim().trim_start_matches("$ ").to_owned());
        lines.collect::<Vec<_>>()
    };
    blocks(text).into_iter().filter(|(l, _)| shells.contains(l)).flat_map(of).collect()
}

/// The environment that a shown command needs.
#[derive(Debug, PartialEq, Eq)]
enum CommandKind {
    /// Cargo builds and runs the command; `tests/operator/demo.rs` covers the demo.
    ByCargo,
    /// A sidecar that serves until it is stopped.
    ForEver,
    /// A sidecar that serves in front of a cluster.
    InFront,
    /// A command that asks a running sidecar.
    OfARunningOne,
    /// A command that needs only files.
    OfFiles,
}

/// Comments and empty lines are `None`; an unknown command is an error.
fn sort(line: &str) -> Result<Option<CommandKind>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [] | ["#", ..] => Ok(None),
        ["cargo", "test"] | ["cargo", "run", "--", "demo"] => Ok(Some(CommandKind::ByCargo)),
        ["cargo", "install", "--path", ".", "--locked", "--profile", "dist"] => {
            Ok(Some(CommandKind::ByCargo))
        }
        ["reprise", "serve"] => Ok(Some(CommandKind::ForEver)),
        ["reprise", "serve", "--upstream", _] => Ok(Some(CommandKind::InFront)),
        ["reprise", "dlq" | "retry" | "group", ..] => Ok(Some(CommandKind::OfARunningOne)),
        ["reprise", "config" | "check" | "log", ..] => Ok(Some(CommandKind::OfFiles)),
        _ => Err(format!("a command is shown that this test cannot try: {line}")),
    }
}

/// Runs a line as a reader does, with `reprise` on the path.
fn shell(line: &str, dir: &Path) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_reprise"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", binary.parent().unwrap().display());
    Command::new("sh").args(["-ec", line]).env("PATH", path).current_dir(dir).output().unwrap()
}

fn assert_works(line: &str, dir: &Path) {
    let output = shell(line, dir);
    let (out, err) = (&output.stdout, &output.stderr);
    assert!(
        output.status.success(),
        "{line}\n{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    );
}

/// Fills group `shop` with one dead letter and one waiting record.
fn fill(bootstrap: &str) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    for (offset, level) in [(0, "-1"), (1, "18")] {
        let headers = OwnedHeaders::new()
            .insert(Header { key: "x-retry-origin", value: Some(&format!("orders-0@{offset}")) })
            .insert(Header { key: "x-retry-level", value: Some(level) });
        let record = BaseRecord::to("reprise.retry.shop").key("k").payload("v").headers(headers);
        producer.send(record).unwrap();
    }
    producer.flush(Duration::from_secs(30)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_it_shows_works() {
    let lines = commands(&pages());
    for must in ["cargo run -- demo", "cargo test"] {
        assert!(lines.iter().any(|line| line == must), "{must} is not among {lines:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("reprise-data").display().to_string();
    let text = format!(
        "listen: [{{ address: '127.0.0.1:0' }}]\nadmin: {{ address: '127.0.0.1:0' }}\n\
         data_dir: {data}\njournal: {{ ephemeral: accept }}\n"
    );
    let config = Config::parse("test", &text, &[], &[]).unwrap().config;
    let server = Server::start(config).await.unwrap();
    fill(&server.kafka_addr().to_string());
    let admin = server.admin_addr().unwrap();
    let sorted: Vec<(&String, CommandKind)> =
        lines.iter().filter_map(|line| Some((line, sort(line).unwrap()?))).collect();
    let of =
        |kind: CommandKind| sorted.iter().filter(move |(_, k)| *k == kind).map(|(line, _)| *line);
    assert!(of(CommandKind::OfARunningOne).count() > 0 && of(CommandKind::OfFiles).count() > 0);
    for line in of(CommandKind::OfARunningOne) {
        assert_works(&format!("{line} --admin {admin}"), dir.path());
    }
    server.shutdown().await;
    for line in of(CommandKind::OfFiles) {
        assert_works(line, dir.path());
    }
}

/// A sidecar by itself that plays the cluster.
async fn cluster(dir: &Path) -> Server {
    let text = format!(
        "listen: [{{ address: '127.0.0.1:0' }}]\nadmin: {{ address: off }}\n\
         data_dir: {}\njournal: {{ ephemeral: accept }}\n\
         names: {{ retry: 'not-here.{{group}}', dead_letters: 'nor-here.{{group}}' }}\n\
         retry: {{ delivery: off }}\n",
        dir.join("cluster").display()
    );
    Server::start(Config::parse("test", &text, &[], &[]).unwrap().config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_application_changes_only_its_address() {
    let lines = commands(&readme());
    let line = lines.iter().find(|line| sort(line) == Ok(Some(CommandKind::InFront))).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster(dir.path()).await;
    // The named brokers do not exist, so the command gets the address of the test's cluster.
    let (command, _) = line.rsplit_once(' ').unwrap();
    let line = format!("{command} {}", cluster.kafka_addr())
        + " --set listen='[{address: \"127.0.0.1:0\"}]' --set admin.address=127.0.0.1:0"
        + " --set journal.ephemeral=accept --ready-file ready";
    let binary = Path::new(env!("CARGO_BIN_EXE_reprise")).parent().unwrap().to_owned();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut sidecar = Command::new("sh")
        .args(["-ec", &format!("exec {line}")])
        .env("PATH", path)
        .current_dir(dir.path())
        .spawn()
        .unwrap();
    let ready = dir.path().join("ready");
    let told = tokio::task::spawn_blocking(move || {
        while !std::fs::read_to_string(&ready).is_ok_and(|told| !told.is_empty()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::read_to_string(&ready).unwrap()
    });
    let told = tokio::time::timeout(Duration::from_secs(20), told).await.unwrap().unwrap();
    let address = told.split_whitespace().next().unwrap().to_owned();
    let sent = tokio::task::spawn_blocking(move || {
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", &address).create().unwrap();
        producer.send(BaseRecord::to("orders").key("k").payload("v")).unwrap();
        producer.flush(Duration::from_secs(30)).unwrap();
        fill(&address);
    });
    sent.await.unwrap();
    let address = cluster.kafka_addr().to_string();
    let held = tokio::task::spawn_blocking(move || {
        let asks: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", &address).create().unwrap();
        ["orders", "reprise.retry.shop"].map(|topic| {
            let told = asks.fetch_metadata(Some(topic), Duration::from_secs(30)).unwrap();
            let partitions = told.topics()[0].partitions().iter().map(MetadataPartition::id);
            let end = |id| asks.fetch_watermarks(topic, id, Duration::from_secs(30)).unwrap().1;
            partitions.map(end).sum::<i64>()
        })
    });
    assert_eq!(held.await.unwrap(), [1, 0], "the record is in the cluster, the nacks are not");
    sidecar.kill().unwrap();
    sidecar.wait().unwrap();
    cluster.shutdown().await;
}

#[test]
fn every_example_it_runs_is_there() {
    let text = pages();
    for line in commands(&text) {
        let mut words = line.split_whitespace();
        if words.any(|word| word == "--example") {
            let example = words.next().unwrap();
            let places = [format!("examples/{example}.rs"), format!("examples/{example}/main.rs")];
            assert!(places.iter().any(|place| root().join(place).is_file()), "{line}");
        }
    }
}

#[test]
fn every_configuration_it_shows_is_valid() {
    let policies = std::fs::read_to_string(root().join("docs/policies.md")).unwrap();
    for (language, body) in blocks(&(pages() + &policies)) {
        let kubernetes = body.contains("apiVersion:") || body.contains("containers:");
        if ["yaml", "yml"].contains(&language) && !kubernetes {
            Config::parse("README.md", &body, &[], &[]).unwrap();
        }
    }
}

#[test]
fn every_link_into_the_repository_leads_somewhere() {
    let text = readme();
    for rest in text.split("](").skip(1) {
        let target = rest.split([')', '#', ' ']).next().unwrap_or("");
        if !target.is_empty() && !target.contains("://") {
            assert!(root().join(Path::new(target)).exists(), "README.md links to {target}");
        }
    }
}

#[test]
fn the_commands_of_a_block_are_recognised() {
    let text = "```sh\n$ cargo run -- demo\nreprise dlq list\n```\n";
    let found: Vec<_> = commands(text).iter().map(|line| sort(line)).collect();
    assert_eq!(found, [Ok(Some(CommandKind::ByCargo)), Ok(Some(CommandKind::OfARunningOne))]);
    assert!(sort("rm -r reprise-data").is_err());
}
