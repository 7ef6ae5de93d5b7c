//! A group commits offsets of upstream partitions: records below them are handled.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::{GroupId, TopicName, TopicPartition};
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
            let of = TopicPartition { topic, partition };
            let noted = if let Some(up_to) = driver.mover.delivery_at(&self.group, &of, offset) {
                if driver.mover.is_behind(&self.group) {
                    // Fetches of members that are connected elsewhere are not seen here.
                    let pair = driver.mover.pair_of(&self.group, &of.topic);
                    if let Some(pair) = pair {
                        driver.readers.note_fetch(pair, driver.clock.now().mono);
                    }
                }
                driver.commit_retries(&self.group, up_to)
            } else {
                let (group, TopicPartition { topic, partition }) = (self.group.clone(), of);
                let input = LedgerInput::OriginCommit { group, topic, partition, offset };
                driver.ask(input).map(|_| ())
            };
            answer = answer.and(noted);
        }
        answer
    }
}
