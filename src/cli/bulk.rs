//! `dlq redrive` and `dlq discard`: they act on named letters at once, and on a filter by a job.

use std::io::Write;
use std::time::Duration;

use clap::{ArgAction, Args};
use serde_json::{Value, json};

use super::exit::{CommandFailure, Exit, complain};
use super::operate::{Pick, Verb, act, request};
use super::output::progress_bar::ProgressBar;
use super::output::show::cell;
use super::output::table::defused;
use super::sidecars::AdminAt;
use super::sidecars::http::AdminEndpoint;

/// Interval between two requests for the state of a running job.
const LOOK: Duration = Duration::from_millis(200);

/// Changes of each record before it is sent back.
#[derive(Debug, Args)]
pub(super) struct PatchArgs {
    /// Set a header: NAME=VALUE. Can be given more than once.
    #[arg(long, value_name = "NAME=VALUE", action = ArgAction::Append)]
    set_header: Vec<String>,
    /// Remove a header. Can be given more than once.
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    remove_header: Vec<String>,
    /// A JSON merge patch (RFC 7396) of the value.
    #[arg(long, value_name = "JSON")]
    merge: Option<String>,
}

/// Dead letters by offset or by a filter.
#[derive(Debug, Args)]
pub(super) struct LettersArgs {
    #[command(flatten)]
    pick: Pick,
    /// A note for the audit log; needed for more than one record.
    #[arg(long)]
    note: Option<String>,
    /// Act; without it --all only tells which records match.
    #[arg(long)]
    execute: bool,
    /// Do not wait for the end of the job.
    #[arg(long, requires = "execute")]
    detach: bool,
    #[command(flatten)]
    at: AdminAt,
}

/// The arguments of `dlq redrive`.
#[derive(Debug, Args)]
pub(super) struct RedriveArgs {
    #[command(flatten)]
    letters: LettersArgs,
    #[command(flatten)]
    patch: PatchArgs,
    /// Records in a second at most; 0: no limit.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "all")]
    rate: u32,
    /// Records that must have an outcome before the others follow.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "all")]
    canary: u32,
    /// Stop when more than so many in a hundred records fail again.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, requires = "all")]
    stop_percent: u8,
    /// Send each record to the topic it came from: all groups that read it get the record.
    #[arg(long)]
    to_origin: bool,
    /// Send the records to this topic: all groups that read it get them.
    #[arg(long, value_name = "TOPIC", conflicts_with = "to_origin")]
    to_topic: Option<String>,
    /// Send back even if no member of the group reads its retry topic.
    #[arg(long, conflicts_with_all = ["to_origin", "to_topic"])]
    anyway: bool,
    /// Leave records that were sent back so many times before.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "all")]
    redrives_max: u32,
}

impl RedriveArgs {
    pub(super) fn run(&self, verb: Verb, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let merge = self.patch.merge.as_deref().map(serde_json::from_str::<Value>).transpose();
        let merge = merge.map_err(|error| {
            CommandFailure::new(Exit::Usage, format!("--merge takes a JSON text: {error}"))
        })?;
        let mut terms = vec![
            ("set_headers", json!(self.patch.set_header)),
            ("remove_headers", json!(self.patch.remove_header)),
        ];
        terms.extend(merge.map(|merge| ("merge", merge)));
        if self.to_origin {
            terms.push(("to_origin", json!(true)));
        }
        if self.anyway {
            terms.push(("anyway", json!(true)));
        }
        terms.extend(self.to_topic.as_ref().map(|topic| ("to_topic", json!(topic))));
        if self.letters.pick.all {
            terms.extend([
                ("rate", json!(self.rate)),
                ("canary", json!(self.canary)),
                ("stop_percent", json!(self.stop_percent)),
                ("redrives_max", json!(self.redrives_max)),
            ]);
        }
        self.letters.run("redrive", verb, terms, out)
    }
}

impl LettersArgs {
    pub(super) fn run(
        &self,
        action: &str,
        verb: Verb,
        mut terms: Vec<(&str, Value)>,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        if !self.pick.all {
            return act(&self.at, verb, (&self.pick, self.note.as_deref()), &terms, out);
        }
        terms.push(("action", json!(action)));
        let conditions = self.pick.conditions()?;
        if !self.execute {
            return self.plan(action, &request(&conditions, &terms), out);
        }
        terms.push(("note", json!(self.note)));
        let request = request(&conditions, &terms);
        let job = self.at.post("/api/v1/jobs", &request)?;
        if self.detach {
            let id = cell(&job, "id");
            writeln!(out, "job {id} runs; `reprise job show {id}` tells how far it is")?;
            return Ok(());
        }
        follow(self.at.single()?, job, verb.done, out)
    }

