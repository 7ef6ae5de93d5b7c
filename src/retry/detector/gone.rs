//! A topic is deleted, or made anew: nothing that is known of it holds, and nobody waits for it.

use crate::model::{Now, TopicName, TopicPartition};
use crate::retry::detector::{Detector, Output, Turn, Window};

impl Detector {
    /// One by its name is another one from now on.
    pub(super) fn on_topic_gone(&mut self, now: Now, topic: &TopicName) {
        self.forget(now, |partition| partition.topic == *topic);
        self.outputs.push_back(Output::Wake);
    }

    /// The group has no offset of it, as its coordinator says. Where it had one, that was deleted,
    /// as a cluster does with a topic: the group is new there. Where it never had any, nothing is
    /// told by that.
    pub(super) fn on_uncommitted(&mut self, now: Now, of: &TopicPartition) {
        if self.windows.get(of).is_some_and(Window::has_committed) {
            self.forget(now, |partition| partition == of);
            self.outputs.push_back(Output::Wake);
        }
    }

    fn forget(&mut self, now: Now, is_gone: impl Fn(&TopicPartition) -> bool) {
        let gone = self.windows.keys().filter(|known| is_gone(known));
        let gone: Vec<TopicPartition> = gone.cloned().collect();
        for partition in gone {
            self.clear_suspects(now, &partition);
            self.outputs.push_back(Output::Window { partition, window: None });
        }
        self.windows.retain(|known, _| !is_gone(known));
        self.unreadable.retain(|known| !is_gone(known));
        self.troubled.retain(|known| !is_gone(known));
        for member in self.members.values_mut() {
            member.turn.take_if(|turn: &mut Turn| is_gone(&turn.partition));
        }
    }
}
