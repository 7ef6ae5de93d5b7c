//! The edge changes the detector of a group, and waits until its decisions are durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::command::Command;
use crate::engine::detectors::{Detectors, GroupDetector};
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::{GroupId, Moment};
use crate::retry::detector::Detector;

impl Engine {
    /// The detectors of all groups.
    pub fn detectors(&self) -> Arc<Detectors> {
        Arc::clone(&self.detectors)
    }

    /// Waits until every decision reported to a group's detector is durable. Otherwise a commit
    /// stored by another node could pass a record before its dead letter is durable.
    pub async fn settled(&self, group: &GroupId) -> Result<(), EngineError> {
        let Some(of) = self.detectors.find(group) else { return Ok(()) };
        let seq = of.rests_on.load(Ordering::Acquire);
        if seq > self.journal.durable_seq() {
            self.journal.durable(seq).await?;
        }
        Ok(())
    }

    /// Changes the detector of a group and processes its outputs; `then` runs under the same lock.
    pub fn change<T>(
        &self,
        now: Moment,
        (group, of): (&GroupId, &GroupDetector),
        f: impl FnOnce(&mut Detector, Moment) -> T,
        then: impl FnOnce(&GroupDetector),
    ) -> T {
        let mut state = of.lock();
        let changed = f(&mut state.detector, now);
        let inputs = of.process_outputs(&mut state, group, &self.metrics);
        // Under the lock, so that the driver gets the changes in order.
        if state.pending.must_be_told() {
            self.tell(Command::KeepDetector(group.clone()));
        }
        for input in inputs {
            self.tell(Command::Tell(Box::new(input)));
        }
        then(of);
        changed
    }
}
