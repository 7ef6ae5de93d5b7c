//! Journals the records of detectors. The driver takes the newest records under the detector's
//! lock, so an older record is never appended after a newer one.

use crate::engine::detectors::pending_records::PendingRecords;
use crate::engine::detectors::window_entries;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::journal::NewEntry;
use crate::model::GroupId;

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
        let entries = pending.entries(group, &self.topic_ids);
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
