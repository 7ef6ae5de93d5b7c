//! Scenarios of clients without retry code that get a record they cannot handle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::order::{hex, tag_of};
use crate::rig::client::{Client, Record};
use crate::rig::cluster;
use crate::rig::library::Trait;
use crate::rig::program::Program;
use crate::rig::sidecar::PARTITIONS;
use crate::rig::stage::{LONG_SESSION, Stage};
use crate::rig::wait::until;

const PATIENCE: Duration = Duration::from_mins(3);
/// Orders of each batch, over all partitions.
const ORDERS: usize = 24;
/// Order that cannot be handled: [`MIDDLE`] has others behind it in its partition, [`LAST`] has
/// none.
pub(crate) const MIDDLE: &str = "late-10";
const LAST: &str = "late-23";
/// Order produced after both batches.
const LATER: &str = "later";
/// An idle client fetches twice a second (`fetch.max.wait.ms`).
const FETCHES_PER_S: u64 = 2;

/// The application throws and its process ends without a commit: a supervisor starts the next one.
pub(crate) fn a_record_that_ends_its_process_is_found_and_left_out(program: Program) {
    let given = ends_its_process(Stage::new(program, "exits"), MIDDLE);
    assert!(given >= 4, "given {given} times");
}

/// The application catches the error, and seeks back to every record that it has not handled.
pub(crate) fn a_record_its_client_seeks_back_to_is_found_and_left_out(program: Program) {
    let given = is_sought_back_to(Stage::new(program, "seeks-back"), LAST);
    assert!(given >= 4, "given {given} times");
}

/// Returns the number of deliveries of the record until it was `crashed`.
pub(crate) fn ends_its_process(stage: Stage, poison: &'static str) -> usize {
    let mut app = App::new(stage, poison);
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
    app.given[poison]
}

/// Returns the number of deliveries of the record until it was `seek_back`.
pub(crate) fn is_sought_back_to(stage: Stage, poison: &'static str) -> usize {
    let mut app = App::new(stage, poison);
    let mut client = app.start("a");
    until(PATIENCE, "all the others are done and it is given up", || {
        if app.is_done() {
            app.produce_later(&mut client);
        }
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
        app.is_done() && !app.letters().is_empty()
    });
    client.close();
    app.judge("seek_back");
    app.given[poison]
}

/// One application over all of its processes.
struct App {
    stage: Stage,
    /// Order that the application cannot handle.
    poison: &'static str,
    done: BTreeSet<String>,
    /// Number of deliveries of each order.
    given: BTreeMap<String, usize>,
}

impl App {
    /// Handles and commits orders in every partition, then produces the batch with the poison.
    fn new(stage: Stage, poison: &'static str) -> Self {
        let mut app = Self { stage, poison, done: BTreeSet::new(), given: BTreeMap::new() };
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

    /// Produces a record in another partition than the last order's, so that the topic goes on.
    fn produce_later(&self, client: &mut Client) {
        let (topic, value) = (&self.stage.scene.topic, hex(LATER));
        client.run(&format!("produce {LATER} lz4 {topic} 0 {value} {value}"));
        assert!(client.flush().iter().all(|(_, fate)| fate.is_ok()));
    }

    /// Handles records up to the poison, and returns its index.
    fn handle(&mut self, polled: &[Record]) -> Option<usize> {
        for (n, record) in polled.iter().enumerate() {
            let tag = tag_of(record);
            *self.given.entry(tag.clone()).or_default() += 1;
            if tag == self.poison {
                return Some(n);
            }
            if tag != LATER {
                self.done.insert(tag);
            }
        }
        None
    }

    fn is_done(&self) -> bool {
        self.done.len() == 2 * ORDERS - 1
    }

    fn letters(&self) -> Vec<Value> {
        let Stage { sidecar, scene, .. } = &self.stage;
        sidecar.letters(&scene.group)
    }

    /// Fetches that a client has in flight at a time: one for each broker that leads a partition,
    /// or one for each partition.
    fn fetchers(&self) -> u64 {
        let partitions = u64::try_from(PARTITIONS).unwrap();
        let Stage { program, sidecar, .. } = &self.stage;
        if program.library.has(Trait::FetchesEach) {
            partitions
        } else if sidecar.is_the_cluster() {
            1
        } else {
            partitions.min(u64::try_from(cluster::nodes()).unwrap())
        }
    }

    /// Checks that the poison alone is a dead letter and is not delivered again. A client that has
    /// consumed all the rest then waits for records as on Kafka.
    fn judge(&self, disposition: &str) {
        let letters = self.letters();
        assert_eq!(letters.len(), 1, "{letters:?}");
        assert_eq!(letters[0]["cause"], disposition, "{letters:?}");
        assert_eq!(letters[0]["key"], self.poison, "{letters:?}");
        let mut client = self.start("last");
        let mut left = client.poll(Duration::from_secs(2));
        let asked = || self.stage.sidecar.metric("reprise_requests_total{api=\"Fetch\"}");
        let (before, waits) = (asked(), Duration::from_secs(3));
        left.extend(client.poll(waits));
        let fetched = asked() - before;
        assert!(left.iter().all(|record| tag_of(record) != self.poison), "{left:?}");
        // Two more for each fetcher: one Fetch may be in flight at either end of the wait.
        let most = (FETCHES_PER_S * waits.as_secs() + 2) * self.fetchers();
        assert!(before > 0 && fetched <= most, "{fetched} Fetches in {waits:?}");
        client.close();
    }
}
