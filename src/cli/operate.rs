//! `dlq restore` and `retry now|delay|dead-letter`: actions on named entries, or on all that
//! conditions admit. A bulk action is a dry run without `--execute`.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::exit::{CommandFailure, Exit, complain};
use super::output::progress_bar::{ProgressBar, number};
use super::output::show::{Format, ReadArgs, known};
use crate::api::{
    ActionReport, LetterRequest, RedriveTerms, RetryRequest, SelectedRequest, Selector,
};

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
    reading: ReadArgs,
}

/// An action of the admin API.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verb {
    /// The path of the action.
    pub(super) path: &'static str,
    /// The word for the outcome.
    pub(super) done: &'static str,
    /// Whether its records are dead letters, or else retries.
    pub(super) is_on_letters: bool,
}

/// The body of a request.
#[derive(Serialize)]
#[serde(untagged)]
enum ActionBody {
    Letters(LetterRequest),
    Retries(RetryRequest),
}

/// One request of an action.
#[derive(Clone, Debug, Default)]
struct ActionPart<'a> {
    /// Empty: all that the conditions admit.
    names: &'a [u64],
    is_dry: bool,
    after: Option<i64>,
    note: Option<&'a str>,
    delay_ms: Option<u64>,
}

impl Pick {
    /// The conditions with their group, and the names.
    fn named(&self) -> Result<(Selector, Vec<u64>), CommandFailure> {
        let usage = |says: &str| CommandFailure::new(Exit::Usage, says);
        if !self.all && self.selector.is_narrow() {
            return Err(usage("conditions need --all, in place of names; see --help"));
        }
        let mut names = self.names.clone();
        let group = match (&self.of, &self.selector.group) {
            (None, None) => return Err(usage("name the group; see --help")),
            (Some(group), None) | (None, Some(group)) => group,
            // With --group each positional argument is a name.
            (Some(first), Some(group)) => {
                let first = first.parse().map_err(|_| usage("name the group once; see --help"))?;
                names.insert(0, first);
                group
            }
        };
        if self.all != names.is_empty() {
            return Err(usage("name the records, or say --all; see --help"));
        }
        Ok((Selector { group: Some(group.clone()), ..self.selector.clone() }, names))
    }

    /// The conditions of `--all`.
    pub(super) fn conditions(&self) -> Result<Selector, CommandFailure> {
        Ok(self.named()?.0)
    }
}

impl ActionArgs {
    /// Runs an action; `delay_ms` belongs to a delay.
    pub(super) fn run(
        &self,
        verb: Verb,
        delay_ms: Option<u64>,
        out: &mut dyn Write,
    ) -> Result<(), CommandFailure> {
        let part = ActionPart { note: self.note.as_deref(), delay_ms, ..ActionPart::default() };
        if !self.pick.all {
            return act(&self.reading, (verb, None), (&self.pick, part), out);
        }
        let selector = self.pick.conditions()?;
        let mut part = ActionPart { is_dry: !self.execute, ..part };
        let (mut sum, mut progress) = (ActionReport::default(), ProgressBar::start());
        loop {
            let body = verb.body(&part);
            let request = SelectedRequest { selector: &selector, terms: None, request: &body };
            let answer: ActionReport = self.reading.at.post(verb.path, &request)?;
            part.after = answer.next;
            add(&mut sum, answer, (self.reading.format, &mut progress));
            progress.line(&format!("{} {}", sum.changed, verb.done));
            if part.after.is_none() {
                break;
            }
        }
        drop(progress);
        if self.execute {
            return end(&self.reading, (verb, &sum), out);
        }
        sum.samples.truncate(SAMPLES);
        let lines = std::iter::once(format!("{} records match", sum.matched));
        let samples = sum
            .samples
            .iter()
            .map(|sample| sample_line(sample.entry, sample.origin.as_ref(), sample.error.as_ref()));
        let lines: Vec<String> = lines.chain(samples).collect();
        self.reading.write(out, &sum, &lines)?;
        end_of_dry_run(sum.matched)
    }
}

/// A record that a dry run shows.
pub(super) fn sample_line(entry: i64, origin: Option<&String>, error: Option<&String>) -> String {
    format!("  {entry}  {}  {}", known(origin), known(error))
}

/// The end of a dry run that so many records match.
pub(super) fn end_of_dry_run(matched: u64) -> Result<(), CommandFailure> {
    if matched == 0 {
        return Err(CommandFailure::new(Exit::NothingMatched, "nothing matched"));
    }
    complain("a dry run: nothing was changed. Add --execute and --note to act");
    Ok(())
}

/// Acts on named letters of a group.
pub(super) fn act_on_letters(
    reading: &ReadArgs,
    (verb, terms): (Verb, Option<&RedriveTerms>),
    (pick, note): (&Pick, Option<&str>),
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    act(reading, (verb, terms), (pick, ActionPart { note, ..ActionPart::default() }), out)
}

/// Acts on named entries of a group.
fn act(
    reading: &ReadArgs,
    (verb, terms): (Verb, Option<&RedriveTerms>),
    (pick, part): (&Pick, ActionPart<'_>),
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let (selector, all) = pick.named()?;
    let (mut sum, mut done) = (ActionReport::default(), 0);
    let mut progress = ProgressBar::start();
    for names in all.chunks(REQUEST_MAX) {
        progress.show(number(done), number(all.len()), verb.done);
        done += names.len();
        let body = verb.body(&ActionPart { names, ..part.clone() });
        let request = SelectedRequest { selector: &selector, terms, request: &body };
        let answer = reading.at.post(verb.path, &request)?;
        add(&mut sum, answer, (reading.format, &mut progress));
    }
    drop(progress);
    end(reading, (verb, &sum), out)
}

impl Verb {
    fn body(self, part: &ActionPart<'_>) -> ActionBody {
        let all = part.names.is_empty();
        let (dry_run, after, note) = (part.is_dry, part.after, part.note.map(str::to_owned));
        if self.is_on_letters {
            // An offset beyond the range names no letter.
            let offset = |name: &u64| i64::try_from(*name).unwrap_or(i64::MAX);
            let offsets = part.names.iter().map(offset).collect();
            let request = LetterRequest { offsets, all, dry_run, after, set_value: None, note };
            return ActionBody::Letters(request);
        }
        let (ids, delay_ms) = (part.names.to_vec(), part.delay_ms);
        let request = RetryRequest { ids, all, dry_run, after, delay_ms, until_ms: None, note };
        ActionBody::Retries(request)
    }
}

/// Adds the answer to a request; a table tells at once which entries stay.
fn add(sum: &mut ActionReport, part: ActionReport, (format, progress): (Format, &mut ProgressBar)) {
    if format == Format::Table && !part.left.is_empty() {
        progress.wipe();
        part.left.iter().for_each(|left| complain(&format!("{}: {}", left.entry, left.why)));
    }
    sum.changed += part.changed;
    sum.matched += part.matched;
    sum.left.extend(part.left);
    sum.samples.extend(part.samples);
}

/// Tells how many records changed.
fn end(
    reading: &ReadArgs,
    (verb, sum): (Verb, &ActionReport),
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let says = format!("{} {}, {} left as they were", sum.changed, verb.done, sum.left.len());
    reading.write(out, sum, &[says])?;
    if sum.changed == 0 {
        return Err(CommandFailure::new(Exit::NothingMatched, "no record was changed"));
    }
    Ok(())
}
