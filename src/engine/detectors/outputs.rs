//! The outputs of a detector: wake-ups, records to journal, log lines.

use crate::engine::detectors::{DetectorState, GroupDetector};
use crate::model::{GroupId, TopicPartition};
use crate::observe::Metrics;
use crate::retry::detector::DetectorOutput;
use crate::retry::suspects::Decision;

/// Most records named in one log line.
const LET_GO_NAMED: usize = 16;

impl GroupDetector {
    /// Processes a detector's outputs. Returns those to log once the mutex is free: a Fetch of the
    /// group must not wait for the log.
    pub(super) fn process_outputs(
        &self,
        state: &mut DetectorState,
        group: &GroupId,
        metrics: &Metrics,
    ) -> Vec<DetectorOutput> {
        let (mut lines, mut is_news) = (Vec::new(), false);
        while let Some(output) = state.detector.poll_output() {
            match output {
                DetectorOutput::Window { partition, window } => {
                    state.pending.window(partition, window);
                }
                DetectorOutput::Suspects(record) => state.pending.suspects(record),
                DetectorOutput::Wake => is_news = true,
                DetectorOutput::SeekBack { .. } => {
                    metrics.sought_back(group.as_str());
                    lines.push(output);
                }
                DetectorOutput::Suspicion(_)
                | DetectorOutput::Held(_)
                | DetectorOutput::Passed { .. }
                | DetectorOutput::LetGo { .. } => lines.push(output),
            }
        }
        if is_news {
            self.notify();
        }
        lines
    }
}

/// Logs outputs of a detector, without its mutex.
pub(super) fn log_outputs(group: &GroupId, outputs: &[DetectorOutput]) {
    for output in outputs {
        match output {
            DetectorOutput::SeekBack { partition, offset, is_told: true } => {
                log_seek_back(group, partition, *offset);
            }
            DetectorOutput::Suspicion(decision) => log_suspicion(group, decision),
            DetectorOutput::Held(true) => tracing::warn!(
                %group,
                "R0514 most records fail: the group is paused, and a test batch follows each \
                 pause (retry.breaker); look for an outage behind the consumer"
            ),
            DetectorOutput::Held(false) => {
                tracing::info!(%group, "most records are handled again: the group goes on");
            }
            DetectorOutput::Passed { partition, offset } => tracing::warn!(
                %group, %partition, offset,
                "R0515 the group committed past a failed record without this sidecar: its \
                 partition goes on; connect each member to the sidecar"
            ),
            DetectorOutput::LetGo { partition, offsets, has_queue } => {
                log_let_go(group, partition, offsets, *has_queue);
            }
            _ => {}
        }
    }
}

fn log_seek_back(group: &GroupId, partition: &TopicPartition, offset: i64) {
    tracing::info!(
        %group, %partition, offset,
        "R0510 a member went back to this record three times, and nothing is concluded from that; \
         if this is how the application retries: groups: [{{match: {group}, on_seek_back: retry}}]"
    );
}

fn log_suspicion(group: &GroupId, decision: &Decision) {
    match decision {
        Decision::TestBegins => tracing::info!(
            %group,
            "R0511 the group's consumers ended again and again with the same records outstanding; \
             these records are delivered a part at a time until one is left (reprise group explain)"
        ),
        Decision::Failed { origin, failures } => tracing::warn!(
            %group, record = %origin, failures,
            "R0512 a consumer of the group ended each time it had this record, and had nothing \
             else; after retry.in_place_limit failures it is a dead letter"
        ),
        Decision::Exempted(topic) => tracing::info!(
            %group, %topic,
            "R0513 the group never commits this topic: no record of it is suspected"
        ),
        Decision::Isolated(_)
        | Decision::Retry { .. }
        | Decision::DeadLetter { .. }
        | Decision::Changed => {}
    }
}

/// Logs records that their partition no longer waits for.
fn log_let_go(group: &GroupId, partition: &TopicPartition, offsets: &[i64], has_queue: bool) {
    let (records, first) = (offsets.len(), offsets.get(..LET_GO_NAMED).unwrap_or(offsets));
    if has_queue {
        tracing::warn!(
            %group, %partition, records, ?first,
            "R0516 the partition no longer waits for its failed records (order.mode): they go to \
             the group's retry topic"
        );
    } else {
        tracing::warn!(
            %group, %partition, records, ?first,
            "R0516 the partition no longer waits for its failed records, and the group has no \
             retry topic (delivery: off): only a member that starts at the committed offset gets \
             them again"
        );
    }
}
