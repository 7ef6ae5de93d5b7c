//! `check`: checks the configuration and, with `--connect`, this host and the cluster.

mod advertised;
mod cluster;
mod finding;
mod local;
mod reserved;

use std::io::Write;

use clap::Args;

use super::exit::{CommandFailure, Exit, complain};
use super::output::show::{Format, json};
use super::output::table::defused;
use super::serve::ConfigFlags;
use crate::clock::Clock;
use crate::config::Config;
use crate::observe::Metrics;
use finding::{Finding, Grade};

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    source: ConfigFlags,
    /// Look at what the configuration names too: directory, addresses, brokers. Run it before the
    /// sidecar starts: a running one has its directory and addresses itself. Exit code 1 when
    /// anything fails.
    #[arg(long)]
    connect: bool,
    /// The format of the findings.
    #[arg(long, value_enum, default_value = "table", requires = "connect")]
    format: Format,
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
    match format {
        Format::Table => {}
        Format::Json => return Ok(writeln!(out, "{}", json(&findings, true)?)?),
        Format::Jsonl => {
            for finding in findings {
                writeln!(out, "{}", json(finding, false)?)?;
            }
            return Ok(());
        }
    }
    let width = |of: fn(&Finding) -> &str| {
        findings.iter().map(|finding| of(finding).chars().count()).max().unwrap_or(0)
    };
    let (check, on) = (width(|finding| finding.check), width(|finding| &finding.on));
    for finding in findings {
        let Finding { grade, found, way_out, .. } = finding;
        let (grade, what, which) = (grade.as_str(), finding.check, defused(&finding.on));
        writeln!(out, "{grade:<4}  {what:<check$}  {which:<on$}  {}", defused(found))?;
        if let Some(way_out) = way_out {
            writeln!(out, "      → {}", defused(way_out))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut out = Vec::new();
        write(&mut out, Format::Jsonl, &findings).unwrap();
        let first =
            r#"{"check":"clock","on":"this host","state":"ok","found":"right","way_out":null}"#;
        assert_eq!(String::from_utf8(out).unwrap().lines().next(), Some(first));
    }
}
