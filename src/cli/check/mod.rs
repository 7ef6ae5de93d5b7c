//! `check`: checks the configuration and, with `--connect`, this host and the cluster.

mod advertised;
mod cluster;
mod local;
mod reserved;

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{CommandFailure, Exit, complain};
use super::output::show::{Format, rows};
use super::output::table::defused;
use super::output::terminal_screen::TerminalScreen;
use super::serve::ConfigSource;
use crate::clock::Clock;
use crate::config::Config;
use crate::model::WallMs;
use crate::observe::Metrics;
use crate::socket::ValidUntil;

/// Days of validity below which a certificate gets a warning.
const RENEW_DAYS: i64 = 30;
const MS_PER_DAY: i64 = 86_400_000;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// Look at what the configuration names too: directory, addresses, brokers. Run it before the
    /// sidecar starts: a running one has its directory and addresses itself. Exit code 1 when
    /// anything fails.
    #[arg(long)]
    connect: bool,
    /// The format of the findings.
    #[arg(long, value_enum, default_value = "table", requires = "connect")]
    format: Format,
}

/// The grade of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Ok,
    /// The sidecar works, but the operator should know.
    Warn,
    /// The sidecar would not work.
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// A word for the check, the same one at every run.
    check: &'static str,
    /// The subject of the check, such as an address or a file.
    on: String,
    grade: Grade,
    /// A sentence for the operator.
    found: String,
    /// The remedy; empty where there is nothing to do.
    way_out: String,
}

impl Grade {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl Finding {
    fn ok(check: &'static str, on: &str, found: impl Into<String>) -> Self {
        Self::new(check, on, Grade::Ok, found.into(), "")
    }

    fn warn(check: &'static str, on: &str, found: impl Into<String>, way_out: &str) -> Self {
        Self::new(check, on, Grade::Warn, found.into(), way_out)
    }

    fn fail(check: &'static str, on: &str, found: impl Into<String>, way_out: &str) -> Self {
        Self::new(check, on, Grade::Fail, found.into(), way_out)
    }

    fn new(check: &'static str, on: &str, grade: Grade, found: String, way_out: &str) -> Self {
        Self { check, on: on.to_owned(), grade, found, way_out: way_out.to_owned() }
    }

    /// A finding about a certificate, by the time it has left.
    fn of_certificate(
        check: &'static str,
        on: &str,
        until: &ValidUntil,
        now: WallMs,
        found: &str,
    ) -> Self {
        let days = until.at.0.saturating_sub(now.0).div_euclid(MS_PER_DAY);
        let found = format!("{found}valid until {} ({days} days)", until.text);
        let renew = "renew it, then SIGHUP where the file is ours";
        match days {
            ..0 => Self::fail(check, on, found, renew),
            0..RENEW_DAYS => Self::warn(check, on, found, renew),
            _ => Self::ok(check, on, found),
        }
    }

    fn json(&self) -> Value {
        let way_out = Some(&self.way_out).filter(|way_out| !way_out.is_empty());
        json!({
            "check": self.check,
            "on": self.on,
            "state": self.grade.as_str(),
            "found": self.found,
            "way_out": way_out,
        })
    }
}

pub(super) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let loaded = args.source.load()?;
    if !args.connect {
        for warning in &loaded.warnings {
            complain(&format!("warning: {warning}"));
        }
        writeln!(out, "{}: ok", args.source.name())?;
        return Ok(());
    }
    let name = args.source.name();
    let mut findings = vec![Finding::ok("configuration", &name, "valid")];
    let odd =
        loaded.warnings.iter().map(|odd| Finding::warn("configuration", &name, odd.as_str(), ""));
    findings.extend(odd);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| CommandFailure::new(Exit::Failed, e.to_string()))?;
    findings.extend(runtime.block_on(look(&loaded.config)));
    write(out, args.format, &findings)?;
    match findings.iter().filter(|finding| finding.grade == Grade::Fail).count() {
        0 => Ok(()),
        failed => Err(CommandFailure::new(Exit::Failed, format!("{failed} failed"))),
    }
}

async fn look(config: &Config) -> Vec<Finding> {
    let clock = Clock::start();
    let (mut findings, mut reserved) = local::look(config, clock).await;
    // The metrics of the check are not read.
    let Ok(metrics) = Metrics::new(1) else { return findings };
    findings.extend(cluster::look(config, clock, &metrics, &mut reserved).await);
    findings.extend(reserved.advertised(config).await);
    findings
}

fn write(out: &mut dyn Write, format: Format, findings: &[Finding]) -> Result<(), CommandFailure> {
    if format != Format::Table {
        let items: Vec<Value> = findings.iter().map(Finding::json).collect();
        return rows((out, &TerminalScreen::default()), format, &items, &[]);
    }
    let width = |of: fn(&Finding) -> &str| {
        findings.iter().map(|finding| of(finding).chars().count()).max().unwrap_or(0)
    };
    let (check, on) = (width(|finding| finding.check), width(|finding| &finding.on));
    for finding in findings {
        let Finding { grade, found, way_out, .. } = finding;
        let (grade, what, which) = (grade.as_str(), finding.check, defused(&finding.on));
        writeln!(out, "{grade:<4}  {what:<check$}  {which:<on$}  {}", defused(found))?;
        if !way_out.is_empty() {
            writeln!(out, "      → {}", defused(way_out))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_near_expiry_warns_and_an_expired_one_fails() {
        let until = ValidUntil { at: WallMs(40 * MS_PER_DAY), text: "then".to_owned() };
        let seen = |day: i64| {
            let now = WallMs(day * MS_PER_DAY);
            Finding::of_certificate("tls", "kafka-1:9093", &until, now, "TLS 1.3, ")
        };
        assert_eq!(seen(10).found, "TLS 1.3, valid until then (30 days)");
        let grades = [seen(10), seen(11), seen(40), seen(41)].map(|found| found.grade);
        assert_eq!(grades, [Grade::Ok, Grade::Warn, Grade::Warn, Grade::Fail]);
    }

    #[test]
    fn findings_are_aligned_with_remedies_and_without_escapes() {
        let findings = [
            Finding::ok("clock", "this host", "right"),
            Finding::fail("data_dir", "x", "full\u{1b}[31m", "make room"),
        ];
        let mut out = Vec::new();
        write(&mut out, Format::Table, &findings).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "ok    clock     this host  right\n\
                        fail  data_dir  x          full\u{fffd}[31m\n      → make room\n";
        assert_eq!(text, expected);
        assert_eq!(findings[0].json()["way_out"], Value::Null);
    }
}
