//! Transactions of a sidecar by itself, over TCP.

mod fenced;
mod retries;
mod seen;

use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeProducersRequest, DescribeTransactionsRequest, FetchRequest,
    InitProducerIdRequest, ListOffsetsRequest, ListTransactionsRequest, OffsetDeleteRequest,
    OffsetFetchRequest,
};
use reprise::wire::ResponseError;
use reprise::wire::batch::{Batch, commits};

use crate::support::batch::unpack;
use crate::support::client::{fetch_request, s};
use crate::support::member::offset_fetch;
use crate::support::{Client, Got, Producer, Rec, Server, until};

fn with_topic() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.create("t", 1);
    (server, client)
}

fn committed_only(client: &mut Client, topic: &str, version: i16) -> PartitionData {
    let mut request = fetch_request(topic, 0, 0, 0).with_isolation_level(1);
    if version >= 13 {
        let known = client.metadata(12, &[topic]);
        request.topics[0].topic_id = known.topics[0].topic_id;
        request.topics[0].topic = s("");
    }
    let mut answer = client.call(version, &request);
    answer.responses.remove(0).partitions.remove(0)
}

/// Values that a `read_committed` consumer delivers, filtered as any client library does.
fn given(client: &mut Client, topic: &str) -> Vec<String> {
    let data = committed_only(client, topic, 12);
    let aborted: Vec<(i64, i64)> = data
        .aborted_transactions
        .unwrap()
        .iter()
        .map(|one| (one.producer_id.0, one.first_offset))
        .collect();
    let mut rest = data.records.unwrap();
    // producers whose aborted transaction is open at this offset
    let mut inside: Vec<i64> = Vec::new();
    let mut values = Vec::new();
    while let Ok(batch) = Batch::parse(&rest) {
        rest = rest.slice(batch.bytes.len()..);
        let header = &batch.header;
        let begins = aborted.iter().filter(|(_, first)| *first == header.base_offset);
        inside.extend(begins.map(|(id, _)| *id));
        if let Some(committed) = commits(&batch) {
            let was_inside = inside.contains(&header.producer_id);
            assert_ne!(committed, was_inside, "markers and the list of the aborted agree");
            inside.retain(|id| *id != header.producer_id);
        } else if !inside.contains(&header.producer_id) {
            values.extend(unpack(&batch.bytes).iter().map(Got::text));
        }
    }
    values
}

fn stable_end(client: &mut Client, version: i16, isolation: i8) -> i64 {
    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let topic = ListOffsetsTopic::default().with_name(s("t")).with_partitions(vec![partition]);
    let request =
        ListOffsetsRequest::default().with_topics(vec![topic]).with_isolation_level(isolation);
    client.call(version, &request).topics[0].partitions[0].offset
}

/// Offset and error, with `require_stable`: a pending transactional commit is an error.
fn stable_offset(client: &mut Client, group: &str) -> (i64, i16) {
    let mut asked = OffsetFetchRequestTopic::default();
    (asked.name, asked.partition_indexes) = (s("t"), vec![0]);
    let request = OffsetFetchRequest::default()
        .with_group_id(s(group))
        .with_topics(Some(vec![asked]))
        .with_require_stable(true);
    let answer = client.call(7, &request);
    let one = &answer.topics[0].partitions[0];
    (one.committed_offset, one.error_code)
}

const UNSTABLE: i16 = 88;

