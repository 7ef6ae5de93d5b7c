//! `journal`, `names`, `drain`, `metrics`, `log`: settings of the process.

use std::time::Duration;

use serde::Serialize;

use super::{GIB, HOUR, MIB, SECOND};
use crate::config::section::{Section, choice, duration, int, size, text};
use crate::model::{ser_duration, ser_size};
use crate::observe::{LogFormat, check_filter};
use crate::wire::names::{TemplateError, Templates};

/// The reaction to a data directory that a restart of the pod empties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ephemeral {
    /// The start fails in front of a cluster; otherwise the log has a warning.
    #[default]
    Refuse,
    /// The operator accepts the loss, so nothing is checked.
    Accept,
}

/// The settings of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JournalConfig {
    /// Size of a segment, in bytes.
    #[serde(serialize_with = "ser_size")]
    pub segment_bytes: u64,
    /// The reaction to a data directory on tmpfs or an overlay.
    pub ephemeral: Ephemeral,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self { segment_bytes: 64 * MIB, ephemeral: Ephemeral::Refuse }
    }
}

impl JournalConfig {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut journal = Self::default();
        let ephemeral = [("refuse", Ephemeral::Refuse), ("accept", Ephemeral::Accept)];
        s.take("segment_bytes", &mut journal.segment_bytes, size(MIB..=GIB));
        s.take("ephemeral", &mut journal.ephemeral, choice(&ephemeral));
        s.finish();
        journal
    }
}

/// The names of the topics that each group gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamesConfig {
    /// The retry topic; `{group}` stands for the group.
    pub retry: String,
    /// The dead-letter topic; `{group}` stands for the group.
    pub dead_letters: String,
}

impl Default for NamesConfig {
    fn default() -> Self {
        Self {
            retry: "reprise.retry.{group}--{topic}".to_owned(),
            dead_letters: "reprise.dlq.{group}".to_owned(),
        }
    }
}

impl NamesConfig {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut names = Self::default();
        let NamesConfig { retry, dead_letters } = Self::default();
        s.take("retry", &mut names.retry, |value| {
            let template = text(value)?;
            checked(Templates::new(&template, &dead_letters)).map(|()| template)
        });
        s.take("dead_letters", &mut names.dead_letters, |value| {
            let template = text(value)?;
            checked(Templates::new(&retry, &template)).map(|()| template)
        });
        if let Err(overlap) = Templates::new(&names.retry, &names.dead_letters) {
            s.problem("dead_letters", &overlap.to_string());
        }
        s.finish();
        names
    }
}

/// The result for one template; an overlap is a matter of both.
fn checked(templates: Result<Templates, TemplateError>) -> Result<(), String> {
    match templates {
        Ok(_) | Err(TemplateError::Overlap { .. }) => Ok(()),
        Err(other) => Err(other.to_string()),
    }
}

/// The treatment of clients at a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DrainMode {
    /// The application leaves by itself; new connections are served until it has left.
    #[default]
    Sidecar,
    /// Other sidecars serve the clients as well: new connections are refused, open ones closed.
    Gateway,
}

/// The settings of a shutdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrainConfig {
    pub mode: DrainMode,
    /// Time that clients have to leave after SIGTERM.
    #[serde(serialize_with = "ser_duration")]
    pub timeout: Duration,
}

impl Default for DrainConfig {
    fn default() -> Self {
        // Kubernetes sends SIGKILL after 30 s.
        Self { mode: DrainMode::Sidecar, timeout: SECOND * 25 }
    }
}

impl DrainConfig {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut drain = Self::default();
        let modes = [("sidecar", DrainMode::Sidecar), ("gateway", DrainMode::Gateway)];
        s.take("mode", &mut drain.mode, choice(&modes));
        s.take("timeout", &mut drain.timeout, duration(Duration::ZERO..=HOUR));
        s.finish();
        drain
    }
}

/// The limit of metric series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MetricsBound {
    /// Groups with a label of their own.
    pub max_groups: usize,
}

impl Default for MetricsBound {
    fn default() -> Self {
        // About 140 series per group: below twelve thousand in all.
        Self { max_groups: 80 }
    }
}

impl MetricsBound {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut metrics = Self::default();
        s.take("max_groups", &mut metrics.max_groups, int(1..=10_000));
        s.finish();
        metrics
    }
}

/// The log on stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogConfig {
    pub format: LogFormat,
    /// A level, or `target=level` pairs.
    pub filter: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

impl LogConfig {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut log = Self::default();
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        s.take("format", &mut log.format, choice(&formats));
        s.take("filter", &mut log.filter, |value| {
            let filter = text(value)?;
            check_filter(&filter).map(|()| filter).map_err(|e| e.to_string())
        });
        s.finish();
        log
    }
}
