//! `ListTransactions` 0–2: the transactional ids of the embedded cluster. In front of a cluster its
//! brokers list them, and this node has none.

use kafka_protocol::messages::list_transactions_response::TransactionState;
use kafka_protocol::messages::{
    ListTransactionsRequest, ListTransactionsResponse, TransactionalId,
};

use crate::broker::transactions::{Transaction, TransactionPhase};
use crate::route::Router;
use crate::route::convert::text;
use crate::wire::ResponseError;

/// Transaction states of this node.
const STATES: [TransactionPhase; 4] = [
    TransactionPhase::Empty,
    TransactionPhase::Ongoing,
    TransactionPhase::Committed,
    TransactionPhase::Aborted,
];
/// Transaction states of Kafka that this node never has.
const NEVER_HERE: [&str; 4] = ["PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"];

/// Kafka's name of the state.
pub(super) fn state_name(phase: TransactionPhase) -> &'static str {
    match phase {
        TransactionPhase::Empty => "Empty",
        TransactionPhase::Ongoing => "Ongoing",
        TransactionPhase::Committed => "CompleteCommit",
        TransactionPhase::Aborted => "CompleteAbort",
    }
}

pub(in crate::route) fn answer(
    router: &Router,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    let mut response = ListTransactionsResponse::default();
    if request.transactional_id_pattern.as_ref().is_some_and(|pattern| !pattern.is_empty()) {
        // Patterns are not supported here.
        response.error_code = ResponseError::InvalidRegularExpression.code();
        return response;
    }
    let is_known = |name: &str| {
        STATES.iter().any(|phase| state_name(*phase) == name) || NEVER_HERE.contains(&name)
    };
    let unknown = request.state_filters.iter().filter(|name| !is_known(name));
    response.unknown_state_filters = unknown.cloned().collect();
    let now = router.clock.now().wall;
    let wanted = |known: &Transaction| {
        let states = &request.state_filters;
        let producers = &request.producer_id_filters;
        let open_ms = i64::try_from(now.since(known.since)).unwrap_or(i64::MAX);
        (states.is_empty() || states.iter().any(|name| name.as_str() == state_name(known.phase)))
            && (producers.is_empty() || producers.iter().any(|id| id.0 == known.producer_id))
            && (request.duration_filter < 0
                || (known.is_open() && request.duration_filter < open_ms))
    };
    for (id, known) in router.broker.transactions.list() {
        if wanted(&known) {
            let mut state = TransactionState::default();
            state.transactional_id = TransactionalId(text(&id));
            state.producer_id = known.producer_id.into();
            state.transaction_state = text(state_name(known.phase));
            response.transaction_states.push(state);
        }
    }
    response
}
