//! `dlq restore` and `retry now|delay|kill`: actions on named entries, or on all that a filter
//! matches. A bulk action is a dry run without `--execute`.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use super::bulk::FailureFilterArgs;
use super::exit::{CommandFailure, Exit, complain};
use super::output::progress_bar::ProgressBar;
use super::output::show::cell;
use super::sidecars::AdminAt;
use super::sidecars::pages::items;
use crate::engine::mask;

/// Entries of one request.
const REQUEST_MAX: usize = 500;
/// Entries that a filter may match.
const MATCHED_MAX: u64 = 1_000_000;
/// Entries that a dry run lists.
const SAMPLES: usize = 3;

/// The entries of an action, and its terms.
#[derive(Debug, Args)]
pub(super) struct ActionArgs {
    /// The group of the records.
    group: String,
    /// Offsets in the dead-letter topic, or ids of retries, as the lists show them.
    names: Vec<u64>,
    /// All that match the filters below.
    #[arg(long, conflicts_with = "names")]
    all: bool,
    #[command(flatten)]
    filter: FailureFilterArgs,
    /// The reason, for the audit log; needed for more than one record.
    #[arg(long)]
    why: Option<String>,
    /// Act; without it --all only tells which records match.
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    at: AdminAt,
}

/// An action of the admin API.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verb {
    /// The list of the entries.
    pub(super) list: &'static str,
    /// The path of the action.
    pub(super) path: &'static str,
    /// The field of an entry that names it, and of the request that lists the names.
    pub(super) names: (&'static str, &'static str),
    /// The word for the outcome.
    pub(super) done: &'static str,
    /// The states of the entries that `--all` takes; empty: any.
    pub(super) states: &'static [&'static str],
}

impl ActionArgs {
    /// Runs an action; `terms` are further fields of the request.
    pub(super) fn run(
        &self,
        verb: Verb,
        terms: &[(&str, Value)],
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        let names = if self.all { self.matching(verb, out)? } else { self.names.clone() };
        if self.all && names.is_empty() {
            return Err(CommandFailure::new(Exit::NothingMatched, "nothing matched"));
        }
        if self.all && !self.execute {
            complain("a dry run: nothing was changed. Add --execute and --why to act");
            return Ok(());
        }
        act(&self.at, verb, (&self.group, self.why.as_deref()), (&names, terms), out)
    }

    /// The names of all matching records; prints their count and the first of them.
    fn matching(&self, verb: Verb, out: &mut dyn Write) -> Result<Vec<u64>, CommandFailure> {
        let mut query = vec![("group", self.group.clone())];
        query.extend(self.filter.topic.clone().map(|topic| ("topic", topic)));
        query.extend(self.filter.cause.clone().map(|cause| ("reason", cause)));
        if let [state] = verb.states {
            query.push(("state", (*state).to_owned()));
        }
        let mut found = items(&self.at, verb.list, &query, MATCHED_MAX)?;
        let is_taken = |state: &str| verb.states.is_empty() || verb.states.contains(&state);
        found.retain(|item| is_taken(&cell(item, "state")));
        // An exhausted record that is blocked waits for room, and for no time.
        let is_exhausted =
            |item: &Value| cell(item, "state") == "blocked" && item["due_ms"].is_null();
        found.retain(|item| !is_exhausted(item));
        if let Some(text) = &self.filter.contains {
            found.retain(|item| cell(item, "reason").contains(text));
        }
        if let Some(fingerprint) = &self.filter.fingerprint {
            found.retain(|item| {
                mask(item.get("reason").and_then(Value::as_str).unwrap_or_default()) == *fingerprint
            });
        }
        for (field, wanted) in [("key_shape", &self.filter.key_shape), ("size", &self.filter.size)]
        {
            if let Some(wanted) = wanted {
                found.retain(|item| cell(item, field) == *wanted);
            }
        }
        if !self.execute {
            writeln!(out, "{} records match", found.len())?;
            for item in found.iter().take(SAMPLES) {
                let name = cell(item, verb.names.0);
                let (origin, reason) = (cell(item, "origin"), cell(item, "reason"));
                writeln!(out, "  {name}  {origin}  {reason}")?;
            }
        }
        Ok(found.iter().filter_map(|item| item.get(verb.names.0)?.as_u64()).collect())
    }
}

/// Acts on named entries of a group; `terms` are further fields of the request.
pub(super) fn act(
    at: &AdminAt,
    verb: Verb,
    (group, why): (&str, Option<&str>),
    (names, terms): (&[u64], &[(&str, Value)]),
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    if names.is_empty() {
        return Err(CommandFailure::new(Exit::Usage, "name the records, or say --all; see --help"));
    }
    let (mut changed, mut left) = (0, 0);
    let (mut progress, mut done) = (ProgressBar::start(), 0);
    for some in names.chunks(REQUEST_MAX) {
        progress.show(done, u64::try_from(names.len()).unwrap_or(0), verb.done);
        done += u64::try_from(some.len()).unwrap_or(0);
        let mut request = json!({ "group": group, "why": why });
        if let Some(fields) = request.as_object_mut() {
            fields.insert(verb.names.1.to_owned(), json!(some));
            fields.extend(terms.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        }
        let answer = at.post(verb.path, &request)?;
        changed += answer.get("changed").and_then(Value::as_u64).unwrap_or(0);
        let kept = answer.get("left").and_then(Value::as_array);
        for entry in kept.into_iter().flatten() {
            left += 1;
            progress.wipe();
            complain(&format!("{}: {}", cell(entry, "entry"), cell(entry, "why")));
        }
    }
    drop(progress);
    writeln!(out, "{changed} {}, {left} left as they were", verb.done)?;
    if changed == 0 {
        return Err(CommandFailure::new(Exit::NothingMatched, "no record was changed"));
    }
    Ok(())
}
