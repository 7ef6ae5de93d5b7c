//! Grid of clients, commit habits and situations, with default settings but shorter intervals.
//!
//! A run plays each habit of each client in one situation, so that all pairs are covered.
//! `GRID=whole` plays every cell, `GRID=close-poison` only cells with that in their name.

use std::fs;
use std::time::Duration;

use reprise::clock::Clock;

use super::app::{App, Process, outage};
use super::trial::Trial;
use super::{Case, FinalPlace, Tries};
use super::{confluent_kafka, franz_go, kafka_clients, kafkajs, spring_kafka};
use crate::rig::wait::until;

const RULES: &str = "retry: {give_up_after: 2s, isolation_timeout: 1s}\n";
const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_mins(3);
/// Number of process ends in an outage.
const OUTAGE_ENDS: usize = 8;
/// Number of process ends at a record that is never found, because the group never commits.
const NEVER_FOUND: usize = 14;
/// Number of process ends with commits at close only. Isolation waits for a commit at each step, so
/// nothing is found yet.
const SLOWLY_FOUND: usize = 6;
/// Interval of further orders until the record is found, and their largest number.
const ORDERS_EVERY: Duration = Duration::from_secs(1);
const GOES_ON: usize = 120;

/// The commits of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Never,
    Record,
    Batch,
    /// The client's own auto-commit, every 500 ms where its interval can be set.
    Auto,
    /// Every 500 ms.
    Time,
    /// Every 10 records.
    Count,
    /// While the consumer is closed.
    Close,
}

