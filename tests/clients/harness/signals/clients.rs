//! Applications that the harness plays with librdkafka: the scenarios of `wordless.rs`.

use super::app::App;
use super::{Case, FinalPlace, Observations, Tries};
use crate::rig::program::Program;
use crate::rig::runtimes::Built;
use crate::rig::stage::Stage;
use crate::wordless;

static LIBRDKAFKA: App = App::played(Program::LIBRDKAFKA, ("librdkafka", "librdkafka"), version);
static LIBRDKAFKA_848: App =
    App::played(Program::LIBRDKAFKA_848, ("librdkafka-848", "librdkafka"), version);

fn version(_: &App) -> Built {
    Built { command: Vec::new(), version: Program::LIBRDKAFKA.version() }
}

/// Plays the application of one way to fail.
pub(super) fn seen(program: Program, way: &str) -> Observations {
    let rules = "retry: {on_seek_back: retry, give_up_after: 1s}\n";
    let stage = Stage::by_rules(program, &format!("signals-{way}"), rules);
    let (tries, word) = match way {
        "exits" => (wordless::ends_its_process(stage, wordless::MIDDLE), "crashed"),
        _ => (wordless::is_sought_back_to(stage, wordless::MIDDLE), "seek_back"),
    };
    Observations { tries, letters: vec![word.to_owned()], ..Observations::default() }
}

const EXITS: Case = Case {
    app: &LIBRDKAFKA,
    way: "exits",
    fails: "the loop ends with the record, and its process closes the consumer",
    wire: "leaves the group without a commit; the next process begins at the committed offset",
    partitions: 4,
    session_ms: 30_000,
    ends: FinalPlace::DeadLetter("crashed"),
    tries: Tries::AtLeast(6),
};

const SEEKS: Case = Case {
    way: "seeks-back",
    fails: "the loop commits what it has handled and seeks back to all the rest it was given",
    wire: "drops what it has fetched ahead, and asks for the records again",
    ends: FinalPlace::DeadLetter("seek_back"),
    tries: Tries::AtLeast(5),
    ..EXITS
};

cases! {
    what_ends_its_process_is_a_dead_letter: EXITS;
    what_ends_its_process_is_a_dead_letter_by_kip_848: Case {
        app: &LIBRDKAFKA_848,
        fails: "the same; `group.protocol=consumer`",
        ..EXITS
    };
    what_its_client_seeks_back_to_is_a_dead_letter: SEEKS;
    what_its_client_seeks_back_to_is_a_dead_letter_by_kip_848: Case {
        app: &LIBRDKAFKA_848,
        fails: "the same; `group.protocol=consumer`",
        ..SEEKS
    };
}
