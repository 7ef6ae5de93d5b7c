//! A topic is deleted, or made anew: nothing that is known of it holds, and nobody waits for it.

use crate::model::{TopicName, TopicPartition};
use crate::retry::watch::{Output, Turn, Watch};

impl Watch {
    /// One by its name is another one from now on.
    pub(super) fn on_topic_gone(&mut self, topic: &TopicName) {
        let gone = |partition: &TopicPartition| partition.topic == *topic;
        for partition in self.windows.keys().filter(|known| gone(known)) {
            let partition = partition.clone();
            self.outputs.push_back(Output::Window { partition, window: None });
        }
        self.windows.retain(|known, _| !gone(known));
        self.troubled.retain(|known| !gone(known));
        for member in self.members.values_mut() {
            member.turn.take_if(|turn: &mut Turn| gone(&turn.partition));
            member.last.take_if(|(of, _)| gone(of));
        }
        self.outputs.push_back(Output::Wake);
    }
}
