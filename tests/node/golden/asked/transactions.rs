//! Requests of transactional producers, step by step, and of tools about transactions.

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeProducersRequest,
    DescribeTransactionsRequest, EndTxnRequest, InitProducerIdRequest, ListTransactionsRequest,
    TxnOffsetCommitRequest,
};

use super::{Ask, ask};
use crate::golden::house::{ORDERS, PRODUCER};
use crate::support::client::s;

pub(crate) fn all() -> Vec<Ask> {
    let mut all = producer_requests();
    all.extend(about_them());
    all
}

fn producer_requests() -> Vec<Ask> {
    vec![
        ask(|_, r: &mut InitProducerIdRequest| {
            (r.transactional_id, r.transaction_timeout_ms) = (Some(s(PRODUCER)), 60_000);
        }),
        ask(|_, r: &mut AddPartitionsToTxnRequest| {
            r.v3_and_below_transactional_id = s(PRODUCER);
            let orders = AddPartitionsToTxnTopic::default().with_name(s(ORDERS.0));
            r.v3_and_below_topics = vec![orders.with_partitions(vec![0, 1])];
        }),
        ask(|_, r: &mut AddOffsetsToTxnRequest| {
            (r.transactional_id, r.group_id) = (s(PRODUCER), s("till"));
        }),
        ask(|_, r: &mut TxnOffsetCommitRequest| {
            (r.transactional_id, r.group_id) = (s(PRODUCER), s("free"));
            let of = |topic| {
                let mut partition = TxnOffsetCommitRequestPartition::default();
                (partition.committed_offset, partition.committed_metadata) = (1, Some(s("note")));
                let topic = TxnOffsetCommitRequestTopic::default().with_name(s(topic));
                topic.with_partitions(vec![partition])
            };
            r.topics = vec![of(ORDERS.0), of("nowhere")];
        }),
        ask(|_, r: &mut EndTxnRequest| {
            (r.transactional_id, r.committed) = (s(PRODUCER), true);
        }),
    ]
}

fn about_them() -> Vec<Ask> {
    vec![
        ask(|_, r: &mut DescribeProducersRequest| {
            let orders = TopicRequest::default().with_name(s(ORDERS.0));
            r.topics = vec![orders.with_partition_indexes(vec![0, 1, 7])];
        }),
        ask(|_, r: &mut DescribeTransactionsRequest| {
            r.transactional_ids = vec![s(PRODUCER), s("nobody's")];
        }),
        ask(|_, r: &mut ListTransactionsRequest| r.state_filters = vec![s("Ongoing")]),
    ]
}
