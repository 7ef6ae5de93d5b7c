//! The text of the demo, 80 columns wide: a line for each event, then the dead letters and a
//! summary.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write};

use crate::clock::Clock;
use crate::demo::ladder::{DemoLadder, RETRIES_MAX};
use crate::demo::shop::{DEAD_LETTERS, ORDERS};
use crate::demo::sidecar::Sidecar;
use crate::demo::tally::{Delivery, DemoEvent, Summary, Tally, percentile};

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const BOLD: &str = "1";
/// The widest line.
const COLUMNS: usize = 80;

/// Prints to standard output, or keeps still for `--json`.
#[derive(Debug)]
pub(super) struct Screen {
    clock: Clock,
    is_silent: bool,
    has_colours: bool,
}

impl Screen {
    pub(super) fn new(clock: Clock, is_silent: bool) -> Self {
        let is_wanted = std::env::var_os("NO_COLOR").is_none();
        Self { clock, is_silent, has_colours: is_wanted && std::io::stdout().is_terminal() }
    }

    pub(super) fn show_opening(&self, sidecar: &Sidecar, ladder: &DemoLadder, speed: u64) {
        let delays: Vec<String> =
            (1..=RETRIES_MAX).map(|retry| duration(ladder.step(retry).1)).collect();
        self.line(format_args!("{}", self.paint(BOLD, "reprise: failed records come back")));
        self.line(format_args!("\n  kafka    {}", sidecar.kafka()));
        self.line(format_args!("  admin    {}", sidecar.admin()));
        self.line(format_args!("  data     {}", sidecar.data_dir().display()));
        self.line(format_args!("  retries  after {}", delays.join(", ")));
        self.line(format_args!("           ({speed} times faster than RocketMQ's)"));
        self.line(format_args!(
            "  story    {ORDERS} orders: 3 never succeed, 2 succeed at the third attempt"
        ));
        self.line(format_args!("\n     time  order  delivery      late  result"));
    }

    /// One line for one event.
    pub(super) fn show_event(&self, event: &DemoEvent, ladder: &DemoLadder) {
        let seconds = self.clock.elapsed().as_secs_f64();
        let text = match event {
            DemoEvent::Produced { .. } => return,
            DemoEvent::Delivered(delivery) => self.delivery(delivery, ladder),
            DemoEvent::DeadLetter(letter) => {
                let text = self.paint(RED, "dead letter");
                let failures = letter.header("RECONSUME_TIME");
                format!(
                    "{:>5}  {:<10}  {:>6}  {text} after {failures} failures",
                    letter.order, "", ""
                )
            }
        };
        self.line(format_args!("{seconds:>7.2} s  {text}"));
    }

    fn delivery(&self, delivery: &Delivery, ladder: &DemoLadder) -> String {
        let retry = delivery.attempt.saturating_sub(1);
        let name = if retry == 0 { "first".to_owned() } else { format!("retry {retry}") };
        let late = delivery.lateness_ms().map_or(String::new(), |ms| format!("{ms} ms"));
        let result = match delivery.failed {
            None => self.paint(GREEN, "done"),
            Some(reason) => {
                let failed = self.paint(YELLOW, "failed");
                let next = if retry < RETRIES_MAX {
                    format!("back in {}", duration(ladder.step(retry + 1).1))
                } else {
                    "no retry left".to_owned()
                };
                format!("{failed}: {reason}; {next}")
            }
        };
        format!("{:>5}  {name:<10}  {late:>6}  {result}", delivery.order)
    }

    /// A line for each dead letter, and the headers of the first.
    pub(super) fn show_dead_letters(&self, tally: &Tally) {
        let title = format!("Dead letters: topic {DEAD_LETTERS}, for any Kafka client");
        self.line(format_args!("\n{}\n", self.paint(BOLD, &title)));
        for letter in &tally.dead_letters {
            let failures = letter.header("RECONSUME_TIME");
            let reason = letter.header("x-retry-reason");
            self.line(format_args!(
                "  order-{:<3} {:<30} {failures} failures: {reason}",
                letter.order, letter.value
            ));
        }
        let Some(letter) = tally.dead_letters.first() else { return };
        self.line(format_args!("\n  headers of order-{}", letter.order));
        for (name, value) in &letter.headers {
            self.line(format_args!("    {}", header_line(name, value)));
        }
    }

