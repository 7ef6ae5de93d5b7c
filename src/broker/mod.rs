//! Local topics: clients produce to, fetch from and commit on them without an upstream cluster.
//!
//! Topic partitions are streams of the journal. The broker reads through the journal's indexes and
//! writes through the journal's single writer. This module does not know about retries.
//!
//! **Bounds.** Offsets count up from 0, and 64 bits suffice. `wire` bounds the counts of a request.
//! A sum of bytes that saturates is over its limit and is refused.

mod arrivals;
mod committed;
pub mod error;
pub mod fact_encoding;
pub mod groups;
pub mod ids;
pub mod kind;
mod log;
pub mod nodes;
pub mod offsets;
pub mod patterns;
pub mod producers;
mod retention;
pub mod settings;
pub mod topic;
pub mod topics;
pub mod transactions;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::broker::arrivals::Arrivals;
use crate::broker::fact_encoding::FactError;
use crate::broker::groups::Groups;
use crate::broker::ids::Ids;
use crate::broker::nodes::NodeMap;
use crate::broker::offsets::OffsetStore;
use crate::broker::patterns::Patterns;
use crate::broker::topics::Topics;
use crate::broker::transactions::Transactions;
use crate::clock::Clock;
use crate::journal::{Durability, Journal, JournalEntry};
use crate::model::TopicName;

pub use crate::broker::committed::{CommittedRead, OffsetOutcome};
pub use crate::broker::log::{AdmissionError, LogRead, ProducedPosition, TimeBounds};
pub use crate::broker::patterns::PatternError;
pub use crate::broker::producers::Expiration;
pub use crate::broker::retention::RetentionResult;

/// The local cluster.
#[derive(Debug)]
pub struct Broker {
    /// Topics by name and id.
    pub topics: Topics,
    pub groups: Groups,
    pub offsets: OffsetStore,
    pub transactions: Transactions,
    /// The upstream cluster's nodes, if there is an upstream cluster.
    pub nodes: NodeMap,
    ids: Ids,
    arrivals: Arrivals,
    patterns: Patterns,
    journal: Journal,
    durability: Durability,
    clock: Clock,
    expiration: Expiration,
}

#[cfg(test)]
impl Broker {
    /// Makes a broker on a recovered journal, with the default groups.
    fn recovered(
        journal: Journal,
        recovery: &crate::journal::Recovery,
        topics: Topics,
        clock: Clock,
    ) -> Self {
        let (groups, _events) = Groups::new(
            journal.clone(),
            crate::group::ClassicConfig::default(),
            crate::group::ConsumerConfig::default(),
            move || clock.now(),
        );
        let offsets = OffsetStore::new(journal.clone());
        let broker = Self::new(topics, groups, offsets, journal, Durability::Fsync, clock);
        let from = broker.replay_from(recovery.checkpointed()).unwrap();
        recovery.replay(from, &mut |entry, _| broker.replay(entry)).unwrap();
        broker
    }
}

impl Broker {
    /// Makes a cluster without topics; [`Broker::replay`] fills it and [`Broker::started`] ends the
    /// replay. `durability` is what an acknowledged Produce with acks ≥ 1 promises.
    pub fn new(
        topics: Topics,
        groups: Groups,
        offsets: OffsetStore,
        journal: Journal,
        durability: Durability,
        clock: Clock,
    ) -> Self {
        let ids = Ids::new(journal.clone());
        let arrivals = Arrivals::new(journal.clone());
        let transactions = Transactions::default();
        let nodes = NodeMap::new(journal.clone());
        let expiration = Expiration::default();
        Self {
            topics,
            groups,
            offsets,
            transactions,
            nodes,
            ids,
            arrivals,
            patterns: Patterns::default(),
            journal,
            durability,
            clock,
            expiration,
        }
    }

    /// Sets other expiration times for producers.
    pub fn expiring(self, expiration: Expiration) -> Self {
        Self { expiration, ..self }
    }

    /// Restores one journal entry, in order; entries of other owners are skipped.
    pub fn replay(&self, entry: &JournalEntry) {
        match entry.kind {
            kind::TOPIC => self.topics.replay(entry),
            kind::OFFSET => readable(entry, self.offsets.replay(entry)),
            kind::GROUP => readable(entry, self.groups.replay(entry)),
            kind::BATCH => self.replay_batch(entry),
            kind::PRODUCERS => self.replay_producers(entry),
            kind::TRANSACTION => readable(entry, self.transactions.replay(entry)),
            kind::TRANSACTION_STEP => readable(entry, self.transactions.replay_step(entry)),
            kind::NODES => self.nodes.replay(entry),
            kind::ARRIVAL => readable(entry, self.arrivals.replay(entry)),
            kind::PRODUCER_ID | kind::CLUSTER => readable(entry, self.ids.replay(entry)),
            _ => {}
        }
    }

    /// The cluster id; made by [`Broker::started`] at the first start.
    pub fn cluster_id(&self) -> &str {
        self.ids.cluster_id()
    }

    /// A producer id that was never used before.
    pub async fn next_producer_id(&self) -> Result<i64, error::BrokerError> {
        self.ids.next_producer_id().await
    }

    /// Ends the replay: gives the cluster its id if it has none yet.
    pub async fn started(&self) -> Result<(), error::BrokerError> {
        self.ids.settle_cluster_id().await
    }

    /// The topics of this cluster whose whole name matches.
    pub fn matching(&self, pattern: &str) -> Result<Arc<BTreeSet<TopicName>>, PatternError> {
        self.patterns.matching(&self.topics, pattern)
    }

    /// Free bytes of the journal's disk, as last measured.
    pub fn free_bytes(&self) -> u64 {
        self.journal.stats().disk_free
    }

    /// Returns once entry `seq` is fdatasync'd.
    pub async fn durable(&self, seq: u64) -> Result<(), error::BrokerError> {
        Ok(self.journal.durable(seq).await?)
    }

    /// Returns once entry `seq` meets the durability setting `topics.durability`.
    pub async fn acknowledged(&self, seq: u64) -> Result<(), error::BrokerError> {
        Ok(self.journal.acknowledged(seq, self.durability).await?)
    }
}

/// Logs an entry that cannot be read and skips it: the fault affects one group, not the cluster.
fn readable(entry: &JournalEntry, replayed: Result<(), FactError>) {
    if let Err(error) = replayed {
        let seq = entry.seq;
        tracing::error!(
            seq, %error,
            "R0419 an entry of the embedded cluster cannot be read and is skipped; run \
             `reprise log verify`"
        );
    }
}
