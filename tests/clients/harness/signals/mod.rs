//! Every application and way of failing: a test for each, which writes a row of the table.
//!
//! A new one is a file here with its [`App`] and its `cases!`, a line below, and a line in
//! [`cases`].

mod app;
mod row;
mod table;
mod trial;

use app::{App, Process};
use row::Row;
use trial::Trial;

/// Tests of one application, each a [`Case`], named after what becomes of the record.
macro_rules! cases {
    ($($name:ident: $case:expr;)+) => {
        /// In the order of the table.
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
mod sarama;
mod spring_kafka;

/// In the order of the table.
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

/// One application that cannot handle one record, and fails in one way.
#[derive(Clone)]
struct Case {
    app: &'static App,
    /// Its last argument.
    way: &'static str,
    /// How it fails, for people.
    fails: &'static str,
    /// What its client then does on the wire, for people.
    wire: &'static str,
    /// Of its topic.
    partitions: i32,
    /// Until a member that does not speak is missed.
    session_ms: u32,
    ends: Ends,
    tries: Tries,
}

/// Where the record has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// In the dead letters, with this disposition.
    DeadLetter(&'static str),
    /// The client commits past it by itself, and perhaps past others that it has not handled.
    PassedOver { others_too: bool },
    /// The client commits past it, and tries it again from a topic of its own.
    Aside,
    /// The client keeps it, and tries it again and again by itself.
    Kept,
}

/// How often the application is given the record until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tries {
    Exactly(usize),
    Between(usize, usize),
    /// It is a matter of timing.
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

/// What was seen of one application.
#[derive(Debug, Default)]
struct Seen {
    /// How often it failed.
    tries: usize,
    /// Dispositions of dead letters: of the record, since nothing else may be one.
    letters: Vec<String>,
    /// Failures of another record, as the sidecar counted them.
    innocent_failures: u64,
    /// Records that were handled, each as often as it was.
    handled: usize,
    /// A consumer went back to the record at some time.
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

/// The application works for a while, is restarted, and then finds the record among others.
fn seen(case: &Case) -> Seen {
    let mut trial = Trial::new(case);
    let mut process = Process::new(case, &trial);
    trial.produce("early", None);
    trial.until(&mut process, "the early orders are done", Trial::is_committed);
    process.stop();
    trial.produce("late", Some(case.partitions / 2));
    process.start_again();
    trial.until(&mut process, "the others are done", |trial| trial.has_ended(case));
    process.stop();
    let left = trial.sidecar.retries();
    assert!(left.is_empty(), "{left:?}");
    trial.seen
}
