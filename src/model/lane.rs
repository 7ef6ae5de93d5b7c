//! Offsets of retry partitions: `2^50 | slot (16 bit) << 34 | sequence (34 bit)`.
//!
//! All are below 2^53, so that a JavaScript client keeps them exact. The slot identifies the member
//! without a group id; the sequence never restarts in a reused slot.

use serde::{Deserialize, Serialize};

/// The first offset of a retry partition; all below are ordinary Kafka offsets.
pub const LANE_BASE: i64 = 1 << 50;
/// The largest sequence a slot can reach (34 bits).
pub const LANE_SEQUENCE_MAX: u64 = (1 << 34) - 1;
const SLOT_SHIFT: u32 = 34;
/// Bits of the offset in the sequence of a delivery in a stream.
const STREAM_SHIFT: u32 = 40;
const STREAM_OFFSET_MAX: u64 = (1 << STREAM_SHIFT) - 1;

/// Number of a live member's retry partitions within its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RetryPartition(pub u16);

/// One delivery of one entry: the slot and the delivery's number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LaneOffset {
    pub slot: RetryPartition,
    /// Number of the delivery in the slot, from 0.
    pub sequence: u64,
}

impl LaneOffset {
    /// The Kafka offset of this delivery.
    pub fn to_kafka(self) -> i64 {
        let slot = i64::from(self.slot.0) << SLOT_SHIFT;
        let sequence = i64::try_from(self.sequence & LANE_SEQUENCE_MAX).unwrap_or(0);
        LANE_BASE | slot | sequence
    }

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

    /// Reads a Kafka offset; `None` for an ordinary offset, or for a slot beyond 16 bits.
    pub fn from_kafka(offset: i64) -> Option<Self> {
        let rest = offset.checked_sub(LANE_BASE)?;
        let slot = u16::try_from(rest >> SLOT_SHIFT).ok()?;
        let sequence = u64::try_from(rest).ok()? & LANE_SEQUENCE_MAX;
        Some(Self { slot: RetryPartition(slot), sequence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_offset_is_reversible_and_exact_in_javascript() {
        for (slot, sequence) in [(0, 0), (1, 7), (u16::MAX, LANE_SEQUENCE_MAX)] {
            let lane = LaneOffset { slot: RetryPartition(slot), sequence };
            assert_eq!(LaneOffset::from_kafka(lane.to_kafka()), Some(lane));
            assert!(lane.to_kafka() < 1 << 53);
        }
    }

    #[test]
    fn a_delivery_in_a_stream_keeps_its_offset_and_no_other_stream_repeats_it() {
        let lane = |stream, offset| LaneOffset::in_stream(2, stream, offset);
        assert_eq!(lane(7, 57).offset(), 57);
        assert_eq!((lane(0, 0).offset(), lane(0, 0).stream()), (0, 0));
        assert_eq!(lane(7, i64::MAX).stream(), 7);
        assert!(lane(7, i64::MAX) < lane(8, 0), "a later stream comes behind");
        assert_eq!(lane(u32::MAX, 5).offset(), 5);
    }

    #[test]
    fn ordinary_and_impossible_offsets_are_no_lane_offsets() {
        for offset in [i64::MIN, -2, -1, 0, LANE_BASE - 1, LANE_BASE * 2, i64::MAX] {
            assert_eq!(LaneOffset::from_kafka(offset), None, "{offset}");
        }
    }
}
