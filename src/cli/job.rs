//! `job list`, `show`, `pause`, `resume`, `cancel`: jobs on dead letters.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::bulk::{check_end, wait};
use super::exit::CommandFailure;
use super::output::show::{Column, ReadArgs, cell, field, moment, state, time};
use super::output::table::defused;
use super::output::terminal_screen::TerminalScreen;
use super::sidecars::AdminAt;
use super::sidecars::pages::{List, Listing};
use crate::api::Selector;

const COLUMNS: [Column; 8] = [
    ("JOB", |v| field(v, "id")),
    ("GROUP", |v| field(v, "group")),
    ("ACTION", |v| field(v, "action")),
    ("STATE", |v| state(v, "state")),
    ("CHANGED", |v| field(v, "changed")),
    ("FAILED", |v| field(v, "failed")),
    ("STARTED", |v| time(v, "started_ms")),
    ("NOTE", |v| field(v, "note")),
];

/// The end of `reprise job list --help`.
const LIST_EXAMPLES: &str = "\
EXAMPLES:
  reprise job list --group shop --sort -failed
  reprise job list --watch=5";

/// The end of `reprise job show --help`.
const SHOW_EXAMPLES: &str = "\
EXAMPLES:
  reprise job show 3
  reprise job show 3 --follow && echo done";

#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// The jobs, latest first.
    #[command(after_long_help = LIST_EXAMPLES)]
    List(JobListArgs),
    /// One job with its terms and its progress.
    #[command(after_long_help = SHOW_EXAMPLES)]
    Show(JobShowArgs),
    /// Pause a job after its present batch.
    Pause(ChangeArgs),
    /// Go on with a paused job.
    Resume(ChangeArgs),
    /// End a job. Records that it has sent back stay on their way.
    Cancel(ChangeArgs),
}

#[derive(Debug, Args)]
pub(super) struct JobListArgs {
    /// Only jobs of this group.
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, Args)]
pub(super) struct JobShowArgs {
    /// The number of the job.
    id: u64,
    /// Wait until the job does not run any more; a terminal sees its progress.
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    /// The number of the job.
    id: u64,
    /// A note for the audit log.
    #[arg(long)]
    note: Option<String>,
    #[command(flatten)]
    at: AdminAt,
}

pub(super) fn run(
    command: &JobCommand,
    screen: &TerminalScreen,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    match command {
        JobCommand::List(args) => args.run(screen, out),
        JobCommand::Show(args) => args.run(screen, out),
        JobCommand::Pause(args) => args.run("pause", out),
        JobCommand::Resume(args) => args.run("resume", out),
        JobCommand::Cancel(args) => args.run("cancel", out),
    }
}

impl JobListArgs {
    fn run(&self, screen: &TerminalScreen, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let of = Selector { group: self.group.clone(), ..Selector::default() };
        let list = List {
            path: "/api/v1/jobs",
            query: of.pairs(),
            limit: None,
            columns: &COLUMNS,
            order: "-started",
            total: None,
        };
        self.listing.show((out, screen), &list)
    }
}

impl JobShowArgs {
    fn run(&self, screen: &TerminalScreen, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let path = format!("/api/v1/jobs/{}", self.id);
        if !self.follow {
            return self.reading.one(out, &path, |job| job_lines(job, screen));
        }
        let sidecar = self.reading.at.single()?;
        let job = wait(sidecar, sidecar.get(&path)?)?;
        self.reading.write(out, &job, |job| job_lines(job, screen))?;
        check_end(&job)
    }
}

impl ChangeArgs {
    fn run(&self, verb: &str, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let path = format!("/api/v1/jobs/{}/{verb}", self.id);
        let job = self.at.post(&path, &json!({ "note": self.note }))?;
        writeln!(out, "job {} is {}", self.id, cell(&job, "state"))?;
        Ok(())
    }
}

/// The lines of a job.
fn job_lines(job: &Value, screen: &TerminalScreen) -> Vec<String> {
    let mut out: Vec<String> = ["id", "group", "action"]
        .map(|key| format!("{key:<14}{}", defused(&cell(job, key))))
        .into();
    out.push(format!("{:<14}{}", "state", screen.state(&defused(&cell(job, "state")))));
    if job.get("awaits_canary").and_then(Value::as_bool) == Some(true) {
        out.push(format!(
            "{:<14}the outcomes of its first {} records",
            "waits for",
            cell(job, "canary")
        ));
    }
    out.extend([
        format!("{:<14}{}", "changed", cell(job, "changed")),
        format!("{:<14}{}", "left", cell(job, "left")),
        format!(
            "{:<14}{} acknowledged, {} failed again, {} without one yet",
            "outcomes",
            cell(job, "acknowledged"),
            cell(job, "failed"),
            cell(job, "pending")
        ),
        format!("{:<14}{} of {}", "offset", cell(job, "cursor"), cell(job, "end")),
        format!("{:<14}{}", "started", moment(screen, job, "started_ms")),
        format!("{:<14}{}", "ended", moment(screen, job, "ended_ms")),
        format!("{:<14}{}", "by", format!("{} {}", cell(job, "name"), cell(job, "peer")).trim()),
        format!("{:<14}{}", "note", defused(&cell(job, "note"))),
        format!(
            "{:<14}{} a second, canary {}, stops above {} % failures",
            "terms",
            cell(job, "rate"),
            cell(job, "canary"),
            cell(job, "stop_percent")
        ),
    ]);
    for part in ["selector", "patch"] {
        let fields = job.get(part).and_then(Value::as_object).into_iter().flatten();
        for (name, value) in fields.filter(|(_, value)| !is_empty(value)) {
            out.push(format!("{part:<14}{name} {}", defused(&value.to_string())));
        }
    }
    out
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}
