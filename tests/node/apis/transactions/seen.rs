//! Metrics of transactions, and the transaction version that clients are told.

use kafka_protocol::messages::ApiVersionsRequest;
use reprise::wire::ResponseError;

use crate::apis::transactions::with_topic;
use crate::support::Producer;
use crate::support::client::s;
use crate::support::{Consumer, Rec, Server};

/// Number of transactions with this outcome.
pub(super) fn ended(server: &Server, outcome: &str) -> String {
    server.metric(&format!("reprise_transactions_total{{outcome=\"{outcome}\"}}")).to_string()
}

#[test]
fn transactions_are_counted_open_and_ended() {
    let (server, _client) = with_topic();
    let open = || server.metric("reprise_transactions_open").to_string();
    let mut producer = Producer::begin(&server, "pay");
    for committed in [true, false, false] {
        assert_eq!(open(), "0");
        assert_eq!(producer.add(3, &[("t", 0)]), [0]);
        assert_eq!(open(), "1");
        for _ in 0..2 {
            assert_eq!(producer.end(3, committed), 0, "said again, counted once");
        }
    }
    assert_eq!(producer.add(3, &[("t", 0)]), [0]);
    Producer::begin(&server, "pay");
    let all = ["committed", "aborted", "timed_out"].map(|outcome| ended(&server, outcome));
    assert_eq!((all, open()), (["1", "3", "0"].map(str::to_owned), "0".to_owned()));
}

#[test]
fn clients_see_the_metadata_and_transaction_versions() {
    let (_server, mut client) = with_topic();
    for version in 3..=4 {
        let answer = client.call(version, &ApiVersionsRequest::default());
        assert_eq!(answer.finalized_features_epoch, 0, "v{version}");
        let finalized = answer.finalized_features.iter();
        let finalized: Vec<_> =
            finalized.map(|one| (one.name.as_str(), one.max_version_level)).collect();
        assert_eq!(finalized, [("metadata.version", 30), ("transaction.version", 2)], "v{version}");
        let supported = answer.supported_features.iter();
        let supported: Vec<_> =
            supported.map(|one| (one.name.as_str(), one.min_version, one.max_version)).collect();
        let all = [("metadata.version", 7, 30), ("transaction.version", 0, 2)];
        // Clients of version 3 reject a feature whose minimum is 0.
        assert_eq!(supported, if version >= 4 { &all[..] } else { &all[..1] }, "v{version}");
    }
}

#[test]
fn a_stale_member_epoch_is_an_illegal_generation_for_producers() {
    let (server, _client) = with_topic();
    let mut consumer = Consumer::new(&server, "g", &["t"]);
    consumer.enter();
    let mut producer = Producer::begin(&server, "copy");
    assert_eq!(producer.add_group(3, "g"), 0);
    let over = ResponseError::IllegalGeneration.code();
    for (epoch, error) in [(consumer.generation, 0), (consumer.generation - 1, over)] {
        let mut request = producer.offsets_request("g", &[("t", 1)]);
        (request.member_id, request.generation_id) = (s(&consumer.id), epoch);
        let answer = producer.client.call(3, &request);
        assert_eq!(answer.topics[0].partitions[0].error_code, error, "epoch {epoch}");
    }
}

#[test]
fn a_producer_commits_owned_partitions_with_the_previous_epoch() {
    let (server, _client) = with_topic();
    let mut consumer = Consumer::new(&server, "g", &["t", "reprise.retry.g"]);
    consumer.enter();
    let before = consumer.generation;
    let mut other = Consumer::new(&server, "g", &["elsewhere"]);
    other.enter();
    assert_eq!(consumer.client.nack("g", "t-0@1", Rec::new("x")).error_code, 0);
    let retry = consumer.retry_once();
    // The epoch rises by a heartbeat of a connection that does not commit, as in most clients.
    assert_eq!(consumer.beat().member_epoch, before + 1);
    consumer.generation = before;
    assert_eq!(consumer.commit("t", 0, 5), 0);
    consumer.done(retry.offset + 1);
    let mut producer = Producer::begin(&server, "copy");
    let mut commit = |member: &Consumer| {
        let mut request = producer.offsets_request("g", &[("t", 7)]);
        (request.member_id, request.generation_id) = (s(&member.id), before);
        producer.client.call(5, &request).topics[0].partitions[0].error_code
    };
    assert_eq!(commit(&consumer), 0);
    assert_eq!(commit(&other), ResponseError::IllegalGeneration.code(), "it has never had it");
    other.generation = before;
    assert_eq!(other.commit("t", 0, 9), ResponseError::StaleMemberEpoch.code());
}
