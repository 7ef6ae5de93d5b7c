//! A Kafka Streams application as a process, and the scenario that needs no real cluster.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde::Deserialize;

use crate::judge::PATIENCE;
use crate::order::hex;
use crate::rig::client::Client;
use crate::rig::program::{self, Program};
use crate::rig::sidecar::PARTITIONS;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::rig::wait::until;

const SAID_MAX: Duration = Duration::from_mins(1);

#[derive(Debug, Deserialize)]
struct StreamsEvent {
    event: String,
    text: String,
}

/// The application `tests/clients/streams`, which counts words.
pub(crate) struct Counts {
    child: Child,
    lines: Receiver<String>,
}

impl Counts {
    /// Starts the application on these topics; its application id is the scene's group.
    pub(crate) fn start(stage: &Stage, name: &str, inputs: &str, settings: &[&str]) -> Self {
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

    /// Reads up to the line with this event and text, and skips the lines before it.
    pub(crate) fn says(&self, event: &str, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(SAID_MAX);
            let line = line.unwrap_or_else(|_| panic!("it does not say {event} {text}"));
            let said: StreamsEvent = serde_json::from_str(&line).unwrap();
            if said.event == event && said.text.contains(text) {
                return said.text;
            }
            assert!(said.event != "died", "{}", said.text);
        }
    }

    pub(crate) fn close(mut self) {
        writeln!(self.child.stdin.as_ref().unwrap()).unwrap();
        self.says("state", "CLOSED");
        self.child.wait().unwrap();
    }

    pub(crate) fn kill(mut self) {
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

pub(crate) fn output(stage: &Stage) -> String {
    stage.scene.other_group("counts")
}

/// Produces ten different words in turn.
pub(crate) fn produce(stage: &Stage, p: &mut Client, count: i32) {
    for n in 0..count {
        let (topic, word) = (&stage.scene.topic, hex(&format!("word-{}", n % 10)));
        p.run(&format!("produce {n} none {topic} {} {word} {word}", n % PARTITIONS));
    }
    assert!(p.flush().iter().all(|(_, fate)| fate.is_ok()));
}

/// Output is written exactly once, also when the application dies in between.
#[test]
fn an_application_without_state_writes_each_record_once() {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::new(Program::JAVA, "streams-stateless");
    stage.make_topic(&output(&stage), PARTITIONS);
    let mut p = stage.client("p", &stage.scene.other_group("producer"), LONG_SESSION);
    let settings = [
        "stateless=true",
        "consumer.session.timeout.ms=2000",
        "consumer.heartbeat.interval.ms=500",
    ];
    let first = Counts::start(&stage, "first", &stage.scene.topic, &settings);
    first.says("state", "RUNNING");
    produce(&stage, &mut p, 40);
    let read = ["consumer.isolation.level=read_committed".to_owned()];
    let readers = stage.scene.other_group("reader");
    let who = ("reader", readers.as_str(), LONG_SESSION);
    let mut reader = stage.client_at(&stage.sidecar.address(), who, &read);
    reader.run(&format!("subscribe {}", output(&stage)));
    let mut written: BTreeMap<String, usize> = BTreeMap::new();
    let mut read_until = |reader: &mut Client, total: usize| {
        until(PATIENCE, "everything is written", || {
            for record in reader.poll(Duration::from_millis(200)) {
                *written.entry(record.value.expect("a word")).or_default() += 1;
            }
            written.values().sum::<usize>() >= total
        });
        let each = |n: u32| (hex(&format!("word-{n}=")), total / 10);
        assert_eq!(written, (0..10).map(each).collect());
    };
    read_until(&mut reader, 40);
    produce(&stage, &mut p, 40);
    first.kill();
    let second = Counts::start(&stage, "second", &stage.scene.topic, &settings);
    second.says("state", "RUNNING");
    produce(&stage, &mut p, 40);
    read_until(&mut reader, 120);
    let extra = reader.poll(Duration::from_millis(300));
    assert!(extra.is_empty(), "written one time too many: {extra:?}");
    second.close();
    reader.close();
    p.close();
}
