//! franz-go: a loop that commits each record, and ends with its process.

use super::app::{App, go};
use super::{Case, FinalPlace, Tries};
use crate::rig::runtimes::Built;

pub(super) static APP: App = App::new("franz-go", "franz-go", built);

fn built(app: &App) -> Built {
    go(app, "github.com/twmb/franz-go")
}

cases! {
    what_ends_its_process_without_a_word_is_a_dead_letter: Case {
        app: &APP,
        way: "ends-its-process",
        fails: "the process ends at once (`log.Fatal`); commits each record",
        wire: "its connections end, its session runs out; the next process begins at the committed \
               offset",
        partitions: 4,
        session_ms: 3_000,
        ends: FinalPlace::DeadLetter("crashed"),
        tries: Tries::AtLeast(6),
    };
}
