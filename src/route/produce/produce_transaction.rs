//! The transaction that a Produce names, and the refusals of batches that do not belong in it.

use crate::wire::ResponseError;

/// The refusal of a topic of ours in a transaction. A nack in it would count at once, although the
/// transaction may abort.
pub(in crate::route) const NOT_TRANSACTIONAL: &str = "retry and dead-letter topics take no part in \
    transactions; produce outside, with a producer that has no transactional.id";

/// The refusal of a transactional batch in a request without a transactional id.
pub(super) const OUTSIDE_TRANSACTION: (ResponseError, &str) = (
    ResponseError::TransactionalIdAuthorizationFailed,
    "a batch of a transaction comes in a request that names its id",
);

/// The transaction of a Produce.
#[derive(Clone, Copy)]
pub(super) struct ProduceTransaction<'a> {
    pub(super) id: &'a str,
    /// Whether the first batch of a partition adds the partition to the transaction.
    pub(super) implied: bool,
}
