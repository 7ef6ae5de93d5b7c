//! The log rate limit: lines of one cause are limited, and each written line counts the ones
//! dropped before it.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Rate limit of one cause: a burst, then one line per interval.
#[derive(Clone, Copy, Debug)]
pub struct LogLimit {
    /// Lines of a burst.
    pub at_once: u32,
    /// Interval per line after a burst.
    pub one_in: Duration,
}

/// Budget of one cause.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogBudget {
    spent: u32,
    /// Time up to which spent lines were given back.
    refilled: Duration,
    left_out: u64,
}

impl LogBudget {
    /// Spends a line. Returns the number of lines dropped since the last one; `None`: drop this
    /// line too.
    pub fn spend(&mut self, now: Duration, limit: LogLimit) -> Option<u64> {
        while self.spent > 0 && now.saturating_sub(self.refilled) >= limit.one_in {
            self.spent -= 1;
            self.refilled = self.refilled.saturating_add(limit.one_in);
        }
        if self.spent == 0 {
            self.refilled = now;
        }
        if self.spent >= limit.at_once {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.spent += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Number of lines dropped before this one; displayed only above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedLines(pub u64);

impl fmt::Display for DroppedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " ({count} more for this cause since the last line)"),
        }
    }
}

/// A lasting failure is retried for ever: ten lines at once, then one in ten seconds.
const REPEATS: LogLimit = LogLimit { at_once: 10, one_in: Duration::from_secs(10) };
/// Most causes with a budget of their own; further causes of a call site share one.
const CAUSES_MAX: usize = 1024;
/// Compared bytes of a cause.
const CAUSE_BYTES_MAX: usize = 256;
/// Fields with the failure of a line. A line without any of them is an event of its own and always
/// written.
const FAILURE_FIELDS: [&str; 5] = ["error", "refusal", "says", "trouble", "why"];
/// Further fields that distinguish causes.
const SUBJECT_FIELDS: [&str; 2] = ["group", "topic"];

/// Drops lines at WARN and above that repeat one failure at one call site.
#[derive(Clone)]
pub(super) struct RepeatFilter {
    elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
    causes: Arc<Mutex<BTreeMap<FailureSite, Repeats>>>,
}

#[derive(Debug, Default)]
struct Repeats {
    budget: LogBudget,
    /// Dropped lines to report with the line about to be written.
    unreported: u64,
}

/// A call site and its failure without digits: sizes and offsets change with each attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FailureSite {
    site: usize,
    text: String,
}

impl FailureSite {
    /// `None`: the event is no repeatable failure.
    fn of(event: &Event<'_>) -> Option<Self> {
        let metadata = event.metadata();
        let fields = metadata.fields();
        let is_failure = || FAILURE_FIELDS.iter().any(|name| fields.field(name).is_some());
        if *metadata.level() > Level::WARN || !is_failure() {
            return None;
        }
        let mut cause = Self { site: address(&metadata.callsite()), text: String::new() };
        event.record(&mut cause);
        Some(cause)
    }
}

impl Visit for FailureSite {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if SUBJECT_FIELDS.contains(&field.name()) {
            write!(self.text, "{value:?} ").unwrap_or_default();
        }
        if FAILURE_FIELDS.contains(&field.name()) {
            let text = format!("{value:?} ");
            self.text.extend(text.chars().filter(|char| !char.is_ascii_digit()));
        }
        while self.text.len() > CAUSE_BYTES_MAX {
            self.text.pop();
        }
    }
}

/// A call site is a static, so its address identifies it for ever.
fn address(site: &Identifier) -> usize {
    std::ptr::from_ref(site.0).cast::<()>().addr()
}

impl RepeatFilter {
    pub(super) fn new(elapsed: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { elapsed: Arc::new(elapsed), causes: Arc::default() }
    }

    fn admit(&self, event: &Event<'_>) -> bool {
        let now = (self.elapsed)();
        self.with_repeats(event, |repeats| match repeats.budget.spend(now, REPEATS) {
            Some(left_out) => {
                repeats.unreported = repeats.unreported.saturating_add(left_out);
                true
            }
            None => false,
        })
        .unwrap_or(true)
    }

    fn left_out(&self, event: &Event<'_>) -> DroppedLines {
        let dropped = self.with_repeats(event, |repeats| std::mem::take(&mut repeats.unreported));
        DroppedLines(dropped.unwrap_or(0))
    }

    fn with_repeats<T>(&self, event: &Event<'_>, f: impl FnOnce(&mut Repeats) -> T) -> Option<T> {
        let mut cause = FailureSite::of(event)?;
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        if causes.len() >= CAUSES_MAX && !causes.contains_key(&cause) {
            cause.text.clear();
        }
        Some(f(causes.entry(cause).or_default()))
    }
}

impl<S: Subscriber> Layer<S> for RepeatFilter {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.admit(event)
    }
}

/// Appends the number of dropped lines to each line of `format`.
pub(super) struct DroppedFormat<F> {
    pub(super) format: F,
    pub(super) filter: RepeatFilter,
}

impl<S, N, F> FormatEvent<S, N> for DroppedFormat<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let left_out = self.filter.left_out(event);
        if left_out == DroppedLines(0) {
            return self.format.format_event(ctx, writer, event);
        }
        let mut line = String::new();
        self.format.format_event(ctx, Writer::new(&mut line), event)?;
        let line = line.trim_end_matches('\n');
        match line.strip_suffix('}').filter(|_| line.starts_with('{')) {
            Some(object) => writeln!(writer, "{object},\"left_out\":{}}}", left_out.0),
            None => writeln!(writer, "{line}{left_out}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_time_restores_at_most_one_burst_of_lines() {
        let limit = LogLimit { at_once: 3, one_in: Duration::from_secs(1) };
        let mut budget = LogBudget::default();
        let mut lines = |ms, count| {
            let now = Duration::from_millis(ms);
            (0..count).filter_map(|_| budget.spend(now, limit)).collect::<Vec<_>>()
        };
        assert_eq!(lines(0, 10), [0, 0, 0]);
        assert_eq!(lines(999, 10), [0; 0]);
        assert_eq!(lines(1_000, 2), [17]);
        assert_eq!(lines(3_600_000, 5), [1, 0, 0]);
        assert_eq!(DroppedLines(0).to_string(), "");
        assert_eq!(DroppedLines(7).to_string(), " (7 more for this cause since the last line)");
    }
}