#[test]
fn only_committed_transactions_are_visible_to_read_committed_consumers() {
    let (server, mut client) = with_topic();
    let mut all = Vec::new();
    for version in 0..=5 {
        let mut producer = Producer::begin_at(&server, "pay", version, 60_000).unwrap();
        for (committed, value) in [(true, "yes"), (false, "no"), (true, "also")] {
            if version < 5 {
                assert_eq!(producer.add(version.min(3), &[("t", 0)]), [0], "v{version}");
            }
            // in the last versions Produce adds the partition to the transaction
            let produce = [3, 5, 7, 9, 11, 13][usize::try_from(version).unwrap()];
            let before = stable_end(&mut client, 2, 1);
            assert_eq!(producer.put(produce, "t", value), 0, "v{version}");
            assert_eq!(given(&mut client, "t"), all, "it is open");
            assert_eq!(stable_end(&mut client, 10, 1), before, "v{version}");
            assert_eq!(stable_end(&mut client, 10, 0), before + 1);
            assert_eq!(producer.end(version, committed), 0, "v{version}");
            all.extend(committed.then(|| value.to_owned()));
            assert_eq!(given(&mut client, "t"), all, "v{version}");
            assert_eq!(stable_end(&mut client, 2, 1), before + 2, "behind the marker");
        }
    }
    for version in 4..=18 {
        let data = committed_only(&mut client, "t", version);
        assert_eq!(data.aborted_transactions.unwrap().len(), 6, "v{version}");
        assert_eq!((data.high_watermark, data.last_stable_offset), (36, 36), "v{version}");
    }
    assert_eq!(client.fetch("t", 0, 0, 0).aborted_transactions, None, "nobody asked");
}

#[test]
fn the_end_of_a_transaction_answers_a_waiting_fetch() {
    let (server, mut client) = with_topic();
    let mut producer = Producer::begin(&server, "pay");
    // Repeated, because the marker may be durable before its append has returned.
    for round in 0..50 {
        assert_eq!(producer.add(3, &[("t", 0)]), [0]);
        assert_eq!(producer.put(11, "t", "x"), 0);
        let request = fetch_request("t", 0, 2 * round, 60_000).with_isolation_level(1);
        let waits = client.send(12, &request);
        assert_eq!(producer.end(3, true), 0);
        let answer = client.receive::<FetchRequest>(waits);
        let records = answer.responses[0].partitions[0].records.as_ref().unwrap();
        assert!(!records.is_empty(), "round {round}");
    }
}

#[test]
fn offsets_in_a_transaction_count_when_it_is_committed() {
    let (server, mut client) = with_topic();
    for version in 0..=5 {
        let group = format!("g{version}");
        let mut producer = Producer::begin(&server, "copy");
        for (committed, offset, then) in [(false, 3, -1), (true, 5, 5), (true, 2, 2)] {
            let before = stable_offset(&mut client, &group);
            if version < 5 {
                let early = producer.offsets(version, &group, &[("t", offset)]);
                let error = if version < 4 {
                    ResponseError::InvalidTxnState
                } else {
                    ResponseError::TransactionAbortable
                };
                assert_eq!(early, [error.code()], "no such group in it");
                assert_eq!(producer.add_group(version.min(4), &group), 0);
            }
            assert_eq!(producer.offsets(version, &group, &[("t", offset)]), [0], "v{version}");
            assert_eq!(stable_offset(&mut client, &group), (-1, UNSTABLE), "v{version}");
            let plain = offset_fetch(&mut client, 5, &group, "t", 0);
            assert_eq!((plain.0, plain.2), (before.0, 0), "who does not care is told the last");
            assert_eq!(producer.end(version.min(3), committed), 0);
            assert_eq!(stable_offset(&mut client, &group), (then, 0), "v{version}");
        }
        let told = offset_fetch(&mut client, 5, &group, "t", 0);
        assert_eq!(told.1.as_deref(), Some("note"));
        let nowhere = [("nowhere", 1), ("t", 1)];
        assert_eq!(producer.add_group(3, &group), 0);
        let codes = producer.offsets(3, &group, &nowhere);
        assert_eq!(codes, [ResponseError::UnknownTopicOrPartition.code(), 0]);
        assert_eq!(producer.end(3, false), 0);
    }
}

