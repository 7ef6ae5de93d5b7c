//! Errors of transactional producers; `route` turns each into one Kafka error code.

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// The transactional id is unknown, or has another producer id.
    #[error("no producer of this id is known by this transactional id; begin anew")]
    UnknownProducer,
    /// A newer producer epoch exists, or the transaction was aborted by its timeout.
    #[error("a newer producer has this transactional id, or its transaction has timed out")]
    Fenced,
    /// No transaction is open, the partition is not part of it, or it already ended the other way.
    #[error("the transaction is in no state for this")]
    InvalidState,
    /// `transaction.timeout.ms` is out of bounds.
    #[error("transaction.timeout.ms must be 1 to 900000")]
    InvalidTimeout,
    /// An empty transactional id.
    #[error("a transactional id has 1 to 32767 bytes")]
    InvalidId,
    /// A limit of this node is reached; room returns when transactions end.
    #[error("too many transactions are open, or one of them is too large")]
    TooMany,
}
