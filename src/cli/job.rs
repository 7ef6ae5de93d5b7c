//! `job list`, `show`, `pause`, `resume`, `cancel`: jobs on dead letters.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::exit::Failure;
use super::http::AdminAt;
use super::show::{Column, Reading, cell, moment};
use super::table::defused;
use crate::admin::percent_encoded;

const COLUMNS: [Column; 8] = [
    ("JOB", |v| cell(v, "id")),
    ("GROUP", |v| cell(v, "group")),
    ("ACTION", |v| cell(v, "action")),
    ("STATE", |v| cell(v, "state")),
    ("CHANGED", |v| cell(v, "changed")),
    ("FAILED", |v| cell(v, "failed")),
    ("STARTED", |v| moment(v, "started_ms")),
    ("WHY", |v| cell(v, "why")),
];

#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// The jobs, latest first.
    List(ListArgs),
    /// One job with its terms and its progress.
    Show(ShowArgs),
    /// Pause a job after its present batch.
    Pause(ChangeArgs),
    /// Go on with a paused job.
    Resume(ChangeArgs),
    /// End a job. Records that it has sent back stay on their way.
    Cancel(ChangeArgs),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only jobs of this group.
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    reading: Reading,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The number of the job.
    id: u64,
    #[command(flatten)]
    reading: Reading,
}

#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    /// The number of the job.
    id: u64,
    /// The reason, for the audit log.
    #[arg(long)]
    why: Option<String>,
    #[command(flatten)]
    at: AdminAt,
}

pub(super) fn run(command: &JobCommand, out: &mut dyn Write) -> Result<(), Failure> {
    match command {
        JobCommand::List(args) => args.run(out),
        JobCommand::Show(args) => {
            args.reading.one(out, &format!("/api/v1/jobs/{}", args.id), job_lines)
        }
        JobCommand::Pause(args) => args.run("pause", out),
        JobCommand::Resume(args) => args.run("resume", out),
        JobCommand::Cancel(args) => args.run("cancel", out),
    }
}

impl ListArgs {
    fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let group = self.group.as_deref().map(|group| format!("?group={}", percent_encoded(group)));
        let path = format!("/api/v1/jobs{}", group.unwrap_or_default());
        self.reading.whole(out, &path, &COLUMNS).map(drop)
    }
}

impl ChangeArgs {
    fn run(&self, verb: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let path = format!("/api/v1/jobs/{}/{verb}", self.id);
        let job = self.at.post(&path, &json!({ "why": self.why }))?;
        writeln!(out, "job {} is {}", self.id, cell(&job, "state"))?;
        Ok(())
    }
}

/// A job in lines.
fn job_lines(job: &Value) -> Vec<String> {
    let mut out: Vec<String> = ["id", "group", "action", "state"]
        .map(|key| format!("{key:<14}{}", defused(&cell(job, key))))
        .into();
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
        format!("{:<14}{}", "started", moment(job, "started_ms")),
        format!("{:<14}{}", "ended", moment(job, "ended_ms")),
        format!("{:<14}{}", "by", format!("{} {}", cell(job, "name"), cell(job, "peer")).trim()),
        format!("{:<14}{}", "why", defused(&cell(job, "why"))),
        format!(
            "{:<14}{} a second, canary {}, stops above {} % failures",
            "terms",
            cell(job, "rate"),
            cell(job, "canary"),
            cell(job, "stop_percent")
        ),
    ]);
    for part in ["filter", "patch"] {
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
