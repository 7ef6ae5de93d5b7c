//! Batches for topics without a log: written down, and given back when their transaction is about
//! to be committed. What they mean is not known here.

use bytes::{BufMut, Bytes, BytesMut};

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::kind;
use crate::broker::transactions::ending::Ended;
use crate::broker::transactions::state::{Held, Incarnation, Part, Transaction};
use crate::broker::transactions::{Joining, TransactionError};
use crate::journal::{Encoded, EntryRef, NewEntry};
use crate::model::TopicName;
use crate::wire::batch::Batch;

/// What a transaction holds, as it was looked at.
#[derive(Debug, Default)]
pub struct HeldBatches {
    /// Topic and bytes of each, in the order they came.
    pub batches: Vec<(TopicName, Bytes)>,
    held: Vec<Held>,
}

/// Of a topic without a log.
const NO_STREAM: u32 = u32::MAX;

/// The one partition of a topic without a log, as a transaction knows it.
pub fn part_without_log(topic: &TopicName) -> Part {
    Part { stream: NO_STREAM, topic: topic.clone(), partition: 0 }
}

impl Broker {
    /// Holds a batch until the transaction ends; returns the entry to wait for. `implied`: its
    /// topic comes into the transaction with it (KIP-890).
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
        let bytes = Encoded::new(batch.bytes.to_vec());
        let entry = NewEntry::keyed_body(kind::HELD_BATCH, key(id, number), bytes);
        self.keep_step(&mut book, id, step, vec![entry])
    }

    /// What an open transaction of this incarnation holds, in the order it came.
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

    /// Commits a transaction with what comes of what it holds, in one atomic group: where that lies
    /// in the log, nothing if it was committed before. One that does not hold just that any more is
    /// not ended. `more` is asked only when nothing is in the way of the end.
    pub fn commit_held(
        &self,
        (id, by): (&str, Incarnation),
        raises: bool,
        held: &HeldBatches,
        more: &mut dyn FnMut() -> Option<Vec<NewEntry>>,
    ) -> Result<(Ended, Vec<EntryRef>), BrokerError> {
        self.end_with((id, by), (true, raises), |open| {
            if open.is_open() && open.held != held.held {
                return Err(TransactionError::InvalidState.into());
            }
            // As of a batch that brings more: whoever decides on it has asked for room.
            more().ok_or(BrokerError::UnknownTopicOrPartition)
        })
    }
}

/// The end of what a transaction holds.
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
