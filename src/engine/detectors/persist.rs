//! Journals the records of detectors. The driver takes the newest records under the detector's
//! lock, so an older record is never appended after a newer one.

use std::collections::BTreeMap;

use crate::engine::detectors::{suspect_entries, window_entries};
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
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
    fn put_back(&mut self, failed: Self) {
        for (of, record) in failed.windows {
            self.windows.entry(of).or_insert(record);
        }
        self.suspects = self.suspects.take().or(failed.suspects);
    }
}

impl Driver {
    /// Journals the records of a group's detector.
    pub(in crate::engine) fn keep_detector(&mut self, group: &GroupId) {
        if self.is_renewing() {
            // The renewal journals all of them.
            return;
        }
        let (pending, entries) = self.take_pending(group);
        if let Err(error) = self.usable().and_then(|()| self.append_parted(entries)) {
            self.put_back(group, pending);
            tracing::warn!(
                %group, %error,
                "R0408 the progress of a group could not be journalled: it is tried again with \
                 the next progress; check the disk"
            );
        }
    }

    /// Takes the records of a group's detector, to journal them.
    pub(in crate::engine) fn take_pending(
        &self,
        group: &GroupId,
    ) -> (PendingRecords, Vec<NewEntry>) {
        let Some(of) = self.detectors.find(group) else { return Default::default() };
        let pending = std::mem::take(&mut of.lock().pending);
        let window = |(of, record): (&TopicPartition, &Option<WindowRecord>)| {
            window_entries::entry(group, of, record.as_ref(), self.topic_ids.id_of(&of.topic))
        };
        let windows = pending.windows.iter().map(window);
        let suspects = pending.suspects.as_ref().map(|update| match update {
            SuspectsUpdate::Latest(record) => suspect_entries::entry(group, Some(record)),
            SuspectsUpdate::Gone => suspect_entries::entry(group, None),
        });
        let entries = windows.chain(suspects).collect();
        (pending, entries)
    }

    /// Restores records that were taken and not journalled.
    pub(in crate::engine) fn put_back(&self, group: &GroupId, taken: PendingRecords) {
        if let Some(of) = self.detectors.find(group) {
            of.lock().pending.put_back(taken);
        }
    }

    /// Appends independent entries, in groups of bounded size.
    pub(in crate::engine) fn append_parted(
        &mut self,
        entries: Vec<NewEntry>,
    ) -> Result<(), EngineError> {
        for entries in window_entries::in_groups(entries, window_entries::GROUP_BYTES) {
            self.last_seq = self.journal.append_reserved(entries)?.seq();
        }
        Ok(())
    }
}
