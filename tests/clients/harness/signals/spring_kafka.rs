//! Spring for Apache Kafka: a `@KafkaListener` that throws.

use super::app::{App, java};
use super::{Case, FinalPlace, Tries};

pub(super) static APP: App = App::new("spring-kafka", "Spring Kafka", java);

/// Application whose listener throws; only `way` is configured.
const THROWS: Case = Case {
    app: &APP,
    way: "default",
    fails: "`@KafkaListener` throws; error handler as it comes",
    wire: "commits what came before, seeks back in every partition it has unprocessed records of, \
           polls at once; after 10 deliveries it would log, and commit past the record",
    partitions: 10,
    session_ms: 10_000,
    ends: FinalPlace::DeadLetter("seek_back"),
    // Spring would give up after ten.
    tries: Tries::Between(5, 9),
};

cases! {
    what_an_unconfigured_error_handler_seeks_back_to_is_a_dead_letter: THROWS;
    what_it_seeks_back_to_after_a_while_is_a_dead_letter: Case {
        way: "back-off",
        fails: "the same; `FixedBackOff(500, 9)`",
        wire: "the same, but it sleeps for half a second before it polls",
        ..THROWS
    };
    what_it_seeks_back_to_after_longer_is_not_judged: Case {
        way: "long-back-off",
        fails: "the same; `FixedBackOff(3000, 4)`",
        wire: "the same, but it sleeps for 3 s before it polls, and gives up after 5 deliveries",
        ends: FinalPlace::PassedOver { others_too: false },
        tries: Tries::Exactly(5),
        ..THROWS
    };
    what_is_tried_again_in_memory_is_not_seen: Case {
        way: "in-memory",
        fails: "the same; `setSeekAfterError(false)`",
        wire: "pauses every partition, polls without records, tries again from memory; after 10 \
               deliveries it logs, and commits past the record",
        ends: FinalPlace::PassedOver { others_too: false },
        tries: Tries::Exactly(10),
        ..THROWS
    };
    what_a_batch_is_thrown_for_is_not_seen: Case {
        way: "batch",
        fails: "`@KafkaListener(batch = \"true\")` throws; error handler as it comes",
        wire: "pauses every partition, polls without records, tries the batch again from memory; \
               after 10 deliveries it logs, and commits past all of it",
        ends: FinalPlace::PassedOver { others_too: true },
        tries: Tries::Exactly(10),
        ..THROWS
    };
    what_a_batch_listener_names_is_a_dead_letter: Case {
        way: "batch-named",
        fails: "the same; it throws `BatchListenerFailedException` with the record",
        wire: "commits what came before, seeks back to the record and the rest of the batch",
        ..THROWS
    };
    what_goes_to_topics_of_its_own_is_not_seen: Case {
        way: "retry-topics",
        fails: "`@RetryableTopic(attempts = \"3\")` throws",
        wire: "sends the record to `<topic>-retry`, and commits past it; a second consumer tries \
               it again, in the end it is sent to `<topic>-dlt`",
        partitions: 4,
        ends: FinalPlace::Aside,
        tries: Tries::Exactly(3),
        ..THROWS
    };
}
