//! The state of the journal and its disk, for the admin port.

use crate::admin::{FsyncTimes, JournalView, LetterSpace, Unavailable};
use crate::engine::GroupSummary;
use crate::server::disk_room::shortage;
use crate::server::source::{AdminSource, number};

/// Groups whose dead letters are listed.
const GROUPS_MAX: usize = 200;

impl AdminSource {
    pub(super) async fn journal_view(&self) -> Result<JournalView, Unavailable> {
        let stats = self.journal.stats();
        let lacking = shortage(&self.journal)
            .map(|short| short.needed_bytes.saturating_sub(short.free_bytes));
        let groups = self.router.engine.groups().await?;
        let mut letters: Vec<LetterSpace> =
            groups.iter().filter_map(|group| self.letter_space(group)).collect();
        letters.sort_by_key(|of| std::cmp::Reverse(of.bytes));
        let more_groups = number(letters.len().saturating_sub(GROUPS_MAX));
        letters.truncate(GROUPS_MAX);
        let times = self.router.metrics.journal_fsync_times();
        Ok(JournalView {
            bytes: stats.bytes,
            segments: number(stats.segments),
            live_bytes: stats.live_bytes,
            disk_free_bytes: stats.disk_free,
            lacking_bytes: lacking,
            queued_bytes: stats.queued_bytes,
            appended: stats.appended,
            fsyncs: stats.fsyncs,
            fsync_times: times.map(|(mean_s, p99_s)| FsyncTimes {
                mean_ms: mean_s * 1e3,
                p99_ms: p99_s.map(|p99_s| p99_s * 1e3),
            }),
            durable_seq: stats.durable_seq,
            checkpoint_seq: stats.checkpoint_seq,
            compactions: stats.compactions,
            torn_bytes: stats.torn_bytes,
            dead_letters: letters,
            more_groups,
        })
    }

    fn letter_space(&self, known: &GroupSummary) -> Option<LetterSpace> {
        let group = &known.group;
        let bounds = self.router.engine.dead_letter_bounds(group)?;
        Some(LetterSpace {
            group: group.to_string(),
            topic: self.router.names.dead_letter_topic(group).to_string(),
            start: bounds.start,
            end: bounds.next,
            bytes: known.letter_bytes,
            max_bytes: self.policy(group).dead_letters_max_bytes,
        })
    }
}
