//! The windows that are journalled: those with suspects or records that are cut.
//!
//! A window without any of these is not remembered, so a group in which nothing fails writes
//! nothing. A delivery that is lost together with the sidecar is not counted.

use serde::{Deserialize, Serialize};

use crate::model::{TopicPartition, WallMs};
use crate::retry::Disposition;
use crate::retry::detector::{Detector, DetectorOutput};

impl Detector {
    /// Journals a window that differs from its last record.
    pub(in crate::retry) fn keep(&mut self, partition: &TopicPartition) {
        let Some(window) = self.windows.get(partition) else { return };
        let record = window.record();
        let Some(window) = self.windows.get_mut(partition) else { return };
        if is_same(&record, &window.kept) {
            return;
        }
        let told = (!record.is_idle()).then(|| record.clone());
        window.kept = record;
        self.push(DetectorOutput::Window { partition: partition.clone(), window: told });
    }

    /// Journals the windows with suspects or cut records that differ from their last record.
    pub(in crate::retry) fn keep_all(&mut self) {
        let troubled: Vec<TopicPartition> = self.troubled.iter().cloned().collect();
        for partition in troubled {
            self.keep(&partition);
        }
    }
}

/// Whether two records say the same. Idle records are not journalled, so all are equal.
fn is_same(one: &WindowRecord, other: &WindowRecord) -> bool {
    one == other || (one.is_idle() && other.is_idle())
}

/// The window of a partition, and its suspects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowRecord {
    /// Nacked records that the partition waits for, by offset.
    pub suspects: Vec<SuspectRecord>,
    /// Settled records that no commit has passed, left out of deliveries.
    pub skipped: Vec<i64>,
    /// The group has committed an offset of the partition.
    pub has_committed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectRecord {
    pub offset: i64,
    /// Failures counted so far.
    pub reconsume_times: u32,
    /// When the record may be delivered again; `None`: not before its turn.
    pub due: Option<WallMs>,
    /// Counted failures, latest last; a bounded list.
    pub history: Vec<(WallMs, Disposition)>,
}

impl WindowRecord {
    /// Whether nothing in it has to be journalled.
    pub fn is_idle(&self) -> bool {
        self.suspects.is_empty() && self.skipped.is_empty()
    }
}
