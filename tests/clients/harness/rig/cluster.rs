//! The real cluster behind the sidecar: administration, and starts and stops of its brokers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::metadata::MetadataPartition;
use rdkafka::types::RDKafkaErrorCode;

use crate::rig::wait::until;

/// Longest wait until a topic is deleted or a broker is back.
const PATIENCE: Duration = Duration::from_secs(30);
const ANSWER_MAX: Duration = Duration::from_secs(10);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Bootstrap address of the cluster for the sidecar; `None`: the sidecar works without a cluster.
pub(crate) fn bootstrap() -> Option<String> {
    variable("CLIENTS_UPSTREAM")
}

/// Kind of the cluster. Each kind has files of its own, so that runs do not mix.
pub(crate) fn place() -> String {
    variable("CLIENTS_PLACE").unwrap_or_else(|| "alone".to_owned())
}

/// Address of a listener of the cluster that needs no login.
pub(crate) fn back_door() -> String {
    variable("CLIENTS_BACK_DOOR").expect("tests/clients/run --upstream sets it")
}

/// Directory in which the brokers keep their data.
pub(crate) fn dir() -> String {
    variable("CLIENTS_KAFKA").expect("tests/clients/run --upstream sets it")
}

pub(crate) fn nodes() -> usize {
    variable("CLIENTS_NODES").expect("tests/clients/run --upstream sets it").parse().unwrap()
}

/// An administrator. Each method returns only when its change has been made.
pub(crate) struct Admin {
    client: AdminClient<DefaultClientContext>,
    runtime: tokio::runtime::Runtime,
}

impl Admin {
    /// Connects to the cluster itself, past the sidecar.
    pub(crate) fn direct() -> Self {
        Self::at(&back_door())
    }

    pub(crate) fn at(bootstrap: &str) -> Self {
        let client = ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { client, runtime }
    }

    /// Returns false while a topic by this name exists or is being deleted.
    fn makes(&self, topic: &str, partitions: i32) -> bool {
        // Brokers before 2.4 have no default replication factor.
        let replicas = variable("CLIENTS_NODES").map_or(1, |nodes| nodes.parse().unwrap());
        let topic = NewTopic::new(topic, partitions, TopicReplication::Fixed(replicas));
        let made = self.client.create_topics([&topic], &AdminOptions::new());
        match self.runtime.block_on(made).unwrap().remove(0) {
            Ok(_) => true,
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => false,
            Err((topic, error)) => panic!("{topic}: {error}"),
        }
    }

    pub(crate) fn make_topic(&self, topic: &str, partitions: i32) {
        assert!(self.makes(topic, partitions), "{topic} is there already");
        wait_for_leaders(topic);
    }

    pub(crate) fn add_partitions(&self, topic: &str, partitions: usize) {
        let grown = NewPartitions::new(topic, partitions);
        let made = self.client.create_partitions([&grown], &AdminOptions::new());
        self.runtime.block_on(made).unwrap().remove(0).unwrap();
    }

    /// Returns when every replica of every partition is in sync.
    pub(crate) fn wait_for_replicas(&self) {
        self.wait_for(None, "every replica is in sync", |partitions| {
            partitions.iter().all(|p| p.leader() >= 0 && p.isr().len() == p.replicas().len())
        });
    }

    /// Returns when `holds` is true for `topic`, or for every topic where `topic` is `None`.
    fn wait_for(&self, topic: Option<&str>, what: &str, holds: fn(&[MetadataPartition]) -> bool) {
        until(PATIENCE, what, || {
            let told = self.client.inner().fetch_metadata(topic, ANSWER_MAX);
            told.is_ok_and(|told| told.topics().iter().all(|topic| holds(topic.partitions())))
        });
    }

    /// Deletes a topic and creates one by the same name, when every broker has forgotten the old
    /// one: a broker that still knows it would pass for one that knows the new one.
    pub(crate) fn remake_topic(&self, topic: &str, partitions: i32) {
        let deleted = self.client.delete_topics(&[topic], &AdminOptions::new());
        self.runtime.block_on(deleted).unwrap().remove(0).unwrap();
        for broker in each_broker() {
            until(PATIENCE, "a broker forgets the topic", || !broker.lists(topic));
        }
        until(PATIENCE, "the topic is made again", || self.makes(topic, partitions));
        wait_for_leaders(topic);
    }

    /// Asks for all topics: a question that names one may create it.
    fn lists(&self, topic: &str) -> bool {
        let told = self.client.inner().fetch_metadata(None, ANSWER_MAX);
        told.map_or(true, |told| told.topics().iter().any(|listed| listed.name() == topic))
    }
}

/// Returns when every broker knows a leader of each partition. The controller acknowledges a new
/// topic before the brokers know it. A client that asks such a broker joins its group without the
/// topic.
fn wait_for_leaders(topic: &str) {
    for broker in each_broker() {
        broker.wait_for(Some(topic), "a broker knows the topic", |partitions| {
            !partitions.is_empty() && partitions.iter().all(|p| p.leader() >= 0)
        });
    }
}

/// One administrator for each broker of the cluster, none without a cluster. With one bootstrap
/// address, a client asks only that broker.
fn each_broker() -> Vec<Admin> {
    if bootstrap().is_none() {
        return Vec::new();
    }
    let first: SocketAddr = back_door().parse().unwrap();
    let ports = (first.port()..).take(nodes());
    ports.map(|port| Admin::at(&SocketAddr::new(first.ip(), port).to_string())).collect()
}

/// Runs `kill`, `stop` or `start` for one broker, and returns when the script has finished.
pub(crate) fn node(verb: &str, node: usize) {
    let done = script().args([verb, &node.to_string(), "--dir", &dir()]).status().unwrap();
    assert!(done.success(), "{verb} {node}");
}

/// Output of a command-line tool of Kafka, connected to the cluster itself.
pub(crate) fn asked(class: &str, args: &[&str]) -> String {
    let door = back_door();
    // The tool's own bound of five seconds is short beside other tests.
    let patience: &[&str] =
        if class.ends_with("ConsumerGroupCommand") { &["--timeout", "60000"] } else { &[] };
    tool(class, &[&["--bootstrap-server", door.as_str()], args, patience].concat())
}

/// Output of a command-line tool of Kafka.
pub(crate) fn tool(class: &str, args: &[&str]) -> String {
    let told = script().args(["tool", class]).args(args).output().unwrap();
    assert!(told.status.success(), "{class}: {told:?}");
    String::from_utf8(told.stdout).unwrap()
}

fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/real-kafka"))
}
