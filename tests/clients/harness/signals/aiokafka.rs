//! aiokafka: applications that loop over records and handle errors themselves.

use super::app::{App, python};
use super::{Case, FinalPlace, Tries};

static APP: App = App::new("aiokafka", "aiokafka", python);

/// Application whose loop and process end with the exception.
const RAISES: Case = Case {
    app: &APP,
    way: "raises-and-exits",
    fails: "the loop raises and its process ends; commits each record",
    wire: "leaves the group without a commit; the next process begins at the committed offset",
    partitions: 4,
    session_ms: 6_000,
    ends: FinalPlace::DeadLetter("crashed"),
    tries: Tries::AtLeast(6),
};

cases! {
    what_ends_its_process_is_a_dead_letter: RAISES;
    what_it_seeks_back_to_is_a_dead_letter: Case {
        way: "seeks-back",
        fails: "the loop catches and seeks back to the record; commits each record",
        wire: "asks for the record again, at once and before any other",
        ends: FinalPlace::DeadLetter("seek_back"),
        tries: Tries::AtLeast(5),
        ..RAISES
    };
    what_is_committed_by_itself_is_not_seen: Case {
        way: "auto-commit",
        fails: "the loop raises and its process ends; commits as it comes (`enable_auto_commit`)",
        wire: "commits past the record while it closes",
        ends: FinalPlace::PassedOver { others_too: false },
        tries: Tries::Exactly(1),
        ..RAISES
    };
}
