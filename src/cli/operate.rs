//! `dlq restore` and `retry now|delay|kill`: actions on named entries, or on all that conditions
//! admit. A bulk action is a dry run without `--execute`.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{CommandFailure, Exit, complain};
use super::output::progress_bar::ProgressBar;
use super::output::show::cell;
use super::output::table::defused;
use super::sidecars::AdminAt;
use crate::api::Selector;

/// Records that a dry run shows.
const SAMPLES: usize = 3;
/// Entries of one request.
const REQUEST_MAX: usize = 500;

/// Records by name, or all that conditions admit.
#[derive(Debug, Args)]
pub(super) struct Pick {
    /// The group of the records; as --group.
    #[arg(value_name = "GROUP")]
    of: Option<String>,
    /// Offsets in the dead-letter topic, or ids of retries, as the lists show them.
    #[arg(value_name = "NAME")]
    names: Vec<u64>,
    /// All that the conditions below admit.
    #[arg(long, conflicts_with = "names")]
    pub(super) all: bool,
    #[command(flatten)]
    selector: Selector,
}

/// The entries of an action, and its terms.
#[derive(Debug, Args)]
pub(super) struct ActionArgs {
    #[command(flatten)]
    pick: Pick,
    /// A note for the audit log; needed for more than one record.
    #[arg(long)]
    note: Option<String>,
    /// Act; without it --all only tells which records match.
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    at: AdminAt,
}

/// An action of the admin API.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verb {
    /// The path of the action.
    pub(super) path: &'static str,
    /// The field of the request that lists the names.
    pub(super) names: &'static str,
    /// The word for the outcome.
    pub(super) done: &'static str,
}

/// The counts of an action so far.
#[derive(Default)]
struct ActionTally {
    changed: u64,
    left: u64,
    matched: u64,
}

impl Pick {
    /// The group and the names.
    pub(super) fn named(&self) -> Result<(String, Vec<u64>), CommandFailure> {
        let usage = |says: &str| CommandFailure::new(Exit::Usage, says);
        if !self.all && self.selector.is_narrow() {
            return Err(usage("conditions need --all, in place of names; see --help"));
        }
        let mut names = self.names.clone();
        match (&self.of, &self.selector.group) {
            (None, None) => Err(usage("name the group; see --help")),
            (Some(group), None) | (None, Some(group)) => Ok((group.clone(), names)),
            // With --group each positional argument is a name.
            (Some(first), Some(group)) => {
                let first = first.parse().map_err(|_| usage("name the group once; see --help"))?;
                names.insert(0, first);
                Ok((group.clone(), names))
            }
        }
    }

    /// The conditions, as fields of a request.
    pub(super) fn conditions(&self) -> Result<Vec<(String, Value)>, CommandFailure> {
        let (group, names) = self.named()?;
        if !names.is_empty() {
            let says = "name records, or say --all; see --help";
            return Err(CommandFailure::new(Exit::Usage, says));
        }
        let selector = Selector { group: Some(group), ..self.selector.clone() };
        Ok(selector.pairs().into_iter().map(|(name, text)| (name, json!(text))).collect())
    }
}

impl ActionArgs {
    /// Runs an action; `terms` are further fields of the request.
    pub(super) fn run(
        &self,
        verb: Verb,
        terms: &[(&str, Value)],
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        if !self.pick.all {
            return act(&self.at, verb, (&self.pick, self.note.as_deref()), terms, out);
        }
        let mut fields = self.pick.conditions()?;
        fields.extend([
            ("all".to_owned(), json!(true)),
            ("dry_run".to_owned(), json!(!self.execute)),
            ("note".to_owned(), json!(self.note)),
        ]);
        let (mut tally, mut progress) = (ActionTally::default(), ProgressBar::start());
        let mut samples = Vec::new();
        loop {
            let answer = self.at.post(verb.path, &request(&fields, terms))?;
            tally.add(&answer, &mut progress);
            progress.line(&format!("{} {}", tally.changed, verb.done));
            samples.extend(
                answer.get("samples").and_then(Value::as_array).cloned().unwrap_or_default(),
            );
            let next = answer.get("next").filter(|next| !next.is_null()).cloned();
            let Some(next) = next else { break };
            fields.retain(|(name, _)| name != "after");
            fields.push(("after".to_owned(), next));
        }
        drop(progress);
        if self.execute {
            return tally.end(verb, out);
        }
        writeln!(out, "{} records match", tally.matched)?;
        for sample in samples.iter().take(SAMPLES) {
            let text = |key| defused(&cell(sample, key));
            writeln!(out, "  {}  {}  {}", text("entry"), text("origin"), text("error"))?;
        }
        if tally.matched == 0 {
            return Err(CommandFailure::new(Exit::NothingMatched, "nothing matched"));
        }
        complain("a dry run: nothing was changed. Add --execute and --note to act");
        Ok(())
    }
}

/// Acts on named entries of a group; `terms` are further fields of the request.
pub(super) fn act(
    at: &AdminAt,
    verb: Verb,
    (pick, note): (&Pick, Option<&str>),
    terms: &[(&str, Value)],
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let (group, names) = pick.named()?;
    if names.is_empty() {
        return Err(CommandFailure::new(Exit::Usage, "name the records, or say --all; see --help"));
    }
    let (mut tally, mut done) = (ActionTally::default(), 0);
    let mut progress = ProgressBar::start();
    for some in names.chunks(REQUEST_MAX) {
        progress.show(done, u64::try_from(names.len()).unwrap_or(0), verb.done);
        done += u64::try_from(some.len()).unwrap_or(0);
        let fields = [("group", json!(group)), ("note", json!(note)), (verb.names, json!(some))];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        tally.add(&at.post(verb.path, &request(&fields, terms))?, &mut progress);
    }
    drop(progress);
    tally.end(verb, out)
}

pub(super) fn request(fields: &[(String, Value)], terms: &[(&str, Value)]) -> Value {
    let terms = terms.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Value::Object(fields.iter().cloned().chain(terms).collect())
}

impl ActionTally {
    /// Adds the answer to a request; tells which entries stay.
    fn add(&mut self, answer: &Value, progress: &mut ProgressBar) {
        let count = |key| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
        self.changed += count("changed");
        self.matched += count("matched");
        let kept = answer.get("left").and_then(Value::as_array);
        for entry in kept.into_iter().flatten() {
            self.left += 1;
            progress.wipe();
            complain(&format!("{}: {}", cell(entry, "entry"), cell(entry, "why")));
        }
    }

    fn end(&self, verb: Verb, out: &mut dyn Write) -> Result<(), CommandFailure> {
        writeln!(out, "{} {}, {} left as they were", self.changed, verb.done, self.left)?;
        if self.changed == 0 {
            return Err(CommandFailure::new(Exit::NothingMatched, "no record was changed"));
        }
        Ok(())
    }
}
