//! Confluent's Parallel Consumer: a function that throws.

use super::app::{App, java_by};
use super::{Case, FinalPlace, Tries};
use crate::rig::runtimes::Built;

static APP: App = App::new("parallel-consumer", "Confluent Parallel Consumer", build);

fn build(app: &App) -> Built {
    java_by(app, "parallel-consumer-core")
}

cases! {
    what_its_client_keeps_and_tries_again_is_not_seen: Case {
        app: &APP,
        way: "throws",
        fails: "the function given to `poll` throws; options as they come",
        wire: "fetches on; commits up to the record, with the ones behind it that are done in the \
               commit's metadata; tries the record again from memory every second, without end",
        partitions: 4,
        session_ms: 10_000,
        ends: FinalPlace::Kept,
        tries: Tries::AtLeast(4),
    };
}
