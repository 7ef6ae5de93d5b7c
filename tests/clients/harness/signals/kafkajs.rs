//! kafkajs: a handler that throws.

use super::app::{App, node};
use super::{Case, FinalPlace, Tries};

pub(super) static APP: App = App::new("kafkajs", "kafkajs", node);

/// Application with the defaults of the library.
const THROWS: Case = Case {
    app: &APP,
    way: "each-message-throws",
    fails: "`eachMessage` throws",
    wire: "commits what came before, fetches nothing for a while that doubles (0.3 s at first), \
           then asks for the record again; after six deliveries it leaves the group and joins it \
           anew",
    partitions: 4,
    session_ms: 6_000,
    ends: FinalPlace::DeadLetter("seek_back"),
    tries: Tries::AtLeast(5),
};

cases! {
    what_each_message_throws_on_is_a_dead_letter: THROWS;
    what_each_batch_throws_on_is_a_dead_letter: Case {
        way: "each-batch-throws",
        fails: "`eachBatch` throws; it has resolved what came before",
        ..THROWS
    };
}
