//! The topics with delayed records.

use crate::model::TopicName;

/// The topics with delayed records, and the longest delay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceDelay {
    /// Whether topics outside `listed` have delayed records.
    pub others: bool,
    pub listed: Vec<(TopicName, bool)>,
    /// The longest delay, in milliseconds.
    pub ms_max: u64,
}

impl ProduceDelay {
    /// Whether records of this topic may be delayed.
    pub fn is_for(&self, topic: &TopicName) -> bool {
        let listed = self.listed.iter().find(|(name, _)| name == topic);
        listed.map_or(self.others, |(_, on)| *on)
    }
}
