//! Typed handles to the metrics: one method per event, with bounded labels.

mod edge;
mod groups;
mod snapshot;
mod storage;
mod zero;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus::{
    Counter, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    Opts, Registry,
};

use super::labels::{BoundedLabels, OTHER};
use super::names::{self, Def, MetricKind};

pub use snapshot::GroupGauges;
pub use zero::{ACTIONS, FAILURE_REASONS, FINAL_REASONS};

/// Delay levels with a label of their own; RocketMQ's table has 18.
const LEVELS_MAX: usize = 18;
/// Average number of (group, topic) pairs per group; one of them is the retry topic.
const TOPICS_PER_GROUP: usize = 3;
/// Distinct values of every other label (listener, cause, api, error, reason …).
const WORDS_MAX: usize = 256;

/// Reasons for which metrics cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Two metrics have one name, or a name is illegal: a fault of this build.
    #[error("the metrics could not be registered: {0}")]
    Register(prometheus::Error),
    #[error("the metrics could not be rendered: {0}")]
    Render(prometheus::Error),
}

/// All metrics of one sidecar. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<MetricsCore>);

struct MetricsCore {
    registry: Registry,
    counters: Vec<(&'static str, IntCounterVec)>,
    gauges: Vec<(&'static str, GaugeVec)>,
    histograms: Vec<(&'static str, HistogramVec)>,
    cpu: Counter,
    groups: BoundedLabels,
    pairs: BoundedLabels,
    words: BoundedLabels,
    /// Groups and topics whose counters exist.
    expected: Mutex<BTreeSet<(String, String)>>,
    requests: edge::Requests,
    /// Lets a scrape see either the old or the new snapshot of group gauges.
    snapshot: Mutex<()>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Registers every metric of `names`; at most `max_groups` groups keep a label of their own.
    pub fn new(max_groups: usize) -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let cpu = Counter::new(names::PROCESS_CPU.name, names::PROCESS_CPU.help)
            .map_err(MetricsError::Register)?;
        registry.register(Box::new(cpu.clone())).map_err(MetricsError::Register)?;
        let mut inner = MetricsCore {
            registry,
            counters: Vec::new(),
            gauges: Vec::new(),
            histograms: Vec::new(),
            cpu,
            groups: BoundedLabels::new(max_groups),
            pairs: BoundedLabels::new(max_groups.saturating_mul(TOPICS_PER_GROUP)),
            words: BoundedLabels::new(WORDS_MAX),
            expected: Mutex::default(),
            requests: edge::Requests::default(),
            snapshot: Mutex::new(()),
        };
        for def in names::ALL.iter().filter(|d| d.name != names::PROCESS_CPU.name) {
            inner.register(def).map_err(MetricsError::Register)?;
        }
        let metrics = Self(Arc::new(inner));
        metrics.set(&names::BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1.0);
        metrics.set(&names::CONFIG_RELOAD_OK, &[], 1.0);
        metrics.expect_process();
        Ok(metrics)
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> Result<String, MetricsError> {
        self.read_process();
        let _whole = self.0.snapshot.lock();
        prometheus::TextEncoder::new()
            .encode_to_string(&self.0.registry.gather())
            .map_err(MetricsError::Render)
    }

    fn counter(&self, def: &Def, labels: &[&str]) -> Option<IntCounter> {
        let (_, vec) = self.0.counters.iter().find(|(name, _)| *name == def.name)?;
        vec.get_metric_with_label_values(labels).ok()
    }

    fn add(&self, def: &Def, labels: &[&str], n: u64) {
        if let Some(counter) = self.counter(def, labels) {
            counter.inc_by(n);
        }
    }

    fn gauge(&self, def: &Def, labels: &[&str]) -> Option<Gauge> {
        let (_, vec) = self.0.gauges.iter().find(|(name, _)| *name == def.name)?;
        vec.get_metric_with_label_values(labels).ok()
    }

    fn set(&self, def: &Def, labels: &[&str], value: f64) {
        if let Some(gauge) = self.gauge(def, labels) {
            gauge.set(value);
        }
    }

    fn histogram(&self, def: &Def, labels: &[&str]) -> Option<Histogram> {
        let (_, vec) = self.0.histograms.iter().find(|(name, _)| *name == def.name)?;
        vec.get_metric_with_label_values(labels).ok()
    }

    fn observe(&self, def: &Def, labels: &[&str], value: f64) {
        if let Some(histogram) = self.histogram(def, labels) {
            histogram.observe(value);
        }
    }

    /// `group` itself while there is room, then `other`, counted against `def`.
    fn group<'a>(&self, def: &Def, group: &'a str) -> &'a str {
        self.bound(def, group, self.0.groups.admits(group))
    }

    /// Group and topic, each `other` when its set is full.
    fn pair<'a>(&self, def: &Def, group: &'a str, topic: &'a str) -> (&'a str, &'a str) {
        let group = self.group(def, group);
        let topic = self.bound(def, topic, self.0.pairs.admits(&format!("{group}\n{topic}")));
        (group, topic)
    }

