//! Members with `read_committed`: aborted records and transaction markers count as no failure.

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::{AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest};

use crate::support::batch::{Around, TRANSACTIONAL, batch};
use crate::support::client::{produce_request, s};
use crate::support::{Client, Rec, Server, wall_ms};
use crate::watching::app::{App, Failing, dead_letters, orders};

both!(an_aborted_crashing_record_is_skipped_without_a_dead_letter);

/// One transaction with one record.
fn transact(client: &mut Client, value: &str, committed: bool) {
    let mut init = InitProducerIdRequest::default();
    init.transactional_id = Some(s("pay"));
    init.transaction_timeout_ms = 60_000;
    let by = client.call(4, &init);
    assert_eq!(by.error_code, 0);
    let mut add = AddPartitionsToTxnRequest::default();
    add.v3_and_below_transactional_id = s("pay");
    (add.v3_and_below_producer_id, add.v3_and_below_producer_epoch) =
        (by.producer_id, by.producer_epoch);
    let mut topic = AddPartitionsToTxnTopic::default();
    (topic.name, topic.partitions) = (s("orders"), vec![0]);
    add.v3_and_below_topics.push(topic);
    let added = client.call(3, &add);
    assert_eq!(
        added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        0
    );
    let stamp = Around::producer(by.producer_id.0, by.producer_epoch, 0);
    let around = Around { attributes: TRANSACTIONAL, ..stamp };
    let records = batch(&[Rec::new(value).at(wall_ms())], around);
    let mut request = produce_request("orders", 0, records, -1);
    request.transactional_id = Some(s("pay"));
    let answer = client.leader("orders").call(9, &request);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    let mut end = EndTxnRequest::default();
    (end.transactional_id, end.committed) = (s("pay"), committed);
    (end.producer_id, end.producer_epoch) = (by.producer_id, by.producer_epoch);
    assert_eq!(client.call(3, &end).error_code, 0);
}

fn an_aborted_crashing_record_is_skipped_without_a_dead_letter() {
    for failing in [Failing::Crash, Failing::SeekBack] {
        let server = Server::with(
            "retry: {levels: 20ms, max_reconsume_times: 1, isolation_timeout: 3s, \
             in_place_limit: 2, give_up_after: 500ms, on_seek_back: retry, \
             order: {interval: 50ms}}",
        );
        orders(&server, 2);
        let mut tool = server.client();
        transact(&mut tool, "2", false);
        tool.put("orders", 0, &["4", "5"].map(|value| Rec::new(value).at(wall_ms())));
        let mut app = App::new(&server, 2);
        app.run(failing, 6);
        assert_eq!(app.done, [0, 1, 4, 5]);
        assert!(app.deliveries[&2] <= 12, "{:?}", app.deliveries);
        assert_eq!(dead_letters(&server), []);
    }
}
