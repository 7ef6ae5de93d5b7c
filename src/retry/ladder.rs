//! Retry rules of one record: the rule of its topic, or else of its group.

use std::sync::Arc;

use crate::model::WallMs;
use crate::retry::fnv::Fnv;
use crate::retry::{DELAY_MS_MAX, Entry, LevelTable, THOUSAND, glob};

/// Retry rules of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// Retries before the dead letters.
    pub max_reconsume_times: u32,
    pub delays: Delays,
    /// A failure this long after the first one is the last; `None`: only the count ends the
    /// retries.
    pub max_elapsed_ms: Option<u64>,
    /// Exhausted records become dead letters; otherwise they are dropped and counted.
    pub keep_dead_letters: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Delays by level.
    pub levels: Arc<LevelTable>,
    /// Longest extension of a level's delay, in thousandths of the delay.
    pub jitter_milli: u32,
}

/// A rule for topics of some groups. A field that is `None` falls back to the group's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicRule {
    /// Pattern of groups: `*` any text, `?` one character.
    pub group: String,
    /// Pattern of topics that the records were produced to, as for `group`.
    pub topic: String,
    pub max_reconsume_times: Option<u32>,
    pub delays: Option<Delays>,
    pub max_elapsed_ms: Option<Option<u64>>,
    pub keep_dead_letters: Option<bool>,
}

impl TopicRule {
    pub(super) fn is_for(&self, group: &str, topic: &str) -> bool {
        glob(&self.group, group) && glob(&self.topic, topic)
    }
}

impl Ladder {
    /// The retries of a record that first failed at `first_failed` have used up `max_elapsed_ms`.
    pub(super) fn is_over(&self, first_failed: Option<WallMs>, now: WallMs) -> bool {
        let elapsed_ms = first_failed.map(|first| now.since(first));
        elapsed_ms.zip(self.max_elapsed_ms).is_some_and(|(elapsed, most)| elapsed >= most)
    }
}

impl Delays {
    /// Delay of a level plus jitter for this entry. Never shorter than the table's delay; equal for
    /// every call with the same attempt.
    pub(super) fn spread(&self, entry: &Entry, delay_ms: u64) -> u64 {
        if self.jitter_milli == 0 {
            return delay_ms;
        }
        let share = u128::from(part_of(entry)) * u128::from(self.jitter_milli);
        // Divides `share`, a fraction of 2^64, by 2^64.
        let more = (u128::from(delay_ms) * share / u128::from(THOUSAND)) >> 64;
        delay_ms.saturating_add(u64::try_from(more).unwrap_or(u64::MAX)).min(DELAY_MS_MAX)
    }
}

/// A jitter value below 2^64, a function of group, origin and attempt alone (FNV-1a, then mixed).
fn part_of(entry: &Entry) -> u64 {
    let mut mark = Fnv::default();
    mark.bytes(entry.group.as_str().as_bytes());
    match &entry.origin {
        Some(origin) => {
            mark.bytes(origin.topic.as_str().as_bytes());
            mark.bytes(&origin.partition.to_le_bytes());
            mark.bytes(&origin.offset.to_le_bytes());
        }
        None => mark.bytes(&entry.id.0.to_le_bytes()),
    }
    mark.bytes(&entry.reconsume_times.to_le_bytes());
    let mixed = (mark.0 ^ (mark.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