    /// A word of the sidecar's own, bounded like the clients'.
    fn word<'a>(&self, def: &Def, word: &'a str) -> &'a str {
        self.bound(def, word, self.0.words.admits(word))
    }

    fn bound<'a>(&self, def: &Def, value: &'a str, admitted: bool) -> &'a str {
        if admitted {
            return value;
        }
        self.add(&names::SERIES_DROPPED, &[def.name], 1);
        OTHER
    }

    fn read_process(&self) {
        let Some(process) = super::process::read() else { return };
        let cpu = &self.0.cpu;
        cpu.inc_by((process.cpu_seconds - cpu.get()).max(0.0));
        self.set(&names::PROCESS_START, &[], process.start_seconds);
        for (def, value) in [
            (&names::PROCESS_RSS, process.resident_bytes),
            (&names::PROCESS_VSIZE, process.virtual_bytes),
            (&names::PROCESS_FDS, process.open_fds),
            (&names::PROCESS_MAX_FDS, process.max_fds),
            (&names::PROCESS_THREADS, process.threads),
        ] {
            self.set(def, &[], float(u64::try_from(value).unwrap_or(0)));
        }
    }
}

impl MetricsCore {
    fn register(&mut self, def: &Def) -> prometheus::Result<()> {
        match def.kind {
            MetricKind::Counter => {
                let vec = IntCounterVec::new(Opts::new(def.name, def.help), def.labels)?;
                if def.labels.is_empty() {
                    vec.get_metric_with_label_values::<&str>(&[])?;
                }
                self.registry.register(Box::new(vec.clone()))?;
                self.counters.push((def.name, vec));
            }
            MetricKind::Gauge => {
                let vec = GaugeVec::new(Opts::new(def.name, def.help), def.labels)?;
                if def.labels.is_empty() {
                    vec.get_metric_with_label_values::<&str>(&[])?;
                }
                self.registry.register(Box::new(vec.clone()))?;
                self.gauges.push((def.name, vec));
            }
            MetricKind::Histogram(bounds) => {
                let opts = HistogramOpts::new(def.name, def.help).buckets(bounds.to_vec());
                let vec = HistogramVec::new(opts, def.labels)?;
                self.registry.register(Box::new(vec.clone()))?;
                self.histograms.push((def.name, vec));
            }
        }
        Ok(())
    }
}

/// A count as a gauge value; exact up to 2^53.
fn float(n: u64) -> f64 {
    #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "2^53 is enough")]
    let value = n as f64;
    value
}

/// The label of a delay level: its number, or `other` beyond the table of RocketMQ.
fn level_label(level: usize) -> String {
    if level <= LEVELS_MAX { level.to_string() } else { OTHER.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflowing_group_is_folded_into_other_and_counted() {
        let metrics = Metrics::new(2).unwrap();
        for group in ["a", "b", "c", "d", "c"] {
            metrics.record_acked(group, "orders", 1);
        }
        let text = metrics.render().unwrap();
        assert!(text.contains(r#"reprise_records_acked_total{group="a",topic="orders"} 1"#));
        assert!(text.contains(r#"reprise_records_acked_total{group="other",topic="orders"} 3"#));
        let dropped = r#"dropped_total{metric="reprise_records_acked_total"} 3"#;
        assert!(text.contains(dropped), "{text}");
    }

    #[test]
    fn twelve_thousand_series_are_enough_for_the_default_bound() {
        let metrics = Metrics::new(80).unwrap();
        for group in 0..500 {
            let name = format!("group-{group}");
            for level in 1..=18 {
                metrics.retry_scheduled(&name, level);
                metrics.retry_redelivered(&name, level, 0.1);
            }
            for topic in ["a", "b", "c"] {
                metrics.record_acked(&name, topic, 1);
                metrics.record_failed(&name, topic, "rejected");
                metrics.dead_lettered(&name, topic, "max_attempts");
                metrics.discarded(&name, topic);
            }
            metrics.retry_succeeded(&name, 3, 12.0);
        }
        let gauges: Vec<GroupGauges> = (0..500)
            .map(|n| GroupGauges {
                group: format!("group-{n}"),
                levels: (1..=18).map(|level| (level, 1)).collect(),
                levels_in_force: 18,
                topics: ["a", "b", "c"].map(str::to_owned).to_vec(),
                retry_topics: vec![format!("reprise.retry.group-{n}")],
                ..GroupGauges::default()
            })
            .collect();
        metrics.set_groups(&gauges);
        let text = metrics.render().unwrap();
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(series <= 12_000, "{series} series");
        assert!(series > 5_000, "the test fills the sets: {series}");
    }
}
