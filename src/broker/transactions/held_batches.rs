//! Batches for topics without a log: journalled, and read back when their transaction is about to
//! be committed. This module does not interpret them.

use bytes::{BufMut, Bytes, BytesMut};

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::kind;
use crate::broker::transactions::ending::EndResult;
use crate::broker::transactions::state::{
    Incarnation, Transaction, TransactionPartition, WithheldBatch,
};
use crate::broker::transactions::{Joining, TransactionError};
use crate::journal::{EncodedHead, EntryRef, NewEntry};
use crate::model::TopicName;
use crate::wire::batch::Batch;

/// The withheld batches of a transaction at one moment.
#[derive(Debug, Default)]
pub struct HeldBatches {
    /// Topic and bytes of each batch, in order of arrival.
    pub batches: Vec<(TopicName, Bytes)>,
    held: Vec<WithheldBatch>,
}

/// Stream number of a topic without a log.
const NO_STREAM: u32 = u32::MAX;

/// The identity of a topic without a log inside a transaction; such a topic has one partition.
pub fn part_without_log(topic: &TopicName) -> TransactionPartition {
    TransactionPartition { stream: NO_STREAM, topic: topic.clone(), partition: 0 }
}

impl Broker {
    /// Withholds a batch until the transaction ends; returns the entry to wait for. With `implied`,
    /// the batch adds its topic to the transaction (KIP-890).
    pub fn hold_in_transaction(
        &self,
        id: &str,
        implied: bool,
        topic: &TopicName,
        batch: &Batch,
    ) -> Result<u64, BrokerError> {
        let header = &batch.header;
        let by = (header.producer_id, header.producer_epoch);
        let now = self.clock.now().wall;
        let mut book = self.transactions.lock();
        let part = part_without_log(topic);
        if let Err(error) = book.known(id)?.check_part(by, &part) {
            if !(implied && error == TransactionError::InvalidState) {
                return Err(error.into());
            }
            self.join(&mut book, id, by, Joining { parts: vec![part], ..Joining::default() })?;
        }
        let known = book.known(id)?;
        let size = (header.base_sequence, batch.bytes.len());
        let Some((number, step)) = known.holding(topic, size, now)? else {
            return Ok(self.journal.appended_seq());
        };
        let bytes = EncodedHead::new(batch.bytes.to_vec());
        let entry = NewEntry::keyed_body(kind::HELD_BATCH, key(id, number), bytes);
        self.keep_step(&mut book, id, step, vec![entry])
    }

    /// Reads the withheld batches of this producer's open transaction, in order of arrival.
    pub fn held_in_transaction(
        &self,
        id: &str,
        by: Incarnation,
    ) -> Result<HeldBatches, BrokerError> {
        let held = match self.transactions.find(id) {
            Some(known) if known.is_open() && known.check(by).is_ok() => known.held,
            _ => return Ok(HeldBatches::default()),
        };
        let mut batches = Vec::with_capacity(held.len());
        for one in &held {
            if let Some(at) = self.journal.keyed_get(kind::HELD_BATCH, &key(id, one.number))? {
                batches.push((one.topic.clone(), self.journal.read(at)?.body));
            }
        }
        Ok(HeldBatches { batches, held })
    }

    /// Commits a transaction in one atomic group with the results of its withheld batches. Returns
    /// where `more` lies; nothing if the transaction was committed before. A transaction whose
    /// withheld batches differ from `held` is not ended. `more` runs after all checks.
    pub fn commit_held(
        &self,
        (id, by): (&str, Incarnation),
        raises: bool,
        held: &HeldBatches,
        more: &mut dyn FnMut() -> Option<Vec<NewEntry>>,
    ) -> Result<(EndResult, Vec<EntryRef>), BrokerError> {
        self.end_with((id, by), (true, raises), |open| {
            if open.is_open() && open.held != held.held {
                return Err(TransactionError::InvalidState.into());
            }
            // The caller reserved room for `more` beforehand, because its decision cannot be
            // undone.
            more().ok_or(BrokerError::UnknownTopicOrPartition)
        })
    }
}

/// Tombstones of the withheld batches of a transaction.
pub(super) fn released<'a>(
    id: &'a str,
    old: &'a Transaction,
) -> impl Iterator<Item = NewEntry> + 'a {
    let gone = |number| NewEntry::tombstone(kind::HELD_BATCH, key(id, number));
    old.held.iter().map(move |held| gone(held.number))
}

fn key(id: &str, number: u32) -> Bytes {
    let mut key = BytesMut::with_capacity(4 + id.len());
    key.put_u32(number);
    key.put_slice(id.as_bytes());
    key.freeze()
}
