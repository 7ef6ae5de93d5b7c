//! What the reader sees: a line per event, then the dead letters and the summary as tables.

use std::io::IsTerminal;

use reprise::clock::Clock;

use crate::ladder::{Ladder, RETRIES_MAX};
use crate::shop::ORDERS;
use crate::sidecar::Sidecar;
use crate::tally::{DeadLetter, Delivery, Event, Tally, percentile};

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const BOLD: &str = "1";
/// Widest cell of the dead-letter table.
const CELL_COLUMNS_MAX: usize = 26;

/// Prints, or keeps still for `--json`.
#[derive(Debug)]
pub(crate) struct Screen {
    clock: Clock,
    silent: bool,
    colours: bool,
}

impl Screen {
    pub(crate) fn new(clock: Clock, silent: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none();
        Self { clock, silent, colours: wanted && std::io::stdout().is_terminal() }
    }

    pub(crate) fn opening(&self, sidecar: &Sidecar, ladder: &Ladder, speed: u64) {
        if self.silent {
            return;
        }
        let delays: Vec<String> =
            (1..=RETRIES_MAX).map(|retry| duration(ladder.step(retry).1)).collect();
        println!("\n{}", self.paint(BOLD, "reprise: failed records come back"));
        println!("\n  kafka    {}", sidecar.kafka());
        println!("  admin    {}", sidecar.admin());
        println!("  data     {}", sidecar.data_dir().display());
        println!("  ladder   {} ({speed} times faster than RocketMQ's)", delays.join(", "));
        println!("  story    {ORDERS} orders; 3 never succeed, 2 succeed at the third try");
        println!("\n     time  order  delivery      late  result");
    }

    /// One line for one event.
    pub(crate) fn line(&self, event: &Event, ladder: &Ladder) {
        if self.silent {
            return;
        }
        let seconds = self.clock.elapsed().as_secs_f64();
        let said = match event {
            Event::Produced { .. } => return,
            Event::Delivered(delivery) => self.delivery(delivery, ladder),
            Event::DeadLetter(letter) => {
                let text = self.paint(RED, "dead letter");
                let failures = letter.header("RECONSUME_TIME");
                format!(
                    "{:>5}  {:<10}  {:>6}  {text} after {failures} failures",
                    letter.order, "", ""
                )
            }
        };
        println!("{seconds:>7.2} s  {said}");
    }

    fn delivery(&self, delivery: &Delivery, ladder: &Ladder) -> String {
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

    /// A column for each dead letter, a line for each header.
    pub(crate) fn dead_letters(&self, tally: &Tally) {
        let letters = &tally.dead_letters;
        println!(
            "\n{}\n",
            self.paint(BOLD, "Dead letters, as any Kafka client reads them: reprise.dlq.shop")
        );
        row("key", letters, |letter| format!("order-{}", letter.order));
        row("value", letters, |letter| letter.value.clone());
        let names = letters.first().map_or(&[][..], |letter| &letter.headers);
        for (name, _) in names {
            row(name, letters, |letter| letter.header(name).to_owned());
        }
    }

    pub(crate) fn summary(&self, tally: &Tally, ladder: &Ladder) {
        let retried = tally.retried();
        let dead = tally.dead_letters.len();
        println!("\n{}\n", self.paint(BOLD, "Summary"));
        let lines = [
            ("produced", tally.produced().to_string(), "orders"),
            ("delivered", tally.delivered().to_string(), "first deliveries and retries"),
            ("retried", retried.to_string(), "failed records that came back"),
            ("recovered", tally.recovered().to_string(), "done at a retry"),
            ("dead-lettered", dead.to_string(), "kept in reprise.dlq.shop"),
            ("lost", tally.lost().to_string(), "neither done nor a dead letter"),
            ("early", tally.early().to_string(), "retries before their time"),
        ];
        for (name, count, meaning) in lines {
            println!("  {name:<14} {count:>4}  {meaning}");
        }
        println!("\n  level     delay  retried  late p50  late p99");
        for (retry, late) in tally.by_retry() {
            let (level, delay_ms) = ladder.step(retry);
            let delay = duration(delay_ms);
            late_row(&format!("{level:>5}  {delay:>8}"), &late);
        }
        late_row(&format!("{:>5}  {:>8}", "all", ""), &tally.all_lateness());
        println!();
    }

    pub(crate) fn stays_up(&self, sidecar: &Sidecar) {
        if self.silent {
            return;
        }
        println!("The sidecar stays up: kafka {}, admin {}", sidecar.kafka(), sidecar.admin());
        println!("Try   curl {}/api/v1/groups", sidecar.admin());
        println!("Ctrl-C ends it.");
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn row(name: &str, letters: &[DeadLetter], cell: impl Fn(&DeadLetter) -> String) {
    let cells: Vec<String> = letters
        .iter()
        .map(|letter| {
            let cell = cell(letter);
            let shown: String = cell.chars().take(CELL_COLUMNS_MAX - 1).collect();
            let cell = if shown.len() < cell.len() { format!("{shown}…") } else { cell };
            format!("{cell:<CELL_COLUMNS_MAX$}")
        })
        .collect();
    println!("  {name:<28} {}", cells.join("  ").trim_end());
}

fn late_row(head: &str, late_ms: &[i64]) {
    let p50 = format!("{} ms", percentile(late_ms, 50));
    let p99 = format!("{} ms", percentile(late_ms, 99));
    println!("  {head}  {:>7}  {p50:>8}  {p99:>8}", late_ms.len());
}

/// In the largest unit that keeps it short.
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
