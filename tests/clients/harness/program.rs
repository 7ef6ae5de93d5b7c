//! Which client programs there are, and how each is built and started.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// One client library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `tests/clients/librdkafka`, an example of this crate.
    Librdkafka,
    /// The same with `group.protocol=consumer` (KIP-848).
    Librdkafka848,
    /// `tests/clients/java`, a Maven project.
    Java,
    /// The same with `group.protocol=consumer`.
    Java848,
}

impl Program {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Librdkafka => "librdkafka",
            Self::Librdkafka848 => "librdkafka-848",
            Self::Java => "java",
            Self::Java848 => "java-848",
        }
    }

    /// `group.protocol`.
    pub(crate) fn protocol(self) -> &'static str {
        match self {
            Self::Librdkafka | Self::Java => "classic",
            Self::Librdkafka848 | Self::Java848 => "consumer",
        }
    }

    /// The same library with the other `group.protocol`.
    pub(crate) fn by_other_protocol(self) -> Self {
        match self {
            Self::Librdkafka => Self::Librdkafka848,
            Self::Librdkafka848 => Self::Librdkafka,
            Self::Java => Self::Java848,
            Self::Java848 => Self::Java,
        }
    }

    pub(crate) fn is_java(self) -> bool {
        matches!(self, Self::Java | Self::Java848)
    }

    /// Settings of a client that looks for new partitions and topics all the time.
    pub(crate) fn curious(self) -> Vec<String> {
        let java = ["metadata.max.age.ms=300"];
        let librdkafka = ["topic.metadata.refresh.interval.ms=300", "metadata.max.age.ms=900"];
        let settings = if self.is_java() { &java[..] } else { &librdkafka[..] };
        settings.iter().map(|setting| (*setting).to_owned()).collect()
    }

    /// The command that starts it, built on first use.
    pub(crate) fn command(self) -> Command {
        static LIBRDKAFKA: OnceLock<PathBuf> = OnceLock::new();
        static JAVA: OnceLock<PathBuf> = OnceLock::new();
        match self {
            Self::Librdkafka | Self::Librdkafka848 => {
                Command::new(LIBRDKAFKA.get_or_init(build_librdkafka))
            }
            Self::Java | Self::Java848 => java(JAVA.get_or_init(|| maven("java")), "Client"),
        }
    }
}

/// A moment when `cargo test` just did.
fn build_librdkafka() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_reprise"));
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--example", "librdkafka-client"]);
    if cfg!(feature = "librdkafka-tls") {
        build.args(["--features", "librdkafka-tls"]);
    }
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    must_succeed(&build.output().unwrap(), "the librdkafka client");
    binary.parent().unwrap().join("examples").join("librdkafka-client")
}

/// The application of Kafka Streams, `tests/clients/streams`.
pub(crate) fn streams() -> Command {
    static STREAMS: OnceLock<PathBuf> = OnceLock::new();
    java(STREAMS.get_or_init(|| maven("streams")), "Counts")
}

/// Classes and libraries of a project below `tests/clients`.
pub(crate) fn maven(project: &str) -> PathBuf {
    built(project, |project, out| {
        // A library of another version must not stay beside the new one.
        for left in ["classes", "lib"] {
            let _ = std::fs::remove_dir_all(out.join(left));
        }
        let built = Command::new("mvn")
            .args(["--quiet", "--batch-mode", "--file"])
            .arg(project.join("pom.xml"))
            .arg(option("-Dmaven.repo.local=", &cache().join("m2")))
            .arg(option("-Dout=", out))
            .arg("compile")
            .output();
        let built = built.unwrap_or_else(|error| panic!("Java clients need Maven (mvn): {error}"));
        must_succeed(&built, "the Java client");
    })
}

/// What is built of a project below `tests/clients` goes to the cache, to a folder of its own; the
/// repository stays clean. What was built from the same files is not built again.
pub(crate) fn built(project: &str, build: impl FnOnce(&Path, &Path)) -> PathBuf {
    let out = cache().join(format!("{}-client", project.replace('/', "-")));
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(project);
    std::fs::create_dir_all(&out).unwrap();
    // Two test runs at once must not build into one folder.
    let lock = File::create(out.join("lock")).unwrap();
    lock.lock().unwrap();
    let (stamp, sources) = (out.join("built"), sources(&project));
    if std::fs::read_to_string(&stamp).is_ok_and(|built| built == sources) {
        return out;
    }
    build(&project, &out);
    std::fs::write(stamp, sources).unwrap();
    out
}

/// The text of every file below a folder, in the order of their names.
fn sources(dir: &Path) -> String {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let text = |path: &PathBuf| {
        let text =
            if path.is_dir() { sources(path) } else { std::fs::read_to_string(path).unwrap() };
        format!("{}\n{text}\n", path.display())
    };
    paths.iter().map(text).collect()
}

/// A build that did not is told with what it said.
pub(crate) fn must_succeed(built: &Output, what: &str) {
    let said = [&built.stdout[..], &built.stderr[..]].concat();
    assert!(built.status.success(), "{what} is not built:\n{}", String::from_utf8_lossy(&said));
}

/// A main class of what Maven built.
pub(crate) fn java(out: &Path, class: &str) -> Command {
    let mut paths = out.join("classes").into_os_string();
    paths.push(":");
    paths.push(out.join("lib").join("*"));
    let mut command = Command::new("java");
    command.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=info");
    command.arg("-Dorg.slf4j.simpleLogger.showDateTime=true");
    command.arg("-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS");
    command.arg("-cp").arg(paths).arg(format!("reprise.{class}"));
    command
}

fn option(name: &str, path: &Path) -> OsString {
    let mut text = OsString::from(name);
    text.push(path);
    text
}

/// Downloads and builds that outlive `cargo clean`.
pub(crate) fn cache() -> PathBuf {
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    own.unwrap_or_else(home).join("reprise")
}
