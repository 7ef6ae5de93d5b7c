//! Apache Kafka's own Java client, in loops from its documentation.

use super::app::{App, java};
use super::{Case, FinalPlace, Tries};

pub(super) static APP: App = App::new("kafka-clients", "Java client", java);

/// Application whose loop and process end with the exception.
const LEAVES: Case = Case {
    app: &APP,
    way: "leaves",
    fails: "the loop throws; `commitSync` after each batch",
    wire: "leaves the group without a commit; the next process begins at the committed offset",
    partitions: 4,
    session_ms: 10_000,
    ends: FinalPlace::DeadLetter("crashed"),
    // By default three deliveries are lost before isolation (`crash_limit`), and four more count as
    // failures (`in_place_limit`).
    tries: Tries::AtLeast(6),
};

/// Application whose process dies without leaving the group.
const DIES: Case = Case {
    way: "dies",
    fails: "the process dies; `commitSync` after each batch",
    wire: "is silent until its session ends; the next process begins at the committed offset",
    session_ms: 1_500,
    ..LEAVES
};

/// Application whose loop catches the exception, and seeks back.
const SEEKS: Case = Case {
    way: "seeks",
    fails: "the loop catches, commits what it has handled and seeks back to the record",
    wire: "asks for the record again at once",
    ends: FinalPlace::DeadLetter("seek_back"),
    tries: Tries::AtLeast(5),
    ..LEAVES
};

cases! {
    what_ends_its_process_is_a_dead_letter: LEAVES;
    what_ends_its_process_is_a_dead_letter_by_kip_848: Case {
        way: "leaves-848",
        fails: "the same; `group.protocol=consumer`",
        ..LEAVES
    };
    what_ends_its_process_is_a_dead_letter_where_each_record_is_committed: Case {
        way: "leaves-record",
        fails: "the loop throws; `commitSync` after each record",
        ..LEAVES
    };
    what_ends_its_process_is_a_dead_letter_where_commits_are_not_waited_for: Case {
        way: "leaves-async",
        fails: "the loop throws; `commitAsync` after each batch",
        ..LEAVES
    };
    what_kills_its_process_is_a_dead_letter: DIES;
    what_kills_its_process_is_a_dead_letter_with_auto_commit: Case {
        way: "dies-auto",
        fails: "the process dies; auto-commit is on",
        ..DIES
    };
    what_auto_commit_has_passed_is_not_seen: Case {
        way: "leaves-auto",
        fails: "the loop throws; auto-commit is on",
        wire: "commits past all it was given when it is closed, and leaves the group",
        ends: FinalPlace::PassedOver { others_too: true },
        tries: Tries::Exactly(1),
        ..LEAVES
    };
    what_the_loop_swallows_is_not_seen: Case {
        way: "skips",
        fails: "the loop catches and goes on; `commitSync` after each batch",
        wire: "commits past the record, as if it had handled it",
        ends: FinalPlace::PassedOver { others_too: false },
        tries: Tries::Exactly(1),
        ..LEAVES
    };
    what_its_client_seeks_back_to_is_a_dead_letter: SEEKS;
    what_its_client_seeks_back_to_is_a_dead_letter_where_each_record_is_committed: Case {
        way: "seeks-record",
        fails: "the loop catches and seeks back to the record; `commitSync` after each record",
        ..SEEKS
    };
    what_its_client_seeks_back_to_is_a_dead_letter_by_kip_848: Case {
        way: "seeks-848",
        fails: "the same; `group.protocol=consumer`",
        ..SEEKS
    };
}
