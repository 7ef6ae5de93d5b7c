//! The windows that are journalled: those with suspects or records that are cut.
//!
//! A window without any of these is not remembered, so a group in which nothing fails writes
//! nothing. A delivery that is lost together with the sidecar is not counted.

use crate::model::TopicPartition;
use crate::retry::detector::{Detector, DetectorOutput, WindowRecord};

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
