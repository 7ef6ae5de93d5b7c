//! Kafka Streams with exactly-once processing through the sidecar.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde::Deserialize;

use crate::client::Client;
use crate::judge::PATIENCE;
use crate::order::hex;
use crate::program::{self, Program};
use crate::sidecar::PARTITIONS;
use crate::stage::{LONG_SESSION, Stage};
use crate::wait::until;

const SAID_MAX: Duration = Duration::from_mins(1);

/// A line of the application.
#[derive(Debug, Deserialize)]
struct Said {
    event: String,
    text: String,
}

/// The application `tests/clients/streams`, counting words.
struct Counts {
    child: Child,
    lines: Receiver<String>,
}

impl Counts {
    /// Of these topics; its application id is the scene's group.
    fn start(stage: &Stage, name: &str, inputs: &str, settings: &[&str]) -> Self {
        let log = File::create(stage.dir.join(format!("{name}.log"))).unwrap();
        let kept = stage.dir.join(format!("{name}.state")).display().to_string();
        let output = output(stage);
        let mut child = program::streams()
            .args([&stage.sidecar.address(), &stage.scene.group, inputs, &output, &kept])
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (line, lines) = channel();
        std::thread::spawn(move || {
            for text in stdout.lines().map_while(Result::ok) {
                if line.send(text).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Reads until it says this; what came before is passed over.
    fn says(&self, event: &str, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(SAID_MAX);
            let line = line.unwrap_or_else(|_| panic!("it does not say {event} {text}"));
            let said: Said = serde_json::from_str(&line).unwrap();
            if said.event == event && said.text.contains(text) {
                return said.text;
            }
            assert!(said.event != "died", "{}", said.text);
        }
    }

    fn close(mut self) {
        writeln!(self.child.stdin.as_ref().unwrap()).unwrap();
        self.says("state", "CLOSED");
        self.child.wait().unwrap();
    }

    /// SIGKILL.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn output(stage: &Stage) -> String {
    stage.scene.other_group("counts")
}

#[test]
fn an_application_counts_exactly_once_and_is_not_touched() {
    counts_exactly_once("classic", &[]);
}

#[test]
fn an_application_by_the_streams_protocol_counts_exactly_once() {
    counts_exactly_once("streams", &["group.protocol=streams"]);
}

fn counts_exactly_once(name: &str, settings: &[&str]) {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::new(Program::JAVA, &format!("streams-{name}"));
    stage.make_topic(&output(&stage), PARTITIONS);
    let mut p = stage.client("p", &stage.scene.other_group("producer"), LONG_SESSION);
    let short = ["consumer.session.timeout.ms=2000", "consumer.heartbeat.interval.ms=500"];
    let settings = if settings.is_empty() { &short[..] } else { settings };
    let first = Counts::start(&stage, "first", &stage.scene.topic, settings);
    first.says("state", "RUNNING");
    produce(&stage, &mut p, 40);
    let read = ["consumer.isolation.level=read_committed".to_owned()];
    let readers = stage.scene.other_group("reader");
    let who = ("reader", readers.as_str(), LONG_SESSION);
    let mut reader = stage.client_at(&stage.sidecar.address(), who, &read);
    reader.run(&format!("subscribe {}", output(&stage)));
    let mut counted = BTreeMap::new();
    read_counts(&mut reader, &mut counted, 40);
    // It dies, and another one goes on where its transactions ended.
    produce(&stage, &mut p, 40);
    first.kill();
    let second = Counts::start(&stage, "second", &stage.scene.topic, settings);
    second.says("state", "RUNNING");
    produce(&stage, &mut p, 40);
    read_counts(&mut reader, &mut counted, 120);
    let extra = reader.poll(Duration::from_millis(300));
    assert!(extra.is_empty(), "counted one time too many: {extra:?}");
    second.close();
    reader.close();
    p.close();
}

/// Ten different words, over and over.
fn produce(stage: &Stage, p: &mut Client, count: i32) {
    for n in 0..count {
        let (topic, word) = (&stage.scene.topic, hex(&format!("word-{}", n % 10)));
        p.run(&format!("produce {n} none {topic} {} {word} {word}", n % PARTITIONS));
    }
    assert!(p.flush().iter().all(|(_, fate)| fate.is_ok()));
}

/// Each word's counts rise one by one; until all words together were counted `total` times.
fn read_counts(reader: &mut Client, counted: &mut BTreeMap<String, u64>, total: u64) {
    until(PATIENCE, "everything is counted", || {
        for record in reader.poll(Duration::from_millis(200)) {
            let word = record.key.expect("a word");
            let before = counted.entry(word.clone()).or_default();
            *before += 1;
            let said = record.value.expect("a count");
            assert!(said.ends_with(&hex(&format!("={before}"))), "{word}: {said} is not {before}");
        }
        counted.values().sum::<u64>() >= total
    });
    assert_eq!(counted.values().sum::<u64>(), total);
}

#[test]
fn an_application_that_subscribes_to_a_retry_topic_is_refused_and_the_log_says_why() {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::new(Program::JAVA, "streams-refused");
    stage.make_topic(&output(&stage), PARTITIONS);
    let inputs = format!("{},{}", stage.scene.topic, stage.scene.retry_topic());
    let refused = Counts::start(&stage, "refused", &inputs, &[]);
    let cause = refused.says("died", "");
    assert!(cause.contains("InconsistentGroupProtocol"), "{cause}");
    let log = stage.sidecar.log();
    assert!(log.contains("Kafka Streams") && log.contains(&stage.scene.group), "{log}");
}
