//! A group commits offsets of upstream partitions: records below them are handled.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::{GroupId, TopicName};
use crate::retry::LedgerAnswer;

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

    /// Reports committed offsets that nobody waits for.
    pub fn note_commits(&self, group: &GroupId, offsets: Vec<(TopicName, i32, i64)>) {
        self.report(GroupCommits { group: group.clone(), offsets });
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
            let input = driver.commit_of(self.group.clone(), topic.clone(), partition, offset);
            match driver.ask(input) {
                Ok(Some(LedgerAnswer::Acknowledged(count))) if count > 0 => {
                    let count = u64::try_from(count).unwrap_or(u64::MAX);
                    driver.metrics.record_acked(self.group.as_str(), topic.as_str(), count);
                }
                Ok(_) => {}
                Err(error) => answer = answer.and(Err(error)),
            }
        }
        answer
    }
}