#[test]
fn a_transaction_commit_does_not_restore_deleted_offsets() {
    let (server, mut client) = with_topic();
    client.create("u", 1);
    let mut delete_group = |group: &str| {
        let request = DeleteGroupsRequest::default().with_groups_names(vec![s(group)]);
        client.call(2, &request).results[0].error_code
    };
    let mut admin = server.client();
    let mut delete_of_t = |group: &str| {
        let partition = OffsetDeleteRequestPartition::default();
        let topic = OffsetDeleteRequestTopic::default();
        let topic = topic.with_name(s("t")).with_partitions(vec![partition]);
        let request = OffsetDeleteRequest::default();
        let request = request.with_group_id(s(group)).with_topics(vec![topic]);
        admin.call(0, &request).topics[0].partitions[0].error_code
    };
    let mut reader = server.client();
    let mut committed =
        |group: &str| ["t", "u"].map(|topic| offset_fetch(&mut reader, 5, group, topic, 0).0);
    let mut producer = Producer::begin(&server, "copy");
    for group in ["whole", "part"] {
        assert_eq!(producer.offsets(5, group, &[("t", 50), ("u", 60)]), [0, 0]);
    }
    assert_eq!(producer.end(3, true), 0);
    for group in ["whole", "part"] {
        assert_eq!(producer.offsets(5, group, &[("t", 100), ("u", 110)]), [0, 0]);
    }
    assert_eq!((delete_group("whole"), delete_of_t("part")), (0, 0));
    assert_eq!(producer.end(3, true), 0);
    assert_eq!(committed("whole"), [-1, -1]);
    assert_eq!(committed("part"), [-1, 110]);
}

#[test]
fn a_fenced_producer_gets_an_error_known_to_its_version() {
    let (server, mut client) = with_topic();
    let mut old = Producer::begin(&server, "pay");
    assert_eq!(old.add(3, &[("t", 0)]), [0]);
    assert_eq!(old.put(11, "t", "lost"), 0);
    let mut new = Producer::begin(&server, "pay");
    assert_eq!(new.by, (old.by.0, old.by.1 + 1));
    let fenced = |known: bool| {
        let told =
            if known { ResponseError::ProducerFenced } else { ResponseError::InvalidProducerEpoch };
        told.code()
    };
    for version in 0..=3 {
        assert_eq!(old.add(version, &[("t", 0)]), [fenced(version >= 2)], "v{version}");
        assert_eq!(old.add_group(version, "g"), fenced(version >= 2), "v{version}");
        assert_eq!(old.end(version, true), fenced(version >= 2), "v{version}");
        assert_eq!(old.offsets(version, "g", &[("t", 1)]), [fenced(false)], "v{version}");
    }
    for version in [11, 12, 13] {
        assert_eq!(old.put(version, "t", "late"), fenced(false), "v{version}");
    }
    // A producer that names its former epoch must not have been replaced since (KIP-360).
    for version in 3..=5 {
        let mut request = InitProducerIdRequest::default();
        request.transactional_id = Some(s("pay"));
        request.transaction_timeout_ms = 1_000;
        (request.producer_id, request.producer_epoch) = (old.by.0.into(), old.by.1 - 1);
        assert_eq!(client.call(version, &request).error_code, fenced(version >= 4), "v{version}");
    }
    assert_eq!(given(&mut client, "t"), [""; 0], "what it left open was aborted");
    assert_eq!(new.add(3, &[("t", 0)]), [0]);
    assert_eq!(new.put(11, "t", "kept"), 0);
    assert_eq!(new.end(3, true), 0);
    assert_eq!(given(&mut client, "t"), ["kept"]);
}

