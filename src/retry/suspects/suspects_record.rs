//! The journalled form of a group's suspects. Parts are not journalled: a delivery that is lost
//! together with the sidecar does not count, so a restored set begins its round again.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::model::{Moment, TopicName, TopicPartition, WallMs};
use crate::retry::suspects::set::Isolation;
use crate::retry::suspects::{LossCause, OffsetRanges, SuspectSet, Suspects};

/// Losses of a set before it is journalled: a single lost delivery is a deploy, as a rule.
const LOSSES_KEPT: u32 = 2;

/// The suspects of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectsRecord {
    pub sets: Vec<SetRecord>,
}

/// One suspect set.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRecord {
    /// Topic, partition, first offset and the offset behind the last one.
    pub suspects: Vec<(String, i32, i64, i64)>,
    pub losses: u32,
    pub is_tested: bool,
    pub patience_ms: u64,
    /// Failed deliveries of an isolated record that count, and the times of the latest ones.
    pub failures: u32,
    pub failed_at: Vec<WallMs>,
    /// Losses of the record while it was delivered by itself.
    pub losses_alone: u32,
    pub works_otherwise: bool,
    /// From this time on, a loss makes the record withheld.
    pub give_up_at: Option<WallMs>,
    pub give_up_wait_ms: u64,
    /// Records behind it were delivered: no commit passes it before it is a dead letter.
    pub is_skipped: bool,
    /// The last failed delivery was a return of a live member.
    pub is_seek_back: bool,
}

impl Suspects {
    /// The record to journal; `None`: nothing to remember.
    pub fn record(&self) -> Option<SuspectsRecord> {
        let kept = self.sets.iter().filter(|set| set.losses >= LOSSES_KEPT);
        let sets: Vec<SetRecord> = kept.map(SuspectSet::record).collect();
        (!sets.is_empty()).then_some(SuspectsRecord { sets })
    }

    /// Restores the suspects from their journal record.
    pub fn restore(&mut self, now: Moment, record: &SuspectsRecord) {
        self.sets.extend(record.sets.iter().map(|set| SuspectSet::restored(set, now)));
        self.drop_empty_sets();
    }
}

impl SuspectSet {
    fn record(&self) -> SetRecord {
        let suspects = self.suspects();
        let ranges = suspects.iter().map(|(of, range)| {
            (of.topic.as_str().to_owned(), of.partition, range.start, range.end)
        });
        let isolation = &self.isolation;
        SetRecord {
            suspects: ranges.collect(),
            losses: self.losses,
            is_tested: self.is_tested,
            patience_ms: self.patience_ms,
            failures: isolation.failures,
            failed_at: isolation.failed_at.clone(),
            losses_alone: isolation.losses_alone,
            works_otherwise: isolation.works_otherwise,
            give_up_at: (isolation.failures > 0).then_some(isolation.give_up_at),
            give_up_wait_ms: isolation.give_up_wait_ms,
            is_skipped: self.binds_commits(),
            is_seek_back: isolation.cause == LossCause::SeekBack,
        }
    }

    fn restored(record: &SetRecord, now: Moment) -> Self {
        let range = |(topic, partition, start, end): &(String, i32, i64, i64)| {
            let of = TopicPartition { topic: TopicName::new(topic), partition: *partition };
            (of, Range { start: *start, end: *end })
        };
        // The wait is at most `give_up_wait_ms` from now, in case the clock was set back.
        let longest = now.wall.plus(record.give_up_wait_ms);
        let give_up_at = record.give_up_at.map_or(longest, |at| at.min(longest));
        Self {
            remaining: record.suspects.iter().map(range).collect::<OffsetRanges>(),
            begun: now.mono,
            losses: record.losses,
            last_loss: now.mono,
            is_tested: record.is_tested,
            patience_ms: record.patience_ms,
            isolation: Isolation {
                failures: record.failures,
                cause: if record.is_seek_back {
                    LossCause::SeekBack
                } else {
                    LossCause::MemberEnded
                },
                failed_at: record.failed_at.clone(),
                losses_alone: record.losses_alone,
                works_otherwise: record.works_otherwise,
                give_up_at,
                give_up_wait_ms: record.give_up_wait_ms,
                is_skipped: record.is_skipped,
                ..Isolation::default()
            },
            ..Self::default()
        }
    }
}