    pub(super) fn show_summary(&self, tally: &Tally, ladder: &DemoLadder) {
        let retried = tally.retried();
        let dead = tally.dead_letters.len();
        self.line(format_args!("\n{}\n", self.paint(BOLD, "Summary")));
        let kept = format!("kept in {DEAD_LETTERS}");
        let lines = [
            ("produced", tally.produced().to_string(), "orders"),
            ("delivered", tally.delivered().to_string(), "first deliveries and retries"),
            ("retried", retried.to_string(), "failed records that came back"),
            ("recovered", tally.recovered().to_string(), "done at a retry"),
            ("dead-lettered", dead.to_string(), kept.as_str()),
            ("lost", tally.lost().to_string(), "neither done nor a dead letter"),
            ("early", tally.early().to_string(), "retries before their time"),
        ];
        for (name, count, meaning) in lines {
            self.line(format_args!("  {name:<14} {count:>4}  {meaning}"));
        }
        self.line(format_args!("\n  level     delay  retried  late p50  late p99"));
        for (retry, late) in tally.by_retry() {
            let (level, delay_ms) = ladder.step(retry);
            let delay = duration(delay_ms);
            self.lateness(&format!("{level:>5}  {delay:>8}"), &late);
        }
        self.lateness(&format!("{:>5}  {:>8}", "all", ""), &tally.all_lateness());
    }

    fn lateness(&self, head: &str, late_ms: &[i64]) {
        let p50 = format!("{} ms", percentile(late_ms, 50));
        let p99 = format!("{} ms", percentile(late_ms, 99));
        self.line(format_args!("  {head}  {:>7}  {p50:>8}  {p99:>8}", late_ms.len()));
    }

    /// The addresses of the sidecar, which stays up.
    pub(super) fn show_addresses(&self, sidecar: &Sidecar) {
        self.line(format_args!("\nThe sidecar stays up until Ctrl-C."));
        self.line(format_args!("  Kafka clients   {}", sidecar.kafka()));
        self.line(format_args!("  page            {}/", sidecar.admin()));
        self.line(format_args!("  metrics         {}/metrics", sidecar.admin()));
    }

    /// Prints the summary as one line of JSON, even if all else is silent.
    pub(super) fn show_json(summary: &Summary) {
        if let Ok(text) = serde_json::to_string(summary) {
            let _ = writeln!(std::io::stdout(), "{text}");
        }
    }

    /// Writes one line; a closed stdout does not end the demo.
    fn line(&self, text: Arguments<'_>) {
        if !self.is_silent {
            let _ = writeln!(std::io::stdout(), "{text}");
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.has_colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Name and value of a header, cut to the width of the screen.
fn header_line(name: &str, value: &str) -> String {
    let text = format!("{name:<27} {value}");
    if text.chars().count() <= COLUMNS - 4 {
        return text;
    }
    let cut: String = text.chars().take(COLUMNS - 5).collect();
    format!("{cut}…")
}

/// A duration in the largest unit that keeps it short.
fn duration(ms: u64) -> String {
    let tenths = |unit_ms: u64, unit: &str| {
        let (whole, tenth) = (ms / unit_ms, ms % unit_ms * 10 / unit_ms);
        if tenth == 0 { format!("{whole} {unit}") } else { format!("{whole}.{tenth} {unit}") }
    };
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => tenths(1_000, "s"),
        _ => tenths(60_000, "min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_line_fits_eighty_columns() {
        assert_eq!(header_line("a", "b"), format!("a{} b", " ".repeat(26)));
        let line = header_line("x-retry-history", &"1764115200000:rejected;".repeat(6));
        assert_eq!(line.chars().count() + 4, COLUMNS);
        assert!(line.ends_with('…'));
    }
}
