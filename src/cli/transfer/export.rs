//! `retry export`: writes waiting retries as JSON lines; sets them aside, ends or releases them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use super::import::{RECEIPT, with_reason};
use super::{ENTRIES_MAX, ExportFilter, ExportKind, ExportQuery, VERSION, check_absent};
use crate::cli::exit::{CommandFailure, Exit, complain};
use crate::cli::output::progress_bar::{ProgressBar, number};
use crate::cli::sidecars::AdminAt;
use crate::cli::sidecars::pages::items;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("step").args(["take", "end", "undo"]))]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    filter: ExportFilter,
    /// Set them aside as well: they are not delivered here any more.
    #[arg(long)]
    take: bool,
    /// End what was set aside and is in another sidecar now, as `retry import` told in this file.
    #[arg(long, value_name = "RECEIPT", conflicts_with_all = ["group", "topic", "reason", "out"])]
    end: Option<PathBuf>,
    /// Give back what was set aside: it waits here again.
    #[arg(long, conflicts_with = "out")]
    undo: bool,
    /// Change something; without it --take, --end and --undo only tell what they would do.
    #[arg(long)]
    execute: bool,
    /// The reason for --take, --end and --undo, for the audit log.
    #[arg(long)]
    why: Option<String>,
    /// The file to make; stdout if not given.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    at: AdminAt,
}

pub(in crate::cli) fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<(), CommandFailure> {
    if let Some(receipt) = &args.end {
        return end(args, receipt);
    }
    if args.undo {
        return undo(args);
    }
    if let Some(path) = &args.out {
        check_absent(path)?;
    }
    if args.take && !take(args)? {
        return Ok(());
    }
    args.query().save(args.out.as_deref(), out).map_err(|mut failure| {
        if args.take && failure.exit == Exit::Failed {
            failure.says += "\nwhat is set aside stays so: run this once more, or with --undo";
        }
        failure
    })
}

/// Sets waiting retries aside; false: it was a dry run.
fn take(args: &ExportArgs) -> Result<bool, CommandFailure> {
    let (mut ids, mut inflight, mut held) = (Vec::new(), 0_u64, 0_u64);
    let found = args.list(None)?;
    if let Some(group) = found.first().and_then(|item| item.get("group")).and_then(Value::as_str) {
        // A caller who may not read the records is refused before anything is set aside.
        args.at.get(&args.query().page(group, None))?;
    }
    for item in found {
        match item.get("state").and_then(Value::as_str) {
            Some("waiting" | "ready" | "parked") => ids.extend(id_of(&item)),
            Some("inflight") => inflight += 1,
            Some("held") => held += 1,
            _ => {}
        }
    }
    if !args.execute {
        complain(&format!("{} would be set aside; add --execute", ids.len()));
    } else if !ids.is_empty() {
        let done = args.step("begin", &ids)?;
        complain(&format!("{} set aside", done.taken));
        inflight += done.left;
    }
    if inflight > 0 {
        complain(&format!(
            "{inflight} handed out and left to their members: run this once more when they are \
             committed or have failed"
        ));
    }
    if held > 0 {
        complain(&format!(
            "{held} exhausted and held for want of room: raise dead_letters.max_bytes and reload \
             (SIGHUP), they become dead letters"
        ));
    }
    Ok(args.execute)
}

fn end(args: &ExportArgs, receipt: &Path) -> Result<(), CommandFailure> {
    let (source, ids, refused) = read_receipt(receipt)?;
    if refused > 0 {
        complain(&format!("{refused} were refused there and stay set aside here"));
    }
    if ids.is_empty() {
        return Err(CommandFailure::new(
            Exit::NothingMatched,
            "the receipt tells of nothing to end",
        ));
    }
    if !args.execute {
        complain(&format!("{} would be ended; add --execute", ids.len()));
        return Ok(());
    }
    let done = args.step_of("end", &source, &ids)?;
    complain(&format!("{} ended, {} before", done.taken, done.already));
    if done.left > 0 {
        let says = format!(
            "{} are not set aside here: they are delivered by both sidecars; \
             `reprise retry export --take` sets them aside",
            done.left
        );
        return Err(CommandFailure::new(Exit::Refused, says));
    }
    Ok(())
}

