//! Deleted and recreated topics: the detector forgets all it knows of them, and no Fetch waits.

use crate::model::{Moment, TopicName, TopicPartition};
use crate::retry::detector::{DeliveryRight, Detector, DetectorOutput, Window};

impl Detector {
    /// The name stands for another topic, or none, from now on.
    pub(super) fn on_topic_gone(&mut self, now: Moment, topic: &TopicName) {
        self.forget(now, |partition| partition.topic == *topic);
        self.outputs.push_back(DetectorOutput::Wake);
    }

    /// The coordinator has no committed offset of the group for this partition. If there was one,
    /// it was deleted, as a cluster does with a topic: the group is new there. Otherwise the answer
    /// says nothing.
    pub(super) fn on_uncommitted(&mut self, now: Moment, of: &TopicPartition) {
        if self.windows.get(of).is_some_and(Window::has_committed) {
            self.forget(now, |partition| partition == of);
            self.outputs.push_back(DetectorOutput::Wake);
        }
    }

    fn forget(&mut self, now: Moment, is_gone: impl Fn(&TopicPartition) -> bool) {
        let gone = self.windows.keys().filter(|known| is_gone(known));
        let gone: Vec<TopicPartition> = gone.cloned().collect();
        for partition in gone {
            self.clear_suspects(now, &partition);
            self.outputs.push_back(DetectorOutput::Window { partition, window: None });
        }
        self.windows.retain(|known, _| !is_gone(known));
        self.unreadable.retain(|known| !is_gone(known));
        self.troubled.retain(|known| !is_gone(known));
        for member in self.members.values_mut() {
            member.turn.take_if(|turn: &mut DeliveryRight| is_gone(&turn.partition));
        }
    }
}
