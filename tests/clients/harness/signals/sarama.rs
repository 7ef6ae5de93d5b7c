//! sarama: a `ConsumerGroupHandler`, and repeated calls of `Consume`.

use super::app::{App, go};
use super::{Case, FinalPlace, Tries};
use crate::rig::runtimes::Built;

static APP: App = App::new("sarama", "sarama", built);

fn built(app: &App) -> Built {
    go(app, "github.com/IBM/sarama")
}

/// Application whose error ends the session of its group.
const RETURNS: Case = Case {
    app: &APP,
    way: "returns-the-error",
    fails: "`ConsumeClaim` returns the error; `Consume` is called again",
    wire: "joins again as the member it was, though nobody asked it to, and begins at the \
           committed offset",
    partitions: 4,
    session_ms: 6_000,
    ends: FinalPlace::DeadLetter("crashed"),
    tries: Tries::AtLeast(6),
};

cases! {
    what_ends_its_session_is_a_dead_letter: RETURNS;
    what_is_marked_all_the_same_is_not_seen: Case {
        way: "marks-anyway",
        fails: "`ConsumeClaim` logs the error and marks the message",
        wire: "goes on, and commits past the record",
        ends: FinalPlace::PassedOver { others_too: false },
        tries: Tries::Exactly(1),
        ..RETURNS
    };
}
