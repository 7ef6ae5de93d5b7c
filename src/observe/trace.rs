//! The log: text or JSON lines on stderr, with a filter that can change while running.
//!
//! JSON keys are fixed: `timestamp level target message` and the ids of the event and its spans
//! (`conn group topic partition offset attempt`).

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use tracing::Subscriber;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{DefaultFields, FormatFields, Writer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use super::log_limit::{DroppedFormat, RepeatFilter};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// Reasons for which the log did not start or change.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("{filter:?} is no log filter: {why}; such as info or info,reprise::engine=debug")]
    Filter {
        filter: String,
        /// Error of the filter's parser.
        why: String,
    },
    /// The process has a global subscriber already.
    #[error("the log was started twice")]
    Twice,
    /// The subscriber no longer exists.
    #[error("the log has stopped")]
    Stopped,
}

/// Changes the filter of the running log.
#[derive(Clone, Debug)]
pub struct LogHandle(reload::Handle<EnvFilter, Registry>);

impl LogHandle {
    /// Replaces the filter; on an error the old filter stays.
    pub fn set_filter(&self, filter: &str) -> Result<(), TraceError> {
        self.0.reload(parse(filter)?).map_err(|_| TraceError::Stopped)
    }
}

/// Checks a filter by the parser of `start_log`.
pub fn check_filter(filter: &str) -> Result<(), TraceError> {
    parse(filter).map(drop)
}

/// Starts the log of this process on stderr. `elapsed` is monotonic time, for the rate limit of
/// repeated lines.
pub fn start_log(
    format: LogFormat,
    filter: &str,
    elapsed: impl Fn() -> Duration + Send + Sync + 'static,
) -> Result<LogHandle, TraceError> {
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let repeats = RepeatFilter::new(elapsed);
    let registry = tracing_subscriber::registry().with(filter).with(repeats.clone());
    match format {
        LogFormat::Text => {
            let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
            registry.with(text(std::io::stderr, ansi, repeats)).try_init()
        }
        LogFormat::Json => registry.with(json(std::io::stderr, repeats)).try_init(),
    }
    .map_err(|_| TraceError::Twice)?;
    Ok(LogHandle(handle))
}

/// A text line.
fn text<S, W>(writer: W, ansi: bool, filter: RepeatFilter) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'w> fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_ansi(ansi).with_writer(writer).fmt_fields(OneLine);
    layer.map_event_format(|format| DroppedFormat { format, filter })
}

/// Writes fields like the text format, with control characters escaped: a client's name can neither
/// begin a new line nor control a terminal.
struct OneLine;

impl<'writer> FormatFields<'writer> for OneLine {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> std::fmt::Result {
        let mut raw = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut raw), fields)?;
        for part in raw.split_inclusive(char::is_control) {
            let mut chars = part.chars();
            match chars.next_back().filter(|last| last.is_control()) {
                Some(control) => write!(writer, "{}{}", chars.as_str(), control.escape_default())?,
                None => writer.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// One object a line: `timestamp level target` and the event's own fields side by side, the ids of
/// the spans around it under `spans`.
fn json<S, W>(writer: W, filter: RepeatFilter) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'w> fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().json().flatten_event(true).with_current_span(false);
    layer.with_writer(writer).map_event_format(|format| DroppedFormat { format, filter })
}

fn parse(filter: &str) -> Result<EnvFilter, TraceError> {
    EnvFilter::from_str(filter)
        .map_err(|e| TraceError::Filter { filter: filter.to_owned(), why: e.to_string() })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A filter with a stopped clock.
    fn still() -> RepeatFilter {
        RepeatFilter::new(|| Duration::ZERO)
    }

    fn refuse(group: &str, error: &str) {
        tracing::warn!(group, error, "a nack was refused");
    }

    #[test]
    fn lines_that_repeat_one_failure_are_left_out_and_counted() {
        for is_json in [false, true] {
            let lines = Lines::default();
            let (writer, now) = (lines.clone(), Arc::new(AtomicU64::new(0)));
            let seconds = Arc::clone(&now);
            let filter =
                RepeatFilter::new(move || Duration::from_secs(seconds.load(Ordering::Relaxed)));
            let writer = move || writer.clone();
            let registry = tracing_subscriber::registry().with(filter.clone());
            let log = || {
                for n in 0..100 {
                    refuse("shop", &format!("the disk is full: {n} bytes free"));
                    tracing::warn!(group = "shop", offset = n, "a record is a dead letter");
                }
                refuse("shop", "too large");
                refuse("other", "the disk is full: 1 bytes free");
                now.store(10, Ordering::Relaxed);
                refuse("shop", "the disk is full: 7 bytes free");
            };
            if is_json {
                let layer = json(writer, filter);
                tracing::subscriber::with_default(registry.with(layer), log);
            } else {
                let layer = text(writer, false, filter);
                tracing::subscriber::with_default(registry.with(layer), log);
            }
            let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            let count = |words: &str| lines.lines().filter(|line| line.contains(words)).count();
            assert_eq!(count("dead letter"), 100, "each is an event of its own");
            assert_eq!((count("bytes free"), count("too large")), (10 + 1 + 1, 1), "{lines}");
            let last = lines.lines().last().unwrap();
            if is_json {
                let last: serde_json::Value = serde_json::from_str(last).unwrap();
                assert_eq!(last["left_out"], 90);
            } else {
                assert!(last.ends_with(" (90 more for this cause since the last line)"), "{last}");
            }
        }
    }

    #[test]
    fn json_lines_have_the_keys_people_may_rely_on() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = json(move || writer.clone(), still());
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("conn", conn = 7);
            let _inside = span.enter();
            tracing::warn!(group = "shop", offset = 12, "the commit was \"refused\"");
        });
        let line = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(event["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        assert_eq!(event["level"], "WARN");
        assert_eq!(event["target"], module_path!());
        assert_eq!(event["message"], "the commit was \"refused\"");
        assert_eq!((&event["group"], &event["offset"]), (&"shop".into(), &12.into()));
        assert_eq!(event["spans"][0]["conn"], 7);
    }

    #[test]
    fn client_names_cannot_break_log_lines_or_control_terminals() {
        for ansi in [false, true] {
            let lines = Lines::default();
            let writer = lines.clone();
            let layer = text(move || writer.clone(), ansi, still());
            tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
                let client = "a\n2026-01-01 ERROR forged\r\u{1b}[2J\u{9b}1m é";
                let span = tracing::info_span!("conn", client);
                let _inside = span.enter();
                tracing::info!(%client, "closed: {client}");
            });
            let line = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            assert_eq!(line.matches(r"a\n2026-01-01 ERROR forged\r").count(), 3, "{line}");
            assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
            for command in ["\r", "\u{1b}[2J", "\u{9b}"] {
                assert!(!line.contains(command), "{line}");
            }
        }
    }

    #[test]
    fn a_filter_is_judged_before_it_is_used() {
        check_filter("info").unwrap();
        check_filter("warn,reprise::engine=debug").unwrap();
        let refused = check_filter("reprise=loud").unwrap_err().to_string();
        assert!(refused.contains("reprise=loud"), "{refused}");
    }
}
