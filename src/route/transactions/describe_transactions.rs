//! `DescribeTransactions` 0: the state and partitions of each transactional id.

use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};

use crate::broker::transactions::Transaction;
use crate::route::Router;
use crate::route::convert::{text, wire_topic};
use crate::route::transactions::list_transactions::state_name;
use crate::route::unique_names::once;
use crate::wire::ResponseError;

pub(in crate::route) fn answer(
    router: &Router,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let mut response = DescribeTransactionsResponse::default();
    for id in once(request.transactional_ids, Clone::clone) {
        let known = router.broker.transactions.find(id.as_str());
        let mut state = known.as_ref().map_or_else(unknown, described);
        state.transactional_id = id;
        response.transaction_states.push(state);
    }
    response
}

fn unknown() -> TransactionState {
    let mut state = TransactionState::default();
    state.error_code = ResponseError::TransactionalIdNotFound.code();
    state
}

fn described(known: &Transaction) -> TransactionState {
    let mut state = TransactionState::default();
    state.transaction_state = text(state_name(known.phase));
    state.transaction_timeout_ms = i32::try_from(known.timeout_ms).unwrap_or(i32::MAX);
    state.transaction_start_time_ms = if known.is_open() { known.since.0 } else { -1 };
    (state.producer_id, state.producer_epoch) = (known.producer_id.into(), known.epoch);
    let mut parts: Vec<_> = known.parts.iter().map(|part| (&part.topic, part.partition)).collect();
    parts.sort_unstable();
    for (name, partition) in parts {
        let name = wire_topic(name);
        match state.topics.last_mut() {
            Some(last) if last.topic == name => last.partitions.push(partition),
            _ => {
                let mut topic = TopicData::default();
                (topic.topic, topic.partitions) = (name, vec![partition]);
                state.topics.push(topic);
            }
        }
    }
    state
}
