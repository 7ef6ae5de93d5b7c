//! A batch of nacks with their records, and the answer to it.

use bytes::Bytes;

use crate::engine::producer_sequences::ProducerSequence;
use crate::model::GroupId;
use crate::retry::{Nack, NackOutcome, Reporter};

/// One record of a nack batch.
#[derive(Clone, Debug)]
pub struct NackRequest {
    /// The nack for the ledger.
    pub nack: Nack,
    /// The record's stored form (`wire::batch::RawRecord`), for a new entry; empty when the nack
    /// refers to an existing entry.
    pub record: Bytes,
}

/// A batch produced to a retry topic, or the nacks of one partition's commit: accepted or refused
/// as a whole.
#[derive(Clone, Debug)]
pub struct NackBatch {
    /// The group of the retry topic or of the commit.
    pub group: GroupId,
    /// The producer, or the committing member.
    pub by: Reporter,
    /// `None` for a producer without idempotence, and for a commit.
    pub producer: Option<ProducerSequence>,
    /// One per record, in order.
    pub nacks: Vec<NackRequest>,
}

/// The answer to a nack batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NackReply {
    /// Accepted now, with an outcome per nack; `None` for a record that waits in its partition.
    Taken(Vec<Option<NackOutcome>>),
    /// Accepted before: the producer repeated the batch.
    Repeated,
}
