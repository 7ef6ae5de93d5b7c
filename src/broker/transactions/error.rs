//! Why a transactional producer is refused; `route` turns each into one Kafka error code.

/// One refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// No producer with this id has this transactional id.
    #[error("no producer of this id is known by this transactional id; begin anew")]
    UnknownProducer,
    /// Another incarnation has begun, or the transaction was aborted when its time was over.
    #[error("a newer producer has this transactional id, or its transaction has timed out")]
    Fenced,
    /// Nothing is open, the partition is no part of it, or it has ended the other way.
    #[error("the transaction is in no state for this")]
    InvalidState,
    /// `transaction.timeout.ms`.
    #[error("transaction.timeout.ms must be 1 to 900000")]
    InvalidTimeout,
    /// An empty transactional id.
    #[error("a transactional id has 1 to 32767 bytes")]
    InvalidId,
    /// More than this node keeps; some end, then there is room again.
    #[error("too many transactions are open, or one of them is too large")]
    TooMany,
}
