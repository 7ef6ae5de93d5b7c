//! The client programs: a library and its settings.

use std::process::Command;

use crate::rig::library::{self, Library, Source};
use crate::rig::runtimes::{self, Built};

/// Setting of the Java client with the class of an assignor.
macro_rules! assignor {
    ($name:literal) => {
        concat!("consumer.partition.assignment.strategy=org.apache.kafka.clients.consumer.", $name)
    };
}

/// One row of docs/clients.md.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Name in `tests/clients/run`.
    pub(crate) name: &'static str,
    pub(crate) library: &'static Library,
    /// Value of `group.protocol`: `classic` or `consumer`.
    pub(crate) protocol: &'static str,
    /// Text for the table: how the program differs from the library's defaults.
    pub(crate) setting: &'static str,
    /// Settings of each client.
    pub(crate) settings: &'static [&'static str],
    /// Groups of scenarios (list.rs) that the program plays, without those that its library cannot;
    /// empty: all.
    only: &'static [&'static str],
    /// Groups that the program cannot play with these settings, beside those that its library
    /// cannot.
    cannot: &'static [(&'static str, &'static str)],
}

/// Groups that depend on the assignor.
const SHARED: &[&str] = &["sharing", "restarts"];
/// Groups that depend on the assignor, or on a rebalance that revokes nothing.
const COOPERATIVE: &[&str] = &["sharing", "restarts", "ordered"];

impl Program {
    pub(crate) const JAVA: Self = Self::of("java", &library::JAVA);
    pub(crate) const JAVA_848: Self = Self::JAVA.by_kip_848("java-848");
    pub(crate) const JAVA_RANGE: Self =
        Self::JAVA.with("java-range", "`RangeAssignor`", &[assignor!("RangeAssignor")]);
    pub(crate) const JAVA_STICKY: Self =
        Self::JAVA.with("java-sticky", "`StickyAssignor`", &[assignor!("StickyAssignor")]);
    pub(crate) const JAVA_COOPERATIVE: Self = Self {
        only: COOPERATIVE,
        ..Self::JAVA.with(
            "java-cooperative",
            "`CooperativeStickyAssignor`",
            &[assignor!("CooperativeStickyAssignor")],
        )
    };
    pub(crate) const LIBRDKAFKA: Self = Self::of("librdkafka", &library::LIBRDKAFKA);
    pub(crate) const LIBRDKAFKA_848: Self = Self::LIBRDKAFKA.by_kip_848("librdkafka-848");
    pub(crate) const LIBRDKAFKA_COOPERATIVE: Self =
        Self::LIBRDKAFKA.by_cooperative_sticky("librdkafka-cooperative");
    pub(crate) const CONFLUENT_KAFKA: Self = Self::of("confluent-kafka", &library::CONFLUENT_KAFKA);
    pub(crate) const CONFLUENT_KAFKA_848: Self =
        Self::CONFLUENT_KAFKA.by_kip_848("confluent-kafka-848");
    pub(crate) const CONFLUENT_KAFKA_COOPERATIVE: Self =
        Self::CONFLUENT_KAFKA.by_cooperative_sticky("confluent-kafka-cooperative");
    pub(crate) const CONFLUENT_JAVASCRIPT: Self =
        Self::of("confluent-javascript", &library::CONFLUENT_JAVASCRIPT);
    pub(crate) const FRANZ_GO: Self = Self::of("franz-go", &library::FRANZ_GO);
    pub(crate) const FRANZ_GO_RANGE: Self =
        Self::FRANZ_GO.with("franz-go-range", "`RangeBalancer`", &["balancer=range"]);
    pub(crate) const FRANZ_GO_848: Self = Self {
        cannot: &[(
            "static_member",
            "by KIP-848 it leaves for a moment without saying its `group.instance.id`, which Kafka \
             refuses, too",
        )],
        ..Self::FRANZ_GO.by_kip_848("franz-go-848")
    };
    pub(crate) const SARAMA: Self = Self::of("sarama", &library::SARAMA);
    pub(crate) const KAFKA_GO: Self = Self::of("kafka-go", &library::KAFKA_GO);
    pub(crate) const KAFKAJS: Self = Self::of("kafkajs", &library::KAFKAJS);
    pub(crate) const KAFKA_PYTHON: Self = Self::of("kafka-python", &library::KAFKA_PYTHON);
    pub(crate) const KAFKA_PYTHON_2: Self = Self::of("kafka-python-2", &library::KAFKA_PYTHON_2);
    pub(crate) const AIOKAFKA: Self = Self::of("aiokafka", &library::AIOKAFKA);

