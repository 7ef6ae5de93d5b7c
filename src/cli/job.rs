//! `job list`, `show`, `pause`, `resume`, `cancel`: jobs on dead letters.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::bulk::job_lines;
use super::exit::{Exit, Failure};
use super::http::AdminAt;
use super::show::{Column, Reading, cell, moment, rows};
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
        let answer = self.reading.at.get(&path)?;
        let items = answer.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        rows(out, self.reading.format, &items, &COLUMNS)?;
        if items.is_empty() {
            return Err(Failure::new(Exit::NothingMatched, "nothing matched"));
        }
        Ok(())
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
