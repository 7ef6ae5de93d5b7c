//! The client libraries: the source of each program, and the features that a library lacks.

#[path = "../../../support/example.rs"]
mod example;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Output;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::rig::runtimes::{self, Built};

/// A client library and the program of `tests/clients` that uses it.
#[derive(Debug)]
pub(crate) struct Library {
    /// Name in the tables.
    pub(crate) title: &'static str,
    pub(crate) source: Source,
    /// Settings of every client that shorten its waits to the times of the scenarios.
    pub(crate) paced: &'static [&'static str],
    /// Settings with which a client keeps its metadata while no broker answers.
    pub(crate) steadfast: &'static [&'static str],
    /// Settings with which a client looks for new partitions and topics all the time.
    pub(crate) curious: &'static [&'static str],
    pub(crate) traits: &'static [Trait],
    /// Groups of scenarios (list.rs) that the library cannot play, each with a reason for the
    /// table.
    pub(crate) cannot: &'static [(&'static str, &'static str)],
}

/// A property of a library that scenarios have to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trait {
    /// The library keeps the order of headers only among those of one name.
    HeadersByName,
    /// The library fetches each partition on a connection of its own.
    FetchesEach,
    /// A member that loses its coordinator for a moment joins the group again.
    JoinsAnew,
    /// A member that loses its coordinator may join the group again. While no broker listens, the
    /// library tries one address after the other for its coordinator. Two of its requests can
    /// alternate so that one gets the same address twice in a row. The library then gives up its
    /// session.
    MayJoinAnew,
    /// A commit that is tried again names the member's newest generation, and so also partitions
    /// that the member has lost. Their next owner may have read the older offset before.
    CommitsLostPartitions,
    /// A leader joins a second time when its first metadata arrives during its join; all members
    /// see that rebalance.
    MayJoinTwice,
    /// A consumer that disconnects may end its process with SIGSEGV, once in some thousand times
    /// (confluentinc/confluent-kafka-javascript#34).
    MayCrashAtClose,
    /// After the death of a coordinator its main thread may stop for ever, once in some hundred
    /// times: no heartbeat is sent, and the next call that needs this thread never returns. No
    /// other member notices more than a lost session.
    MayStopForever,
}

