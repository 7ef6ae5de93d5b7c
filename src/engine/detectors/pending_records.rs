//! Records of one detector that are not journalled yet.

use std::collections::BTreeMap;

use crate::engine::detectors::{suspect_entries, window_entries};
use crate::engine::topic_ids::TopicIds;
use crate::journal::NewEntry;
use crate::model::{GroupId, TopicPartition};
use crate::retry::detector::WindowRecord;
use crate::retry::suspects::SuspectsRecord;

/// The suspects of a group, for the journal.
#[derive(Clone, Debug)]
enum SuspectsUpdate {
    Latest(SuspectsRecord),
    Gone,
}

/// Records of one detector that are not journalled yet; an inner `None` deletes the journal's
/// record.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct PendingRecords {
    windows: BTreeMap<TopicPartition, Option<WindowRecord>>,
    suspects: Option<SuspectsUpdate>,
    /// The driver has been told to journal them.
    is_told: bool,
}

impl PendingRecords {
    pub(super) fn window(&mut self, of: TopicPartition, record: Option<WindowRecord>) {
        self.windows.insert(of, record);
    }

    pub(super) fn suspects(&mut self, record: Option<SuspectsRecord>) {
        self.suspects = Some(record.map_or(SuspectsUpdate::Gone, SuspectsUpdate::Latest));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.suspects.is_none()
    }

    /// Returns whether the driver must be told of these records, and marks it as told.
    pub(super) fn must_be_told(&mut self) -> bool {
        !self.is_empty() && !std::mem::replace(&mut self.is_told, true)
    }

    /// Restores records that could not be journalled; newer ones win.
    pub(super) fn put_back(&mut self, failed: Self) {
        for (of, record) in failed.windows {
            self.windows.entry(of).or_insert(record);
        }
        self.suspects = self.suspects.take().or(failed.suspects);
    }

    /// The entries that journal these records.
    pub(super) fn entries(&self, group: &GroupId, topic_ids: &TopicIds) -> Vec<NewEntry> {
        let window = |(of, record): (&TopicPartition, &Option<WindowRecord>)| {
            window_entries::entry(group, of, record.as_ref(), topic_ids.id_of(&of.topic))
        };
        let suspects = self.suspects.as_ref().map(|update| match update {
            SuspectsUpdate::Latest(record) => suspect_entries::entry(group, Some(record)),
            SuspectsUpdate::Gone => suspect_entries::entry(group, None),
        });
        self.windows.iter().map(window).chain(suspects).collect()
    }
}
