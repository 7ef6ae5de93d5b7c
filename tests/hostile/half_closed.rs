//! A client that closes its sending side still gets the answers to its requests.

use std::net::Shutdown;

use kafka_protocol::messages::{MetadataRequest, ProduceRequest};

use crate::at_leader;
use crate::bounded::Bounded;
use crate::support::Rec;
use crate::support::batch::plain;
use crate::support::client::produce_request;

/// Many, so that some still wait for the disk, or the broker, when the end of stream is seen.
const PRODUCES: usize = 40;
/// A few small requests at a time, and memory that the allocator retains.
const GROWN_MIB_MAX: f64 = 8.0;

fn answers_come_after_the_end(house: &Bounded) {
    house.client().create("t", 1);
    for round in 1..=5 {
        let mut client = at_leader(house.client(), "t");
        let asked = produce_request("t", 0, plain(&[Rec::new("x")]), -1);
        let produced: Vec<_> = (0..PRODUCES).map(|_| client.send(9, &asked)).collect();
        let listed = client.send(9, &MetadataRequest::default().with_topics(None));
        client.stream.tcp().shutdown(Shutdown::Write).unwrap();
        for sent in produced {
            let answer = client.receive::<ProduceRequest>(sent);
            assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        }
        assert_eq!(client.receive::<MetadataRequest>(listed).topics.len(), 1);
        assert_eq!(client.frame(), None, "then it is closed here, too");
        let stored = i64::try_from(round * PRODUCES).unwrap();
        assert_eq!(at_leader(house.client(), "t").list_offset("t", 0, -1).1, stored);
    }
    house.has_grown_less_than(GROWN_MIB_MAX, "half closed");
}

#[test]
fn all_that_was_asked_before_the_end_is_answered() {
    answers_come_after_the_end(&Bounded::start(&[]));
}

#[test]
fn requests_before_a_half_close_are_answered_by_the_cluster() {
    let cluster = Bounded::cluster();
    answers_come_after_the_end(&Bounded::in_front_of(&cluster, &[]));
}