#[test]
fn invalid_transaction_requests_get_kafkas_errors() {
    let (server, mut client) = with_topic();
    let mut producer = Producer::begin(&server, "pay");
    for timeout_ms in [0, -1, 900_001] {
        let refused = Producer::begin_at(&server, "pay", 4, timeout_ms).err();
        assert_eq!(refused, Some(ResponseError::InvalidTransactionTimeout.code()));
    }
    let nameless = Producer::begin_at(&server, "", 4, 1_000).err();
    assert_eq!(nameless, Some(ResponseError::InvalidRequest.code()));
    let state = ResponseError::InvalidTxnState.code();
    assert_eq!((producer.end(3, true), producer.end(3, false)), (state, state), "nothing is open");
    assert_eq!(producer.put(11, "t", "x"), state, "the partition is not in it");
    assert_eq!(
        producer.add(3, &[("t", 0), ("t", 7), ("nowhere", 0)]),
        [
            ResponseError::OperationNotAttempted.code(),
            ResponseError::UnknownTopicOrPartition.code(),
            ResponseError::UnknownTopicOrPartition.code()
        ]
    );
    let ours = producer.add(3, &[("t", 0), ("reprise.retry.shop", 0), ("reprise.dlq.shop", 0)]);
    let not_attempted = ResponseError::OperationNotAttempted.code();
    assert_eq!(ours, [not_attempted, state, state]);
    for version in [11, 12] {
        assert_eq!(producer.put(version, "reprise.dlq.shop", "x"), state, "v{version}");
    }
    let mapping = ResponseError::InvalidProducerIdMapping.code();
    let mut stranger = Producer { client: server.client(), id: "other", ..producer };
    assert_eq!(stranger.add(3, &[("t", 0)]), [mapping]);
    assert_eq!(stranger.add_group(3, "g"), mapping);
    assert_eq!(stranger.offsets(3, "g", &[("t", 0)]), [mapping]);
    assert_eq!((stranger.end(3, true), stranger.put(11, "t", "x")), (mapping, mapping));
    assert_eq!(client.read_all("t"), [], "nothing of it was stored");
}

#[test]
fn a_repeated_end_is_accepted_and_an_opposite_one_refused() {
    let (server, mut client) = with_topic();
    let mut producer = Producer::begin(&server, "pay");
    for committed in [true, false] {
        assert_eq!(producer.add(3, &[("t", 0)]), [0]);
        assert_eq!(producer.put(11, "t", "x"), 0);
        for _ in 0..2 {
            assert_eq!(producer.end(4, committed), 0);
        }
        assert_eq!(producer.end(4, !committed), ResponseError::InvalidTxnState.code());
    }
    assert_eq!(client.fetch("t", 0, 0, 0).high_watermark, 4, "one marker each");
}

#[test]
fn an_open_transaction_is_aborted_after_its_timeout() {
    let (server, mut client) = with_topic();
    let mut producer = Producer::begin_at(&server, "pay", 4, 300).unwrap();
    assert_eq!(producer.add(3, &[("t", 0)]), [0]);
    assert_eq!(producer.put(11, "t", "x"), 0);
    until("it is aborted", || client.fetch("t", 0, 0, 0).high_watermark == 2);
    until("the abort is seen", || stable_end(&mut client, 2, 1) == 2);
    assert_eq!(given(&mut client, "t"), [""; 0]);
    assert_eq!(producer.end(3, true), ResponseError::ProducerFenced.code());
    assert_eq!(seen::ended(&server, "timed_out"), "1");
}

#[test]
fn no_record_of_a_transaction_can_be_put_off() {
    let server = Server::with("topics: {list: [{name: t, produce_delay: true}]}");
    let mut producer = Producer::begin(&server, "app");
    assert_eq!(producer.add(3, &[("t", 0)]), [0]);
    let later = Rec::new("later").header("x-deliver-after-ms", "1000");
    let refused = producer.put_record(11, "t", later);
    assert_eq!(refused, ResponseError::InvalidRecord.code());
    assert_eq!(producer.put(11, "t", "now"), 0, "what goes at once is taken");
    assert_eq!(producer.end(3, true), 0);
    assert_eq!(given(&mut server.client(), "t"), ["now"]);
}