const HABITS: [(Habit, &str); 7] = [
    (Habit::Never, "grid-never"),
    (Habit::Record, "grid-record"),
    (Habit::Batch, "grid-batch"),
    (Habit::Auto, "grid-auto"),
    (Habit::Time, "grid-time"),
    (Habit::Count, "grid-count"),
    (Habit::Close, "grid-close"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    /// Every process ends by SIGTERM or SIGKILL with records in hand.
    Deploys,
    /// Every record ends its process, for a while.
    Outage,
    /// One record ends its process each time.
    Poison,
}

const SITUATIONS: [Situation; 3] = [Situation::Deploys, Situation::Outage, Situation::Poison];

#[test]
fn java_is_touched_only_for_a_poisonous_record() {
    play_row(0, &kafka_clients::APP);
}

#[test]
fn librdkafka_is_touched_only_for_a_poisonous_record() {
    play_row(1, &confluent_kafka::APP);
}

#[test]
fn kafkajs_is_touched_only_for_a_poisonous_record() {
    play_row(2, &kafkajs::APP);
}

#[test]
fn franz_go_is_touched_only_for_a_poisonous_record() {
    play_row(3, &franz_go::APP);
}

#[test]
fn spring_kafka_is_touched_only_for_a_poisonous_record() {
    play_row(4, &spring_kafka::APP);
}

fn play_row(client: usize, app: &'static App) {
    let wanted = std::env::var("GRID").ok();
    for (nth, (habit, way)) in HABITS.into_iter().enumerate() {
        for (place, situation) in SITUATIONS.into_iter().enumerate() {
            let name = format!("{way}-{situation:?}").to_lowercase();
            let is_played = match wanted.as_deref() {
                None => (nth + client) % SITUATIONS.len() == place,
                Some(wanted) => wanted == "whole" || name.contains(wanted),
            };
            if is_played {
                Cell::new(app, (habit, way), situation).play(situation);
            }
        }
    }
}

struct Cell {
    habit: Habit,
    name: String,
    trial: Trial,
    process: Process,
}

impl Cell {
    fn new(app: &'static App, (habit, way): (Habit, &'static str), situation: Situation) -> Self {
        let case = Case {
            app,
            way,
            fails: "the process dies",
            wire: "is silent until its session ends",
            partitions: PARTITIONS,
            session_ms: 1_500,
            ends: FinalPlace::Kept,
            tries: Tries::AtLeast(0),
        };
        let name = format!("{way}-{situation:?}").to_lowercase();
        let trial = Trial::by_rules(&case, &name, RULES);
        let process = Process::new(&case, &trial);
        Self { habit, name: format!("{} {name}", app.name), trial, process }
    }

    fn play(mut self, situation: Situation) {
        self.trial.produce("early", None);
        self.until_done("the early orders are done");
        self.until_auto_commit();
        self.process.stop();
        let starts = self.process.starts();
        match situation {
            Situation::Deploys => self.deploys(),
            Situation::Outage => self.outage(),
            Situation::Poison => self.poison(),
        }
        let seen = &self.trial.seen;
        let (ends, tries) = (self.process.starts() - starts, seen.tries);
        eprintln!(
            "measured: {}: {ends} starts, {tries} failures, {} handled",
            self.name, seen.handled
        );
    }

    fn until_done(&mut self, what: &str) {
        let what = format!("{}: {what}", self.name);
        self.trial.until(&mut self.process, &what, Trial::is_done);
    }

    /// Spring stops without an auto-commit. A process that always ends before its first one is a
    /// crash loop for its group.
    fn until_auto_commit(&mut self) {
        if self.habit == Habit::Auto {
            let what = format!("{}: all orders are committed", self.name);
            self.trial.until(&mut self.process, &what, Trial::is_committed);
        }
    }

    fn deploys(&mut self) {
        for n in 0..6 {
            self.trial.produce(&format!("deploy{n}"), None);
            self.process.start_again();
            let before = self.trial.seen.handled;
            let what = format!("{}: deploy {n} is at work", self.name);
            self.trial.until(&mut self.process, &what, |trial| trial.seen.handled > before);
            if n % 2 == 0 {
                self.until_auto_commit();
                self.process.stop();
            } else {
                self.process.kill();
            }
        }
        self.process.start_again();
        self.until_done("all orders are done");
        self.process.stop();
        self.assert_untouched(0);
    }

    fn outage(&mut self) {
        let file = outage(&self.trial.dir);
        fs::write(&file, "").unwrap();
        self.trial.produce("late", None);
        self.process.start_again();
        let most = self.process.starts() + OUTAGE_ENDS;
        until(PATIENCE, "the process ends again and again", || {
            assert!(self.process.look().is_empty(), "no record is handled");
            self.process.starts() >= most
        });
        fs::remove_file(&file).unwrap();
        self.until_done("all orders are done after the outage");
        self.process.stop();
        // An outage counts at most one failure of one record.
        self.assert_untouched(1);
    }

    fn poison(&mut self) {
        self.trial.produce("late", Some(1));
        self.process.start_again();
        let ends = match self.habit {
            Habit::Never => NEVER_FOUND,
            Habit::Close => SLOWLY_FOUND,
            _ => return self.found(),
        };
        let what = format!("{}: it ends again and again", self.name);
        self.trial.until(&mut self.process, &what, |trial| trial.seen.tries >= ends);
        self.process.kill();
        self.assert_untouched(0);
    }

    fn found(&mut self) {
        // Orders keep coming until the record is found.
        for n in 0..GOES_ON {
            self.trial.produce(&format!("more{n}"), None);
            let clock = Clock::start();
            let what = format!("{}: the record is found", self.name);
            self.trial.until(&mut self.process, &what, |trial| {
                !trial.seen.letters.is_empty() || clock.elapsed() > ORDERS_EVERY
            });
            if !self.trial.seen.letters.is_empty() {
                break;
            }
        }
        assert_eq!(self.trial.seen.letters, ["crashed"], "{}: {:?}", self.name, self.trial);
        self.until_done("all orders but one are done");
        self.process.stop();
        assert_eq!(self.trial.seen.innocent_failures, 0, "{}", self.name);
    }

    fn assert_untouched(&self, failures: u64) {
        let seen = &self.trial.seen;
        assert!(seen.letters.is_empty(), "{}: {seen:?}", self.name);
        assert!(seen.innocent_failures <= failures, "{}: {seen:?}", self.name);
    }
}
