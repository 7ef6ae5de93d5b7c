//! Spans of delivery attempts, for a collector of OpenTelemetry (OTLP over HTTP).
//!
//! ```text
//! engine ──Attempt──▶ queue ──▶ exporter ──span──▶ batch ──post──▶ collector
//! ```
//! The engine never waits for the exporter: a full queue drops attempts and counts them. A build
//! without the feature `otlp` records nothing.

#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod post;
#[cfg(feature = "otlp")]
mod span;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::config::Config;
use crate::engine::Attempts;
use crate::observe::Metrics;

/// The recorder of attempts, and the task that exports them: both idle without `traces`.
#[cfg(feature = "otlp")]
pub(super) fn begin(
    config: &Config,
    (metrics, clock): (&Metrics, Clock),
    stopped: &watch::Receiver<bool>,
) -> (Attempts, impl Future<Output = ()> + use<>) {
    let traces = config.traces.as_ref().filter(|traces| traces.sample > 0);
    let begun = traces.map(|traces| {
        let (recorded, attempts) = Attempts::record(traces.sample, metrics.clone());
        (recorded, exporter::Exporter::new(traces, metrics.clone(), clock), attempts)
    });
    let recorded = begun.as_ref().map(|(recorded, ..)| recorded.clone()).unwrap_or_default();
    let stopped = stopped.clone();
    let task = async move {
        if let Some((_, exporter, attempts)) = begun {
            exporter.run(attempts, stopped).await;
        }
    };
    (recorded, task)
}

/// Records nothing: the configuration of this build refuses `traces`.
#[cfg(not(feature = "otlp"))]
pub(super) fn begin(
    _: &Config,
    _: (&Metrics, Clock),
    _: &watch::Receiver<bool>,
) -> (Attempts, impl Future<Output = ()> + use<>) {
    (Attempts::default(), std::future::ready(()))
}
