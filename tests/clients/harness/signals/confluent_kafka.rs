//! confluent-kafka for Python: librdkafka in an application that pauses its partitions while it
//! works. On each pause librdkafka drops prefetched records, and fetches them again.

use super::app::{App, python};
use super::{Case, FinalPlace, Tries};

pub(super) static APP: App = App::new("confluent-kafka", "confluent-kafka (Python)", python);

const STORMS: Case = Case {
    app: &APP,
    way: "storms",
    fails: "pauses and resumes all its partitions around each batch; catches, and seeks back to \
            the record; commits each record",
    wire: "drops what it has fetched ahead with each pause, and asks for it again; asks for the \
           record again",
    partitions: 4,
    session_ms: 6_000,
    ends: FinalPlace::DeadLetter("seek_back"),
    tries: Tries::AtLeast(4),
};

cases! {
    what_it_seeks_back_to_is_a_dead_letter_whatever_it_pauses: STORMS;
    what_it_seeks_back_to_is_a_dead_letter_whatever_it_pauses_by_kip_848: Case {
        way: "storms-848",
        fails: "the same; `group.protocol=consumer`",
        ..STORMS
    };
    what_it_tries_from_memory_is_not_seen: Case {
        way: "keeps",
        fails: "pauses its partition and tries the record again from memory; gives up after ten \
                attempts; commits each record",
        wire: "drops what it has fetched ahead, and fetches nothing of that partition meanwhile; \
               then commits past the record, and asks for the rest again",
        ends: FinalPlace::PassedOver { others_too: false },
        tries: Tries::Exactly(10),
        ..STORMS
    };
}