    /// Every program, in the order of the table.
    pub(crate) const ALL: &[Self] = &[
        Self::JAVA,
        Self::JAVA_848,
        Self::JAVA_RANGE,
        Self::JAVA_STICKY,
        Self::JAVA_COOPERATIVE,
        Self::LIBRDKAFKA,
        Self::LIBRDKAFKA_848,
        Self::LIBRDKAFKA_COOPERATIVE,
        Self::CONFLUENT_KAFKA,
        Self::CONFLUENT_KAFKA_848,
        Self::CONFLUENT_KAFKA_COOPERATIVE,
        Self::CONFLUENT_JAVASCRIPT,
        Self::FRANZ_GO,
        Self::FRANZ_GO_848,
        Self::FRANZ_GO_RANGE,
        Self::SARAMA,
        Self::KAFKA_GO,
        Self::KAFKAJS,
        Self::KAFKA_PYTHON,
        Self::KAFKA_PYTHON_2,
        Self::AIOKAFKA,
    ];

    /// The library with its defaults.
    const fn of(name: &'static str, library: &'static Library) -> Self {
        Self {
            name,
            library,
            protocol: "classic",
            setting: "",
            settings: &[],
            only: &[],
            cannot: &[],
        }
    }

    /// Program of the same library with the other `group.protocol`.
    pub(crate) fn by_other_protocol(self) -> Self {
        let is_other = |other: &&Self| {
            other.library.title == self.library.title && other.protocol != self.protocol
        };
        *Self::ALL.iter().find(is_other).unwrap()
    }

    const fn by_kip_848(self, name: &'static str) -> Self {
        Self { name, protocol: "consumer", setting: "KIP-848", ..self }
    }

    /// Adds librdkafka's name of the cooperative assignor.
    const fn by_cooperative_sticky(self, name: &'static str) -> Self {
        let settings = &["consumer.partition.assignment.strategy=cooperative-sticky"];
        Self { only: COOPERATIVE, ..self.with(name, "`cooperative-sticky`", settings) }
    }

    const fn with(
        self,
        name: &'static str,
        setting: &'static str,
        settings: &'static [&'static str],
    ) -> Self {
        Self { name, setting, settings, only: SHARED, ..self }
    }

    /// Whether the program plays a group of scenarios.
    pub(crate) fn plays(self, group: &str) -> bool {
        let can = !self.cannot().any(|(cannot, _)| *cannot == group);
        can && (self.plays_all() || self.only.contains(&group))
    }

    /// Whether the program plays every group that it can.
    pub(crate) fn plays_all(self) -> bool {
        self.only.is_empty()
    }

    /// Groups of scenarios that the program cannot play, with reasons.
    pub(crate) fn cannot(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        self.library.cannot.iter().chain(self.cannot)
    }

    /// Settings of every client that shorten its waits.
    pub(crate) fn paced(self) -> Vec<String> {
        owned(self.library.paced)
    }

    /// Settings with which a client keeps its metadata while no broker answers.
    pub(crate) fn steadfast(self) -> Vec<String> {
        owned(self.library.steadfast)
    }

    /// Settings with which a client looks for new partitions and topics all the time.
    pub(crate) fn curious(self) -> Vec<String> {
        owned(self.library.curious)
    }

    /// Command that starts the program, built on first use.
    pub(crate) fn command(self) -> Command {
        self.library.built().command()
    }

    /// Version of the library.
    pub(crate) fn version(self) -> String {
        match self.library.source {
            Source::Example => rdkafka::util::get_rdkafka_version().1,
            _ => self.library.built().version.clone(),
        }
    }
}

/// Command of the Kafka Streams application, `tests/clients/streams`.
pub(crate) fn streams() -> Command {
    static STREAMS: std::sync::OnceLock<Built> = std::sync::OnceLock::new();
    STREAMS.get_or_init(|| runtimes::java("streams", "kafka-streams", "Counts")).command()
}

fn owned(settings: &[&str]) -> Vec<String> {
    settings.iter().map(|setting| (*setting).to_owned()).collect()
}
