//! Deliveries of the retry topic.

use serde::{Deserialize, Serialize};

/// Bits of the offset in the sequence of a delivery in a stream.
const STREAM_SHIFT: u32 = 40;
const STREAM_OFFSET_MAX: u64 = (1 << STREAM_SHIFT) - 1;

/// Number of a partition of a retry topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RetryPartition(pub u16);

/// One delivery of one entry: the partition and the delivery's number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RetryPlace {
    pub slot: RetryPartition,
    /// The topic's stream and the offset there.
    pub sequence: u64,
}

impl RetryPlace {
    /// The delivery at an offset of a stream of the log: a partition of a real retry topic. Stream
    /// ids are never reused, so a recreated topic repeats no delivery.
    pub fn in_stream(partition: u16, stream: u32, offset: i64) -> Self {
        let offset = u64::try_from(offset).unwrap_or(0).min(STREAM_OFFSET_MAX);
        let sequence = u64::from(stream) << STREAM_SHIFT | offset;
        Self { slot: RetryPartition(partition), sequence }
    }

    /// The stream of a delivery in a stream.
    pub fn stream(self) -> u32 {
        u32::try_from(self.sequence >> STREAM_SHIFT).unwrap_or(u32::MAX)
    }

    /// The offset in the stream.
    pub fn offset(self) -> i64 {
        i64::try_from(self.sequence & STREAM_OFFSET_MAX).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_in_a_stream_keeps_its_offset_and_no_other_stream_repeats_it() {
        let place = |stream, offset| RetryPlace::in_stream(2, stream, offset);
        assert_eq!(place(7, 57).offset(), 57);
        assert_eq!((place(0, 0).offset(), place(0, 0).stream()), (0, 0));
        assert_eq!(place(7, i64::MAX).stream(), 7);
        assert!(place(7, i64::MAX) < place(8, 0), "a later stream comes behind");
        assert_eq!(place(u32::MAX, 5).offset(), 5);
    }
}
