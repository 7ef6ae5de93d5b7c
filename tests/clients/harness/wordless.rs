//! Clients that know nothing of retries, in front of a record they cannot handle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::client::{Client, Record};
use crate::order::{hex, tag_of};
use crate::program::Program;
use crate::sidecar::PARTITIONS;
use crate::stage::{LONG_SESSION, Stage};
use crate::wait::until;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Orders of each batch, over all partitions.
const ORDERS: usize = 24;
/// The one that cannot be handled.
const POISON: &str = "late-10";

/// The loop throws, and its process ends without a commit: a supervisor starts the next one.
pub(crate) fn a_record_that_ends_its_process_is_found_and_left_out(program: Program) {
    let given = ends_its_process(Stage::new(program, "exits"));
    assert!(given >= 4, "given {given} times");
}

/// The loop catches, and seeks back to whatever it has not handled.
pub(crate) fn a_record_its_client_seeks_back_to_is_found_and_left_out(program: Program) {
    let given = is_sought_back_to(Stage::new(program, "seeks-back"));
    assert!(given >= 4, "given {given} times");
}

/// How often the record was given until it was `crashed`.
pub(crate) fn ends_its_process(stage: Stage) -> usize {
    let mut app = App::new(stage);
    let mut ends = 0;
    until(PATIENCE, "all the others are done", || {
        let mut client = app.start(&format!("a{ends}"));
        until(PATIENCE, "this process has ended", || {
            let polled = client.poll(Duration::from_millis(200));
            let failed = app.handle(&polled);
            if failed.is_none() && !polled.is_empty() {
                client.run("commit");
            }
            failed.is_some() || app.is_done()
        });
        ends += 1;
        client.close();
        app.is_done()
    });
    app.judge("crashed");
    app.given[POISON]
}

/// How often the record was given until it was `seek_back`.
pub(crate) fn is_sought_back_to(stage: Stage) -> usize {
    let mut app = App::new(stage);
    let mut client = app.start("a");
    until(PATIENCE, "all the others are done", || {
        let polled = client.poll(Duration::from_millis(200));
        let failed = app.handle(&polled).unwrap_or(polled.len());
        let (handled, left) = polled.split_at(failed);
        let topic = &app.stage.scene.topic;
        let done: BTreeMap<i32, i64> =
            handled.iter().map(|r| (r.partition, r.offset + 1)).collect();
        if !done.is_empty() {
            let done = done.iter().map(|(partition, at)| format!(" {topic} {partition} {at}"));
            client.run(&format!("commit{}", done.collect::<String>()));
        }
        let back: BTreeMap<i32, i64> = left.iter().rev().map(|r| (r.partition, r.offset)).collect();
        for (partition, offset) in back {
            client.run(&format!("seek {topic} {partition} {offset}"));
        }
        app.is_done()
    });
    client.close();
    app.judge("seek_back");
    app.given[POISON]
}

/// One application, whatever process it runs in.
struct App {
    stage: Stage,
    done: BTreeSet<String>,
    /// How often each order was given.
    given: BTreeMap<String, usize>,
}

impl App {
    /// Orders in every partition are handled and committed; then come those with the poison.
    fn new(stage: Stage) -> Self {
        let mut app = Self { stage, done: BTreeSet::new(), given: BTreeMap::new() };
        let mut client = app.start("first");
        app.produce(&mut client, "early");
        until(PATIENCE, "the early orders are done", || {
            let polled = client.poll(Duration::from_millis(200));
            app.handle(&polled);
            app.done.len() == ORDERS
        });
        client.run("commit");
        app.produce(&mut client, "late");
        client.close();
        app
    }

    fn start(&self, name: &str) -> Client {
        let mut client = self.stage.client(name, &self.stage.scene.group, LONG_SESSION);
        client.run(&format!("subscribe {}", self.stage.scene.topic));
        client
    }

    fn produce(&self, client: &mut Client, name: &str) {
        let partitions = (0..PARTITIONS).cycle();
        for (n, partition) in (0..ORDERS).zip(partitions) {
            let (topic, tag) = (&self.stage.scene.topic, format!("{name}-{n}"));
            let value = hex(&tag);
            client.run(&format!("produce {tag} lz4 {topic} {partition} {value} {value}"));
        }
        assert!(client.flush().iter().all(|(_, fate)| fate.is_ok()));
    }

    /// Handles records up to the one it cannot; which that is.
    fn handle(&mut self, polled: &[Record]) -> Option<usize> {
        for (n, record) in polled.iter().enumerate() {
            let tag = tag_of(record);
            *self.given.entry(tag.clone()).or_default() += 1;
            if tag == POISON {
                return Some(n);
            }
            self.done.insert(tag);
        }
        None
    }

    fn is_done(&self) -> bool {
        self.done.len() == 2 * ORDERS - 1
    }

    /// The poison alone is a dead letter, and is given to nobody any more.
    fn judge(&self, disposition: &str) {
        let group = &self.stage.scene.group;
        let letters = self.stage.sidecar.json(&format!("/api/v1/dead-letters?group={group}"));
        let items = letters["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{letters}");
        assert_eq!(items[0]["disposition"], disposition, "{letters}");
        assert_eq!(items[0]["key"], POISON, "{letters}");
        let mut client = self.start("last");
        let mut left = client.poll(Duration::from_secs(2));
        left.extend(client.poll(Duration::from_millis(500)));
        assert!(left.iter().all(|record| tag_of(record) != POISON), "{left:?}");
        client.close();
    }
}