    /// Tells which letters a job would change, without a change.
    fn plan(
        &self,
        action: &str,
        request: &Value,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        let plan = self.at.post("/api/v1/jobs/plan", request)?;
        let count = |key: &str| plan.get(key).and_then(Value::as_u64).unwrap_or(0);
        let matched = count("matched");
        writeln!(out, "{matched} records match")?;
        for item in plan.get("samples").and_then(Value::as_array).into_iter().flatten() {
            let text = |key| defused(&cell(item, key));
            writeln!(out, "  {}  {}  {}", text("offset"), text("origin"), text("error"))?;
            if item.get("value").is_some_and(Value::is_string) {
                writeln!(out, "    becomes {}", text("value"))?;
            }
        }
        if count("looped") > 0 {
            writeln!(out, "{} stay: they were sent back too often already", count("looped"))?;
        }
        if count("unpatched") > 0 {
            let why = defused(&cell(&plan, "unpatched_reason"));
            writeln!(out, "{} stay: {why}", count("unpatched"))?;
        }
        let target = request.get("to_topic").and_then(Value::as_str);
        let target = match request.get("to_origin") {
            Some(_) => Some("the topics they came from"),
            None => target,
        };
        if matched > 0
            && let Some(target) = target
        {
            let target = defused(target);
            writeln!(out, "they go to {target}: every group that reads it gets them")?;
        } else if matched > 0 && action == "redrive" {
            let (topic, retries) = (cell(&plan, "retry_topic"), count("max_reconsume_times"));
            let group = defused(&cell(request, "group"));
            writeln!(
                out,
                "they go to {group} alone, by {topic}, with up to {retries} retries each"
            )?;
            writeln!(out, "{}", defused(&cell(&plan, "receivers")))?;
        }
        if matched == 0 {
            return Err(CommandFailure::new(Exit::NothingMatched, "nothing matched"));
        }
        complain("a dry run: nothing was changed. Add --execute and --note to act");
        Ok(())
    }
}

/// Waits until a job has ended or pauses; a terminal shows the progress.
pub(super) fn wait(sidecar: &AdminEndpoint, mut job: Value) -> Result<Value, CommandFailure> {
    let path = format!("/api/v1/jobs/{}", cell(&job, "id"));
    let mut progress = ProgressBar::start();
    let offset = |job: &Value, key| job.get(key).and_then(Value::as_u64).unwrap_or(0);
    let first = offset(&job, "cursor");
    while is_running(&job) {
        let (cursor, end) = (offset(&job, "cursor"), offset(&job, "end"));
        let (done, total) = (cursor.saturating_sub(first), end.saturating_sub(first));
        progress.show(done, total, &progress_line(&job));
        std::thread::sleep(LOOK);
        job = sidecar.get(&path)?;
    }
    Ok(job)
}

fn is_running(job: &Value) -> bool {
    job.get("state").and_then(Value::as_str) == Some("running")
}

/// A failure, unless the job is done.
pub(super) fn check_end(job: &Value) -> Result<(), CommandFailure> {
    let says = match job.get("state").and_then(Value::as_str) {
        Some("done") => return Ok(()),
        Some("stopped") => {
            let (failed, percent) = (cell(job, "failed"), cell(job, "stop_percent"));
            format!(
                "the job stopped: {failed} of the records failed again, more than {percent} in a \
                 hundred; the others stay dead letters"
            )
        }
        state => format!("job {} is {}", cell(job, "id"), state.unwrap_or("unknown")),
    };
    Err(CommandFailure::new(Exit::Refused, says))
}

/// Waits for the end of a job and prints the outcome.
fn follow(
    sidecar: &AdminEndpoint,
    job: Value,
    done: &str,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let job = wait(sidecar, job)?;
    let (changed, left) = (cell(&job, "changed"), cell(&job, "left"));
    writeln!(out, "{changed} {done}, {left} left as they were")?;
    check_end(&job)?;
    if changed == "0" {
        return Err(CommandFailure::new(Exit::NothingMatched, "no record was changed"));
    }
    Ok(())
}

/// The progress of a job in one line.
fn progress_line(job: &Value) -> String {
    let waits = job.get("awaits_canary").and_then(Value::as_bool).unwrap_or(false);
    format!(
        "job {}: {} done, {} acknowledged, {} failed again{}",
        cell(job, "id"),
        cell(job, "changed"),
        cell(job, "acknowledged"),
        cell(job, "failed"),
        if waits { "; waits for its first records" } else { "" }
    )
}
