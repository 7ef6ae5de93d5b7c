//! A group commits offsets of upstream partitions: records below them are handled.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::{GroupId, TopicName};
use crate::retry::LedgerInput;

/// Committed offsets of a group, by topic and partition.
struct GroupCommits {
    group: GroupId,
    offsets: Vec<(TopicName, i32, i64)>,
}

impl Engine {
    /// Reports the group's committed offsets of upstream partitions. On return every earlier nack
    /// is durable, so a commit that passes it may be accepted.
    pub async fn origin_commits(
        &self,
        group: &GroupId,
        offsets: Vec<(TopicName, i32, i64)>,
    ) -> Result<(), EngineError> {
        self.call(GroupCommits { group: group.clone(), offsets }).await
    }

    /// Waits until every earlier nack of the group is durable.
    pub async fn nacks_durable(&self, group: &GroupId) -> Result<(), EngineError> {
        self.origin_commits(group, Vec::new()).await
    }
}

impl Request for GroupCommits {
    type Answer = ();

    /// a failed offset does not keep the others from being reported
    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        let mut answer = Ok(());
        for (topic, partition, offset) in self.offsets {
            let group = self.group.clone();
            let told = driver.ask(LedgerInput::OriginCommit { group, topic, partition, offset });
            answer = answer.and(told.map(|_| ()));
        }
        answer
    }
}