#[test]
fn kill_9_leaves_transactions_whole() {
    let (server, mut client) = with_topic();
    let mut done = Producer::begin(&server, "done");
    let mut open = Producer::begin(&server, "open");
    for producer in [&mut done, &mut open] {
        assert_eq!(producer.add(3, &[("t", 0)]), [0]);
        assert_eq!(producer.put(11, "t", producer.id), 0);
        assert_eq!(producer.add_group(3, producer.id), 0);
        assert_eq!(producer.offsets(3, producer.id, &[("t", 1)]), [0]);
    }
    assert_eq!(done.end(3, true), 0);
    assert_eq!(given(&mut client, "t"), ["done"]);
    let killed = server.killed();
    let mut client = killed.client();
    assert_eq!(given(&mut client, "t"), ["done"]);
    assert_eq!(stable_offset(&mut client, "done"), (1, 0));
    assert_eq!(stable_offset(&mut client, "open"), (-1, UNSTABLE));
    let mut open = Producer { client: killed.client(), ..open };
    assert_eq!(open.put(11, "t", "more"), 0, "it goes on where it was");
    assert_eq!(open.end(3, true), 0);
    assert_eq!(given(&mut client, "t"), ["done", "open", "more"]);
    assert_eq!(stable_offset(&mut client, "open"), (1, 0));
}

#[test]
fn tools_list_open_transactions_and_producers() {
    let (server, mut client) = with_topic();
    let mut open = Producer::begin(&server, "open");
    assert_eq!(open.add(3, &[("t", 0)]), [0]);
    assert_eq!(open.put(11, "t", "x"), 0);
    let _idle = Producer::begin(&server, "idle");
    for version in 0..=2 {
        let mut list = |change: &dyn Fn(&mut ListTransactionsRequest)| {
            let mut request = ListTransactionsRequest::default();
            change(&mut request);
            let answer = client.call(version, &request);
            let states = answer.transaction_states.iter();
            let of = states.map(|one| {
                format!("{} {}", one.transactional_id.as_str(), one.transaction_state.as_str())
            });
            (of.collect::<Vec<_>>(), answer.unknown_state_filters.len())
        };
        let both = ["idle Empty".to_owned(), "open Ongoing".to_owned()].to_vec();
        assert_eq!(list(&|_| {}), (both, 0), "v{version}");
        let one = vec!["open Ongoing".to_owned()];
        assert_eq!(list(&|r| r.state_filters = vec![s("Ongoing"), s("Odd")]), (one.clone(), 1));
        assert_eq!(list(&|r| r.producer_id_filters = vec![open.by.0.into()]), (one.clone(), 0));
        if version >= 1 {
            assert_eq!(list(&|r| r.duration_filter = 60_000), (vec![], 0));
        }
    }
    let ids = vec![s("open"), s("nobody")];
    let request = DescribeTransactionsRequest::default().with_transactional_ids(ids);
    let answer = client.call(0, &request);
    let state = &answer.transaction_states[0];
    assert_eq!((state.transaction_timeout_ms, state.producer_id.0), (60_000, open.by.0));
    assert_eq!((state.topics[0].topic.as_str(), &state.topics[0].partitions[..]), ("t", &[0][..]));
    assert!(state.transaction_start_time_ms > 0);
    let unknown = ResponseError::TransactionalIdNotFound.code();
    assert_eq!(answer.transaction_states[1].error_code, unknown);

    let mut topic = TopicRequest::default();
    (topic.name, topic.partition_indexes) = (s("t"), vec![0, 1]);
    let request = DescribeProducersRequest::default().with_topics(vec![topic]);
    let answer = client.call(0, &request);
    let (there, not) = (&answer.topics[0].partitions[0], &answer.topics[0].partitions[1]);
    let shown = &there.active_producers[0];
    assert_eq!((shown.producer_id, shown.current_txn_start_offset), (open.by.0.into(), 0));
    assert_eq!((shown.last_sequence, shown.producer_epoch), (0, i32::from(open.by.1)));
    assert_eq!(not.error_code, ResponseError::UnknownTopicOrPartition.code());
}
