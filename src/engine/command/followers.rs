//! Records that wait behind a failed record of the same key.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::batch_limits;
use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::gates::Gate;
use crate::engine::handle::Engine;
use crate::engine::nack_batch::NackRequest;
use crate::model::{GroupId, OrderKey, TopicPartition};
use crate::retry::{LedgerAnswer, LedgerInput, Nack, OrderDecision, OrderMode};
use crate::wire::batch::{RawRecord, order_key};

/// Records of one partition that a Fetch is about to deliver, or has delivered before.
#[derive(Clone, Debug)]
pub struct Followers {
    pub group: GroupId,
    pub partition: TopicPartition,
    /// Offset, key and stored form (`wire::batch::RawRecord`) of each record, by offset.
    pub records: Vec<(i64, OrderKey, Bytes)>,
}

impl Engine {
    /// The gate of a partition; `None` when the partition keeps no key in order.
    pub fn gate(&self, group: &GroupId, of: &TopicPartition) -> Option<Arc<Gate>> {
        self.gates.of(group, of)
    }

    /// A number that changes whenever a key of the partition is blocked.
    pub fn stops(&self, group: &GroupId, of: &TopicPartition) -> u64 {
        self.gates.epoch(group, of)
    }

    /// Puts records behind earlier ones of their key. Returns the outcome of each; durable on
    /// return.
    pub async fn follow(&self, followers: Followers) -> Result<Vec<OrderDecision>, EngineError> {
        self.call(followers).await
    }
}

impl Request for Followers {
    type Answer = Vec<OrderDecision>;

    fn run(self, driver: &mut Driver) -> Result<Vec<OrderDecision>, EngineError> {
        let Self { group, partition, records } = self;
        driver.may_decide()?;
        driver.journal.admits()?;
        let bodies: Vec<Bytes> = records.iter().map(|(_, _, record)| record.clone()).collect();
        batch_limits::check_bytes(&bodies)?;
        let records = records.into_iter().map(|(offset, key, _)| (offset, key)).collect();
        let input = LedgerInput::Behind { group, partition, records };
        let (answer, facts) = driver.handle_records(driver.clock.now(), input, &bodies);
        let Some(LedgerAnswer::Ordered(outcomes)) = answer else {
            return Err(EngineError::Stopped);
        };
        driver.persist(&facts, &bodies, Vec::new())?;
        Ok(outcomes)
    }
}

impl Driver {
    /// Adds the keys of the records to their nacks.
    pub(in crate::engine) fn keyed(
        &self,
        group: &GroupId,
        nacks: Vec<NackRequest>,
    ) -> (Vec<Nack>, Vec<Bytes>) {
        let of = |NackRequest { nack, record }| {
            let key = self.order_key(group, &record);
            (Nack { key, ..nack }, record)
        };
        nacks.into_iter().map(of).unzip()
    }

    /// The key by which the group keeps a record in order; `None` for a record without one.
    pub(in crate::engine) fn order_key(&self, group: &GroupId, record: &Bytes) -> Option<OrderKey> {
        if self.ledger.policy(group).order != OrderMode::Key {
            return None;
        }
        RawRecord::parse(record).ok()?.key.map(|key| order_key(&key))
    }
}
