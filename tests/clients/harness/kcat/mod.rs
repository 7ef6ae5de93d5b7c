//! Scenario with kcat as Debian packages it: an older librdkafka on a command line.

pub(crate) mod logging_in;
pub(crate) mod printing;
pub(crate) mod streams;

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::judge::PATIENCE;
use crate::kcat::printing::{ProgramOutput, Running, said};
use crate::rig::program::Program;
use crate::rig::sidecar::{PARTITIONS, RETRIES_MAX};
use crate::rig::stage::Stage;
use crate::rig::wait::until;

/// Output of kcat, which must succeed.
pub(crate) fn kcat(address: &str, args: &[&str], input: &str) -> String {
    let told = told(address, args, input);
    assert!(told.good, "{args:?}: {told:?}");
    told.out
}

fn told(address: &str, args: &[&str], input: &str) -> ProgramOutput {
    // kcat waits 5 s for metadata, too little for a cluster that makes topics on a busy machine.
    said(Command::new("kcat").args(["-b", address, "-m", "60"]).args(args), input)
}

#[test]
fn a_nacked_record_returns_until_it_is_a_dead_letter() {
    let _beside_others = crate::turn::beside_others();
    let stage = Stage::new(Program::LIBRDKAFKA, "kcat");
    let (address, scene) = (stage.sidecar.address(), &stage.scene);
    let (topic, retry, dlq) = (&scene.topic, scene.retry_topic(), scene.dead_letter_topic());
    let send = |to: &str, key: &str, value: &str, headers: &[String]| {
        let headers = headers.iter().flat_map(|header| ["-H", header]);
        let args: Vec<&str> = ["-P", "-t", to, "-k", key].into_iter().chain(headers).collect();
        kcat(&address, &args, value);
    };
    send(topic, "bad", "cannot be handled", &["trace=7".to_owned()]);

    let group = ["-b", &address, "-G", &scene.group, "-u", "-q", "-J"];
    // Auto-commit would also commit a record that the test is about to send back.
    let rules = ["-X", "enable.auto.commit=false", "-X", "auto.offset.reset=earliest"];
    let mut command = Command::new("kcat");
    let mut reading = Running::of(command.args(group).args(rules).args([topic, &retry]));
    let first = Got::of(&reading.line());
    assert_eq!((&first.topic, first.text.as_str()), (topic, "bad=cannot be handled"));
    assert!((0..i64::from(PARTITIONS)).contains(&first.partition), "{first:?}");
    assert_eq!(first.headers["trace"], "7");

    let mut last = first;
    for failures in 1..=RETRIES_MAX {
        send(&retry, "bad", "cannot be handled", &last.handed_back());
        send(topic, "good", &failures.to_string(), &[]);
        let mut came = [Got::of(&reading.line()), Got::of(&reading.line())];
        came.sort_by_key(|got| got.topic == retry);
        let [good, again] = came;
        assert_eq!((&good.topic, good.text), (topic, format!("good={failures}")));
        assert_eq!((&again.topic, again.text.as_str()), (&retry, "bad=cannot be handled"));
        assert_eq!(again.headers["RECONSUME_TIME"], failures.to_string());
        assert_eq!(again.headers["trace"], "7");
        last = again;
    }
    send(&retry, "bad", "cannot be handled", &last.handed_back());
    let read = ["-C", "-t", &dlq, "-o", "beginning", "-e", "-q", "-J"];
    let mut letters = Vec::new();
    until(PATIENCE, "the dead letter", || {
        let told = told(&address, &read, "");
        // A broker may not know yet that it leads the new topic, and kcat does not ask again.
        letters = told.out.lines().map(Got::of).collect::<Vec<Got>>();
        told.good && !letters.is_empty()
    });
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!(letter.text, "bad=cannot be handled");
    assert_eq!(letter.headers["RECONSUME_TIME"], (RETRIES_MAX + 1).to_string());
    reading.stop();
}

/// A record in kcat's JSON output.
#[derive(Debug)]
struct Got {
    topic: String,
    partition: i64,
    offset: i64,
    /// Key and value, joined by `=`.
    text: String,
    headers: BTreeMap<String, String>,
}

impl Got {
    fn of(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        // name, value, name, value …
        let headers = line["headers"].as_array().map_or(&[][..], Vec::as_slice).chunks(2);
        Self {
            topic: text(&line["topic"]),
            partition: line["partition"].as_i64().unwrap(),
            offset: line["offset"].as_i64().unwrap(),
            text: format!("{}={}", text(&line["key"]), text(&line["payload"])),
            headers: headers.map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        }
    }

    /// The record's headers and the header that names its origin.
    fn handed_back(&self) -> Vec<String> {
        let origin = format!("x-retry-origin={}-{}@{}", self.topic, self.partition, self.offset);
        let headers = self.headers.iter().map(|(key, value)| format!("{key}={value}"));
        headers.chain([origin]).collect()
    }
}
