//! Deletion of a topic: failures in a later topic of the same name count from one again.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::TopicName;
use crate::retry::LedgerInput;

/// The deletion of a topic.
struct EndTopic {
    topic: TopicName,
}

impl Engine {
    /// Reports that a topic was deleted. The command is queued on return; the future ends when it
    /// is durable, or waits for room on a full disk.
    pub fn topic_gone(
        &self,
        topic: &TopicName,
    ) -> impl Future<Output = Result<(), EngineError>> + use<> {
        self.call(EndTopic { topic: topic.clone() })
    }
}

impl Request for EndTopic {
    type Answer = ();

    const IS_EVENT: bool = true;

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        let noted = driver.note(LedgerInput::TopicGone { topic: self.topic.clone() });
        driver.destination_gone(&self.topic);
        noted
    }
}
