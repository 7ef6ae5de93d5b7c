//! Records that wait behind a failed one of their key.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::batch;
use crate::engine::command::{Command, NackRequest, Reply};
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::gates::Gate;
use crate::engine::handle::Engine;
use crate::model::{GroupId, OrderKey, TopicPartition};
use crate::retry::{Answer, Input, Nack, OrderMode, Ordered, Token};
use crate::wire::batch::{RawRecord, order_key};

/// Records of one partition that a Fetch would be given, or was given before.
#[derive(Clone, Debug)]
pub struct Followers {
    /// Whose.
    pub group: GroupId,
    /// Of which partition.
    pub partition: TopicPartition,
    /// Offset, key and stored form (`wire::batch::RawRecord`) of each, by offset.
    pub records: Vec<(i64, OrderKey, Bytes)>,
}

impl Engine {
    /// What is kept in order of a partition; `None`: nothing, every record may go.
    pub fn gate(&self, group: &GroupId, of: &TopicPartition) -> Option<Arc<Gate>> {
        self.gates.of(group, of)
    }

    /// A number that differs whenever a key was stopped in a partition meanwhile.
    pub fn stops(&self, group: &GroupId, of: &TopicPartition) -> u64 {
        self.gates.epoch(group, of)
    }

    /// Puts records behind earlier ones of their key; what became of each, durably on return.
    pub async fn follow(&self, followers: Followers) -> Result<Vec<Ordered>, EngineError> {
        self.ask_durably(|reply| Command::Follow(followers, reply)).await
    }
}

impl Driver {
    pub(super) fn follow_all(&mut self, followers: Followers, reply: Reply<Vec<Ordered>>) {
        let answer = self.follow(followers);
        self.send(reply, answer);
    }

    fn follow(&mut self, followers: Followers) -> Result<Vec<Ordered>, EngineError> {
        let Followers { group, partition, records } = followers;
        self.may_decide()?;
        self.journal.admits()?;
        let bodies: Vec<Bytes> = records.iter().map(|(_, _, record)| record.clone()).collect();
        batch::check_bytes(&bodies)?;
        let records = records.into_iter().map(|(offset, key, _)| (offset, key)).collect();
        let token = Token(0);
        let (answer, facts) = self.handle(Input::Behind { token, group, partition, records });
        let Some(Answer::Ordered(outcomes)) = answer else { return Err(EngineError::Stopped) };
        self.persist(&facts, &bodies, Vec::new())?;
        Ok(outcomes)
    }

    /// Nacks with the keys of their records, and those.
    pub(super) fn keyed(
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

    /// The key by which a record of this group is kept in order; `None`: it is not.
    pub(super) fn order_key(&self, group: &GroupId, record: &Bytes) -> Option<OrderKey> {
        if self.machine.policy(group).order != OrderMode::Key {
            return None;
        }
        RawRecord::parse(record).ok()?.key.map(|key| order_key(&key))
    }
}