/// Source of the program, below `tests/clients`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// An example of this crate.
    Example,
    /// A Maven project, its library, and a class.
    Java(&'static str, &'static str, &'static str),
    /// The Go module, its library, and a main package.
    Go(&'static str, &'static str, &'static str),
    /// An npm project, its package, and a module.
    Node(&'static str, &'static str, &'static str),
    /// A folder, its package, its requirements, and a script.
    Python(&'static str, &'static str, &'static str, &'static str),
}

pub(crate) static JAVA: Library = Library {
    // By default the client returns to its bootstrap addresses once all others have failed
    // (KIP-899). It then knows no topic, and the leader of a group starts a rebalance.
    steadfast: &["metadata.recovery.strategy=none"],
    curious: &["metadata.max.age.ms=300"],
    ..Library::of("Java client", Source::Java("java", "kafka-clients", "Client"))
};

pub(crate) static LIBRDKAFKA: Library = Library {
    // The default backoff doubles with each try, up to 10 s.
    paced: &["reconnect.backoff.max.ms=1000"],
    curious: &["topic.metadata.refresh.interval.ms=300", "metadata.max.age.ms=900"],
    traits: &[Trait::MayStopForever],
    ..Library::of("librdkafka", Source::Example)
};

pub(crate) static CONFLUENT_KAFKA: Library = Library {
    paced: LIBRDKAFKA.paced,
    curious: LIBRDKAFKA.curious,
    ..Library::of(
        "confluent-kafka (librdkafka)",
        Source::Python("python", "confluent-kafka", "confluent-kafka.txt", "of_confluent_kafka.py"),
    )
};

pub(crate) static CONFLUENT_JAVASCRIPT: Library = Library {
    paced: LIBRDKAFKA.paced,
    curious: LIBRDKAFKA.curious,
    traits: &[Trait::MayCrashAtClose],
    ..Library::of(
        "@confluentinc/kafka-javascript (librdkafka)",
        Source::Node("confluent-javascript", "@confluentinc/kafka-javascript", "client.mjs"),
    )
};

pub(crate) static FRANZ_GO: Library = Library {
    traits: &[Trait::MayJoinAnew],
    cannot: &[(
        "seeks",
        "`SetOffsets` cuts the connection on which a Fetch waits: what comes then could also ask \
         again for an answer that was lost",
    )],
    ..Library::of("franz-go", Source::Go("go", "github.com/twmb/franz-go", "franz-go"))
};

pub(crate) static SARAMA: Library = Library {
    traits: &[Trait::JoinsAnew],
    cannot: &[(
        "seeks",
        "its group sessions cannot go back: a handler that fails ends the session",
    )],
    ..Library::of("sarama", Source::Go("go", "github.com/IBM/sarama", "sarama"))
};

pub(crate) static KAFKA_GO: Library = Library {
    traits: &[Trait::FetchesEach, Trait::JoinsAnew],
    cannot: &[
        ("metadata", "`CommitMessages` has none"),
        ("seeks", "a `Reader` with a group refuses `SetOffset`"),
        ("static_member", "it has no `group.instance.id`"),
    ],
    ..Library::of("kafka-go", Source::Go("go", "github.com/segmentio/kafka-go", "kafka-go"))
};

pub(crate) static KAFKAJS: Library = Library {
    traits: &[Trait::HeadersByName, Trait::JoinsAnew],
    cannot: &[("static_member", "it has no `group.instance.id`")],
    ..Library::of("kafkajs", Source::Node("kafkajs", "kafkajs", "client.mjs"))
};

const TWO_ADDRESSES: &str = "it may fetch through another client address than it joined by, and \
                             such a Fetch is unattributed";

pub(crate) static KAFKA_PYTHON: Library = Library {
    traits: &[Trait::MayJoinTwice],
    ..Library::of(
        "kafka-python",
        Source::Python("python", "kafka-python", "kafka-python.txt", "of_kafka_python.py"),
    )
};

pub(crate) static KAFKA_PYTHON_2: Library = Library {
    cannot: &[
        ("static_member", "it has no `group.instance.id`"),
        ("ordered", TWO_ADDRESSES),
        ("crashes", TWO_ADDRESSES),
        ("seeks", TWO_ADDRESSES),
    ],
    ..Library::of(
        "kafka-python",
        Source::Python("python", "kafka-python", "kafka-python-2.0.2.txt", "of_kafka_python.py"),
    )
};

pub(crate) static AIOKAFKA: Library = Library {
    traits: &[Trait::CommitsLostPartitions],
    ..Library::of(
        "aiokafka",
        Source::Python("python", "aiokafka", "aiokafka.txt", "of_aiokafka.py"),
    )
};

impl Library {
    /// A library without settings, traits or exceptions.
    const fn of(title: &'static str, source: Source) -> Self {
        Self { title, source, paced: &[], steadfast: &[], curious: &[], traits: &[], cannot: &[] }
    }

    /// Builds the program on first use.
    pub(crate) fn built(&self) -> &'static Built {
        static BUILT: Mutex<BTreeMap<String, &'static OnceLock<Built>>> =
            Mutex::new(BTreeMap::new());
        let build = || match self.source {
            Source::Example => librdkafka(),
            Source::Java(project, library, class) => runtimes::java(project, library, class),
            Source::Go(project, library, package) => runtimes::go(project, library, package),
            Source::Node(project, package, module) => runtimes::node(project, package, module),
            Source::Python(project, package, requirements, script) => {
                runtimes::python(project, package, requirements, script)
            }
        };
        let key = format!("{:?}", self.source);
        let mut known = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        let place = *known.entry(key).or_insert_with(|| Box::leak(Box::default()));
        // Other programs stay usable while this one is built.
        drop(known);
        place.get_or_init(build)
    }

    pub(crate) fn has(&self, known: Trait) -> bool {
        self.traits.contains(&known)
    }

    pub(crate) fn is_java(&self) -> bool {
        matches!(self.source, Source::Java(..))
    }
}

/// Builds an example with the features of this build, and returns cargo's output and the path.
/// Takes a moment where `cargo test` has just built it.
pub(crate) fn built_example(name: &str) -> (Output, PathBuf) {
    let tls = ["--features", "librdkafka-tls"];
    let options: &[&str] = if cfg!(feature = "librdkafka-tls") { &tls } else { &[] };
    example::built(name, env!("CARGO_BIN_EXE_reprise"), options)
}

fn librdkafka() -> Built {
    let (built, program) = built_example("librdkafka-client");
    runtimes::must_succeed(&built, "the librdkafka client");
    Built { command: vec![program.into()], version: rdkafka::util::get_rdkafka_version().1 }
}
