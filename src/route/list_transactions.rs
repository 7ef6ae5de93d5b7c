//! ListTransactions 0–2, in front of a cluster: its brokers have them, this node has none.

use kafka_protocol::messages::{ListTransactionsRequest, ListTransactionsResponse};

pub(super) fn answer(_request: ListTransactionsRequest) -> ListTransactionsResponse {
    ListTransactionsResponse::default()
}
