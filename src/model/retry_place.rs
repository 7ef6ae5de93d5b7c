//! Deliveries of retry topics.

use serde::{Deserialize, Serialize};

/// A partition of a retry topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RetryPartition {
    /// The stream of its log. In the cluster behind: a number of the topic. Neither is reused, so a
    /// recreated topic repeats no delivery.
    pub stream: u32,
    pub index: u16,
    /// The retry topic has the retries of one topic, not of the whole group.
    pub by_topic: bool,
}

/// One delivery of one entry: the place of its record in a retry topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RetryPlace {
    pub partition: RetryPartition,
    pub offset: i64,
}

impl RetryPartition {
    pub fn at(self, offset: i64) -> RetryPlace {
        RetryPlace { partition: self, offset }
    }
}

impl RetryPlace {
    /// A delivery in the one retry topic of a group.
    pub fn in_stream(index: u16, stream: u32, offset: i64) -> Self {
        RetryPartition { stream, index, by_topic: false }.at(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_of_a_later_stream_comes_behind() {
        let place = |stream, offset| RetryPlace::in_stream(2, stream, offset);
        assert!(place(7, i64::MAX) < place(8, 0));
        assert!(place(8, 0) < place(8, 1));
    }
}