fn undo(args: &ExportArgs) -> Result<(), CommandFailure> {
    let ids: Vec<u64> = args.list(Some("exported"))?.iter().filter_map(id_of).collect();
    if ids.is_empty() {
        return Err(CommandFailure::new(Exit::NothingMatched, "nothing is set aside"));
    }
    if !args.execute {
        complain(&format!("{} would be given back; add --execute", ids.len()));
        return Ok(());
    }
    let done = args.step("undo", &ids)?;
    complain(&format!("{} given back", done.taken));
    Ok(())
}

/// The sums of the steps of several requests.
#[derive(Default)]
struct Steps {
    taken: u64,
    already: u64,
    left: u64,
}

impl ExportArgs {
    /// Entries as `retry list` shows them.
    fn list(&self, state: Option<&str>) -> Result<Vec<Value>, CommandFailure> {
        let mut query = self.filter.query();
        query.extend(state.map(|state| ("state", state.to_owned())));
        items(&self.at, "/api/v1/retries", &query, u64::MAX)
    }

    fn step(&self, step: &str, ids: &[u64]) -> Result<Steps, CommandFailure> {
        let overview = self.at.get("/api/v1/overview")?;
        let source = overview.get("cluster_id").and_then(Value::as_str).unwrap_or_default();
        self.step_of(step, source, ids)
    }

    fn step_of(&self, step: &str, source: &str, ids: &[u64]) -> Result<Steps, CommandFailure> {
        let mut steps = Steps::default();
        let (mut progress, mut done) = (ProgressBar::start(), 0);
        for part in ids.chunks(ENTRIES_MAX) {
            progress.show(done, number(ids.len()), step);
            done += number(part.len());
            let body = json!({ "source": source, "step": step, "ids": part });
            let body = with_reason(body, self.why.as_deref());
            let answer = self.at.post("/api/v1/retries/export", &body)?;
            let count = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
            steps.taken += count("done");
            steps.already += count("already");
            let left = answer.get("left").and_then(Value::as_array).map_or(0, Vec::len);
            steps.left += u64::try_from(left).unwrap_or(u64::MAX);
        }
        Ok(steps)
    }

    /// The query of waiting retries, or of those that are set aside.
    fn query(&self) -> ExportQuery<'_> {
        let state = self.take.then_some("exported");
        ExportQuery { at: &self.at, kind: ExportKind::Retries, filter: &self.filter, state }
    }
}

fn id_of(item: &Value) -> Option<u64> {
    item.get("id").and_then(Value::as_u64)
}

/// The sidecar that exported the entries, the ids that the importing sidecar has, and the number
/// that it refused.
fn read_receipt(path: &Path) -> Result<(String, Vec<u64>, u64), CommandFailure> {
    let wrong =
        |why: String| CommandFailure::new(Exit::Failed, format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    let (mut source, mut ids, mut refused) = (None, Vec::new(), 0);
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let line: Value = serde_json::from_str(&line)
            .map_err(|_| wrong(format!("line {} is no JSON", number + 1)))?;
        if number == 0 {
            if line.get(RECEIPT).and_then(Value::as_u64) != Some(VERSION) {
                return Err(wrong(
                    "is no receipt; it is what `reprise retry import --execute` writes to stdout"
                        .to_owned(),
                ));
            }
            source = line.get("source").and_then(Value::as_str).map(str::to_owned);
            continue;
        }
        match line.get("outcome").and_then(Value::as_str) {
            Some("imported" | "known") => ids.extend(id_of(&line)),
            _ => refused += 1,
        }
    }
    Ok((source.ok_or_else(|| wrong("is empty".to_owned()))?, ids, refused))
}
