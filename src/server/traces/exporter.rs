//! The task that turns attempts into spans and posts them in batches.

use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::post::{Collector, PostError};
use super::span::{request, span};
use crate::clock::Clock;
use crate::config::Traces;
use crate::engine::Attempt;
use crate::observe::{DroppedLines, LogBudget, LogLimit, Metrics};

/// Spans of one request.
const BATCH_SPANS_MAX: usize = 512;
/// Longest wait of a span for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// Pauses before further attempts to post a batch.
const BACK_OFFS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// Time that a stop allows for the last spans.
const LAST_SPANS: Duration = Duration::from_secs(2);
/// One log line a minute while the collector is unreachable.
const LINES: LogLimit = LogLimit { at_once: 1, one_in: Duration::from_mins(1) };

pub(super) struct Exporter {
    collector: Collector,
    service_name: String,
    metrics: Metrics,
    clock: Clock,
    log: LogBudget,
}

impl Exporter {
    pub(super) fn new(traces: &Traces, metrics: Metrics, clock: Clock) -> Self {
        let (collector, service_name) = (Collector::new(traces), traces.service_name.clone());
        Self { collector, service_name, metrics, clock, log: LogBudget::default() }
    }

    /// Exports until the server stops, then the attempts that are left.
    pub(super) async fn run(
        mut self,
        mut attempts: Receiver<Attempt>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut batch = Vec::new();
        tokio::select! {
            () = self.export(&mut attempts, &mut batch) => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
        while let Ok(attempt) = attempts.try_recv() {
            batch.push(span(&attempt));
        }
        let mut sent = 0;
        let posting = async {
            for part in batch.chunks(BATCH_SPANS_MAX) {
                let Ok(rejected) = self.post(part).await else { return };
                self.taken(part.len(), rejected);
                sent += part.len();
            }
        };
        drop(timeout(LAST_SPANS, posting).await);
        self.metrics.spans_dropped("not_exported", number(batch.len().saturating_sub(sent)));
    }

    /// Exports until the recorder is gone.
    async fn export(&mut self, attempts: &mut Receiver<Attempt>, batch: &mut Vec<Span>) {
        while let Some(first) = attempts.recv().await {
            batch.push(span(&first));
            let filling = async {
                while batch.len() < BATCH_SPANS_MAX {
                    let Some(attempt) = attempts.recv().await else { return };
                    batch.push(span(&attempt));
                }
            };
            drop(timeout(BATCH_WAIT, filling).await);
            self.deliver(batch).await;
            batch.clear();
        }
    }

    /// Posts a batch, with retries; after the last one the batch is dropped.
    async fn deliver(&mut self, batch: &[Span]) {
        let mut waits = BACK_OFFS.into_iter();
        let error = loop {
            match (self.post(batch).await, waits.next()) {
                (Ok(rejected), _) => return self.taken(batch.len(), rejected),
                (Err(error), Some(wait)) if error.is_passing() => {
                    sleep(wait.max(error.retry_after())).await;
                }
                (Err(error), _) => break error,
            }
        };
        self.metrics.spans_dropped("not_exported", number(batch.len()));
        if let Some(left_out) = self.log.spend(self.clock.elapsed(), LINES) {
            tracing::warn!(
                endpoint = %self.collector.endpoint(),
                spans = batch.len(),
                cause = %error,
                "R0413 spans could not be exported and are dropped; records are not affected: \
                 check the collector and traces.endpoint{}",
                DroppedLines(left_out)
            );
        }
    }

    async fn post(&self, batch: &[Span]) -> Result<u64, PostError> {
        let body = request(&self.service_name, batch.to_vec()).encode_to_vec();
        self.collector.post(&body).await
    }

    fn taken(&self, count: usize, rejected: u64) {
        let count = number(count);
        let rejected = rejected.min(count);
        self.metrics.spans_exported(count.saturating_sub(rejected));
        self.metrics.spans_dropped("rejected", rejected);
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
