//! The edge changes the detector of a group, and waits until its decisions are durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::clock::Clock;
use crate::engine::command::Command;
use crate::engine::detectors::outputs::log_outputs;
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
    /// The time is read under the lock too, so that it goes forward from change to change.
    pub fn change<T>(
        &self,
        clock: Clock,
        (group, of): (&GroupId, &GroupDetector),
        f: impl FnOnce(&mut Detector, Moment) -> T,
        then: impl FnOnce(&GroupDetector),
    ) -> T {
        let mut state = of.lock();
        let changed = f(&mut state.detector, clock.now());
        let lines = of.process_outputs(&mut state, group, &self.metrics);
        // Under the lock, so that the driver gets the changes in order.
        if state.pending.must_be_told() {
            self.tell(Command::KeepDetector(group.clone()));
        }
        then(of);
        drop(state);
        log_outputs(group, &lines);
        changed
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::engine::{EngineParts, Replay};
    use crate::journal::{Journal, JournalOptions, MemDisk};
    use crate::model::{MemberId, MonoMs, OffsetRuns, TopicPartition, WallMs};
    use crate::retry::Policy;
    use crate::retry::detector::{DeliveredRange, FetchPosition, GroupObservation, MemberFetch};

    /// A log that finds the group's mutex free whenever a line is written.
    #[derive(Clone)]
    struct Log {
        of: Arc<GroupDetector>,
        lines: Arc<AtomicUsize>,
    }

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(self.of.state.try_lock().is_ok(), "{}", String::from_utf8_lossy(bytes));
            self.lines.fetch_add(1, Ordering::Relaxed);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A member gets two records and is lost with both.
    fn lose(detector: &mut Detector, now: Moment, conn: u64) {
        let member = MemberId::new(&format!("m{conn}"));
        let partition = TopicPartition { topic: "orders".into(), partition: 0 };
        let assigned = GroupObservation::Assigned { member: member.clone(), epoch: 1 };
        detector.handle(now, assigned);
        let (of, done) = (partition.clone(), Vec::new());
        detector.handle(now, GroupObservation::Read { partition: of, offset: 0, done });
        let came = MonoMs(0);
        let by = MemberFetch {
            member,
            came,
            conn,
            max_wait_ms: 500,
            retries: crate::retry::RetrySubscription::default(),
        };
        let asked = FetchPosition { partition: partition.clone(), offset: 0 };
        detector.asked(now, &by, &[asked]);
        let (hidden, sparse) = (OffsetRuns::default(), Vec::new());
        let handed = DeliveredRange { partition, from: 0, end: 2, turn: None, hidden, sparse };
        detector.handed(now, &by, &[handed]);
        detector.handle(now, GroupObservation::Lost { member: by.member, left: true });
    }

    #[test]
    fn lines_are_logged_without_the_mutex_of_the_group() {
        let opened = Journal::open(MemDisk::new(5).disk(), JournalOptions::default());
        let (journal, _writer, _) = opened.unwrap();
        let (clock, _) = Clock::told(WallMs(1_000));
        let parts = EngineParts::plain(&journal, clock);
        let (engine, _driver) = Replay::new(None, &parts).finish(parts);
        let (group, policy) = (GroupId::new("shop"), Policy::default());
        let of = engine.detectors.of(&group, &policy);
        let log = Log { of: Arc::clone(&of), lines: Arc::default() };
        let lines = Arc::clone(&log.lines);
        let log = tracing_subscriber::fmt().with_writer(move || log.clone()).finish();
        tracing::subscriber::with_default(log, || {
            for conn in 0..u64::from(policy.crash_limit) {
                engine.change(clock, (&group, &of), |d, now| lose(d, now, conn), |_| {});
            }
        });
        assert_eq!(lines.load(Ordering::Relaxed), 1, "the suspects are tested from then on");
    }
}
