//! Applications that cannot handle a record: a test for each way to fail, which writes a row of the
//! table.
//!
//! A new application is a file here with its [`App`] and its `cases!`, a line below, and a line in
//! [`cases`].

mod app;
mod row;
mod table;
mod trial;

use app::{App, Process};
use row::Row;
use trial::Trial;

/// Tests of one application, each a [`Case`], named after the result for the record.
macro_rules! cases {
    ($($name:ident: $case:expr;)+) => {
        /// Cases of the application, in the order of the table.
        pub(super) fn cases() -> Vec<super::Case> {
            vec![$($case),+]
        }

        $(
            #[test]
            fn $name() {
                super::play(&$case);
            }
        )+
    };
}

mod aiokafka;
mod clients;
mod confluent_kafka;
mod franz_go;
mod grid;
mod kafka_clients;
mod kafkajs;
mod parallel_consumer;
mod recipes;
mod sarama;
mod spring_kafka;

/// Cases of all applications, in the order of the table.
fn cases() -> Vec<Case> {
    [
        kafka_clients::cases(),
        clients::cases(),
        confluent_kafka::cases(),
        spring_kafka::cases(),
        parallel_consumer::cases(),
        kafkajs::cases(),
        aiokafka::cases(),
        sarama::cases(),
        franz_go::cases(),
    ]
    .concat()
}

/// Builds every application.
pub(crate) fn build_all() {
    for case in cases() {
        case.app.built();
    }
    recipes::build_all();
}

/// One application that cannot handle one record, and fails in one way.
#[derive(Clone)]
struct Case {
    app: &'static App,
    /// Last argument of the application.
    way: &'static str,
    /// Text for the table: the failure.
    fails: &'static str,
    /// Text for the table: the client's requests after the failure.
    wire: &'static str,
    partitions: i32,
    session_ms: u32,
    ends: FinalPlace,
    tries: Tries,
}

/// Final place of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalPlace {
    /// In the dead letters, with this disposition.
    DeadLetter(&'static str),
    /// The client commits past it by itself, and perhaps past others that it has not handled.
    PassedOver { others_too: bool },
    /// The client commits past it, and tries it again from a topic of its own.
    Aside,
    /// The client keeps it, and tries it again and again by itself.
    Kept,
}

/// Number of deliveries of the record until its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tries {
    Exactly(usize),
    Between(usize, usize),
    /// The number depends on timing.
    AtLeast(usize),
}

impl Tries {
    fn has(self, tries: usize) -> bool {
        match self {
            Self::Exactly(wanted) => tries == wanted,
            Self::Between(least, most) => (least..=most).contains(&tries),
            Self::AtLeast(least) => tries >= least,
        }
    }
}

/// Observations of one application.
#[derive(Debug, Default)]
struct Observations {
    /// Number of failures of the record.
    tries: usize,
    /// Dispositions of the dead letters; only the record may be one.
    letters: Vec<String>,
    /// Failures of another record, as the sidecar counted them.
    innocent_failures: u64,
    /// Number of handled records, repetitions included.
    handled: usize,
    /// A consumer sought back to the record at some time.
    is_sought_back: bool,
}

fn play(case: &Case) {
    Row::forget(case);
    let seen = match case.app.program {
        Some(program) => clients::seen(program, case.way),
        None => seen(case),
    };
    Row::of(case, &seen).write(case);
}

/// Runs one case: the application handles orders, is restarted, and then gets the record among
/// others.
fn seen(case: &Case) -> Observations {
    seen_in(case, Trial::new(case))
}

fn seen_in(case: &Case, mut trial: Trial) -> Observations {
    let mut process = Process::new(case, &trial);
    trial.produce("early", None);
    trial.until(&mut process, "the early orders are done", Trial::is_committed);
    process.stop();
    trial.produce("late", Some(case.partitions / 2));
    process.start_again();
    trial.until(&mut process, "the others are done", |trial| trial.has_ended(case));
    process.stop();
    // A dead letter may be seen before the line of its last try.
    trial.hear_all(process.lines());
    let left = trial.sidecar.retries();
    assert!(left.is_empty(), "{left:?}");
    trial.seen
}
