//! What tools print when they are sent to the sidecar.
//!
//! Each of Kafka's is a JVM of its own, a second or two: a scenario calls them one after the other,
//! scenarios run beside each other.

mod groups;
mod kaf;
mod kcat;
mod ours;
mod python;
mod records;
mod topics;
mod traffic;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use crate::runtimes::jvm;
use crate::sidecar::{CONSUMER_SESSION, Sidecar};
use crate::stage::empty_dir;

/// Tools need more memory than a client, and log less.
const TOOLS: [&str; 2] = ["-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"];

pub(crate) const TOPICS: &str = "TopicCommand";
pub(crate) const CONFIGS: &str = "kafka.admin.ConfigCommand";
pub(crate) const GROUPS: &str = "consumer.group.ConsumerGroupCommand";
pub(crate) const OFFSETS: &str = "GetOffsetShell";
pub(crate) const CONSOLE_PRODUCER: &str = "ConsoleProducer";
pub(crate) const CONSOLE_CONSUMER: &str = "consumer.ConsoleConsumer";

/// A sidecar by itself, with an empty directory.
pub(crate) struct House {
    pub(crate) sidecar: Sidecar,
    pub(crate) dir: PathBuf,
}

/// What a tool has said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) good: bool,
}

/// A tool that goes on until it is told to stop.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl House {
    pub(crate) fn new(name: &str) -> Self {
        let dir = empty_dir("tools", name);
        let rules = "retry: {levels: 100ms}\n";
        let sidecar = Sidecar::by_rules(&dir, None, CONSUMER_SESSION, rules);
        Self { sidecar, dir }
    }

    /// What one of Kafka's tools says, when it is given that to read.
    pub(crate) fn given(&self, class: &str, args: &[&str], input: &str) -> Said {
        let address = self.sidecar.address();
        said(tool(class).args(["--bootstrap-server", &address]).args(args), input)
    }

    /// What one of Kafka's tools says, whether it liked the answer or not.
    pub(crate) fn asked(&self, class: &str, args: &[&str]) -> Said {
        self.given(class, args, "")
    }

    /// What one of Kafka's tools prints that is content with the answer.
    pub(crate) fn told(&self, class: &str, args: &[&str]) -> String {
        let said = self.asked(class, args);
        assert!(said.good, "{class} {args:?}: {said:?}");
        said.out
    }

    /// Lines of `key:value` for a topic.
    pub(crate) fn produce(&self, topic: &str, lines: &str) {
        let keyed = ["--reader-property", "parse.key=true", "--reader-property"];
        let args = [&["--topic", topic][..], &keyed, &["key.separator=:"]].concat();
        let said = self.given(CONSOLE_PRODUCER, &args, lines);
        assert!(said.good, "{said:?}");
    }

    /// Starts one that goes on.
    pub(crate) fn start(&self, class: &str, args: &[&str]) -> Running {
        let address = self.sidecar.address();
        Running::of(tool(class).args(["--bootstrap-server", &address]).args(args))
    }

    /// A file for a tool to read.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Said {
    /// Everything, whatever it was printed on.
    pub(crate) fn all(&self) -> String {
        format!("{}\n{}", self.out, self.err)
    }
}

impl Running {
    pub(crate) fn of(tool: &mut Command) -> Self {
        let mut child = tool.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads on until it prints a line with this in it.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended without {text}: {seen}");
            if line.contains(text) {
                return line;
            }
            seen += &line;
        }
    }

    /// SIGTERM, and until it has ended.
    pub(crate) fn stop(mut self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(asked.unwrap().success());
        // Nobody else reads what it still says.
        std::io::copy(&mut self.lines, &mut std::io::sink()).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only of one that a failed test has left is anything left to end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// One of Kafka's tools: those of its package `tools` by their short name.
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

/// What a command says that is given this to read.
pub(crate) fn said(command: &mut Command, input: &str) -> Said {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // One that has read enough may be gone before it has read all.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let told = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { out: text(&told.stdout), err: text(&told.stderr), good: told.status.success() }
}

/// The lines of a table, in words; without the empty ones.
pub(crate) fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|words| !words.is_empty()).collect()
}
