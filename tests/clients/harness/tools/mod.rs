//! Tests with command-line tools against the sidecar.
//!
//! Each tool of Kafka is a JVM that takes a second or two. A test calls its tools in turn; tests
//! run beside each other.

mod groups;
mod kaf;
mod kcat;
mod ours;
mod python;
mod records;
mod topics;
mod traffic;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

pub(crate) use crate::kcat::printing::{ProgramOutput, Running, said};
use crate::rig::runtimes::jvm;
use crate::rig::sidecar::{CONSUMER_SESSION, Sidecar};
use crate::rig::stage::empty_dir;

/// Tools need more memory than a client, and log less.
const TOOLS: [&str; 2] = ["-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"];

pub(crate) const TOPICS: &str = "TopicCommand";
pub(crate) const CONFIGS: &str = "kafka.admin.ConfigCommand";
pub(crate) const GROUPS: &str = "consumer.group.ConsumerGroupCommand";
pub(crate) const OFFSETS: &str = "GetOffsetShell";
pub(crate) const CONSOLE_PRODUCER: &str = "ConsoleProducer";
pub(crate) const CONSOLE_CONSUMER: &str = "consumer.ConsoleConsumer";

/// Builds every tool that is not a package of the machine.
pub(crate) fn build_all() {
    let _ = kaf::built();
    let _ = tool(TOPICS);
}

/// A sidecar without a cluster, with an empty directory.
pub(crate) struct House {
    pub(crate) sidecar: Sidecar,
    pub(crate) dir: PathBuf,
}

impl House {
    pub(crate) fn new(name: &str) -> Self {
        let dir = empty_dir("tools", name);
        let rules = "retry: {levels: 100ms}\n";
        let sidecar = Sidecar::by_rules(&dir, None, CONSUMER_SESSION, rules);
        Self { sidecar, dir }
    }

    /// Runs a tool of Kafka with this input.
    pub(crate) fn given(&self, class: &str, args: &[&str], input: &str) -> ProgramOutput {
        let address = self.sidecar.address();
        said(tool(class).args(["--bootstrap-server", &address]).args(args), input)
    }

    /// Runs a tool of Kafka, which may fail.
    pub(crate) fn asked(&self, class: &str, args: &[&str]) -> ProgramOutput {
        self.given(class, args, "")
    }

    /// Output of a tool of Kafka, which must succeed.
    pub(crate) fn told(&self, class: &str, args: &[&str]) -> String {
        let said = self.asked(class, args);
        assert!(said.good, "{class} {args:?}: {said:?}");
        said.out
    }

    /// Produces lines of `key:value` to a topic.
    pub(crate) fn produce(&self, topic: &str, lines: &str) {
        let keyed = ["--reader-property", "parse.key=true", "--reader-property"];
        let args = [&["--topic", topic][..], &keyed, &["key.separator=:"]].concat();
        let said = self.given(CONSOLE_PRODUCER, &args, lines);
        assert!(said.good, "{said:?}");
    }

    /// Starts a tool that runs until it is stopped.
    pub(crate) fn start(&self, class: &str, args: &[&str]) -> Running {
        let address = self.sidecar.address();
        Running::of(tool(class).args(["--bootstrap-server", &address]).args(args))
    }

    /// Writes a file for a tool, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

/// Command of a tool of Kafka; tools of its package `tools` go by their short names.
pub(crate) fn tool(class: &str) -> Command {
    static CLASS_PATH: LazyLock<String> = LazyLock::new(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/real-kafka");
        let told = Command::new(script).arg("cp").output().unwrap();
        assert!(told.status.success(), "{told:?}");
        String::from_utf8(told.stdout).unwrap().trim().to_owned()
    });
    let in_full = class.starts_with("kafka.");
    let package = if in_full { "" } else { "org.apache.kafka.tools." };
    let jvm = jvm(Path::new(&CLASS_PATH.replace("libs/*", "tools.jsa")));
    let mut command = Command::new(&jvm[0]);
    command.args(&jvm[1..]).args(TOOLS).args(["-cp", &CLASS_PATH]).arg(format!("{package}{class}"));
    command
}

/// Words of each line of a table, without empty lines.
pub(crate) fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|words| !words.is_empty()).collect()
}
